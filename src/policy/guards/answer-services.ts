/** Asks the services of rules about an answer. */
import type { AnswerEdit, AnswerVerdict, GuardedCall, GuardRule, RequestText, TextCheck } from '../../core/guard.ts'
import type { AskService, ServiceVerdict } from './verdict.ts'

/** A rule on answers, and the question to its service. */
export type AskedService = { readonly rule: GuardRule; readonly ask: AskService }

/** Whether an answer is held back until the service of a rule has checked it. */
const isHeld = ({ action, service }: GuardRule): boolean =>
  (service?.answers ?? (action === 'block' || action === 'mask' ? 'hold' : 'watch')) === 'hold'

/** One rule that holds the answer holds it for all. */
export const answerCheck = (services: readonly AskedService[], call: GuardedCall): TextCheck => ({
  holds: services.some(({ rule }) => isHeld(rule)),
  async read(texts, final): Promise<AnswerVerdict | null> {
    const about = { phase: 'answer', final } as const
    const verdicts = await Promise.all(services.map(({ ask }) => ask(texts, call, about)))
    const refuse = verdicts.find((one) => one.refuse)?.refuse
    // Earlier checks of the same answer would count what they found again.
    for (const { verdict, refuse: own } of verdicts) if (verdict && (final || own)) call.note(verdict)
    if (refuse) return { refuse }
    const edits = verdicts.flatMap((verdict) => editsOf(verdict, texts))
    return edits.length === 0 ? null : { edits }
  },
})

/** A value that is new in an answer has no mask that could be restored later. */
const editsOf = ({ spans = [], replace }: ServiceVerdict, texts: readonly RequestText[]): readonly AnswerEdit[] =>
  texts.flatMap(({ text }, index) => {
    const own = spans.filter((span) => span.text === text)
    const instead = replace?.get(text)
    if (own.length === 0 && instead !== undefined) return [{ index, start: 0, end: text.length, text: instead }]
    return own.map(({ start, end, label }) => ({ index, start, end, text: `[${label}]` }))
  })
