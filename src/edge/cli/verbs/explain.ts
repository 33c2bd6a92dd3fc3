/** `headgate explain`: what happened to a request, or the plan for a model name. */
import { isObject, type JsonObject, list, object, text } from '../../../core/json.ts'
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

const planLines = (plan: JsonObject, { paint }: Cli): readonly string[] => [
  `${paint.bold(text(plan.model) ?? '')}: chosen by ${text(plan.by) ?? ''}`,
  ...refusedLines(plan, paint),
  ...table(
    ['#', 'TARGET', 'BECAUSE', 'STATE'],
    list(plan.targets)
      .filter(isObject)
      .map((target, at) => [
        String(at + 1),
        `${text(target.provider) ?? ''}/${text(target.model) ?? ''}`,
        text(target.because) ?? '',
        stateOf(target),
      ]),
    paint,
  ),
  ...list(plan.skipped)
    .filter(isObject)
    .map((skipped) => `skipped ${Object.values(skipped).map(String).join(': ')}`),
]

/** A request of the ledger. Without permission for the admin API it is read with the client key that made it. */
const explainRequest = async (cli: Cli, gateway: GatewayClient, id: string, key: string | undefined): Promise<void> => {
  const path = `/requests/${encodeURIComponent(id)}`
  const withKey = () => gateway.call(`/v1${path}`, { headers: { authorization: `Bearer ${key}` } })
  const answer = await gateway.call(`/admin/api/v1${path}`).catch((error: unknown) => {
    if (error instanceof CliError && error.code === EXIT.notPermitted && key !== undefined) return withKey()
    throw error
  })
  const request = isObject(answer.body) ? answer.body : {}
  const code = text(request.code)
  cli.answer(answer.body, () => [
    ...waterfall(request, cli.paint),
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
