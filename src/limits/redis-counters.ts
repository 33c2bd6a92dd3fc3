/**
 * Limits and budgets that several gateways count together in Redis: runs the operations of this gateway's processes. While
 * Redis does not answer, what they admit by themselves is counted here, and stored in Redis as soon as it answers.
 */
import type { Budget } from '../core/accounts.ts'
import { budgetCharge, type CounterSpend } from '../core/journal.ts'
import { addNano, type Nano } from '../core/money.ts'
import type { CounterFigures, SpentSum } from '../gateway/accounts/budget-counters.ts'
import type { Charge } from '../policy/accounts/attempt-admission.ts'
import { chargedCost } from '../policy/accounts/charge.ts'
import { digestOf, isPlain, ownersKey } from './counter-keys.ts'
import type { CounterAnswer, CounterClaim, CounterOperation, CounterValues } from './counter-messages.ts'
import type { CountersThreadOptions, FromCountersThread, NodeSpent } from './counters-thread-messages.ts'
import {
  type ClaimedCounters,
  OwnCounters,
  type SharedBudget,
  type SharedHold,
  type SharedRate,
  type SharedSlot,
} from './own-counters.ts'
import { RedisLink } from './redis-link.ts'
import { SCRIPTS } from './scripts.ts'
import { verdictOf } from './verdict.ts'

/** What one process has reserved, by ticket. */
type ProcessHolds = {
  readonly source: number
  /** Attempts that are not settled. */
  readonly attempts: Map<number, SharedHold>
  /** Requests that occupy slots. */
  readonly slots: Map<number, readonly SharedSlot[]>
  /** Reservations that Redis has not answered. */
  readonly pending: Map<number, PendingClaim>
  /** Other questions without an answer, with the answer that they get if there is none. */
  readonly questions: Set<CounterAnswer>
  /** What its attempts were charged, by counter and period. */
  readonly charged: Map<string, { readonly periodEnd: number; sum: Nano }>
  /** The ticket of its last `take` that is counted. */
  taken: number
}

type PendingClaim = {
  readonly held: ProcessHolds
  readonly ticket: number
  readonly kind: 'reserve' | 'check' | 'take'
  readonly claim: CounterClaim
  /** It was settled or released before the answer. */
  charge: Charge | null
  isReleased: boolean
}

/** Counters in one script, in one batch, in an answer about one budget, and sums of charges of one process. */
const MOST = { script: 50, batch: 500, states: 10_000, charged: 10_000 }
/** ms: between two renewals of slots, between two reports of times, and after a flush in which others may not be counted. */
const TIMES = { renewal: 60_000, report: 1_000, settling: 5_000 }
const DAY = 86_400_000
const UNUSED = { refusal: null, exceeded: [], counters: null, states: null } as const
const NOTHING = { tokens: 0, cost: 0 }

export class RedisCounters {
  readonly #post: (message: FromCountersThread) => void
  readonly #own = new OwnCounters({ now: () => performance.now(), date: () => Date.now() })
  readonly #link: RedisLink
  readonly #held = new Map<number, ProcessHolds>()
  /** Ended processes whose spending is not known yet. */
  readonly #ended = new Map<number, ProcessHolds>()
  #answers = new Map<ProcessHolds, CounterAnswer[]>()
  #isTakenDue = false
  #times: number[] = []
  #timesAt = 0
  /** When the process has joined. */
  #restoredAt = Number.NEGATIVE_INFINITY
  /** As reported last. */
  #shares = 0
  /** Where the next refresh of figures begins. */
  #refreshFrom = 0
  /** What other nodes have spent, as the ledger says. */
  #adopted: readonly NodeSpent[] = []
  #renewAt = 0

