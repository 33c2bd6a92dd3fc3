/** Limits, budgets and usage in a worker: messages to the supervisor, which has them for all workers. */

import type { CounterStore, CounterTotals, LeaseReply } from '../../gateway/accounts/counter-store.ts'
import type { Adjusted, Adjustment } from '../../usage/bookkeeper/ledger-store.ts'
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
/** ms for the counters of the supervisor, beyond the time limit of a store that gateways share. It decides at once: only a stopped process is late. */
const LEASE_TIMEOUT = 3_000
const LATE = 'the process that stores usage does not respond'
const NO_COUNTERS = 'the process that has the counters does not respond'

export class AccountsLink implements SharedBookkeeper {
  /** The counters of all workers. */
  readonly store: CounterStore = {
    lease: async (asks) => {
      const reply = await this.#exchange(this.#leasing, NO_REPLY, (id) => this.#send({ type: 'lease', id, asks }))
      this.#onReply(reply.problem)
      return reply
    },
    read: (counters) => this.#totals('store', counters),
    spent: (counters) => this.#totals('ledger', counters),
    known: () => this.#exchange(this.#listing, [], (id) => this.#send({ type: 'lease_known', id })),
  }
  readonly #send: (message: AccountsFromWorker) => void
  /** ms for an answer of the store that gateways share. */
  #timeout = 0
  #onReply: (problem: string | null) => void = () => {}
  readonly #queries = new Map<number, (answer: SharedLedgerAnswer) => void>()
  readonly #leasing = new Map<number, (reply: LeaseReply) => void>()
  readonly #listing = new Map<number, (counters: readonly string[]) => void>()
  readonly #reading = new Map<number, (totals: readonly (CounterTotals | null)[] | null) => void>()
  #count = 0
  /** The budgets that the supervisor has, as JSON. */
  #budgets = JSON.stringify({ budgets: [], whenUnknown: 'refuse' } satisfies SentBudgetRules)
  #counting: Promise<string | null> = Promise.resolve(null)

  constructor(send: (message: AccountsFromWorker) => void) {
    this.#send = send
  }

  /** Other gateways share the limits. `onReply`: receives why their store cannot be used after each exchange, or null. */
  shareLimits(store: SharedLimitsStore, onReply: (problem: string | null) => void): void {
    this.#timeout = store.timeout
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
    this.#counting = this.#ask((id) => this.#send({ type: 'budgets', id, ...rules }), BUDGETS_TIMEOUT).then(problemOf)
    return this.#counting
  }

  flush(): Promise<string | null> {
    return this.#queryLedger({ do: 'flush' }).then(problemOf)
  }

  async adjust(adjustment: Adjustment): Promise<Adjusted | string> {
    const { value } = await this.#queryLedger({ do: 'adjust', adjustment })
    return value ?? LATE
  }

  onMessage(message: Exclude<AccountsFromSupervisor, { type: 'ledger_state' }>): void {
    switch (message.type) {
      case 'leased':
        return this.#leasing.get(message.id)?.(message.reply)
      case 'known':
        return this.#listing.get(message.id)?.(message.counters)
      case 'totals':
        return this.#reading.get(message.id)?.(message.totals)
      case 'budgets_counted':
        return this.#queries.get(message.id)?.({ value: message.problem })
      case 'ledger_answer':
        return this.#queries.get(message.id)?.(message.answer)
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  }

  /** The supervisor has ended. */
  onDisconnect(): void {
    for (const done of this.#leasing.values()) done(NO_REPLY)
    for (const done of this.#reading.values()) done(null)
    for (const done of this.#listing.values()) done([])
  }

  #totals(of: 'store' | 'ledger', counters: readonly string[]): ReturnType<CounterStore['read']> {
    return this.#exchange(this.#reading, null, (id) => this.#send({ type: 'lease_totals', id, of, counters }))
  }

  #exchange<T>(open: Map<number, (answer: T) => void>, late: T, send: (id: number) => void): Promise<T> {
    const id = ++this.#count
    return new Promise((resolve) => {
      const done = (answer: T) => {
        clearTimeout(timer)
        open.delete(id)
        resolve(answer)
      }
      // An answer that has arrived while this process was busy is read first.
      const timer = setTimeout(() => setImmediate(done, late), LEASE_TIMEOUT + this.#timeout)
      open.set(id, done)
      send(id)
    })
  }

  #queryLedger(query: SharedLedgerQuery): Promise<SharedLedgerAnswer> {
    return this.#ask((id) => this.#send({ type: 'ledger_query', id, query }), LEDGER_TIMEOUT)
  }

  #ask(send: (id: number) => void, timeout: number): Promise<SharedLedgerAnswer> {
    const id = ++this.#count
    return new Promise((resolve) => {
      const done = (answer: SharedLedgerAnswer) => {
        clearTimeout(timer)
        this.#queries.delete(id)
        resolve(answer)
      }
      const timer = setTimeout(done, timeout, { value: LATE })
      this.#queries.set(id, done)
      send(id)
    })
  }
}

const problemOf = ({ value }: SharedLedgerAnswer): string | null => (typeof value === 'string' ? value : null)

const NO_REPLY: LeaseReply = { problem: NO_COUNTERS, peers: 0, epoch: '', answers: [] }
