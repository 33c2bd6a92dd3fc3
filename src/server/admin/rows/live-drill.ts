/** Live checks of the fallback drill: what they have found, and a run now. */
import { z } from 'zod'
import { bad, type Failure, fail, good, type Outcome } from '../../../core/failure.ts'
import { isObject, type JsonObject } from '../../../core/json.ts'
import { formatDollars, parseDollars } from '../../../core/money.ts'
import { nearest } from '../../../core/nearest.ts'
import type { DrillRun } from '../../../gateway/drill/live-drill.ts'
import { isDrilledLive } from '../../../policy/drill/live-rules.ts'
import { LIVE_CHECKS } from '../../answers/live-drill.ts'
import type { AdminDeps } from '../deps.ts'
import { askProcesses } from '../processes.ts'
import { row } from '../row.ts'

/** Results of an answer: those of refusals first. */
const MOST = 500

const iso = (at: number): string => new Date(at).toISOString()

const listed = async ({ liveDrill }: AdminDeps, run: DrillRun | null): Promise<z.input<typeof LIVE_CHECKS>> => {
  await liveDrill()?.refresh()
  const all = (liveDrill()?.all() ?? []).toSorted(
    (one, other) => Number(other.verdict === 'refused') - Number(one.verdict === 'refused'),
  )
  const data = all.slice(0, MOST).map(({ provider, model, style, features, verdict, by = null, at }) => ({
    object: 'live_check' as const,
    ...{ provider, model, style, features: [...features], verdict, by, at: iso(at) },
  }))
  const shown = run && {
    ...{ began: iso(run.began), ended: run.ended === null ? null : iso(run.ended), sent: run.sent },
    ...{ spent: formatDollars(run.spent), ready: run.ready, refused: run.refused, unsettled: run.unsettled },
    left: { ...run.left },
  }
  return { object: 'list', run: shown, data, has_more: false, next: null }
}

const SHOWN = {
  object: 'list' as const,
  run: {
    ...{ began: '2026-11-28T03:00:00.000Z', ended: '2026-11-28T03:02:10.000Z', sent: 14, spent: '0.001240000' },
    ...{ ready: 31, refused: 2, unsettled: 0, left: {} },
  },
  data: [
    {
      ...{ object: 'live_check' as const, provider: 'house', model: 'm1', style: 'chat', features: ['tool.pattern'] },
      ...{ verdict: 'refused' as const, by: 'tool.pattern', at: '2026-11-28T03:01:00.000Z' },
    },
  ],
  ...{ has_more: false, next: null },
}

export const liveDrillRows = [
  row({
    method: 'GET',
    path: '/drill/live',
    summary: 'Show what targets would refuse, by live checks',
    about: 'Refusals come first, at most 500 results. The run is that of any gateway that shares a store.',
    role: 'viewer',
    scope: 'all',
    answer: LIVE_CHECKS,
    example: { answer: SHOWN },
    async handle(deps) {
      const { answers } = await askProcesses(deps, { do: 'drill_state' })
      return good({ body: await listed(deps, runIn(answers)) })
    },
  }),
  row({
    method: 'POST',
    path: '/drill/live',
    summary: 'Begin live checks now',
    about:
      'Sends the smallest request of each shape of requests to the targets that would be next, of routes with `drill.live`. The checks go on after the answer. 409 while they run, here or in another gateway; 402 above what is left of the day.',
    role: 'operator',
    scope: 'all',
    body: z.strictObject({
      routes: z.array(z.string()).min(1).optional().describe('these alone; default: all with live checks'),
      maxCost: z.string().optional().describe('dollars, at most; default: what is left of the day'),
    }),
    answer: LIVE_CHECKS,
    example: { body: {}, answer: SHOWN },
    async handle(deps, { body: { routes, maxCost } }) {
      const most = maxCost === undefined ? good(null) : parseDollars(maxCost)
      if (!most.ok) return most
      const begun = await begin(deps, routes ?? null, most.value)
      return begun.ok ? good({ body: await listed(deps, begun.value) }) : begun
    },
  }),
]

/** Begins live checks in the one process that sends them. */
const begin = async (
  deps: AdminDeps,
  routes: readonly string[] | null,
  maxCost: number | null,
): Promise<Outcome<DrillRun>> => {
  const config = deps.gateway.config()
  for (const name of routes ?? []) {
    const route = config.routes.get(name)
    if (!route) return bad(noSuchRoute(name, [...config.routes.keys()]))
    if (!isDrilledLive(config, route)) return bad(LIVE_OFF)
  }
  const { answers } = await askProcesses(deps, { do: 'drill', routes, maxCost })
  // The run that has begun here is not over.
  const run = runIn(answers)
  if (run) return good(run)
  const refused = answers.map(({ value }) => value.failure).filter(isObject)
  // A gateway that knows a reason says more than those that another one keeps from sending.
  const failure = refused.find(({ kind }) => kind !== 'record_conflict') ?? refused[0]
  // `answerHere` of the same program.
  return bad(failure === undefined ? LIVE_OFF : (failure as unknown as Failure))
}

/** The run in progress, or the one that began last. */
const runIn = (answers: readonly { readonly value: JsonObject }[]): DrillRun | null => {
  // See `answerHere`.
  const runs = answers.map(({ value }) => value.run).filter(isObject) as unknown as readonly DrillRun[]
  const [latest = null] = runs.toSorted(
    (one, other) => Number(one.ended !== null) - Number(other.ended !== null) || other.began - one.began,
  )
  return latest
}

const LIVE_OFF = fail(
  'unsupported',
  'No live checks are configured here. Set drill.live in headgate.yaml, for a route or for all.',
)

const noSuchRoute = (name: string, names: readonly string[]): Failure => {
  const [near] = nearest(name, names, 1)
  const meant = near === undefined ? '' : ` Did you mean ${near}?`
  return fail('not_found', `No route of the file is named ${JSON.stringify(name.slice(0, 100))}.${meant}`)
}
