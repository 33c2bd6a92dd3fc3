/** The counters of several processes in the memory of this one: the supervisor of workers. */
import { randomUUID } from 'node:crypto'
import { chargeIn } from '../gateway/accounts/counter-store.ts'
import {
  type LeaseAnswer,
  type LeaseAsk,
  type LeasedSum,
  type LeaseHolder,
  leaseOrBegin,
} from '../policy/accounts/lease.ts'
import type { CommonCounters } from './common-counters.ts'

/** Counters above which those without a use for their life are dropped. */
const SWEEP_FROM = 10_000

export class CounterMemory implements CommonCounters {
  readonly #now: () => number
  readonly #epoch = randomUUID()
  readonly #counters = new Map<string, { readonly counter: LeasedSum; readonly life: number }>()
  /** ms of the last exchange of each process. */
  readonly #peers = new Map<string, number>()
  #sweepAt = SWEEP_FROM
  #ids = 0

  /** `now`: ms of any clock. */
  constructor(now: () => number) {
    this.#now = now
  }

  async lease(holder: LeaseHolder, asks: readonly LeaseAsk[]) {
    const now = this.#now()
    this.#peers.set(holder.process, now)
    for (const [process, at] of this.#peers) if (at < now - GONE) this.#peers.delete(process)
    this.#sweep(now)
    const answers = asks.map((ask) => this.#answer(holder, ask, now))
    return { problem: null, peers: this.#peers.size, epoch: this.#epoch, answers }
  }

  async read(counters: readonly string[]) {
    return counters.map((name) => {
      const { counter } = this.#counters.get(name) ?? {}
      return counter ? { used: counter.used, held: counter.held } : null
    })
  }

  async known() {
    return [...this.#counters.keys()].flatMap((name) => chargeIn(name) ?? [])
  }

  async close(): Promise<void> {}

  #answer(holder: LeaseHolder, ask: LeaseAsk, now: number): LeaseAnswer {
    const { counter = null } = this.#counters.get(ask.counter) ?? {}
    const leased = leaseOrBegin(counter, { holder, ask, now }, () => `${this.#epoch} ${++this.#ids}`)
    if (!leased) return { status: 'unseeded' }
    this.#counters.set(ask.counter, { counter: leased.counter, life: ask.life })
    return leased.answer
  }

  #sweep(now: number): void {
    if (this.#counters.size < this.#sweepAt) return
    for (const [name, { counter, life }] of this.#counters)
      if (counter.entries.size === 0 && counter.at + life < now) this.#counters.delete(name)
    this.#sweepAt = Math.max(SWEEP_FROM, 2 * this.#counters.size)
  }
}

/** ms without an exchange after which a process is gone. */
export const GONE = 15_000
