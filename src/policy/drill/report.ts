/** What the requests of a route would lose if something failed, from their weights and what each target would do with them. */

/** What a target would do with a request. `lossy`: without a part of it. `doubt`: unknown. */
export type DrillVerdict = 'ready' | 'lossy' | 'doubt' | 'refused'

/** `by`: the part or the reason (`PART_TEXTS`, or the path of a member); null: nothing is refused. `at`: ms since 1970; null: now. */
export type DrillFinding = {
  readonly verdict: DrillVerdict
  readonly by: string | null
  readonly source: 'dry' | 'live' | 'real'
  readonly at: number | null
  /** The gateway answers with the refusal, and tries no further target. */
  readonly isFinal?: boolean
}

export const READY: DrillFinding = { verdict: 'ready', by: null, source: 'dry', at: null }
export const dryFinding = (verdict: DrillVerdict, by: string): DrillFinding => ({ ...READY, verdict, by })

/** A target as a drill reads it. `keys`: IDs of those that work. `title`: of its provider. */
export type DrillTarget = {
  readonly provider: string
  readonly title: string
  readonly model: string
  readonly region: string | null
  readonly keys: readonly string[]
  readonly finding: DrillFinding
}

/** Requests of a route that would be tried at the same targets in this order. */
export type DrillTraffic = { readonly weight: number; readonly targets: readonly DrillTarget[] }

/** Something that can fail: `openai`, `openai/gpt-5`, `openai#a1f3`, `region:eu`. `name`: for people. */
export type DrillUnit = {
  readonly id: string
  readonly name: string
  readonly isGone: (target: DrillTarget) => boolean
}

/** Why requests would be lost: what the next targets do with them. None: no target is left. */
export type DrillCause = {
  readonly requests: number
  readonly share: number
  readonly targets: readonly (Pick<DrillTarget, 'provider' | 'model'> & DrillFinding)[]
}

/** Shares of all requests of the route, from 0 to 1; null: no request is known. `lossy`: served without a part. */
export type UnitReport = {
  readonly unit: string
  readonly name: string
  readonly lost: number | null
  readonly unknown: number | null
  readonly lossy: number | null
  /** The most frequent first. */
  readonly causes: readonly DrillCause[]
}

/** `requests`: counted, or estimated from a sample. */
export type RouteReport = { readonly route: string; readonly requests: number; readonly units: readonly UnitReport[] }

/** Most units and causes of a report. */
const MOST = { units: 200, causes: 20 }

/** Everything at the targets of a route that can fail. A key alone can only fail where a provider has several. */
export const unitsOf = (traffic: readonly DrillTraffic[]): readonly DrillUnit[] => {
  const units = new Map<string, DrillUnit>()
  const add = (id: string, name: string, isGone: DrillUnit['isGone']) => {
    if (!units.has(id) && units.size < MOST.units) units.set(id, { id, name, isGone })
  }
  const targets = traffic.flatMap((row) => row.targets)
  for (const { provider, title } of targets) add(provider, title, (one) => one.provider === provider)
  for (const { provider, model } of targets)
    add(`${provider}/${model}`, `${provider}/${model}`, (one) => one.provider === provider && one.model === model)
  for (const { provider, keys } of targets)
    if (keys.length > 1)
      for (const key of keys)
        add(
          `${provider}#${key}`,
          `the key ${provider}#${key}`,
          (one) => one.provider === provider && isAll(one.keys, key),
        )
  for (const { region } of targets)
    if (region !== null) add(`region:${region}`, `the region ${region}`, (one) => one.region === region)
  return [...units.values()]
}

const isAll = (keys: readonly string[], key: string): boolean => keys.every((one) => one === key)

/** `depth`: targets of a cause. */
export const routeReport = (route: string, traffic: readonly DrillTraffic[], depth: number): RouteReport => {
  const requests = traffic.reduce((sum, { weight }) => sum + weight, 0)
  const units = unitsOf(traffic).map((unit) => unitReport(unit, traffic, { requests, depth }))
  return { route, requests, units }
}

