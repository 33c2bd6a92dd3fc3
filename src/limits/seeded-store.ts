/**
 * Begins counters that a store does not know from the ledger, never from zero. A ledger in a shared database has what all
 * gateways have spent. A ledger of one gateway has its own part: each gateway adds it once to an emptied store.
 */
import { chargeIn, counterOf, type LeaseReply } from '../gateway/accounts/counter-store.ts'
import type { LeaseAsk, LeaseHolder, LeaseSeed } from '../policy/accounts/lease.ts'
import { runName } from '../usage/journal/node-name.ts'
import type { CommonCounters } from './common-counters.ts'
import type { LedgerSums } from './ledger-sums.ts'

export type SeededStoreOptions = {
  readonly store: CommonCounters
  readonly sums: LedgerSums
  /** The name of a gateway whose ledger has only its own part. Null: the ledger has what all gateways have spent. */
  readonly part: string | null
  /** ms for an answer of the store. */
  readonly timeout: number
  /** ms of the monotonic clock. */
  readonly now: () => number
  /** Whether budgets are used before their earlier usage is known. */
  readonly servesUnknown: () => boolean
}

/** A counter as it is added without being used. */
const ADDED = {
  ...{ limit: 0, refill: 0, seq: 1, id: '', granted: 0, used: 0, held: 0, need: 0, want: 0, lapse: 0 },
  ...{ life: 400 * 86_400_000, leaves: true, before: 0, left: '' },
}
/** Counters in one exchange. */
const MOST = 500
/** ms in which each gateway asks for all that it leases, after the answers that it waits for. */
const QUIET = 3_000
/** ms between two looks for what processes that are gone have spent. */
const LOOK = 30_000

export class SeededStore implements CommonCounters {
  readonly #options: SeededStoreOptions
  /** The store to which this gateway has added its part, by its epoch. */
  #added: { readonly epoch: string; readonly done: Promise<string | null> } | null = null
  /** The store as it was seen last, and when it was found to be emptied, in ms of the monotonic clock. */
  #epoch = ''
  #emptiedAt = Number.NEGATIVE_INFINITY
  /** When leases of processes that are gone can be looked up again, in ms of the monotonic clock. */
  #lookAt = Number.NEGATIVE_INFINITY
  /** Counters that began before their earlier usage was known. */
  #owed = new Set<string>()

  constructor(options: SeededStoreOptions) {
    this.#options = options
  }