  constructor({ url, node, shares, budgets }: CountersThreadOptions, post: (message: FromCountersThread) => void) {
    this.#post = post
    this.#own.setBudgets(budgets)
    this.#link = new RedisLink({
      url,
      node,
      shares,
      onJoined: () => this.#restore(),
      onLost: (problem) => this.#onLost(problem),
      onBeat: () => this.#refresh(),
      onTime: (ms) => this.#noteTime(ms),
    })
  }

  setBudgets(budgets: readonly Budget[]): void {
    this.#own.setBudgets(budgets)
  }

  /** Runs operations in their order. */
  run(source: number, operations: readonly CounterOperation[]): void {
    const held = this.#heldBy(source)
    for (const operation of operations) this.#runOne(held, operation)
  }

  /** What this node has spent at least. Less than is known changes nothing. */
  raise(sums: readonly SpentSum[]): void {
    const raised = sums.flatMap((sum) => {
      const counter = this.#own.budgetOf(sum)
      if (!counter || (counter.spent !== 0 && counter.spent >= sum.spent)) return []
      counter.spent = sum.spent
      return [counter]
    })
    this.#show(raised)
    this.#inTurn(raised, (part, next) => this.#sendBudgets(part, false, next))
    this.#readFigures(raised)
  }

  /** What other nodes have spent. It counts if they have not stored it themselves. */
  adopt(sums: readonly NodeSpent[]): void {
    this.#adopted = sums
    this.#sendAdopted()
  }

  /** Adds corrections, or what an ended process has spent. */
  add(sums: readonly SpentSum[]): void {
    for (const sum of sums) {
      const counter = sum.spent === 0 ? null : this.#own.budgetOf(sum)
      if (!counter) continue
      counter.spent = addNano(counter.spent, sum.spent)
      const args = [sum.spent, this.#own.lifeOf(counter), counter.spent]
      this.#link.call(SCRIPTS.adjust, [counter.key], args, () => {})
      this.#list(counter)
      this.#show([counter])
      this.#readFigures([counter])
    }
  }

  /** A process has ended: its slots are free. Its reservations are kept until `spent`. */
  exit(source: number): void {
    const held = this.#held.get(source)
    this.#held.delete(source)
    if (!held) return
    for (const pending of held.pending.values()) {
      pending.charge = NOTHING
      pending.isReleased = true
    }
    for (const slots of held.slots.values()) this.#releaseSlots(slots)
    held.questions.clear()
    this.#ended.set(source, held)
  }

  /** What an ended process has spent in all; null: unknown. */
  spent(source: number, spends: readonly CounterSpend[] | null): void {
    const held = this.#ended.get(source)
    this.#ended.delete(source)
    if (!held) return
    for (const attempt of held.attempts.values())
      this.#settle(held, attempt, { tokens: attempt.hold.tokens, cost: spends ? 0 : null })
    // What it has settled last, or was about to, may be missing here but not in its journal.
    this.add(
      (spends ?? []).map(({ counter, periodStart, spent }) => ({
        counter,
        period_start: periodStart,
        spent: spent - (held.charged.get(budgetCharge(counter, periodStart))?.sum ?? 0),
      })),
    )
  }

  /** Leaves Redis: what is in progress counts no more. */
  close(): Promise<void> {
    return this.#link.close()
  }

  // ── Operations ─────────────────────────────────────────────────────────────────────────────────────────────────

  #heldBy(source: number): ProcessHolds {
    const known = this.#held.get(source)
    if (known) return known
    const maps = { attempts: new Map(), slots: new Map(), pending: new Map(), charged: new Map() }
    const held = { source, ...maps, questions: new Set<CounterAnswer>(), taken: 0 }
    this.#held.set(source, held)
    return held
  }

  #runOne(held: ProcessHolds, operation: CounterOperation): void {
    const { ticket } = operation
    switch (operation.do) {
      case 'reserve':
      case 'check':
      case 'take':
        return this.#ask({ held, ticket, kind: operation.do, claim: operation.claim, charge: null, isReleased: false })
      case 'extend':
        return this.#extend(held, operation)
      case 'settle': {
        const pending = held.pending.get(ticket)
        if (pending) pending.charge = operation.charge
        const attempt = held.attempts.get(ticket)
        held.attempts.delete(ticket)
        if (attempt) this.#settle(held, attempt, operation.charge)
        return
      }
      case 'release': {
        const pending = held.pending.get(ticket)
        if (pending) pending.isReleased = true
        const slots = held.slots.get(ticket)
        held.slots.delete(ticket)
        if (slots) this.#releaseSlots(slots)
        return
      }
      case 'states':
        return this.#states(held, ticket)
      default:
        throw new Error(`unknown operation ${JSON.stringify(operation satisfies never)}`)
    }
  }

  /** Without Redis there is no answer: the process knows that it is alone. */
  #ask(pending: PendingClaim): void {
    if (this.#link.isUsed) {
      pending.held.pending.set(pending.ticket, pending)
      this.#send(pending)
    } else if (pending.kind === 'take') this.#takeAlone(pending)
  }

  #send(pending: PendingClaim): void {
    const { kind, claim } = pending
    const found = this.#own.find(claim)
    const { slots, rates } = found
    const budgets = found.budgets.filter((counter) => counter !== null)
    const { first, tokens, cost } = claim.demand
    const args = [
      kind === 'check' ? 'check' : 'reserve',
      first ? 1 : 0,
      tokens,
      cost,
      slots.length,
      rates.length,
      budgets.length,
      ...slots.map(({ limit }) => limit),
      ...rates.flatMap((rate) => [rate.unit, rate.perMinute, this.#own.levelOf(rate)]),
      ...budgets.flatMap((counter) => this.#budgetArgs(counter)),
    ]
    const done = (reply: readonly string[]) => this.#onReply(pending, found, reply)
    this.#link.call(SCRIPTS.reserve, keysOf(slots, rates, budgets), args, done)
  }

  #budgetArgs(counter: SharedBudget): readonly (string | number)[] {
    const { budget, spent, others } = counter
    const isSettling = performance.now() < this.#restoredAt + TIMES.settling
    const least = isSettling ? Math.max(0, others.used + others.held) : 0
    return [budget.mode, budget.amount, this.#own.lifeOf(counter), spent, least]
  }

  #onReply(pending: PendingClaim, found: ClaimedCounters, [verdict, ...values]: readonly string[]): void {
    const { held, ticket, kind, claim } = pending
    // It was answered under an earlier name of this process.
    if (!held.pending.delete(ticket)) return
    const isTaken = verdict === 'yes' && kind !== 'check'
    const figures = this.#takeOver(found, values.map(Number))
    // Without room, what was admitted already reserves nothing but is charged when it is settled.
    if (isTaken) this.#grant(pending, found, claim.demand)
    else if (kind === 'take') this.#grant(pending, { ...found, slots: [] }, NOTHING)
    if (kind === 'take') return this.#noteTaken(held, ticket)
    this.#answer(held, {
      ...UNUSED,
      ticket,
      ...verdictOf(found, claim.demand, figures, verdict === 'yes'),
      counters: figures,
    })
  }

  #grant(
    { held, ticket, claim, charge, isReleased }: PendingClaim,
    found: ClaimedCounters,
    { tokens, cost }: SharedHold['hold'],
  ) {
    this.#own.hold(found, cost)
    for (const counter of found.budgets) if (counter) this.#list(counter)
    const attempt = { ...found, hold: { tokens, cost } }
    if (charge) this.#settle(held, attempt, charge)
    else held.attempts.set(ticket, attempt)
    if (!claim.demand.first || found.slots.length === 0) return
    for (const slot of found.slots) slot.live++
    if (isReleased) this.#releaseSlots(found.slots)
    else held.slots.set(ticket, found.slots)
  }

  /** The request was admitted from a share while Redis did not answer. */
  #takeAlone(pending: PendingClaim): void {
    const { held, ticket, claim } = pending
    const found = this.#own.find(claim)
    const { first, tokens } = claim.demand
    for (const rate of found.rates) this.#own.owe(rate, rate.unit === 'tokens' ? tokens : first ? 1 : 0)
    held.taken = ticket
    this.#grant(pending, found, claim.demand)
  }

  #extend(held: ProcessHolds, { ticket, of, more }: Extract<CounterOperation, { do: 'extend' }>): void {
    const attempt = held.attempts.get(of)
    if (!attempt) return this.#answer(held, { ...UNUSED, ticket })
    const budgets = attempt.budgets.filter((counter) => counter !== null)
    const found = { slots: [], rates: [], budgets }
    const demand = { first: false, tokens: 0, cost: more }
    const args = ['reserve', 0, 0, more, 0, 0, budgets.length, ...budgets.flatMap((one) => this.#budgetArgs(one))]
    const question = this.#question(held, { ...UNUSED, ticket })
    this.#link.call(SCRIPTS.reserve, keysOf([], [], budgets), args, ([verdict, ...values]) => {
      held.questions.delete(question)
      const figures = this.#takeOver(found, values.map(Number))
      if (verdict === 'yes') {
        this.#own.hold(found, more)
        // It may have been settled meanwhile.
        if (held.attempts.get(of) === attempt) attempt.hold = { ...attempt.hold, cost: attempt.hold.cost + more }
        else this.#replace({ ...found, hold: { tokens: 0, cost: more } }, NOTHING)
      }
      this.#answer(held, { ...question, refusal: verdictOf(found, demand, figures, verdict === 'yes').refusal })
    })
  }

  #settle(held: ProcessHolds, attempt: SharedHold, charge: Charge): void {
    const { charged } = held
    const cost = chargedCost(charge.cost, attempt.hold.cost)
    for (const counter of cost === 0 ? [] : attempt.budgets) {
      if (!counter) continue
      const { id, owner, periodStart, periodEnd } = counter
      const name = budgetCharge(`${id}:${owner}`, periodStart)
      const known = charged.get(name)
      if (known) known.sum += cost
      else charged.set(name, { periodEnd, sum: cost })
    }
    if (charged.size > MOST.charged) {
      const old = Date.now() - DAY
      for (const [name, { periodEnd }] of charged) if (periodEnd < old) charged.delete(name)
    }
    this.#replace(attempt, { tokens: charge.tokens, cost })
  }

  /** Replaces what an attempt has taken by its charge. */
  #replace(attempt: SharedHold, charge: { readonly tokens: number; readonly cost: Nano }): void {
    const { hold } = attempt
    this.#own.settle(attempt, charge)
    const tokens = charge.tokens - hold.tokens
    const rates = tokens === 0 ? [] : attempt.rates.filter(({ unit }) => unit === 'tokens')
    const isPaid = hold.cost !== 0 || charge.cost !== 0
    const budgets = isPaid ? attempt.budgets.filter((counter) => counter !== null) : []
    if (!this.#link.isJoined) for (const rate of rates) this.#own.owe(rate, tokens)
    if (rates.length + budgets.length === 0) return
    const args = [
      tokens,
      hold.cost,
      charge.cost,
      rates.length,
      budgets.length,
      ...rates.flatMap((rate) => [rate.perMinute, this.#own.levelOf(rate)]),
      ...budgets.flatMap((counter) => [this.#own.lifeOf(counter), counter.spent]),
    ]
    this.#link.call(SCRIPTS.settle, keysOf([], rates, budgets), args, () => {})
  }

  #releaseSlots(slots: readonly SharedSlot[]): void {
    for (const slot of slots) slot.live = Math.max(0, slot.live - 1)
    this.#link.call(SCRIPTS.release, keysOf(slots, [], []), [], () => {})
  }

  /** Takes over the values of an answer, and returns them for the process. */
  #takeOver({ slots, rates, budgets }: ClaimedCounters, values: readonly number[]): CounterValues {
    let at = 0
    const next = () => values[at++] ?? 0
    return {
      slots: slots.map(() => next()),
      rates: rates.map((rate) => {
        const level = next()
        this.#own.setLevel(rate, level)
        return level
      }),
      budgets: budgets.map((counter) => {
        if (!counter) return null
        const all = [next(), next()] as const
        counter.others = { used: next(), held: next() }
        return all
      }),
    }
  }

  // ── Answers ────────────────────────────────────────────────────────────────────────────────────────────────────

  #question(held: ProcessHolds, answer: CounterAnswer): CounterAnswer {
    held.questions.add(answer)
    return answer
  }

  /** Answers of one turn are one message. */
  #answer(held: ProcessHolds, answer: CounterAnswer): void {
    if (this.#answers.size === 0) queueMicrotask(() => this.#sendAnswers())
    const answers = this.#answers.get(held)
    if (answers) answers.push(answer)
    else this.#answers.set(held, [answer])
  }

  #sendAnswers(): void {
    const answers = this.#answers
    this.#answers = new Map()
    for (const [{ source }, list] of answers) this.#post({ do: 'answers', source, answers: list })
  }

  #noteTaken(held: ProcessHolds, ticket: number): void {
    held.taken = ticket
    if (this.#isTakenDue) return
    this.#isTakenDue = true
    queueMicrotask(() => {
      this.#isTakenDue = false
      this.#postFigures([])
    })
  }

  #postFigures(figures: readonly CounterFigures[]): void {
    const taken = [...this.#held.values()].map((held) => [held.source, held.taken] as const)
    this.#post({ do: 'figures', figures, taken })
  }

  /** Reports figures that have changed since they were reported last. */
  #show(counters: readonly SharedBudget[]): void {
    const changed = counters.flatMap((counter) => {
      const figures = this.#own.figuresOf(counter)
      const shown = `${figures.spent} ${figures.reserved}`
      if (shown === counter.shown) return []
      counter.shown = shown
      return [figures]
    })
    if (changed.length > 0) this.#postFigures(changed)
  }

  /** Reads the figures of some counters, the rest of them later, and renews the slots of long requests. */
  #refresh(): void {
    if (this.#link.shares !== this.#shares) this.#postState(null)
    const now = Date.now()
    const current = [...this.#own.budgets.values()].filter(({ periodEnd }) => now < periodEnd)
    if (this.#refreshFrom >= current.length) this.#refreshFrom = 0
    const counters = current.slice(this.#refreshFrom, this.#refreshFrom + MOST.batch)
    this.#refreshFrom += MOST.batch
    // It also shows the processes that Redis answers.
    this.#readFigures(counters, () => this.#postFigures([]))
    if (performance.now() < this.#renewAt) return
    this.#renewAt = performance.now() + TIMES.renewal
    const live = [...this.#own.slots.values()].filter((slot) => slot.live > 0)
    this.#inTurn(live, (part, next) => this.#link.call(SCRIPTS.keep, keysOf(part, [], []), [], next))
  }

  /** Reads figures and reports those that have changed. */
  #readFigures(counters: readonly SharedBudget[], done: () => void = () => {}): void {
    this.#inTurn(
      counters,
      (part, next) =>
        this.#link.call(SCRIPTS.figures, keysOf([], [], part), [], ([, ...values]) => {
          for (const [at, counter] of part.entries())
            counter.others = { used: Number(values[2 * at]), held: Number(values[2 * at + 1]) }
          this.#show(part)
          next()
        }),
      done,
    )
  }

  /** The figures of all counters in their current periods, also of those that only other gateways use. */
  #states(held: ProcessHolds, ticket: number): void {
    const periods = this.#own.periods()
    const starts = new Map(periods.map(({ budget, start }) => [budget.id, start]))
    const current = () => {
      const all = [...this.#own.budgets.values()].filter(({ id, periodStart }) => starts.get(id) === periodStart)
      return [...Map.groupBy(all, ({ id }) => id).values()].flatMap((of) => of.slice(0, MOST.states))
    }
    for (const { budget, start } of periods) if (budget.per === 'all') this.#own.budget(budget.id, '', start)
    if (!this.#link.isUsed) return
    const states = () => current().map((counter) => this.#own.figuresOf(counter))
    const question = this.#question(held, { ...UNUSED, ticket, states: states() })
    const named = periods.filter(({ budget }) => budget.per === 'team' || budget.per === 'key')
    const keys = named.map(({ budget, start }) => ownersKey(budget.id, start))
    this.#link.call(SCRIPTS.owners, keys, [], ([, ...lists]) => {
      for (const [at, { budget, start }] of named.entries())
        for (const owner of (lists[at] ?? '').split(' ')) if (owner !== '') this.#own.budget(budget.id, owner, start)
      this.#readFigures(current(), () => {
        held.questions.delete(question)
        this.#answer(held, { ...question, states: states() })
      })
    })
  }

  /** Other gateways find the owner of a counter by its ID. */
  #list(counter: SharedBudget): void {
    const { id, owner, periodStart } = counter
    if (counter.isListed || owner === '' || !isPlain(owner)) return
    const args = [this.#own.lifeOf(counter), owner]
    this.#link.call(SCRIPTS.owned, [ownersKey(id, periodStart)], args, () => {
      counter.isListed = true
    })
  }

  // ── Redis ──────────────────────────────────────────────────────────────────────────────────────────────────────

  #onLost(problem: string): void {
    for (const held of [...this.#held.values(), ...this.#ended.values()]) {
      const pending = [...held.pending.values()]
      held.pending.clear()
      held.questions.clear()
      for (const one of pending) if (one.kind === 'take') this.#takeAlone(one)
    }
    this.#postState(problem)
  }

  #postState(problem: string | null): void {
    this.#shares = this.#link.shares
    this.#post({ do: 'state', problem, shares: this.#shares })
  }

  /** The process has joined: Redis has nothing of what it has in progress, and may have lost the rest. */
  #restore(): void {
    const { slots, rates, budgets } = this.#own
    this.#restoredAt = performance.now()
    const live = [...slots.values()].filter((slot) => slot.live > 0)
    const owed = [...rates.values()].filter((rate) => rate.owed !== 0)
    const used = [...budgets.values()].filter(({ spent, held }) => spent !== 0 || held !== 0)
    for (const counter of used) counter.isListed = false
    this.#inTurn(live, (part, next) => this.#sendSlots(part, next))
    this.#inTurn(owed, (part, next) => this.#sendRates(part, next))
    this.#inTurn(
      used.sort((a, b) => b.held - a.held),
      (part, next) => this.#sendBudgets(part, true, next),
    )
    this.#sendAdopted()
    for (const held of [...this.#held.values(), ...this.#ended.values()]) {
      for (const pending of held.pending.values()) this.#send(pending)
      for (const question of held.questions) this.#answer(held, question)
      held.questions.clear()
    }
    const now = Date.now()
    const current = [...budgets.values()].filter(({ periodEnd }) => now < periodEnd)
    this.#readFigures(current.slice(0, MOST.batch), () => {
      this.#postState(null)
      this.#postFigures([])
    })
  }

  #sendSlots(slots: readonly SharedSlot[], next: () => void): void {
    const args = [slots.length, 0, 0, ...slots.map(({ live }) => live)]
    this.#link.call(SCRIPTS.restore, keysOf(slots, [], []), args, next)
  }

  #sendRates(rates: readonly SharedRate[], next: () => void): void {
    const sent = rates.map((rate) => ({ rate, owed: rate.owed, known: this.#own.levelOf(rate) + rate.owed }))
    const args = [0, rates.length, 0, ...sent.flatMap(({ rate, owed, known }) => [rate.perMinute, known, owed])]
    this.#link.call(SCRIPTS.restore, keysOf([], rates, []), args, () => {
      for (const { rate, owed } of sent) rate.owed -= owed
      next()
    })
  }

  /** `isNew`: Redis does not have what this process has reserved. */
  #sendBudgets(budgets: readonly SharedBudget[], isNew: boolean, next: () => void): void {
    const args = budgets.flatMap((one) => [this.#own.lifeOf(one), one.spent, isNew ? one.held : 0])
    this.#link.call(SCRIPTS.restore, keysOf([], [], budgets), [0, 0, budgets.length, ...args], next)
    for (const counter of budgets) this.#list(counter)
  }

  #sendAdopted(): void {
    const found = this.#adopted.flatMap(({ node, spent, ...sum }) => {
      const counter = spent === 0 ? null : this.#own.budgetOf(sum)
      return counter ? [{ key: counter.key, args: [this.#own.lifeOf(counter), digestOf(node), spent] }] : []
    })
    this.#inTurn(found, (part, next) => {
      const args = part.flatMap((one) => one.args)
      this.#link.call(SCRIPTS.adopt, keysOf([], [], part), args, next)
    })
  }

  /** Sends a batch of parts after the answer to the one before. `done`: after the last of them. */
  #inTurn<T>(items: readonly T[], send: (part: readonly T[], next: () => void) => void, done = () => {}): void {
    if (items.length === 0) return done()
    const batch = items.slice(0, MOST.batch)
    let open = Math.ceil(batch.length / MOST.script)
    const next = () => {
      if (--open === 0) this.#inTurn(items.slice(MOST.batch), send, done)
    }
    for (let at = 0; at < batch.length; at += MOST.script) send(batch.slice(at, at + MOST.script), next)
  }

  #noteTime(ms: number): void {
    this.#times.push(ms)
    const now = performance.now()
    if (now < this.#timesAt) return
    this.#timesAt = now + TIMES.report
    this.#post({ do: 'times', times: this.#times.splice(0) })
  }
}

type Keyed = { readonly key: string }

const keysOf = (slots: readonly Keyed[], rates: readonly Keyed[], budgets: readonly Keyed[]): readonly string[] =>
  [...slots, ...rates, ...budgets].map(({ key }) => key)
