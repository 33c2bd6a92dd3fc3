/**
 * The client's limits and budgets, a journal in memory, and the check that nothing is left reserved or charged twice. For a
 * part of the seeds the budget and the slots have room for few requests at once, so that some are refused.
 */
import type { Budget, Client } from '../../src/core/accounts.ts'
import { chargesIn, type JournalRecord, parseCharge } from '../../src/core/journal.ts'
import type { World } from '../../src/core/world.ts'
import { Accounts } from '../../src/gateway/accounts/accounts.ts'
import { budgetScope } from '../../src/policy/accounts/budget-scope.ts'
import type { PriceBook } from '../../src/policy/accounts/price-book.ts'
import { sessionLetters } from '../../src/server/session-letters.ts'
import { memoryJournal, testBudget, testClient } from '../../test/support/accounts.ts'
import { type Chance, integer, pick } from './chance.ts'

const RULES = {
  maxOutput: 32_768,
  unknownPrice: 'allow',
  whenUnknown: 'serve',
  endUser: true,
  guessSessions: false,
} as const

/** More than all requests of a seed need. */
const PLENTY = 1_000_000_000_000
const HARD = 'bud_hard'
/** More than one attempt reserves: 1,024 or 32,768 tokens of output at 40 nano-dollars, and its input. */
const RESERVED = { typical: 50_000, max: 1_400_000 } as const
/** The input that an upstream bills for an answer (test/support/answers.ts). */
const BILLED_INPUT = 9

export class SimAccounts {
  readonly accounts: Accounts
  readonly client: Client
  readonly #clients = new Map<string, Client>()
  readonly #records: readonly JournalRecord[]
  #credited = 0
  /** The journal accepts what waits for the end of the turn. */
  readonly endTurn: () => void

  constructor(chance: Chance, world: World, prices: PriceBook) {
    const { journal, records, endTurn } = memoryJournal(world)
    this.#records = records
    this.endTurn = endTurn
    const per = pick<Budget['per']>(chance, ['all', 'key', 'team'])
    const onOverrun = pick<Budget['onOverrun']>(chance, ['finish', 'cut'])
    const reserve = pick<Budget['reserve']>(chance, ['typical', 'max'])
    const hasJournal = chance() < 0.7
    const amount = chance() < 0.2 ? RESERVED[reserve] * integer(chance, 1, 3) : PLENTY
    const concurrent = chance() < 0.1 ? integer(chance, 1, 3) : 1_000
    const scopes = [
      testBudget(amount, { id: HARD, period: 'total', per, onOverrun, reserve }),
      testBudget(1_000, { id: 'bud_soft', period: 'total', mode: 'soft' }),
    ].map(budgetScope)
    this.client = testClient({ requestsPerMinute: 1_000_000, tokensPerMinute: PLENTY, concurrent })
    this.accounts = new Accounts({
      world,
      budgets: () => scopes,
      prices: () => prices,
      journal: () => (hasJournal ? journal : null),
      rules: () => RULES,
      sessionLetters,
    })
    if (!hasJournal) this.#records = []
  }

  /** The client that owns what is stored under a name. All have the same key, limits and budgets. */
  clientOf(owner: string): Client {
    const client = this.#clients.get(owner) ?? { ...this.client, owner }
    this.#clients.set(owner, client)
    return client
  }

  /** Returns what the hard budget has spent, so that it has room for the next request. */
  credit(): void {
    for (const { budget, owner, periodStart, spent } of this.accounts.budgetStates()) {
      if (budget.id !== HARD) continue
      this.#credited += spent
      this.accounts.adjust({ counter: `${HARD}:${owner}`, period_start: periodStart, spent: -spent })
    }
  }

  /** What is wrong when no request is in progress. `billed`: the output tokens of the answers to a request. */
  problems(billed: (request: string) => readonly number[]): readonly string[] {
    const problems: string[] = []
    const states = this.accounts.budgetStates()
    for (const { budget, reserved } of states)
      if (reserved !== 0) problems.push(`${budget.id} has ${reserved} reserved`)
    for (const { live } of this.accounts.limitsOf(this.client).slots)
      if (live !== 0) problems.push(`${live} slots are in use`)
    const records = this.#records
    if (records.length === 0) return problems
    const charges = new Map<string, number>()
    const closed = new Map(records.flatMap((one) => (one.type === 'attempt_closed' ? [[nameOf(one), one]] : [])))
    const count = (type: JournalRecord['type']) => records.filter((one) => one.type === type).length
    if (count('attempt_closed') !== closed.size) problems.push('an attempt was closed twice')
    if (count('attempt_opened') !== closed.size) problems.push('an attempt was not closed')
    const ends = records.flatMap((one) => (one.type === 'request_ended' ? [one.call] : []))
    if (new Set(ends).size !== ends.length) problems.push('a request was ended twice')
    for (const one of records) {
      if (one.type !== 'attempt_opened') continue
      const end = closed.get(nameOf(one))
      const cost = end?.cost ?? one.reserved
      if (end?.outcome === 'ok' && end.usageSource === 'exact' && !isBilled(end.tokens, billed(one.request)))
        problems.push(`${one.request} is charged with ${end.tokens.input} and ${end.tokens.output} tokens`)
      for (const { counter } of chargesIn(one.charges).map(parseCharge))
        charges.set(counter, (charges.get(counter) ?? 0) + cost)
    }
    for (const { budget, owner, spent } of states) {
      const charged = (charges.get(`${budget.id}:${owner}`) ?? 0) - (budget.id === HARD ? this.#credited : 0)
      if (spent !== charged) problems.push(`${budget.id} has spent ${spent}, but its attempts cost ${charged}`)
    }
    return problems
  }
}

/** Anthropic's streams count one token before the first, which stays if the answer is empty. */
const isBilled = ({ input, output }: Tokens, billed: readonly number[]): boolean =>
  input === BILLED_INPUT && (billed.includes(output) || (output === 1 && billed.includes(0)))

type Tokens = { readonly input: number; readonly output: number }

const nameOf = ({ call, attempt }: { readonly call: number; readonly attempt: number }): string => `${call} ${attempt}`