  /** `run` of the holder: its name in the database of the ledger. */
  async lease({ run, ...named }: LeaseHolder, asks: readonly LeaseAsk[]): Promise<LeaseReply> {
    const { store } = this.#options
    const holder = { ...named, run: this.#runOf(run) }
    const reply = await store.lease(holder, asks)
    if (reply.problem !== null) return this.#lost(reply, asks)
    this.#follow(reply.epoch)
    const adding = this.#add(holder, reply.epoch)
    this.#takeBack(reply, asks)
    const statusOf = (at: number) => reply.answers[at]?.status
    const unknown = asks.filter((_, at) => statusOf(at) === 'unseeded' || statusOf(at) === 'restarted')
    if (unknown.length === 0) return reply
    // What a process has used before must be in the sums.
    const isFresh = unknown.some(isBudgetUsed) || reply.answers.some(({ status }) => status === 'restarted')
    const problem = unknown.some(({ kind }) => kind === 'budget')
      ? ((await adding) ?? (await this.#options.sums.known(reply.epoch, isFresh)))
      : null
    const seeded = unknown.flatMap((ask) => this.#seeded(ask, problem))
    const again = await store.lease(holder, seeded)
    if (again.problem !== null) return this.#lost(again, asks)
    const found = new Map(seeded.map(({ counter }, at) => [counter, again.answers[at]] as const))
    const answers = asks.map((ask, at) => found.get(ask.counter) ?? reply.answers[at] ?? UNSEEDED)
    return { ...again, answers }
  }

  /** A counter that no process has leased has what the ledger says. */
  async read(counters: readonly string[]): ReturnType<CommonCounters['read']> {
    const { store, sums } = this.#options
    const totals = await store.read(counters)
    return (
      totals?.map((found, at) => {
        const charge = found ? null : chargeIn(counters[at] ?? '')
        const spent = charge === null ? null : sums.spent(charge)
        return spent === null ? found : { used: spent, held: 0 }
      }) ?? null
    )
  }

  async spent(counters: readonly string[]): ReturnType<CommonCounters['read']> {
    const { sums } = this.#options
    await sums.recent()
    return counters.map((counter) => {
      const spent = sums.spent(chargeIn(counter) ?? '')
      return spent === null ? null : { used: spent, held: 0 }
    })
  }

  async known(): Promise<readonly string[]> {
    const { store, sums } = this.#options
    await sums.recent()
    return [...new Set([...sums.charges(), ...((await store.known?.()) ?? [])])]
  }

  close(): Promise<void> {
    return this.#options.store.close()
  }

  /** Earlier usage is known now: counters that have begun without it are raised. */
  async restored(): Promise<void> {
    const owed = [...this.#owed]
    this.#owed.clear()
    await this.#seed(owed.map(namedBy), 'raise')
  }

  /** Takes back what processes that are gone have not spent, as soon as the ledger can be read. No request waits for it. */
  #takeBack({ answers, epoch }: LeaseReply, asks: readonly LeaseAsk[]): void {
    const gone = asks.filter((_, at) => {
      const answer = answers[at]
      return answer?.status === 'ok' && answer.isGone
    })
    const now = this.#options.now()
    if (gone.length === 0 || now < this.#lookAt) return
    this.#lookAt = now + LOOK
    void this.#options.sums.known(epoch, true).then((problem) => {
      if (problem === null) void this.#seed(gone, 'gone')
    })
  }

  // ── Seeds ──────────────────────────────────────────────────────────────────────────────────────────────────────

  #seeded(ask: LeaseAsk, problem: string | null): readonly LeaseAsk[] {
    const charge = chargeIn(ask.counter)
    // Who has known the counter finds that it is lost, also if only a part of the store was emptied.
    const since = ask.id === '' ? this.#emptiedAt : this.#options.now()
    const quiet = Math.max(0, since + QUIET + this.#options.timeout - this.#options.now())
    if (charge === null) return [{ ...ask, id: '', seed: { ...NOTHING, quiet } }]
    if (problem === null) return [{ ...ask, id: '', seed: { ...this.#known(charge), by: 'begin', quiet } }]
    if (!this.#options.servesUnknown()) return []
    this.#owed.add(charge)
    return [{ ...ask, id: '', seed: { ...NOTHING, quiet } }]
  }

  /** What the ledger says of a counter. */
  #known(charge: string): Pick<LeaseSeed, 'spent' | 'recorded'> {
    const { sums } = this.#options
    const recorded = sums.recorded(charge).map(({ run, spent }) => ({ run: this.#runOf(run), spent }))
    return { spent: sums.spent(charge) ?? 0, recorded }
  }

  /** A ledger of one gateway has the names of its processes without that of the gateway. */
  #runOf(run: string): string {
    const { part } = this.#options
    return part === null || run === '' ? run : runName(part, run)
  }

  #follow(epoch: string): void {
    if (this.#epoch !== '' && epoch !== this.#epoch) this.#emptiedAt = this.#options.now()
    this.#epoch = epoch
  }

  #lost(reply: LeaseReply, asks: readonly LeaseAsk[]): LeaseReply {
    const spentOf = (ask: LeaseAsk) => {
      const charge = chargeIn(ask.counter)
      return charge === null ? 0 : this.#options.sums.spent(charge)
    }
    return { ...reply, answers: asks.map((ask) => ({ status: 'lost', spent: spentOf(ask) })) }
  }

  // ── The part of one gateway ────────────────────────────────────────────────────────────────────────────────────

  /** Adds what this gateway has spent, once to each store. Null: its ledger has all. */
  #add(holder: LeaseHolder, epoch: string): Promise<string | null> | null {
    const { part } = this.#options
    if (part === null) return null
    if (this.#added?.epoch === epoch) return this.#added.done
    const done = this.#addTo(holder, epoch, part)
    this.#added = { epoch, done }
    // It is tried again with the next exchange.
    void done.then((problem) => {
      if (problem !== null && this.#added?.done === done) this.#added = null
    })
    return done
  }

  async #addTo({ boot }: LeaseHolder, epoch: string, part: string): Promise<string | null> {
    const { store, sums } = this.#options
    const holder = { process: `${part} ledger`, boot, run: '' }
    const mark = { ...ADDED, kind: 'slots', counter: `added ${part}`, seed: null } as const
    const [found] = (await store.lease(holder, [mark])).answers
    if (found?.status === 'ok') return null
    const problem = await sums.known(epoch, true)
    if (problem !== null) return problem
    const lost = await this.#seed(sums.charges().map(namedBy), 'add')
    return lost ?? (await store.lease(holder, [{ ...mark, seed: NOTHING }])).problem
  }

  async #seed(counters: readonly Seeded[], by: LeaseSeed['by']): Promise<string | null> {
    const asks = counters.map(({ counter, lapse }) => {
      const seed = { ...this.#known(chargeIn(counter) ?? ''), by, quiet: 0 }
      return { ...ADDED, kind: 'budget' as const, counter, lapse, seed }
    })
    for (let at = 0; at < asks.length; at += MOST) {
      const holder = { process: 'ledger', boot: 0, run: '' }
      const { problem } = await this.#options.store.lease(holder, asks.slice(at, at + MOST))
      if (problem !== null) return problem
    }
    return null
  }
}

type Seeded = Pick<LeaseAsk, 'counter' | 'lapse'>
const namedBy = (charge: string): Seeded => ({ counter: counterOf(charge), lapse: ADDED.lapse })

const isBudgetUsed = ({ kind, id, used, before }: LeaseAsk): boolean =>
  kind === 'budget' && (id !== '' || used !== 0 || before !== 0)

const NOTHING = { spent: 0, recorded: [], by: 'begin', quiet: 0 } as const
const UNSEEDED = { status: 'unseeded' } as const
