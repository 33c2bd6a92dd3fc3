/** When live checks may be sent, what they may cost, and how long their results hold. Times in ms since 1970. */
import { type FailureKind, isOwnLimit } from '../../core/failure.ts'
import { type Nano, parseDollars } from '../../core/money.ts'
import type { DrillRules } from '../../core/route.ts'
import type { Settings } from '../../core/settings.ts'
import type { ProbeOutcome } from './cover.ts'

/** The team that live checks are charged to. */
export const DRILL_TEAM = 'drill'

/** Whether the targets of a route receive live checks. */
export const isDrilledLive = ({ settings }: LiveSettings, { drill }: DrilledRoute): boolean =>
  drill?.live ?? settings.drill.live

export const hasLiveChecks = (config: LiveSettings & { readonly routes: ReadonlyMap<string, DrilledRoute> }): boolean =>
  config.routes.values().some((route) => isDrilledLive(config, route))

/** Of the configuration, or as an entry of the file. */
type DrilledRoute = { readonly drill?: DrillRules | undefined }
type LiveSettings = { readonly settings: { readonly drill: Pick<Settings['drill'], 'live'> } }

const DAY = 86_400_000
const HOUR = 3_600_000

// ── Outcomes ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** What a target would do to every request like it. All else, such as 429, 5xx and timeouts, says nothing about the request. */
const REFUSALS: ReadonlySet<FailureKind> = new Set<FailureKind>([
  'invalid_request',
  'invalid_value',
  'missing_parameter',
  'unsupported',
  'incapable',
  'incompatible',
  'context_length',
  'too_large_for_target',
  'model_missing',
  'not_there',
  'permission',
  'auth',
  'quota',
  'tls',
  'redirect',
])

/** The outcome of a request; `own`: it was not sent, by a limit of the gateway's own. */
export const probeOutcome = (failure: FailureKind | null): ProbeOutcome | 'own' => {
  if (failure === null) return { verdict: 'ready' }
  if (isOwnLimit(failure)) return 'own'
  return { verdict: REFUSALS.has(failure) ? 'refused' : 'unsettled', kind: failure }
}

// ── Money and pace ───────────────────────────────────────────────────────────────────────────────────────────────

const LEAST_CAP = 10_000_000
const SHARE = 1_000

/** What the checks of a day may cost: 0.1 % of the last week's daily spend, at least $0.01, at most the setting. Unknown spend is none. */
export const dayCap = (budget: string, weekSpend: Nano | null): Nano => {
  const most = parseDollars(budget)
  const share = Math.floor((weekSpend ?? 0) / 7 / SHARE)
  return Math.min(most.ok ? most.value : 0, Math.max(LEAST_CAP, share))
}

/** ms between two requests to one target: six a minute. */
export const PAUSE = 10_000

/** The least share of a stated limit of the target with which a request is sent. */
const LEAST_QUOTA = 0.5

export const hasQuota = (left: { readonly share: number } | undefined): boolean =>
  left === undefined || left.share >= LEAST_QUOTA

/** When checks begin after `now`: in the hour of the next day with the fewest requests by the week, or at a time of day (UTC). */
export const nextRun = (at: string, now: number, hours: readonly number[]): number | null => {
  if (at === 'never') return null
  const today = now - (now % DAY)
  if (at !== 'quiet') {
    const [hour = 0, minute = 0] = at.split(':').map(Number)
    const time = today + hour * HOUR + minute * 60_000
    return time > now ? time : time + DAY
  }
  const first = now - (now % HOUR) + HOUR
  let best = first
  for (let next = first; next < first + DAY; next += HOUR)
    if ((hours[hourOfWeek(next)] ?? 0) < (hours[hourOfWeek(best)] ?? 0)) best = next
  return best
}

/** From 0, which is the first hour of a Thursday (UTC), as 1 January 1970 was. */
export const hourOfWeek = (time: number): number => Math.floor(time / HOUR) % 168

// ── Results ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** What is known of a shape at a target. `doubt`: it takes a part of the requests. `real`: requests of clients have shown it. */
export type LiveResult = {
  readonly verdict: 'ready' | 'refused' | 'doubt' | 'unsettled'
  readonly kind?: FailureKind
  readonly by?: string
  readonly at: number
  readonly source: 'live' | 'real'
  /** What the target was then. */
  readonly target: string
  /** Days on which it was tried without a verdict. */
  readonly tries?: number
}

/** Days on which a shape without a verdict is tried, and for which it is left alone then. */
const MOST_TRIES = 3

/** Whether a shape is to be sent: nothing is known, the target has changed, the result is old, or a try had no verdict. */
export const isDue = (
  known: LiveResult | undefined,
  now: { readonly at: number; readonly target: string; readonly days: number },
): boolean => {
  if (!known || known.target !== now.target || now.at - known.at >= now.days * DAY) return true
  return known.verdict === 'unsettled' && (known.tries ?? 1) < MOST_TRIES && dayOf(known.at) < dayOf(now.at)
}

export const dayOf = (time: number): number => Math.floor(time / DAY)

/** The result after another one. One without a verdict does not replace one of the same target that has it and is not old. */
export const nextResult = (known: LiveResult | undefined, found: LiveResult, days: number): LiveResult => {
  if (found.verdict !== 'unsettled') return found
  if (!known || known.target !== found.target) return { ...found, tries: 1 }
  const isOld = found.at - known.at >= days * DAY
  if (known.verdict !== 'unsettled') return isOld ? { ...found, tries: 1 } : known
  return { ...found, tries: isOld ? 1 : (known.tries ?? 1) + 1 }
}
