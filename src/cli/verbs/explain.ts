/** `headgate explain`: what happened to a request, or the plan for a model name. */
import { REQUESTS_PAGE } from '../../server/answers/requests.ts'
import { FOUND_SESSION } from '../../server/answers/sessions.ts'
import { idOf, throughGateway } from '../accounts/record-store.ts'
import { readAnswer } from '../answer.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { type GatewayClient, gatewayOf } from '../gateway-client.ts'
import { type ExplainedPlan, PLAN, planLines } from '../plan-lines.ts'
import { requestLine, SHOWN_REQUEST, type ShownRequest, waterfall } from '../request-lines.ts'
import { moneyText } from '../table.ts'

type ExplainOptions = {
  readonly model?: string
  readonly as?: string
  readonly key?: string
  readonly session?: string
}

/** The newest request with an ID that is also the name of a list, such as `running`. */
const requestWithId = async (gateway: GatewayClient, id: string): Promise<ShownRequest> => {
  const from = encodeURIComponent(new Date(0).toISOString())
  const path = `/admin/api/v1/requests?request_id=${encodeURIComponent(id)}&from=${from}&limit=1`
  const [request] = (await gateway.read(REQUESTS_PAGE, path)).data
  if (!request) throw new CliError(EXIT.conflict, `No request has the ID ${id}.`)
  return request
}

/** Other requests with the ID that the client gave this one. */
const namesakes = ({ client_request_id, same_client_id: others = [] }: ShownRequest): readonly string[] => {
  if (others.length === 0) return []
  const ids = others.map(({ id, received_at }) => `    ${id}  ${received_at}`)
  return [`  the client gave its ID ${client_request_id} to others too, the newest first:`, ...ids]
}

/** A request of the ledger. Without permission for the admin API it is read with the client key that made it. */
const explainRequest = async (cli: Cli, gateway: GatewayClient, id: string, key: string | undefined): Promise<void> => {
  const path = `/requests/${encodeURIComponent(id)}`
  const withKey = () => gateway.call(`/v1${path}`, { headers: { authorization: `Bearer ${key}` } })
  const body = await gateway.call(`/admin/api/v1${path}`).catch((error: unknown) => {
    if (error instanceof CliError && error.code === EXIT.notPermitted && key !== undefined) return withKey()
    throw error
  })
  const found = readAnswer(SHOWN_REQUEST, body)
  const request = found.ok ? found.value : await requestWithId(gateway, id)
  const { code } = request
  cli.answer(request, () => [
    ...waterfall(request, cli.paint),
    ...namesakes(request),
    ...(code === null ? [] : [`  about ${code}: ${gateway.url}/docs/errors#${code}`]),
  ])
}

/** A plan: for a client key that is named, for the own key, or without a key for an administrator. */
const explainModel = async (
  gateway: GatewayClient,
  { model, as }: ExplainOptions,
  key: string | undefined,
): Promise<ExplainedPlan> => {
  const request = { model: model ?? '', messages: [{ role: 'user', content: 'x' }] }
  const asAdmin = async (client: { readonly as?: string }) =>
    gateway.read(PLAN, '/admin/api/v1/explain', { method: 'POST', body: { request, style: 'chat', ...client } })
  const asClient = () =>
    gateway.read(PLAN, '/v1/route', {
      method: 'POST',
      body: request,
      ...(key !== undefined && { headers: { authorization: `Bearer ${key}` } }),
    })
  const withoutKey = () =>
    asClient().catch((error: unknown) => {
      if (error instanceof CliError && error.code === EXIT.notPermitted) return asAdmin({})
      throw error
    })
  if (as !== undefined) return await asAdmin({ as: await idOf(throughGateway(gateway), 'key', as) })
  return await (key === undefined ? withoutKey() : asClient())
}

/** Requests of a session that are shown. */
const TIMELINE = 200

/** A session as one timeline: its newest requests in their order, with the agent of each. */
const explainSession = async (cli: Cli, gateway: GatewayClient, id: string): Promise<void> => {
  const session = await gateway.read(FOUND_SESSION, `/admin/api/v1/sessions/${encodeURIComponent(id)}`)
  const from = encodeURIComponent(session.started_at)
  const path = `/admin/api/v1/requests?session=${encodeURIComponent(id)}&from=${from}&limit=${TIMELINE}`
  const { data } = await gateway.read(REQUESTS_PAGE, path)
  const requests = data.toReversed()
  const { paint } = cli
  const used = `${session.input}→${session.output} tokens, largest input ${session.most_input}`
  cli.answer({ ...session, data: requests }, () => [
    `${paint.bold(session.id)}${session.name === null ? ' (guessed)' : ` ${session.name}`}`,
    `  ${session.requests} requests (${session.failed} failed), ${session.agents} agents, ${used}, ${moneyText(session.cost)}`,
    `  ${session.started_at} to ${session.last_at}, ${session.stopped ? 'stopped' : session.state}`,
    ...requests.map((request) => `  ${requestLine(request, paint)}  ${paint.dim(request.agent ?? 'main')}`),
    ...(session.requests > requests.length
      ? [`  ${session.requests - requests.length} earlier requests are not shown`]
      : []),
  ])
}

export const define: DefineVerb = (command, cli) => {
  command
    .argument('[request]', 'ID of a request (x-request-id), to see its attempts')
    .option('-m, --model <name>', 'explain where a request for this model would be sent')
    .option('--as <key>', 'for -m: plan as this client key would be served')
    .option('--key <key>', 'client key (HEADGATE_API_KEY)')
    .option('--session <id>', 'show a session as the timeline of its requests')
    .addHelpText('after', '\nExample: headgate explain -m auto')
    .action(async (request: string | undefined, options: ExplainOptions) => {
      if ([request, options.model, options.session].filter((one) => one !== undefined).length !== 1)
        throw new CliError(
          EXIT.usage,
          'Name a request, a model or a session: headgate explain req_…, -m auto or --session ses_…',
        )
      const gateway = await gatewayOf(cli())
      const key = options.key ?? gateway.key
      if (options.session !== undefined) return await explainSession(cli(), gateway, options.session)
      if (request !== undefined) return await explainRequest(cli(), gateway, request, key)
      const plan = await explainModel(gateway, options, key)
      cli().answer(plan, () => planLines(plan, cli()))
    })
}
