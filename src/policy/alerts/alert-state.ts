/** Which alerts are due: once for each rule, object, threshold and period, and once more when the condition is over. */
import type { AlertCondition } from './conditions.ts'

/** A condition that holds or held. Times in ms since 1970. Plain JSON data. */
export type AlertEntry = {
  readonly condition: AlertCondition
  readonly since: number
  /** When the alert became due; null: it has not lasted long enough. */
  readonly firedAt: number | null
  /** Since when the condition does not hold; null: it holds. */
  readonly absentSince: number | null
  /** The alert is over, but its period is not: it is not sent again. */
  readonly resolved: boolean
}

/** An entry whose alert was due. */
export type FiredEntry = AlertEntry & { readonly firedAt: number }

export type AlertEntries = ReadonlyMap<string, AlertEntry>

/** An alert to send. */
export type DueAlert = { readonly condition: AlertCondition; readonly isResolved: boolean }

/** ms for which a condition must be over: a circuit that is tried opens again, and after a restart all are closed. */
export const RESOLVE_AFTER = 60_000
/** ms by which a clock may be set back without repeating the alerts of a period that has ended. */
const CLOCK_STEP = 3_600_000
/** Conditions beyond this number are ignored; the file has about 500 bytes for each. */
const MAX_ENTRIES = 2_000

/**
 * The entries after this moment, and the alerts that are due, the most urgent first. `over`: the alerts that ended.
 * `changed`: the entries that must survive a restart changed. `ignored`: conditions without an alert, because too many hold.
 */
export const nextAlerts = (
  before: AlertEntries,
  conditions: readonly AlertCondition[],
  now: number,
  resolveAfter = RESOLVE_AFTER,
): {
  readonly entries: AlertEntries
  readonly due: readonly DueAlert[]
  readonly over: readonly FiredEntry[]
  readonly changed: boolean
  readonly ignored: number
} => {
  const entries = new Map(before)
  const due: DueAlert[] = []
  const over: FiredEntry[] = []
  let changed = false
  let ignored = 0
  const holding = new Set<string>()
  for (const condition of conditions.toSorted((a, b) => urgency(a) - urgency(b))) {
    const key = keyOf(condition)
    const known = entries.get(key)
    if (!known && entries.size >= MAX_ENTRIES) {
      ignored++
      continue
    }
    holding.add(key)
    const { since = now, firedAt = null, resolved = false } = known ?? {}
    const fires = firedAt === null && now - since >= condition.after
    if (fires) due.push({ condition, isResolved: false })
    changed ||= fires || (known?.absentSince ?? null) !== null
    entries.set(key, { condition, since, firedAt: fires ? now : firedAt, absentSince: null, resolved })
  }
  for (const [key, entry] of before) {
    if (holding.has(key)) continue
    const { condition, firedAt, absentSince, resolved } = entry
    const isPeriodOver = condition.until !== null && now >= condition.until
    const isOver = isPeriodOver || now - (absentSince ?? now) >= resolveAfter
    const hasEnded = firedAt !== null && !resolved && isOver
    if (hasEnded) over.push({ ...entry, firedAt })
    const isReported = hasEnded && !(isPeriodOver && ENDINGS.has(condition.rule))
    if (isReported) due.push({ condition, isResolved: true })
    const isKept = firedAt !== null && (condition.until === null ? !isOver : now < condition.until + CLOCK_STEP)
    changed ||= hasEnded || (firedAt !== null && (!isKept || absentSince === null))
    if (isKept) entries.set(key, { ...entry, absentSince: absentSince ?? now, resolved: resolved || isOver })
    else entries.delete(key)
  }
  return { entries, due: due.toSorted((a, b) => rankOf(a) - rankOf(b)), over, changed, ignored }
}

/** Rules of what ends: that a key, a model or a certificate has ended is no good news. */
const ENDINGS: ReadonlySet<AlertCondition['rule']> = new Set(['keyExpiry', 'modelRetires', 'certExpiry'])

/** Sorts conditions: critical ones first, those that clients can cause last. */
const urgency = ({ severity, byClients }: AlertCondition): number => (byClients ? 2 : severity === 'critical' ? 0 : 1)

/** The order in which alerts are sent: 0 first. The end of a condition comes after all that begin. */
export const rankOf = ({ condition, isResolved }: DueAlert): number => urgency(condition) + (isResolved ? 3 : 0)

const keyOf = ({ rule, object, threshold, occasion }: AlertCondition): string =>
  JSON.stringify([rule, object.id, threshold, occasion])

/** The entries that survive a restart: of alerts that were sent. */
export const storedEntries = (entries: AlertEntries): readonly AlertEntry[] =>
  [...entries.values()].filter(({ firedAt }) => firedAt !== null)

/** The entries of a file. */
export const restoredEntries = (stored: readonly AlertEntry[]): AlertEntries =>
  new Map(stored.map((entry) => [keyOf(entry.condition), entry]))
