/** The leases of all workers, in the supervisor. Those of a worker that has ended are given back for it. */
import { budgetCharge, type CounterSpend } from '../../core/journal.ts'
import type { LeaseReply } from '../../gateway/accounts/counter-store.ts'
import type { LeaseAsk, LeaseHolder } from '../../policy/accounts/lease.ts'
import { type CommonCounters, counterOf } from '../common-counters.ts'

/**
 * What a process of a worker has stated last, by counter, and what it had used before it began to lease the counter again. Both
 * are kept until the process ends.
 */
type Leasing = {
  readonly holder: LeaseHolder
  readonly asked: Map<string, LeaseAsk>
  readonly before: Map<string, number>
}

export class WorkerLeases<Worker extends object> {
  readonly #node: string
  readonly #workers = new Map<Worker, Leasing>()
  #count = 0

  /** `node`: a name that no other gateway has. */
  constructor(node: string) {
    this.#node = node
  }

  async lease(store: CommonCounters, worker: Worker, asks: readonly LeaseAsk[]): Promise<LeaseReply> {
    const { holder, asked, before } = this.#leasingOf(worker)
    for (const ask of asks) asked.set(ask.counter, ask)
    const reply = await store.lease(holder, asks)
    for (const [at, ask] of asks.entries()) {
      const answer = reply.answers[at]
      if (answer?.status !== 'ok') continue
      const past = answer.shift + (ask.leaves ? ask.used - answer.shift : 0)
      if (past !== 0) before.set(ask.counter, (before.get(ask.counter) ?? 0) + past)
      if (asked.get(ask.counter) !== ask) continue
      if (ask.leaves) asked.delete(ask.counter)
      else {
        const [used, granted] = [ask.used - answer.shift, ask.granted - answer.shift + answer.granted]
        asked.set(ask.counter, { ...ask, id: answer.id, used, granted })
      }
    }
    return reply
  }

  /**
   * The worker's process has ended: budgets are charged what it has spent, and the rest is free. `spending`: what its journal has of
   * it; null: unknown, and it is charged what it had reserved.
   */
  async onExit(
    store: CommonCounters,
    worker: Worker,
    spending: Promise<readonly CounterSpend[] | null>,
  ): Promise<void> {
    const leasing = this.#workers.get(worker)
    this.#workers.delete(worker)
    if (!leasing) return
    const { asked, before } = leasing
    const spends = asked.size === 0 ? null : await spending
    const spent = new Map(spends?.map((one) => [counterOf(budgetCharge(one.counter, one.periodStart)), one.spent]))
    const asks = [...asked.values()].map((ask) => {
      const known =
        spends && ask.kind === 'budget' ? (spent.get(ask.counter) ?? 0) - (before.get(ask.counter) ?? 0) : null
      const used = known ?? ask.used + (ask.kind === 'budget' ? ask.held : 0)
      return { ...ask, seq: ask.seq + 1, granted: used, used, held: 0, need: 0, want: 0, leaves: true }
    })
    await store.lease(leasing.holder, asks)
  }

  #leasingOf(worker: Worker): Leasing {
    const known = this.#workers.get(worker)
    if (known) return known
    const holder = { process: `${this.#node} ${++this.#count}`, boot: Date.now() }
    const made = { holder, asked: new Map<string, LeaseAsk>(), before: new Map<string, number>() }
    this.#workers.set(worker, made)
    return made
  }
}