/** The targets up to the first one whose refusal is the answer. */
const triedOf = (targets: readonly DrillTarget[]): readonly DrillTarget[] => {
  const end = targets.findIndex(({ finding }) => finding.verdict === 'refused' && finding.isFinal === true)
  return end === -1 ? targets : targets.slice(0, end + 1)
}

type ReportScale = { readonly requests: number; readonly depth: number }

const unitReport = (
  unit: DrillUnit,
  traffic: readonly DrillTraffic[],
  { requests, depth }: ReportScale,
): UnitReport => {
  const { id, name, isGone } = unit
  const causes = new Map<string, { targets: DrillCause['targets']; weight: number }>()
  let [lost, unknown, lossy] = [0, 0, 0]
  for (const { weight, targets } of traffic) {
    const serving = triedOf(targets).find(({ finding }) => finding.verdict !== 'refused')
    // It is refused now, or another target serves it.
    if (!serving || !isGone(serving)) continue
    const left = triedOf(targets.filter((target) => !isGone(target)))
    const next = left.find(({ finding }) => finding.verdict === 'ready' || finding.verdict === 'lossy')
    if (next) {
      if (next.finding.verdict === 'lossy') lossy += weight
      continue
    }
    if (left.some(({ finding }) => finding.verdict === 'doubt')) {
      unknown += weight
      continue
    }
    lost += weight
    const shown = left.slice(0, depth).map(({ provider, model, finding }) => ({ provider, model, ...finding }))
    const key = JSON.stringify(shown.map(({ provider, model, by }) => [provider, model, by]))
    const known = causes.get(key)
    if (known) known.weight += weight
    else causes.set(key, { targets: shown, weight })
  }
  const share = (weight: number) => (requests === 0 ? null : weight / requests)
  return {
    unit: id,
    name,
    lost: share(lost),
    unknown: share(unknown),
    lossy: share(lossy),
    causes: [...causes.values()]
      .sort((one, other) => other.weight - one.weight)
      .slice(0, MOST.causes)
      .map(({ targets, weight }) => ({ requests: Math.round(weight), share: share(weight) ?? 0, targets })),
  }
}

// ── Texts ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Parts and reasons as plural nouns, before "are refused by". Others are paths of members. */
const PART_TEXTS: { readonly [by: string]: string } = {
  tools: 'tools',
  custom_tools: 'custom tools',
  hosted_tools: 'tools that the provider runs',
  history: 'tool calls of the history',
  pictures: 'pictures',
  files: 'files',
  sound: 'recordings',
  schema: 'schemas of answers',
  prefill: 'beginnings of the answer',
  window: 'inputs of this length',
  key: 'all requests (no working key)',
  model: 'all requests (the model is not listed)',
  retired: 'all requests (the model has ended)',
  format: 'requests in this format',
  target: 'all requests',
  unknown: 'some requests',
}

export const partText = (by: string): string => PART_TEXTS[by] ?? `requests with \`${by}\``

/** `12 %`, `0 %` for nothing alone; null: `unknown`. */
export const percentText = (share: number | null): string => {
  if (share === null) return 'an unknown part'
  const percent = 100 * share
  if (percent > 0 && percent < 1) return 'less than 1 %'
  return `${Math.round(percent)} %`
}

export const causeText = ({ targets: [first] }: Pick<DrillCause, 'targets'>): string =>
  first ? `${partText(first.by ?? 'target')} are refused by ${first.provider}/${first.model}` : 'no target is left'

/** What a route would lose: ``route `fast` would lose 12 % of its requests if OpenAI failed: …``. */
export const lossText = (route: string, { name, lost, unknown, causes }: UnitReport): string => {
  const [cause] = causes
  const reason = cause ? `: ${causeText(cause)}` : ''
  const more = unknown !== null && unknown > 0 ? ` (${percentText(unknown)} unknown)` : ''
  return `route \`${route}\` would lose ${percentText(lost)} of its requests if ${name} failed${reason}${more}`
}
