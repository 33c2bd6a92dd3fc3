/** Verdicts. Pure. */
import type { Seen } from './client.ts'

export type Verdict = 'pass' | 'partial' | 'safe' | 'fail' | 'n/a' | 'not run'
/** From best to worst: of several runs the worst counts. */
export const VERDICTS = ['n/a', 'pass', 'partial', 'safe', 'fail', 'not run'] as const satisfies readonly Verdict[]

export type Check = {
  readonly name: string
  readonly ok: boolean
  readonly advisory?: true
  readonly found?: string | number
}
export type Kind = 'whole' | 'error' | 'cut' | 'wrong' | 'hang' | 'left'

export type Expected = {
  readonly text: string
  readonly calls: readonly { readonly name: string; readonly arguments: string }[]
}

/** The finish that states that an answer is not whole. */
const STATED_CUT = /^(?:length|max_tokens|max_output_tokens|incomplete|content_filter|refusal)$/

const sameCalls = (seen: Seen, expected: Expected): boolean =>
  seen.calls.length === expected.calls.length &&
  expected.calls.every((call) =>
    seen.calls.some(({ name, arguments: given }) => name === call.name && given === call.arguments),
  ) &&
  new Set(seen.calls.map(({ id }) => id)).size === seen.calls.length

/** What a call came to. A tool call in an answer that ended with an error is not used by an application. */
export const kindOf = (seen: Seen, expected: Expected): Kind => {
  if (seen.how === 'hang' || seen.how === 'left') return seen.how
  const isBeginning = expected.text.startsWith(seen.text)
  if (seen.how === 'error') return isBeginning ? 'error' : 'wrong'
  if (seen.text === expected.text && sameCalls(seen, expected)) return 'whole'
  if (STATED_CUT.test(seen.finish) && isBeginning && expected.calls.length === 0) return 'error'
  return isBeginning ? 'cut' : 'wrong'
}

export type Ideal = 'answer' | 'error' | 'either'

/** The verdict on a call or on several of a scenario. */
export const verdictOf = (kinds: readonly Kind[], ideal: Ideal, checks: readonly Check[]): Verdict => {
  const bad = kinds.some((kind) => kind === 'hang' || kind === 'cut' || kind === 'wrong')
  if (bad || checks.some(({ ok, advisory }) => !ok && !advisory)) return 'fail'
  const reached = kinds.every(
    (kind) => kind === 'left' || ideal === 'either' || kind === (ideal === 'answer' ? 'whole' : 'error'),
  )
  if (!reached) return kinds.some((kind) => kind === 'whole') && ideal === 'error' ? 'fail' : 'safe'
  return checks.every(({ ok }) => ok) ? 'pass' : 'partial'
}

export const worst = (verdicts: readonly Verdict[]): Verdict =>
  verdicts.reduce<Verdict>((least, one) => (VERDICTS.indexOf(one) > VERDICTS.indexOf(least) ? one : least), 'n/a')
