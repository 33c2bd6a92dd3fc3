/** The guards of an operator: rules which block requests, or mask what they find. */
import type { ChatEvent } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import type { ChooseGuards, ChosenGuard, GuardRule, GuardVerdict, RequestText } from '../../core/guard.ts'
import { memoizeLast } from '../../core/memoize-last.ts'
import type { Stage } from '../../core/stage.ts'
import { atOnce, inTurns, PIECE, type Steps, type TurnScheduler } from '../../core/steps.ts'
import { finderOf, merged } from './finders/find-texts.ts'
import type { Finder, FoundKind, FoundSpan } from './finders/finder.ts'
import { type MaskDigest, Masks } from './masks.ts'
import { UnmaskingStage } from './unmasking.ts'

export type OperatorGuardDeps = {
  /** Absent: there are no rules. */
  readonly rules: () => readonly GuardRule[] | undefined
  /** Depends on a secret of the gateway: the provider must not guess a text from its mask. */
  readonly digest: MaskDigest
  /** Stands for a text of any length. */
  readonly fingerprint: (text: string) => string
  readonly turn: TurnScheduler
}

/** A rule with its search. */
type SearchedRule = { readonly rule: GuardRule; readonly find: Finder; readonly revision: string }

/** Chooses the guard of a call: one for all rules that apply to its team. */
export const operatorGuards = ({ rules, digest, fingerprint, turn }: OperatorGuardDeps): ChooseGuards => {
  const checksOf = memoizeLast((all: readonly GuardRule[]): readonly SearchedRule[] =>
    all.map((rule) => ({ rule, find: finderOf(rule), revision: fingerprint(JSON.stringify(rule)) })),
  )
  return ({ client }) => {
    const all = rules()
    if (all === undefined) return NO_GUARDS
    const checks = checksOf(all).filter(({ rule }) => !rule.exceptTeams.includes(client.team.name))
    if (checks.length === 0) return NO_GUARDS
    const masks = new Masks((text) => digest(`${client.id} ${text}`))
    return [new OperatorGuard({ checks, masks, turn })]
  }
}

const NO_GUARDS: readonly ChosenGuard[] = []

/** A found text, and the rule that found it. */
type MaskedSpan = FoundSpan & { readonly rule: GuardRule }

/** The rules for one call. A text that two rules find is one span: no rule reads the masks of another. */
class OperatorGuard implements ChosenGuard {
  readonly revision: string
  readonly #checks: readonly SearchedRule[]
  readonly #masks: Masks
  readonly #turn: TurnScheduler

  constructor({ checks, masks, turn }: { checks: readonly SearchedRule[]; masks: Masks; turn: TurnScheduler }) {
    this.#checks = checks
    this.#masks = masks
    this.#turn = turn
    this.revision = checks.map(({ revision }) => revision).join()
  }

  request(texts: () => readonly RequestText[]): GuardVerdict | null | Promise<GuardVerdict | null> {
    const all = texts()
    const length = all.reduce((sum, { text }) => sum + text.length, 0)
    return length > PIECE ? inTurns(this.#check(all), this.#turn) : atOnce(this.#check(all))
  }

  /** Absent if nothing was masked: such an answer passes as without guards. */
  get events(): (() => Stage<ChatEvent, ChatEvent>) | undefined {
    return this.#masks.size === 0 ? undefined : () => new UnmaskingStage(this.#masks)
  }

  *#check(texts: readonly RequestText[]): Steps<GuardVerdict | null> {
    const replace = new Map<string, string>()
    const counts = new Map<string, number>()
    let read = 0
    for (const text of new Set(texts.map((one) => one.text))) {
      if (read > PIECE) {
        yield
        read = 0
      }
      read += text.length
      const found: MaskedSpan[] = []
      for (const { rule, find } of this.#checks) {
        const spans = find(text)
        if (spans.length > 0 && rule.action === 'block') return { refuse: refusalOf(rule, spans) }
        for (const span of spans) found.push({ ...span, rule })
      }
      if (found.length > 0) replace.set(text, this.#masked(text, merged(found), counts))
    }
    if (replace.size === 0) return null
    return { replace, report: Array.from(counts, ([name, count]) => `${name}=mask:${count}`).join(', ') }
  }

  #masked(text: string, spans: readonly MaskedSpan[], counts: Map<string, number>): string {
    let out = ''
    let from = 0
    for (const { start, end, kind, rule } of spans) {
      out += text.slice(from, start) + this.#masks.maskOf(rule.label ?? LABELS[kind], text.slice(start, end))
      from = end
      counts.set(rule.name, (counts.get(rule.name) ?? 0) + 1)
    }
    return out + text.slice(from)
  }
}

const LABELS: { readonly [kind in FoundKind]: string } = {
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
}

/** It names what was found, and quotes no text. */
const refusalOf = ({ name, message }: GuardRule, spans: readonly FoundSpan[]) => {
  const kinds = [...new Set(spans.map(({ kind }) => kind))].join(', ')
  const remedy = message ?? 'Remove it from the conversation and send the request again.'
  return fail('guardrail_blocked', `Blocked by the rule ${JSON.stringify(name)}, which found: ${kinds}. ${remedy}`)
}
