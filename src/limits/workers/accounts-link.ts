/** Limits, budgets and usage in a worker: messages to the supervisor, which has them for all workers. */

import type { CounterStore, LeaseReply } from '../../gateway/accounts/counter-store.ts'
import type { Adjusted, Adjustment } from '../../usage/bookkeeper/ledger-store.ts'
import type { BookkeeperProgress } from '../../usage/bookkeeper/progress.ts'
import type { SharedBookkeeper } from '../../usage/bookkeeper/usage-ledger.ts'
import type {
  AccountsFromSupervisor,
  AccountsFromWorker,
  SentBudgetRules,
  SharedLedgerAnswer,
  SharedLedgerQuery,
  SharedLimitsStore,
} from './account-messages.ts'

/** ms for the bookkeeper to store the journal. */
const LEDGER_TIMEOUT = 10_000
/** ms for the supervisor to count what was spent earlier; longer than it waits for the bookkeeper. */
const BUDGETS_TIMEOUT = 40_000
/** ms for the counters of the supervisor, beyond the time limit of a shared store. It decides at once: only a stopped process is late. */
const LEASE_TIMEOUT = 3_000
const LATE = 'the process that stores usage does not respond'
const NO_COUNTERS = 'the process that has the counters does not respond'

export class AccountsLink implements SharedBookkeeper {
  /** The counters of all workers. */
  readonly store: CounterStore = {
    lease: async (asks) => {
      const { reply } = (await this.#ask('leased', this.#limit, (id) => ({ type: 'lease', id, asks }))) ?? NO_REPLY
      this.#onReply(reply.problem)
      return reply
    },
    read: (counters) => this.#totals('store', counters),
    spent: (counters) => this.#totals('ledger', counters),
    known: async () => (await this.#ask('known', this.#limit, (id) => ({ type: 'lease_known', id })))?.counters ?? [],
  }
  readonly #send: (message: AccountsFromWorker) => void
  /** ms for an answer about counters. */
  #limit = LEASE_TIMEOUT
  #onReply: (problem: string | null) => void = () => {}
  /** Questions without an answer. Null: there is none. */
  readonly #open = new Map<number, (answer: Answer | null) => void>()
  #count = 0
  /** The budgets that the supervisor has, as JSON. */
  #budgets = JSON.stringify({ budgets: [], whenUnknown: 'refuse' } satisfies SentBudgetRules)
  #counting: Promise<string | null> = Promise.resolve(null)

  constructor(send: (message: AccountsFromWorker) => void) {
    this.#send = send
  }

  /** Other gateways share the limits. `onReply`: receives why their store cannot be used after each exchange, or null. */
  shareLimits(store: SharedLimitsStore, onReply: (problem: string | null) => void): void {
    this.#limit = LEASE_TIMEOUT + store.timeout
    this.#onReply = onReply
    this.#send({ type: 'shared_limits', ...store })
  }

  /** The worker records usage from now on, or the retention has changed. */
  openLedger(ledger: Omit<Extract<AccountsFromWorker, { type: 'ledger' }>, 'type'>): void {
    this.#send({ type: 'ledger', ...ledger })
  }

  journalProblem(problem: string | null): void {
    this.#send({ type: 'journal_problem', problem })
  }

  /**
   * Sends the budgets if they have changed. Resolves when what was spent of them earlier is counted, with the reason if it
   * cannot be.
   */
  setBudgets(rules: SentBudgetRules): Promise<string | null> {
    const text = JSON.stringify(rules)
    if (text === this.#budgets) return this.#counting
    this.#budgets = text
    const sent = this.#ask('budgets_counted', BUDGETS_TIMEOUT, (id) => ({ type: 'budgets', id, ...rules }))
    this.#counting = sent.then((answer) => (answer ? answer.problem : LATE))
    return this.#counting
  }

  async flush(): Promise<string | null> {
    const answer = await this.#queryLedger({ do: 'flush' })
    if (!answer) return LATE
    return 'value' in answer && typeof answer.value === 'string' ? answer.value : null
  }

  async adjust(adjustment: Adjustment): Promise<Adjusted | string> {
    const answer = await this.#queryLedger({ do: 'adjust', adjustment })
    return (answer && 'value' in answer ? answer.value : null) ?? LATE
  }

  async telemetry(): Promise<BookkeeperProgress['telemetry'] | null> {
    const answer = await this.#queryLedger({ do: 'telemetry' })
    return answer && 'telemetry' in answer ? answer.telemetry : null
  }

  onMessage(message: Answer): void {
    this.#open.get(message.id)?.(message)
  }

  /** The supervisor has ended. */
  onDisconnect(): void {
    for (const done of this.#open.values()) done(null)
  }

  async #totals(of: 'store' | 'ledger', counters: readonly string[]): ReturnType<CounterStore['read']> {
    return (
      (await this.#ask('totals', this.#limit, (id) => ({ type: 'lease_totals', id, of, counters })))?.totals ?? null
    )
  }

  async #queryLedger(query: SharedLedgerQuery): Promise<SharedLedgerAnswer | null> {
    const found = await this.#ask('ledger_answer', LEDGER_TIMEOUT, (id) => ({ type: 'ledger_query', id, query }))
    return found?.answer ?? null
  }

  /** `type`: of the answer. Null: there was none within `limit` ms. */
  #ask<T extends Answer['type']>(
    type: T,
    limit: number,
    question: (id: number) => AccountsFromWorker,
  ): Promise<Extract<Answer, { type: T }> | null> {
    const id = ++this.#count
    return new Promise((resolve) => {
      const done = (answer: Answer | null) => {
        clearTimeout(timer)
        this.#open.delete(id)
        resolve(answer && isOf(answer, type) ? answer : null)
      }
      // An answer that has arrived while this process was busy is read first.
      const timer = setTimeout(() => setImmediate(done, null), limit)
      this.#open.set(id, done)
      this.#send(question(id))
    })
  }
}

type Answer = Exclude<AccountsFromSupervisor, { type: 'ledger_state' }>

const isOf = <T extends Answer['type']>(answer: Answer, type: T): answer is Extract<Answer, { type: T }> =>
  answer.type === type

const NO_REPLY: { readonly reply: LeaseReply } = {
  reply: { problem: NO_COUNTERS, peers: 0, epoch: '', answers: [] },
}
