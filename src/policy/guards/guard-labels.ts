/** How rules name what they find: in masks, verdicts and refusals. */
import { type Failure, fail } from '../../core/failure.ts'
import type { GuardRule } from '../../core/guard.ts'
import type { GuardPhase } from '../../core/guard-verdict.ts'
import type { FoundKind, FoundSpan } from './finders/finder.ts'

export const LABELS: { readonly [kind in FoundKind]: string } = {
  email: 'EMAIL',
  phone: 'PHONE',
  card: 'CARD',
  iban: 'IBAN',
  apiKey: 'APIKEY',
  ssn: 'SSN',
  nino: 'NINO',
  nif: 'NIF',
  steuerid: 'STEUERID',
  insee: 'INSEE',
  pattern: 'TEXT',
  word: 'WORD',
  media: 'FILE',
}

export const labelOf = ({ label }: Pick<GuardRule, 'label'>, kind: FoundKind): string => label ?? LABELS[kind]

/** What refusals advise if the rule does not. */
export const REMEDIES: { readonly [phase in GuardPhase]: string } = {
  request: 'Remove it from the conversation and send the request again.',
  answer: 'Change the request so that the answer does not contain it.',
}

/** It names what was found, and quotes no text. */
export const refusalOf = (
  { name, message }: Pick<GuardRule, 'name' | 'message'>,
  spans: readonly Pick<FoundSpan, 'kind'>[],
  phase: GuardPhase,
): Failure => {
  const kinds = [...new Set(spans.map(({ kind }) => kind))].join(', ')
  const where = phase === 'answer' ? ' in the answer' : ''
  return fail(
    'guardrail_blocked',
    `Blocked by the rule ${JSON.stringify(name)}, which found${where}: ${kinds}. ${message ?? REMEDIES[phase]}`,
  )
}
