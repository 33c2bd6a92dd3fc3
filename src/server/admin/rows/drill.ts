/** The drill: what routes would lose if one of their providers, models, keys or regions failed. */
import { z } from 'zod'
import { bad, type Failure, fail, good, type Outcome } from '../../../core/failure.ts'
import { isObject, type JsonObject } from '../../../core/json.ts'
import { formatDollars, parseDollars } from '../../../core/money.ts'
import { nearest } from '../../../core/nearest.ts'
import type { DrillReport } from '../../../gateway/drill/drill-runs.ts'
import type { ShapeCount } from '../../../gateway/drill/dry-drill.ts'
import type { DrillRun } from '../../../gateway/drill/live-drill.ts'
import { isDrilledLive } from '../../../policy/drill/live-rules.ts'
import { causeText, lossText, type RouteReport, type UnitReport } from '../../../policy/drill/report.ts'
import { AMOUNTS, parseShape } from '../../../policy/drill/shape.ts'
import { DRILL, DRILL_SHAPES, DRILLED_ROUTE } from '../../answers/drill.ts'
import type { AdminDeps } from '../deps.ts'
import { askProcesses } from '../processes.ts'
import { row } from '../row.ts'

type ShownLosses = z.input<typeof DRILLED_ROUTE>

const iso = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString())

const shownUnit = (route: string, unit: UnitReport): ShownLosses['units'][number] => ({
  unit: unit.unit,
  name: unit.name,
  lost: unit.lost,
  unknown: unit.unknown,
  lossy: unit.lossy,
  causes: unit.causes.map(({ requests, share, targets }) => ({
    ...{ requests, share, text: causeText({ targets }) },
    targets: targets.map(({ provider, model, verdict, by, source, at }) => ({
      ...{ provider, model, verdict, by, source },
      at: iso(at),
    })),
  })),
  sentence: lossText(route, unit),
})

const shownRoute = ({ gateway }: Pick<AdminDeps, 'gateway'>, { route, requests, units }: RouteReport): ShownLosses => ({
  object: 'drilled_route',
  route,
  requests: Math.round(requests),
  allow: gateway.config().routes.get(route)?.drill?.allow ?? null,
  units: units.map((unit) => shownUnit(route, unit)),
})

const listed = ({ gateway }: AdminDeps, report: DrillReport | null, live: DrillRun | null): z.input<typeof DRILL> => ({
  object: 'list',
  enabled: gateway.config().settings.drill.shapes,
  from: iso(report?.range.from ?? null),
  to: iso(report?.range.to ?? null),
  live: live && {
    ...live,
    began: new Date(live.began).toISOString(),
    ended: iso(live.ended),
    spent: formatDollars(live.spent),
  },
  data: (report?.routes ?? []).map((one) => shownRoute({ gateway }, one)),
  ...{ has_more: false, next: null },
})

