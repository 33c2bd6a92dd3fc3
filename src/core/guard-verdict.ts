/** Verdicts of the rules of an operator, as the trace, headers, the ledger and metrics have them. They quote no text. */

/** Where a rule has found something: in a request, or in an answer. */
export const GUARD_PHASES = ['request', 'answer'] as const
export type GuardPhase = (typeof GUARD_PHASES)[number]

/**
 * What a rule does, the strictest first. `flag`: the call goes on, and headers, ledger and metrics have the verdict; `log`: the
 * same without headers.
 */
export const GUARD_ACTIONS = ['block', 'mask', 'flag', 'log'] as const
export type GuardAction = (typeof GUARD_ACTIONS)[number]

/** `error`: a service has not answered, and the call goes on without it. */
export type VerdictAction = GuardAction | 'error'

/** The verdict of one rule on one phase of a call. */
export type RuleVerdict = {
  /** Name of the rule. */
  readonly guard: string
  readonly phase: GuardPhase
  readonly action: VerdictAction
  /** Number of found texts by label: `{ EMAIL: 2 }`. A label has at most 32 characters. */
  readonly counts: Readonly<Record<string, number>>
  /** Duration of the searches or of the service, in ms. */
  readonly ms: number
}

/** Two verdicts of one rule, phase and action as one. */
export const summedVerdicts = (a: RuleVerdict, b: RuleVerdict): RuleVerdict => {
  const counts: Record<string, number> = { ...a.counts }
  for (const [label, count] of Object.entries(b.counts)) counts[label] = (counts[label] ?? 0) + count
  return { ...a, counts, ms: a.ms + b.ms }
}

/** The verdicts for a response header: `pii=mask:3, shield=flag:1`. */
export const verdictHeader = (verdicts: readonly RuleVerdict[]): string =>
  verdicts
    .filter(({ action }) => action !== 'log')
    .map((one) => `${encoded(one.guard)}=${one.action}:${total(one)}`)
    .join(', ')

/** Half a surrogate pair cannot be encoded. */
const encoded = (name: string): string => encodeURIComponent(name.toWellFormed())

const total = ({ counts }: RuleVerdict): number => Object.values(counts).reduce((sum, count) => sum + count, 0)

// ── The ledger ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Characters of the column, all of ASCII. */
const MAX_COLUMN = 500

/**
 * The verdicts for the ledger, the strictest first: `pii/request/mask/EMAIL:2+PHONE:1,shield/answer/flag/`, with `,+3` for those
 * that are too many. Null: there are none.
 */
export const verdictColumn = (verdicts: readonly RuleVerdict[]): string | null => {
  if (verdicts.length === 0) return null
  const entries = verdicts.toSorted((a, b) => strictness(a) - strictness(b)).map(entryOf)
  let column = ''
  for (const [at, entry] of entries.entries()) {
    const next = column === '' ? entry : `${column},${entry}`
    const rest = entries.length - at - 1
    if (next.length + (rest > 0 ? `,+${rest}`.length : 0) > MAX_COLUMN)
      return column === '' ? `+${rest + 1}` : `${column},+${rest + 1}`
    column = next
  }
  return column
}

const strictness = ({ action }: RuleVerdict): number => [...GUARD_ACTIONS, 'error'].indexOf(action)

const entryOf = ({ guard, phase, action, counts }: RuleVerdict): string => {
  const counted = Object.entries(counts).map(([label, count]) => `${encoded(label)}:${count}`)
  return `${encoded(guard)}/${phase}/${action}/${counted.join('+')}`
}

/** A verdict as the ledger has it. */
export type StoredVerdict = Omit<RuleVerdict, 'ms'>

/** The verdicts of a column, and the number of those that it leaves out. Entries of a later version are left out too. */
export const columnVerdicts = (
  column: string | null,
): { readonly verdicts: readonly StoredVerdict[]; readonly more: number } => {
  const verdicts: StoredVerdict[] = []
  let more = 0
  for (const entry of column === null ? [] : column.split(',')) {
    const verdict = entry.startsWith('+') ? Number(entry.slice(1)) || 0 : verdictOf(entry)
    if (typeof verdict === 'number') more += verdict
    else verdicts.push(verdict)
  }
  return { verdicts, more }
}

/** 1: the entry cannot be read. */
const verdictOf = (entry: string): StoredVerdict | 1 => {
  const [guard = '', phase, action, counted = ''] = entry.split('/')
  const knownPhase = GUARD_PHASES.find((one) => one === phase)
  const knownAction = action === 'error' ? action : GUARD_ACTIONS.find((one) => one === action)
  if (!knownPhase || !knownAction) return 1
  const counts = counted === '' ? [] : counted.split('+').map((one) => one.split(':'))
  return {
    guard: decodeURIComponent(guard),
    phase: knownPhase,
    action: knownAction,
    counts: Object.fromEntries(counts.map(([label = '', count]) => [decodeURIComponent(label), Number(count) || 0])),
  }
}

/** The beginning of a verdict of this guard in a column that has a comma before it. */
export const columnMark = (guard: string): string => `,${encoded(guard)}/`
