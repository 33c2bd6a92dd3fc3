/** The guards of an operator: rules which block requests, or mask what they find. */
import type { ChatEvent } from '../../core/chat.ts'
import {
  type ChooseGuards,
  type ChosenGuard,
  GUARDS_HEADER,
  type GuardedCall,
  type GuardRule,
  type GuardVerdict,
  type RequestText,
  type TextCheck,
} from '../../core/guard.ts'
import { GUARD_ACTIONS, type GuardPhase, type RuleVerdict } from '../../core/guard-verdict.ts'
import { memoizeLast } from '../../core/memoize-last.ts'
import { chain, type Stage } from '../../core/stage.ts'
import { atOnce, inTurns, PIECE, type Steps, type TurnScheduler } from '../../core/steps.ts'
import { AnswerRules } from './answer-rules.ts'
import { type AskedService, answerCheck } from './answer-services.ts'
import { appliedRules, type ExistingNames } from './applied-rules.ts'
import { searchOf } from './finders/find-texts.ts'
import type { TextRange } from './finders/finder.ts'
import { labelOf, refusalOf } from './guard-labels.ts'
import { type MaskDigest, Masks, maskedText } from './masks.ts'
import type { RuleSearch } from './piece-search.ts'
import { UnmaskingStage } from './unmasking.ts'
import type { AskService, ServiceOf, ServiceSpan } from './verdict.ts'

export type OperatorGuardDeps = {
  /** Absent: there are no rules. */
  readonly rules: () => readonly GuardRule[] | undefined
  /** Depends on a secret of the gateway: the provider must not guess a text from its mask. */
  readonly digest: MaskDigest
  /** Stands for a text of any length. */
  readonly fingerprint: (text: string) => string
  readonly turn: TurnScheduler
  readonly names: ExistingNames
  /** In ms, of the monotonic clock. */
  readonly now: () => number
  /** Absent: no rule has a service. */
  readonly services?: ServiceOf
}

/** A rule with its search. */
type SearchedRule = RuleSearch<GuardRule> & { readonly revision: string }

/** Chooses the guard of a call: one for all rules that apply to it. */
export const operatorGuards = (deps: OperatorGuardDeps): ChooseGuards => {
  const { rules, fingerprint } = deps
  const checksOf = memoizeLast((all: readonly GuardRule[]): readonly SearchedRule[] =>
    all
      .map((rule) => ({ rule, search: searchOf(rule), revision: fingerprint(JSON.stringify(rule)) }))
      .toSorted((a, b) => GUARD_ACTIONS.indexOf(a.rule.action) - GUARD_ACTIONS.indexOf(b.rule.action)),
  )
  return (call) => {
    const all = rules()
    const header = call.headers(GUARDS_HEADER)
    if (all === undefined && header === undefined) return NO_GUARDS
    const { route, furtherRoutes = [] } = call.plan
    const routes = route === undefined ? furtherRoutes : [route, ...furtherRoutes]
    const ruled = { team: call.client.team.name, routes, header }
    const checks = appliedRules(checksOf(all ?? NO_RULES), ruled, deps.names)
    if ('kind' in checks) return [{ revision: '', request: () => ({ refuse: checks }) }]
    return checks.length === 0 ? NO_GUARDS : [new OperatorGuard(checks, call, deps)]
  }
}

const NO_GUARDS: readonly ChosenGuard[] = []
const NO_SERVICES: readonly AskedService[] = []
const NO_RULES: readonly GuardRule[] = []

/** What a rule has found in a text. */
type LabelledSpan = TextRange & { readonly label: string }

/** The rules for one call. A text that two rules find is one span: no rule reads the masks of another. */
class OperatorGuard implements ChosenGuard {
  readonly revision: string
  /** The strictest first: a request that a rule blocks is not read by others. */
  readonly #checks: readonly SearchedRule[]
  readonly #call: GuardedCall
  readonly #deps: OperatorGuardDeps
  readonly #masks: Masks

  constructor(checks: readonly SearchedRule[], call: GuardedCall, deps: OperatorGuardDeps) {
    this.#checks = checks
    this.#call = call
    this.#deps = deps
    this.#masks = new Masks((text) => deps.digest(`${call.client.id} ${text}`))
    this.revision = checks.map(({ revision }) => revision).join()
  }

  /** A rule reads the text of answers, so that no other part of an answer may state it. */
  get readsAnswer(): boolean {
    return this.#checks.some(({ rule }) => rule.on.includes('answer'))
  }