/** Models, keys and regions would say of most requests what their provider says. */
const withLosses = (route: RouteReport): readonly RouteReport[] => {
  const units = route.units.filter(({ unit, lost, unknown }) => !/[/#:]/.test(unit) && (lost || unknown))
  return units.length === 0 ? [] : [{ ...route, units }]
}

const DISABLED = fail('unsupported', 'No shapes of requests are counted. Set drill.shapes (DRILL_SHAPES) to true.')

/** The report of the last run while it is current, otherwise of one that is made now. */
const reportOf = async ({ gateway, drill }: AdminDeps): Promise<Outcome<DrillReport>> => {
  if (!gateway.config().settings.drill.shapes) return bad(DISABLED)
  const runs = await drill()
  return runs.current ? good(runs.current) : runs.run()
}

const shownShape = ({
  route,
  access,
  shape: text,
  weight,
}: ShapeCount): z.input<typeof DRILL_SHAPES>['data'][number] => {
  const shape = parseShape(text)
  return {
    object: 'drill_shape',
    ...{ route, access, shape: text, requests: Math.round(weight) },
    style: shape?.style ?? null,
    features: [...(shape?.features ?? [])],
    amounts: shape ? Object.fromEntries(AMOUNTS.map((name) => [name, shape[name]])) : {},
  }
}

const SHOWN = {
  object: 'drilled_route' as const,
  route: 'fast',
  requests: 19_250,
  allow: null,
  units: [
    {
      ...{ unit: 'openai', name: 'OpenAI', lost: 0.12, unknown: 0.04, lossy: 0 },
      causes: [
        {
          ...{ requests: 2_310, share: 0.12, text: 'tools are refused by house/m1' },
          targets: [
            {
              ...{ provider: 'house', model: 'm1', verdict: 'refused' as const, by: 'tools' },
              ...{ source: 'dry' as const, at: null },
            },
          ],
        },
      ],
      sentence:
        'route `fast` would lose 12 % of its requests if OpenAI failed: tools are refused by house/m1 (4 % unknown)',
    },
  ],
}
const LIST = {
  ...{ object: 'list' as const, enabled: true, from: '2026-11-21T10:00:00.000Z', to: '2026-11-28T10:00:00.000Z' },
  live: {
    ...{ began: '2026-11-28T03:00:00.000Z', ended: '2026-11-28T03:02:10.000Z', sent: 14, spent: '0.001240000' },
    ...{ ready: 31, refused: 2, unsettled: 0, left: {} },
  },
  ...{ data: [SHOWN], has_more: false, next: null },
}

export const drillRows = [
  row({
    method: 'GET',
    path: '/drill',
    summary: 'Show what routes would lose if something failed',
    about:
      'For each route of the file and each provider, model, key and region at its targets: the share of its requests that no other target would serve, by the requests of the last days (`drill.days`) and what is known of the targets. Nothing is sent. The drill runs each hour, and when the configuration changes.',
    role: 'viewer',
    scope: 'all',
    query: z.strictObject({
      losses: z.boolean().default(false).describe('Only providers whose failure loses requests, or may'),
    }),
    answer: DRILL,
    example: { answer: LIST },
    async handle(deps, { query }) {
      if (!deps.gateway.config().settings.drill.shapes) return good({ body: listed(deps, null, null) })
      const report = await reportOf(deps)
      if (!report.ok) return report
      const { range, routes } = report.value
      const shown = { range, routes: query.losses ? routes.flatMap(withLosses) : routes }
      return good({ body: listed(deps, shown, await liveState(deps)) })
    },
  }),
  row({
    method: 'GET',
    path: '/drill/shapes',
    summary: 'List what the requests of routes have',
    about:
      'From a sample of the requests of the last days (`drill.days`): features, steps of amounts, and how many requests have them. It has no text of a request, and no key, team or person.',
    role: 'viewer',
    scope: 'all',
    answer: DRILL_SHAPES,
    example: {
      answer: {
        object: 'list',
        data: [
          {
            ...{ object: 'drill_shape', route: 'fast', access: '', shape: '1:chat:1:1:0:0:1024:0:1', requests: 2_310 },
            ...{ style: 'chat', features: ['stream'] },
            amounts: { tools: 1, depth: 1, media: 0, others: 0, input: 1_024, output: 0 },
          },
        ],
        ...{ has_more: false, next: null },
      },
    },
    async handle({ drill }) {
      const found = await (await drill()).shapes()
      if (!found.ok) return found
      return good({
        body: { object: 'list' as const, data: found.value.map(shownShape), has_more: false, next: null },
      })
    },
  }),
  row({
    method: 'GET',
    path: '/drill/{route}',
    summary: 'Show what one route would lose if something failed',
    role: 'viewer',
    scope: 'all',
    params: z.strictObject({ route: z.string() }),
    answer: DRILLED_ROUTE,
    example: { params: { route: 'fast' }, answer: SHOWN },
    async handle(deps, { params }) {
      const report = await reportOf(deps)
      if (!report.ok) return report
      const found = report.value.routes.find(({ route }) => route === params.route)
      return found ? good({ body: shownRoute(deps, found) }) : bad(NO_ROUTE)
    },
  }),
  row({
    method: 'POST',
    path: '/drill/run',
    summary: 'Run the drill now',
    about:
      'Plans again with the requests until now. With `live` it also begins live checks of routes that have them, which go on after the answer: GET /drill has their state.',
    role: 'operator',
    scope: 'all',
    body: z.strictObject({
      routes: z.array(z.string()).min(1).optional().describe('With `live`: these alone; default: all with live checks'),
      live: z
        .boolean()
        .default(false)
        .describe('send the smallest requests to targets that would be next, which costs money'),
      maxCost: z.string().optional().describe('With `live`: dollars, at most; default: what is left of the day'),
    }),
    answer: DRILL,
    example: { body: {}, answer: LIST },
    async handle(deps, { body }) {
      if (!deps.gateway.config().settings.drill.shapes) return bad(DISABLED)
      const begun = body.live ? await beginLive(deps, body) : good(await liveState(deps))
      if (!begun.ok) return begun
      const report = await (await deps.drill()).run()
      return report.ok ? good({ body: listed(deps, report.value, begun.value) }) : report
    },
  }),
]

/** Begins live checks in the one process that sends them. */
const beginLive = async (
  deps: AdminDeps,
  { routes, maxCost }: { readonly routes?: readonly string[] | undefined; readonly maxCost?: string | undefined },
): Promise<Outcome<DrillRun | null>> => {
  const config = deps.gateway.config()
  for (const name of routes ?? []) {
    const route = config.routes.get(name)
    if (!route) return bad(noSuchRoute(name, [...config.routes.keys()]))
    if (!isDrilledLive(config, route)) return bad(LIVE_OFF)
  }
  const most = maxCost === undefined ? good(null) : parseDollars(maxCost)
  if (!most.ok) return most
  const { answers } = await askProcesses(deps, { do: 'drill', routes: routes ?? null, maxCost: most.value })
  const run = runIn(answers)
  if (run) return good(run)
  const refused = answers.map(({ value }) => value.failure).filter(isObject)
  // A gateway that knows why says more than those that another one keeps from it.
  const failure = refused.find(({ kind }) => kind !== 'record_conflict') ?? refused[0]
  // `answerHere` of the same program.
  return bad(failure === undefined ? LIVE_OFF : (failure as unknown as Failure))
}

/** The run in progress, or the one that began last. */
const liveState = async (deps: AdminDeps): Promise<DrillRun | null> =>
  runIn((await askProcesses(deps, { do: 'drill_state' })).answers)

const runIn = (answers: readonly { readonly value: JsonObject }[]): DrillRun | null => {
  // See `answerHere`.
  const runs = answers.map(({ value }) => value.run).filter(isObject) as unknown as readonly DrillRun[]
  return (
    runs.toSorted(
      (one, other) => Number(one.ended !== null) - Number(other.ended !== null) || other.began - one.began,
    )[0] ?? null
  )
}

const LIVE_OFF = fail(
  'unsupported',
  'This route has no live checks. Set drill.live in headgate.yaml, for it or for all routes.',
)

const noSuchRoute = (name: string, names: readonly string[]) => {
  const [near] = nearest(name, names, 1)
  return fail(
    'not_found',
    `No route of the file is named ${JSON.stringify(name.slice(0, 100))}.${near === undefined ? '' : ` Did you mean ${near}?`}`,
  )
}

const NO_ROUTE = fail('not_found', 'No route of the file has this name. GET /admin/api/v1/drill lists them.')
