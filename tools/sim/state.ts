/** What the parts of one simulated seed share: time, configuration, requests, calls, the trace, and checks that are due. */
import type { Config } from '../../src/core/config.ts'
import type { Call } from './client.ts'
import { Clock } from './clock.ts'
import type { Dialed } from './dialed.ts'
import type { Setup } from './setup.ts'
import { Watch } from './watch.ts'

/** More than any run needs that ends. */
const MAX_EVENTS = 50_000

/** Resolves after all pending microtasks: Node runs `nextTick` callbacks after them. */
const settled = (): Promise<void> => new Promise((resolve) => process.nextTick(resolve))

export class SimState {
  readonly clock = new Clock()
  readonly setup: Setup
  /** The present configuration. */
  config: Config
  /** The difference in ms between the wall clock and the simulated time. */
  wallOffset = 1_800_000_000_000
  isDraining = false
  readonly calls: Call[] = []
  readonly dials: Dialed[] = []
  /** Situations for the coverage. */
  readonly seen = new Set<string>()
  readonly watch: Watch
  /** Number of timers that have run. */
  events = 0
  readonly #print: ((line: string) => void) | undefined
  /** Checks to run after all pending microtasks. */
  #checks: (() => void)[] = []
  #hash = 0x811c9dc5

  constructor(setup: Setup, print: ((line: string) => void) | undefined) {
    this.setup = setup
    this.config = setup.config
    this.#print = print
    this.watch = new Watch(
      () => this.clock.now,
      (what) => this.seen.add(what),
    )
  }

  /** No invariant has been violated. */
  get isFine(): boolean {
    return this.watch.breaches.length === 0
  }

  /** Of everything that was mixed in, in order. */
  get hash(): number {
    return this.#hash >>> 0
  }

  date(): number {
    return this.wallOffset + this.clock.now
  }

  trace(line: string): void {
    this.#print?.(`${this.clock.now.toFixed(1).padStart(10)} ${line.replaceAll('\n', '⏎')}`)
  }

  mix(one: number, other: number): void {
    this.#hash = Math.imul(this.#hash ^ one, 0x01000193)
    this.#hash = Math.imul(this.#hash ^ Math.floor(other * 1_000), 0x85ebca6b)
    this.#hash ^= this.#hash >>> 13
  }

  /** Runs a check after all pending microtasks. */
  soon(check: () => void): void {
    this.#checks.push(check)
  }

  /** Runs the pending microtasks, then the checks that are due. */
  async settle(): Promise<void> {
    await settled()
    if (this.#checks.length === 0) return
    const due = this.#checks
    this.#checks = []
    for (const check of due) check()
  }

  /** Runs timers until none is left or an invariant is violated. */
  async untilRest(): Promise<void> {
    while (this.isFine && this.clock.step()) {
      await this.settle()
      if (++this.events > MAX_EVENTS) this.watch.breach(14, `no rest after ${MAX_EVENTS} events`)
    }
  }
}
