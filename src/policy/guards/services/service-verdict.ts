/** What the finding of a service means for a request: the action of its rule, masks and refusals. */
import { fail } from '../../../core/failure.ts'
import type { GuardRule, RequestText } from '../../../core/guard.ts'
import type { GuardPhase, VerdictAction } from '../../../core/guard-verdict.ts'
import { REMEDIES } from '../guard-labels.ts'
import type { ServiceSpan, ServiceVerdict } from '../verdict.ts'
import { type FoundPart, maskLabel, type ServiceFinding } from './service-call.ts'

/** The question that a finding answers. `ms`: how long it took. */
export type AskedRule = {
  readonly rule: GuardRule
  readonly phase: GuardPhase
  readonly texts: readonly RequestText[]
  readonly ms: number
}

/**
 * The action of the rule decides what a finding does: `flag` and `log` change nothing, `block` refuses whatever is found. What a
 * service blocks is blocked by `mask` too, and what it only flags is never more than flagged.
 */
export const actionOf = (rule: GuardRule, found: ServiceFinding['action']): VerdictAction | null => {
  const { action } = rule
  switch (found) {
    case 'allow':
      return null
    case 'flag':
      return action === 'log' ? 'log' : 'flag'
    case 'mask':
      return action
    case 'block':
      return action === 'mask' ? 'block' : action
    default:
      throw new Error(`unknown finding ${JSON.stringify(found satisfies never)}`)
  }
}

const NOTHING: ServiceVerdict = { verdict: null }

export const serviceVerdict = (asked: AskedRule, finding: ServiceFinding): ServiceVerdict => {
  const { rule, phase, texts, ms } = asked
  const action = actionOf(rule, finding.action)
  if (action === null) return NOTHING
  const spans = finding.spans.flatMap((span) => outsideMasks(span, texts))
  // All that was found are masks of this gateway.
  if (finding.action === 'mask' && spans.length === 0) return NOTHING
  const verdict = { guard: rule.name, phase, action, counts: countsOf(rule, finding.labels, spans), ms }
  if (action === 'block') return { verdict, refuse: refusalOf(asked, finding) }
  return action === 'mask' ? { verdict, ...masksOf(rule, texts, spans) } : { verdict }
}

/** A request that could not be checked. */
export const unavailableVerdict = ({ rule, phase, ms }: AskedRule, reason: string): ServiceVerdict => {
  const verdict = { guard: rule.name, phase, action: 'error', counts: {}, ms } as const
  return rule.service?.onError === 'allow' ? { verdict } : { verdict, refuse: unavailable(rule, reason) }
}

/** ms after which a client may try again. */
const RETRY_AFTER = 2_000

export const unavailable = ({ name }: GuardRule, reason: string) =>
  fail('guard_unavailable', `The service of the rule ${JSON.stringify(name)} cannot check this request. Try again.`, {
    retryAfter: RETRY_AFTER,
    detail: reason,
  })

/** It quotes no text: the message is what a service of the own contract has written for the client. */
const refusalOf = ({ rule: { name, message }, phase }: AskedRule, finding: ServiceFinding) => {
  const where = phase === 'answer' ? ' in the answer' : ''
  const named = finding.labels.slice(0, MAX_NAMED).join(', ')
  const kinds = named === '' ? where : `, which found${where}: ${named}`
  const remedy = message ?? finding.message ?? REMEDIES[phase]
  return fail('guardrail_blocked', `Blocked by the rule ${JSON.stringify(name)}${kinds}. ${remedy}`)
}

/** Categories in a refusal. */
const MAX_NAMED = 5
/** Characters of a label in the ledger. */
const MAX_LABEL = 32

const countsOf = (rule: GuardRule, labels: readonly string[], spans: readonly FoundPart[]) => {
  const counts: Record<string, number> = {}
  const names = spans.length > 0 ? spans.map(({ label }) => labelOf(rule, label)) : labels
  for (const name of names.length > 0 ? names : ['service'])
    counts[name.slice(0, MAX_LABEL)] = (counts[name.slice(0, MAX_LABEL)] ?? 0) + 1
  return counts
}

const labelOf = (rule: GuardRule, label: string): string => rule.label ?? maskLabel(label)

/** A text of which a part is replaced for good has no masks that could be restored. */
const masksOf = (
  rule: GuardRule,
  texts: readonly RequestText[],
  all: readonly FoundPart[],
): Pick<ServiceVerdict, 'spans' | 'replace'> => {
  const spans: ServiceSpan[] = []
  const replace = new Map<string, string>()
  for (const [i, own] of Map.groupBy(all, (span) => span.i)) {
    const text = texts[i]?.text ?? ''
    if (own.some(({ replacement }) => replacement !== undefined)) replace.set(text, replaced(rule, text, own))
    else for (const { start, end, label } of own) spans.push({ text, start, end, label: labelOf(rule, label) })
  }
  return { spans, replace }
}

const replaced = (rule: GuardRule, text: string, spans: readonly FoundPart[]): string => {
  let out = ''
  let from = 0
  for (const { start, end, label, replacement } of spans.toSorted((a, b) => a.start - b.start)) {
    // A part that begins within another one is already replaced.
    if (start >= from) out += text.slice(from, start) + (replacement ?? `[${labelOf(rule, label)}]`)
    from = Math.max(from, end)
  }
  return out + text.slice(from)
}

/** Masks of this gateway, in texts that a service has read. */
const MASKS = /\[[A-Z][A-Z0-9]{0,11}_(?:[A-Z2-7]{10}|[A-Z2-7]{6})\]/g

/** A span without the masks in it: a mask within a mask would not be restored. Of a replaced text the service decides. */
const outsideMasks = (span: FoundPart, texts: readonly RequestText[]): readonly FoundPart[] => {
  if (span.replacement !== undefined) return [span]
  const { text = '' } = texts[span.i] ?? {}
  const parts: FoundPart[] = []
  let { start } = span
  for (const { 0: mask, index } of text.matchAll(MASKS)) {
    const [from, to] = [index, index + mask.length]
    if (to <= start || from >= span.end) continue
    if (from > start) parts.push({ ...span, start, end: from })
    start = to
  }
  if (start < span.end) parts.push({ ...span, start })
  return parts.filter((part) => text.slice(part.start, part.end).trim() !== '')
}
