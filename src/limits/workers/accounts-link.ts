/** Limits, budgets and usage in a worker: messages to the supervisor, which has them for all workers. */

import type { Adjusted, Adjustment } from '../../usage/bookkeeper/ledger-store.ts'
import type { SharedBookkeeper } from '../../usage/bookkeeper/usage-ledger.ts'
import type { CountersState } from '../counters-thread-messages.ts'
import { isUnknown, REDIS_TIMEOUT, SharedAuthority, SUPERVISOR_TIMEOUT } from '../shared-authority.ts'
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
const LATE = 'the process that stores usage does not respond'

export class AccountsLink implements SharedBookkeeper {
  readonly authority: SharedAuthority
  readonly #send: (message: AccountsFromWorker) => void
  /** Number of processes that share the limits. */
  #shares: number
  #isRedis = false
  #servesUnknown = false
  /** As in `CountersState`. */
  #unknown: CountersState['unknown'] = null
  #onState: (state: CountersState) => void = () => {}
  readonly #queries = new Map<number, (answer: SharedLedgerAnswer) => void>()
  #count = 0
  /** The budgets that the supervisor has, as JSON. */
  #budgets = JSON.stringify({ budgets: [], whenUnknown: 'refuse' } satisfies SentBudgetRules)
  #counting: Promise<string | null> = Promise.resolve(null)

  /** `of`: number of workers. */
  constructor(send: (message: AccountsFromWorker) => void, of: number) {
    this.#send = send
    this.#shares = of
    this.authority = new SharedAuthority({
      send: (operations) => send({ type: 'counters', operations }),
      of: () => this.#shares,
      now: () => performance.now(),
      timeout: () => (this.#isRedis ? REDIS_TIMEOUT : SUPERVISOR_TIMEOUT),
      isUnknown: (budget) => this.#isRedis && !this.#servesUnknown && isUnknown({ unknown: this.#unknown }, budget),
    })
  }

  /** Other gateways share the limits, in Redis. `onState`: it cannot be used, or is used again. */
  shareLimits(store: SharedLimitsStore, onState: (state: CountersState) => void): void {
    this.#isRedis = true
    this.#onState = onState
    this.#send({ type: 'shared_limits', ...store })
  }

  /** The worker records usage from now on, or the retention has changed. */
  openLedger(ledger: Omit<Extract<AccountsFromWorker, { type: 'ledger' }>, 'type'>): void {
    this.#send({ type: 'ledger', ...ledger })
  }

  /**
   * Sends the budgets if they have changed. Resolves when what was spent of them earlier is counted, with the reason if it
   * cannot be.
   */
  setBudgets(rules: SentBudgetRules): Promise<string | null> {
    this.#servesUnknown = rules.whenUnknown === 'serve'
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
      case 'counted':
        return this.authority.onAnswers(message.answers)
      case 'figures':
        return this.authority.onFigures(message.figures, message.taken)
      case 'limits_state':
        this.#shares = message.shares
        this.#unknown = message.unknown
        if (message.problem !== null) this.authority.onLost()
        return this.#onState(message)
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
    this.authority.onLost()
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
