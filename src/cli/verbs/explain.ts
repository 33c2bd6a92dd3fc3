/** `headgate explain`: what happened to a request, or the plan for a model name. */
import { isObject, type JsonObject, list, number, object, text } from '../../core/json.ts'
import { idOf, throughGateway } from '../accounts/record-store.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { type GatewayClient, gatewayOf } from '../gateway-client.ts'
import { waterfall } from '../request-lines.ts'
import { table } from '../table.ts'

type ExplainOptions = { readonly model?: string; readonly as?: string; readonly key?: string }

const stateOf = (target: JsonObject): string => {
  if (target.fit === false) return 'does not fit'
  const keys = list(target.keys).filter(isObject)
  const blocked = keys.find((key) => key.may_be_tried === false)
  if (keys.length > 0 && keys.every((key) => key.may_be_tried === false))
    return `not now: ${text(blocked?.because) ?? ''} until ${text(blocked?.until) ?? 'unknown'}`
  return 'ready'
}

/** The limit, budget or state of the key that refuses every request now. */
const refusedLines = (plan: JsonObject, paint: Cli['paint']): readonly string[] => {
  const refused = object(plan.refused)
  return refused ? [paint.bad(`refused now: ${text(refused.code)}: ${text(refused.message)}`)] : []
}

/** How requests choose among the first targets, which the order below cannot show. */
const ORDERS: { readonly [strategy: string]: string } = {
  weighted: ', by weight: each request draws its order',
  latency: ', the fastest first: concurrent requests are spread',
  cost: ', the cheapest first',
}

const hasShares = (plan: JsonObject): boolean =>
  list(plan.targets).some((target) => isObject(target) && number(target.share) !== undefined)

const shareText = ({ share }: JsonObject): string =>
  number(share) === undefined ? 'failover' : `${Math.round((number(share) ?? 0) * 100)} %`

const planLines = (plan: JsonObject, cli: Cli): readonly string[] => [
  `${cli.paint.bold(text(plan.model) ?? '')}: chosen by ${text(plan.by) ?? ''}${ORDERS[text(plan.strategy) ?? ''] ?? ''}`,
  ...refusedLines(plan, cli.paint),
  ...table(
    ['#', 'TARGET', ...(hasShares(plan) ? ['FIRST FOR'] : []), 'BECAUSE', 'STATE'],
    list(plan.targets)
      .filter(isObject)
      .map((target, at) => [
        String(at + 1),
        `${text(target.provider) ?? ''}/${text(target.model) ?? ''}`,
        ...(hasShares(plan) ? [shareText(target)] : []),
        text(target.because) ?? '',
        stateOf(target),
      ]),
    cli,
  ),
  ...list(plan.skipped)
    .filter(isObject)
    .map((skipped) => `skipped ${Object.values(skipped).map(String).join(': ')}`),
]

/** The newest request with an ID that is also the name of a list, such as `running`. */
const requestWithId = async (gateway: GatewayClient, id: string): Promise<JsonObject> => {
  const from = encodeURIComponent(new Date(0).toISOString())
  const { body } = await gateway.call(
    `/admin/api/v1/requests?request_id=${encodeURIComponent(id)}&from=${from}&limit=1`,
  )
  const [request] = list(isObject(body) ? body.data : undefined).filter(isObject)
  if (!request) throw new CliError(EXIT.conflict, `No request has the ID ${id}.`)
  return request
}

/** Other requests with the ID that the client gave this one. */
const namesakes = (request: JsonObject): readonly string[] => {
  const others = list(request.same_client_id).filter(isObject)
  if (others.length === 0) return []
  const ids = others.map(({ id, received_at }) => `    ${text(id)}  ${text(received_at)}`)
  return [`  the client gave its ID ${text(request.client_request_id)} to others too, the newest first:`, ...ids]
}

/** A request of the ledger. Without permission for the admin API it is read with the client key that made it. */
const explainRequest = async (cli: Cli, gateway: GatewayClient, id: string, key: string | undefined): Promise<void> => {
  const path = `/requests/${encodeURIComponent(id)}`
  const withKey = () => gateway.call(`/v1${path}`, { headers: { authorization: `Bearer ${key}` } })
  const answer = await gateway.call(`/admin/api/v1${path}`).catch((error: unknown) => {
    if (error instanceof CliError && error.code === EXIT.notPermitted && key !== undefined) return withKey()
    throw error
  })
  const found = isObject(answer.body) ? answer.body : {}
  const request = found.object === 'request' ? found : await requestWithId(gateway, id)
  const code = text(request.code)
  cli.answer(request, () => [
    ...waterfall(request, cli.paint),
    ...namesakes(request),
    ...(code === undefined ? [] : [`  about ${code}: ${gateway.url}/docs/errors#${code}`]),
  ])
}

/** A plan: for a client key that is named, for the own key, or without a key for an administrator. */
const explainModel = async (
  gateway: GatewayClient,
  { model, as }: ExplainOptions,
  key: string | undefined,
): Promise<JsonObject> => {
  const request = { model: model ?? '', messages: [{ role: 'user', content: 'x' }] }
  const asAdmin = async (client: { readonly as?: string }) =>
    gateway.call('/admin/api/v1/explain', { method: 'POST', body: { request, style: 'chat', ...client } })
  const asClient = () =>
    gateway.call('/v1/route', {
      method: 'POST',
      body: request,
      ...(key !== undefined && { headers: { authorization: `Bearer ${key}` } }),
    })
  const withoutKey = () =>
    asClient().catch((error: unknown) => {
      if (error instanceof CliError && error.code === EXIT.notPermitted) return asAdmin({})
      throw error
    })
  const answer =
    as !== undefined
      ? await asAdmin({ as: await idOf(throughGateway(gateway), 'key', as) })
      : await (key === undefined ? withoutKey() : asClient())
  return isObject(answer.body) ? answer.body : {}
}

export const define: DefineVerb = (command, cli) => {
  command
    .argument('[request]', 'ID of a request (x-request-id), to see its attempts')
    .option('-m, --model <name>', 'explain where a request for this model would be sent')
    .option('--as <key>', 'for -m: plan as this client key would be served')
    .option('--key <key>', 'client key (HEADGATE_API_KEY)')
    .addHelpText('after', '\nExample: headgate explain -m auto')
    .action(async (request: string | undefined, options: ExplainOptions) => {
      if ((request === undefined) === (options.model === undefined))
        throw new CliError(EXIT.usage, 'Name a request or a model: headgate explain req_…, or headgate explain -m auto')
      const gateway = await gatewayOf(cli())
      const key = options.key ?? gateway.key
      if (request !== undefined) return await explainRequest(cli(), gateway, request, key)
      const plan = await explainModel(gateway, options, key)
      cli().answer(plan, () => planLines(plan, cli()))
    })
}