  request(
    texts: () => readonly RequestText[],
    media: () => readonly string[],
  ): GuardVerdict | null | Promise<GuardVerdict | null> {
    if (!this.#checks.some(({ rule }) => rule.on.includes('request'))) return null
    const refused = this.#checkMedia(media)
    if (refused) return refused
    const all = texts()
    const length = all.reduce((sum, { text }) => sum + text.length, 0)
    const checking = this.#check(new Set(all.map(({ text }) => text)))
    const services = this.#servicesOn('request').map(({ ask }) => ask)
    if (services.length === 0) return length > PIECE ? inTurns(checking, this.#deps.turn) : atOnce(checking)
    return inTurns(checking, this.#deps.turn).then((own) => this.#ask(services, all, own))
  }

  /**
   * Absent if no rule reads answers and nothing was masked: such an answer passes as without guards. Rules read an answer before its
   * masks are restored, so that they do not find what the client has sent.
   */
  get events(): (() => Stage<ChatEvent, ChatEvent>) | undefined {
    const rules = this.#checks.filter(({ rule }) => rule.on.includes('answer') && !rule.service)
    const masks = this.#masks
    if (rules.length === 0) return masks.size === 0 ? undefined : () => new UnmaskingStage(masks)
    const options = { rules, note: this.#call.note, now: this.#deps.now }
    return () =>
      masks.size === 0 ? new AnswerRules(options) : chain(new AnswerRules(options), new UnmaskingStage(masks))
  }

  /** The strictest first, as for texts. */
  #checkMedia(media: () => readonly string[]): GuardVerdict | null {
    const rules = this.#checks.filter(({ rule }) => rule.media)
    const found = rules.length === 0 ? [] : media()
    if (found.length === 0) return null
    const counts: Record<string, number> = {}
    for (const label of found) counts[label] = (counts[label] ?? 0) + 1
    for (const { rule } of rules) {
      this.#note(rule, counts, 0)
      if (rule.action === 'block') return { refuse: refusalOf(rule, [{ kind: 'media' }], 'request') }
    }
    return null
  }

  *#check(texts: ReadonlySet<string>): Steps<GuardVerdict | null> {
    const { now } = this.#deps
    const masked = new Map<string, LabelledSpan[]>()
    let read = 0
    for (const { rule, search } of this.#checks) {
      if (!rule.on.includes('request')) continue
      const counts: Record<string, number> = {}
      let ms = -now()
      for (const text of texts) {
        if (read > PIECE) {
          ms += now()
          yield
          ms -= now()
          read = 0
        }
        read += text.length
        const spans = search.find(text).map((span) => ({ ...span, label: labelOf(rule, span.kind) }))
        for (const { label } of spans) counts[label] = (counts[label] ?? 0) + 1
        if (spans.length > 0 && rule.action === 'block') {
          this.#note(rule, counts, ms + now())
          return { refuse: refusalOf(rule, spans, 'request') }
        }
        if (spans.length > 0 && rule.action === 'mask') masked.set(text, [...(masked.get(text) ?? []), ...spans])
      }
      if (Object.keys(counts).length > 0) this.#note(rule, counts, ms + now())
    }
    return masked.size === 0 ? null : { replace: this.#replaced(masked) }
  }

  #note({ name: guard, action }: GuardRule, counts: RuleVerdict['counts'], ms: number): void {
    this.#call.note({ guard, phase: 'request', action, counts, ms })
  }

  #replaced(spans: ReadonlyMap<string, readonly LabelledSpan[]>): ReadonlyMap<string, string> {
    return new Map(Array.from(spans, ([text, found]) => [text, maskedText(text, found, this.#masks)]))
  }

  // ── Services ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Absent if no service checks answers. It reads an answer before the masks of the request are restored. */
  get answer(): TextCheck | undefined {
    const services = this.#servicesOn('answer')
    return services.length === 0 ? undefined : answerCheck(services, this.#call)
  }

  #servicesOn(phase: GuardPhase): readonly AskedService[] {
    const { services } = this.#deps
    if (!services) return NO_SERVICES
    return this.#checks.flatMap(({ rule }) => {
      const ask = rule.on.includes(phase) ? services(rule) : null
      return ask ? { rule, ask } : []
    })
  }

  /** Asks all services at the same time, about the texts as the rules before them have left them. */
  async #ask(
    services: readonly AskService[],
    texts: readonly RequestText[],
    own: GuardVerdict | null,
  ): Promise<GuardVerdict | null> {
    if (own && !('replace' in own)) return own
    const masked = own?.replace ?? new Map<string, string>()
    const shown = texts.map((one) => ({ ...one, text: masked.get(one.text) ?? one.text }))
    const about = { phase: 'request', final: true } as const
    const answers = await Promise.all(services.map((ask) => ask(shown, this.#call, about)))
    const spans = new Map<string, ServiceSpan[]>()
    for (const { verdict, spans: found = [] } of answers) {
      if (verdict) this.#call.note(verdict)
      for (const span of found) spans.set(span.text, [...(spans.get(span.text) ?? []), span])
    }
    const refuse = answers.find((answer) => answer.refuse)?.refuse
    if (refuse) return { refuse }
    const replaced = new Map([...answers.flatMap(({ replace }) => [...(replace ?? [])]), ...this.#replaced(spans)])
    const replace = new Map<string, string>()
    for (const [at, { text }] of texts.entries()) {
      const before = shown[at]?.text ?? text
      const after = replaced.get(before) ?? before
      if (after !== text) replace.set(text, after)
    }
    return replace.size === 0 ? null : { replace }
  }
}
