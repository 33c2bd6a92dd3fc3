/** What rules find in one text, without a call. */
import type { GuardRule } from '../../core/guard.ts'
import type { StoredVerdict } from '../../core/guard-verdict.ts'
import { GUARD_ACTIONS, type GuardPhase } from '../../core/guard-verdict.ts'
import { merged, searchOf } from './finders/find-texts.ts'
import { labelOf, refusalOf } from './guard-labels.ts'

export type TriedRules = {
  /** The strictest first. */
  readonly verdicts: readonly StoredVerdict[]
  /** The message of the refusal; null: the text passes. */
  readonly refused: string | null
  /** The text with `[EMAIL]` for what is masked. */
  readonly text: string
  /** Names of rules with a service, which is not called. */
  readonly notAsked: readonly string[]
}

/** Applies the rules that read this phase. */
export const triedRules = (rules: readonly GuardRule[], phase: GuardPhase, text: string): TriedRules => {
  const reading = rules
    .filter(({ on }) => on.includes(phase))
    .toSorted((a, b) => GUARD_ACTIONS.indexOf(a.action) - GUARD_ACTIONS.indexOf(b.action))
  const found = reading
    .filter(({ service }) => service === undefined)
    .map((rule) => ({
      rule,
      spans: searchOf(rule)
        .find(text)
        .map((span) => ({ ...span, label: labelOf(rule, span.kind) })),
    }))
    .filter(({ spans }) => spans.length > 0)
  const blocking = found.find(({ rule }) => rule.action === 'block')
  const masks = merged(found.flatMap(({ rule, spans }) => (rule.action === 'mask' ? spans : [])))
  return {
    verdicts: found.map(({ rule: { name, action }, spans }) => ({
      guard: name,
      phase,
      action,
      counts: countsOf(spans),
    })),
    refused: blocking ? refusalOf(blocking.rule, blocking.spans, phase).message : null,
    text: masks
      .toReversed()
      .reduce((rest, { start, end, label }) => `${rest.slice(0, start)}[${label}]${rest.slice(end)}`, text),
    notAsked: reading.flatMap(({ name, service }) => (service ? [name] : [])),
  }
}

const countsOf = (spans: readonly { readonly label: string }[]): Record<string, number> => {
  const counts: Record<string, number> = {}
  for (const { label } of spans) counts[label] = (counts[label] ?? 0) + 1
  return counts
}
