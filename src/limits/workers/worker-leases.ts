/** The leases of all workers, in the supervisor. Those of a worker that has ended are given back for it. */
import { budgetCharge, type CounterSpend } from '../../core/journal.ts'
import { counterOf, type LeaseReply } from '../../gateway/accounts/counter-store.ts'
import type { LeaseAsk, LeaseHolder } from '../../policy/accounts/lease.ts'
import type { CommonCounters } from '../common-counters.ts'

/** What a process of a worker has stated last, by counter. It is kept until the process ends. */
type Leasing = { readonly holder: LeaseHolder; readonly asked: Map<string, LeaseAsk> }

export class WorkerLeases<Worker extends object> {
  readonly #node: string
  readonly #workers = new Map<Worker, Leasing>()
  #count = 0

  /** `node`: a name that no other gateway has. */
  constructor(node: string) {
    this.#node = node
  }

  /** `run`: as in `LeaseHolder`. */
  async lease(
    store: CommonCounters,
    worker: Worker,
    { asks, run }: { readonly asks: readonly LeaseAsk[]; readonly run: string },
  ): Promise<LeaseReply> {
    const { holder: known, asked } = this.#leasingOf(worker)
    const holder = { ...known, run }
    for (const ask of asks) asked.set(ask.counter, ask)
    const reply = await store.lease(holder, asks)
    for (const [at, ask] of asks.entries()) {
      const answer = reply.answers[at]
      if (answer?.status !== 'ok' || asked.get(ask.counter) !== ask) continue
      if (ask.leaves) asked.delete(ask.counter)
      else {
        const { id, shift, granted: more } = answer
        const [used, granted, before] = [ask.used - shift, ask.granted - shift + more, ask.before + shift]
        asked.set(ask.counter, { ...ask, id, used, granted, before })
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
    const { asked } = leasing
    const spends = asked.size === 0 ? null : await spending
    const spent = new Map(spends?.map((one) => [counterOf(budgetCharge(one.counter, one.periodStart)), one.spent]))
    const asks = [...asked.values()].map((ask) => {
      const known = spends && ask.kind === 'budget' ? (spent.get(ask.counter) ?? 0) - ask.before : null
      const used = known ?? ask.used + (ask.kind === 'budget' ? ask.held : 0)
      return { ...ask, seq: ask.seq + 1, granted: used, used, held: 0, need: 0, want: 0, leaves: true }
    })
    await store.lease(leasing.holder, asks)
  }

  #leasingOf(worker: Worker): Leasing {
    const known = this.#workers.get(worker)
    if (known) return known
    const holder = { process: `${this.#node} ${++this.#count}`, boot: Date.now(), run: '' }
    const made = { holder, asked: new Map<string, LeaseAsk>() }
    this.#workers.set(worker, made)
    return made
  }
}
