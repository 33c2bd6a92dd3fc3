/** `headgate what-if`: the targets of all routes, and of models that are requested directly, as if providers were down. */
import { REQUEST_STYLES } from '../../core/request-styles.ts'
import { PLAN, ROUTE_PLANS } from '../../server/answers/explain.ts'
import { timeOf } from '../arguments.ts'
import { type Cli, type DefineVerb, EXIT } from '../cli.ts'
import { type GatewayClient, gatewayOf, RefusedError } from '../gateway-client.ts'
import { answerList, type ListingOptions, withListing } from '../listing.ts'
import type { Cell } from '../table.ts'
import { wholeReport } from '../usage-report.ts'

type WhatIfOptions = ListingOptions & { readonly since: string }

/** A route, or a model that clients name. `requests`: of the time before now; null: not counted. */
type WhatIfRow = {
  readonly model: string
  readonly direct: boolean
  readonly requests: number | null
  readonly before: string | null
  readonly answers: string | null
  readonly loses: readonly string[]
}

const HEADINGS = ['MODEL', 'NAMED BY', 'REQUESTS', 'NOW', 'THEN', 'LOSES']

/** Models requested directly that are looked at, those with the most requests first. */
const MAX_DIRECT = 30

type NamedTarget = { readonly provider: string; readonly model: string }

const targetText = (target: NamedTarget | null | undefined): string | null =>
  target ? `${target.provider}/${target.model}` : null

const routes = async (gateway: GatewayClient, down: readonly string[]): Promise<readonly WhatIfRow[]> => {
  const body = { for: '*', assume: { down } }
  const { data } = await gateway.read(ROUTE_PLANS, '/admin/api/v1/explain', { method: 'POST', body })
  return data.map(({ model, before, answers, loses }) => ({
    model,
    direct: false,
    requests: null,
    before: targetText(before),
    answers: targetText(answers),
    loses,
  }))
}

const STYLES: ReadonlySet<string> = new Set(REQUEST_STYLES)

/** The first target of the plan for a model; null: none can be tried. */
const planned = async (
  gateway: GatewayClient,
  { model, style }: { readonly model: string; readonly style: string },
  down: readonly string[],
): Promise<string | null> => {
  const content = style === 'embeddings' ? { input: 'Hello' } : { messages: [{ role: 'user', content: 'Hello' }] }
  const request = { model, ...content }
  const body = { request, ...(style === 'embeddings' && { style }), assume: { down } }
  try {
    const { targets } = await gateway.read(PLAN, '/admin/api/v1/explain', { method: 'POST', body })
    return targetText(targets.find(({ fit, keys = [] }) => fit !== false && keys.some((key) => key.may_be_tried)))
  } catch (error) {
    // No provider, no fallback: the model is not found, or nothing can answer.
    if (error instanceof RefusedError && error.code !== EXIT.notPermitted) return null
    throw error
  }
}

/** The models of the providers that clients named themselves, with their requests. */
const directModels = async (
  cli: Cli,
  gateway: GatewayClient,
  down: readonly string[],
  since: string,
): Promise<readonly WhatIfRow[]> => {
  const reports = await Promise.all(
    down.map(async (provider) => {
      const query = { from: since, by: 'model,style,route', bucket: 'none', provider }
      const { data } = await wholeReport(cli, gateway, query)
      return data.map((row) => ({ ...row, provider }))
    }),
  )
  const used = reports
    .flat()
    .filter(({ route, style, requests }) => route === null && STYLES.has(style ?? '') && requests > 0)
    .map(({ provider, model, style, requests }) => ({
      model: `${provider}/${model}`,
      style: style ?? 'chat',
      requests,
    }))
    .toSorted((a, b) => b.requests - a.requests)
    .slice(0, MAX_DIRECT)
  return await Promise.all(
    used.map(async ({ requests, ...one }) => {
      const [before, answers] = await Promise.all([planned(gateway, one, []), planned(gateway, one, down)])
      return { model: one.model, direct: true, requests, before, answers, loses: [] }
    }),
  )
}

const cells = ({ model, direct, requests, before, answers, loses }: WhatIfRow, { paint }: Cli): readonly Cell[] => [
  model,
  direct ? 'clients' : 'a route',
  requests === null ? '–' : requests.toLocaleString('en'),
  before ?? 'no target',
  answers === null ? { text: 'no target', paint: paint.bad } : answers,
  loses.join(', ') || '–',
]

const whatIf = async (cli: Cli, down: readonly string[], options: WhatIfOptions): Promise<void> => {
  const gateway = await gatewayOf(cli)
  const since = timeOf('--since', options.since, -1)
  const [ofRoutes, ofClients] = await Promise.all([routes(gateway, down), directModels(cli, gateway, down, since)])
  const rows = [...ofRoutes, ...ofClients]
  const lost = rows.filter(({ before, answers }) => before !== null && answers === null)
  if (lost.length > 0) cli.exit(EXIT.failed)
  answerList(cli, options, { headings: HEADINGS, rows, cells: (row) => cells(row, cli) }, (data) => ({
    object: 'what_if',
    down,
    data,
  }))
  const requests = lost.reduce((sum, row) => sum + (row.requests ?? 0), 0)
  const direct = requests > 0 ? `, and ${requests.toLocaleString('en')} requests since ${since} named such a model` : ''
  cli.note(
    lost.length === 0
      ? `All ${rows.length} still have a target without ${down.join(', ')}.`
      : `${lost.length} of ${rows.length} have no target without ${down.join(', ')}${direct}.`,
  )
}

export const define: DefineVerb = (command, cli) => {
  withListing(command)
    .argument('<providers...>', 'IDs of the providers that are assumed to be down')
    .option('--since <time>', 'beginning of the requests that are counted: 7d, yesterday', '24h')
    .addHelpText(
      'after',
      '\nNothing changes, and nothing is sent to a provider. Exits with 1 if a route or a requested model has no target then.\n\nExample: headgate what-if groq anthropic',
    )
    .action((providers: string[], options: WhatIfOptions) => whatIf(cli(), providers, options))
}
