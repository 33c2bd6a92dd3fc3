/**
 * Leases of counters that several processes share. A store keeps one sum a counter: what is settled, and what is granted. A
 * process uses only what it was granted before, so the sum of all uses stays below the limit, whatever answers are lost.
 *
 * Slots, rates and budgets follow the same rule. A slot has nothing that is used up. What is used of a rate comes back with
 * time. What a process that is gone had reserved is charged to a budget, and free again in a limit of requests in progress.
 *
 * A process states all that it was granted, each time: an answer that is lost is corrected by the next question, and one that
 * comes twice changes nothing. Amounts are nano-dollars, tokens or requests; times are in ms.
 */

export type LeaseKind = 'slots' | 'rate' | 'budget'

/** A process that leases. `boot`: higher after a restart, when what the earlier process was granted is taken back. */
export type LeaseHolder = { readonly process: string; readonly boot: number }

/** What a process states about one counter, and wants. */
export type LeaseAsk = {
  readonly counter: string
  readonly kind: LeaseKind
  readonly limit: number
  /** What comes back of a rate in a ms. */
  readonly refill: number
  /** Raised with each question. A question that arrives after a later one changes nothing. */
  readonly seq: number
  /** The counter in the store, as known from its last answer; empty: it has not answered. */
  readonly id: string
  /** In all since this process began to lease the counter. */
  readonly granted: number
  readonly used: number
  readonly held: number
  /** In addition to what is free: for requests that wait, and for those to come. */
  readonly need: number
  readonly want: number
  /** ms without a question after which the process is gone. */
  readonly lapse: number
  /** ms for which the store keeps the counter. */
  readonly life: number
  readonly seed: LeaseSeed | null
  /** The process no longer leases the counter. */
  readonly leaves: boolean
}

/**
 * What the ledger says was spent; `raise`: by all gateways, `add`: by this one, and the store lacks it. `quiet`: ms without
 * grants, because the store was emptied: processes state within this time what they were granted before.
 */
export type LeaseSeed = { readonly spent: number; readonly by: 'raise' | 'add'; readonly quiet: number }

export type LeaseAnswer =
  | {
      readonly status: 'ok'
      readonly id: string
      /** In addition to what the process has stated. */
      readonly granted: number
      /** Settled by or granted to all, used by all, and reserved by all. */
      readonly sum: number
      readonly used: number
      readonly held: number
      /** Processes that lease the counter. */
      readonly users: number
      /** One of them lacks something that others hold and do not use. */
      readonly isShort: boolean
      /** What the process has used that is part of the seed: it must not be stated again. */
      readonly shift: number
    }
  /**
   * A seed is needed: the store does not know the counter, or knows another one of its name since it was emptied; or the process
   * has started again, and only the ledger has what it has spent last.
   */
  | { readonly status: 'unseeded' | 'restarted' }
  /** The process was gone for too long: what it had stated is part of the sum. */
  | { readonly status: 'lapsed' }
  /** The question came after a later one. `boot`: of the process that has asked it. */
  | { readonly status: 'stale'; readonly boot: number }
  /** The store does not answer. `spent`: what the ledger says was spent; null: not known. */
  | { readonly status: 'lost'; readonly spent: number | null }

/** What a store keeps of one process. `at`: its last question. */
export type LeaseEntry = {
  readonly boot: number
  readonly seq: number
  readonly granted: number
  readonly used: number
  readonly held: number
  readonly at: number
}

/** What a store keeps of one counter. */
export type LeasedSum = {
  readonly id: string
  sum: number
  used: number
  held: number
  /** The last question, and the first one after a pause of all processes. */
  at: number
  since: number
  /** Nothing is granted before. */
  quietUntil: number
  /** A process lacks something until then. */
  shortUntil: number
  readonly entries: Map<string, LeaseEntry>
}

/** ms without any question after which processes are not yet gone: the store itself was. */
export const LEASE_PAUSE = 15_000
/** ms after such a pause in which no process is gone. */
export const LEASE_GRACE = 30_000

/** ms after a question that was not granted in which processes give back what they do not use. */
export const LEASE_SHORT = 3_000

/** A counter that a store has not known. */
export const newSum = (id: string, now: number): LeasedSum => ({
  id,
  sum: 0,
  used: 0,
  held: 0,
  at: now,
  since: now,
  quietUntil: now,
  shortUntil: 0,
  entries: new Map(),
})

/** Answers a question of a process, and changes the counter. `lease-script.ts` is the same for Redis. */
export const lease = (counter: LeasedSum, { process, boot }: LeaseHolder, ask: LeaseAsk, now: number): LeaseAnswer => {
  if (ask.id !== '' && ask.id !== counter.id) return { status: 'unseeded' }
  const known = counter.entries.get(process)
  if (known && (known.boot > boot || (known.boot === boot && ask.seq <= known.seq)))
    return { status: 'stale', boot: known.boot }
  // What it has spent last may be missing: only the ledger has it.
  if (known && known.boot < boot && ask.kind === 'budget' && !ask.seed) return { status: 'restarted' }
  if (known && known.boot < boot) takeBack(counter, process, ask.kind)
  const entry = known?.boot === boot ? known : undefined
  if (!entry && ask.id !== '') return { status: 'lapsed' }
  const { granted, used, held, leaves } = ask
  pass(counter, ask.refill, now)
  if (ask.seed) seed(counter, ask.seed, now)
  counter.sum += granted - (entry?.granted ?? 0)
  counter.used += used - (entry?.used ?? 0)
  counter.held += held - (entry?.held ?? 0)
  takeBackLapsed(counter, process, ask, now)
  const users = counter.entries.size + (entry ? 0 : 1)
  const free = Math.max(0, granted - used - held)
  const room = Math.max(0, ask.limit - counter.sum)
  // What was given back for a process that lacks it is not granted again to one that only wants it.
  const want = now < counter.shortUntil ? 0 : Math.min(ask.want, shareOf(room + free, users))
  const wanted = Math.max(0, ask.need, want - free)
  const more = leaves || now < counter.quietUntil ? 0 : Math.min(room, wanted)
  counter.sum += more
  if (more < ask.need) counter.shortUntil = now + LEASE_SHORT
  if (leaves) counter.entries.delete(process)
  else counter.entries.set(process, { boot, seq: ask.seq, granted: granted + more, used, held, at: now })
  return {
    ...{ status: 'ok', id: counter.id, granted: more, sum: counter.sum, used: counter.used, held: counter.held },
    ...{ users, isShort: now < counter.shortUntil, shift: 0 },
  }
}

/** What one of several processes keeps free at most, so that half of the rest stays for requests that need it. */
export const shareOf = (rest: number, users: number): number => Math.floor(Math.max(0, rest) / (2 * Math.max(1, users)))

/** Takes back what a process that is gone had not used. */
export const takeBack = (counter: LeasedSum, process: string, kind: LeaseKind): void => {
  const entry = counter.entries.get(process)
  if (!entry) return
  counter.entries.delete(process)
  const charged = kind === 'budget' ? entry.held : 0
  counter.sum -= entry.granted - entry.used - charged
  counter.used += charged
  counter.held -= entry.held
}

/** What was used of a rate has come back. */
const pass = (counter: LeasedSum, refill: number, now: number): void => {
  const back = Math.min(Math.max(0, counter.used), Math.max(0, now - counter.at) * refill)
  counter.used -= back
  counter.sum -= back
  if (now - counter.at > LEASE_PAUSE) counter.since = now
  counter.at = Math.max(counter.at, now)
}

const seed = (counter: LeasedSum, { spent, by, quiet }: LeaseSeed, now: number): void => {
  counter.quietUntil = Math.max(counter.quietUntil, now + quiet)
  const missing = by === 'add' ? spent : Math.max(0, spent - counter.used)
  counter.sum += missing
  counter.used += missing
}

const takeBackLapsed = (counter: LeasedSum, process: string, { kind, lapse }: LeaseAsk, now: number): void => {
  if (now - counter.since < Math.min(lapse, LEASE_GRACE)) return
  for (const [name, { at }] of counter.entries) if (name !== process && at < now - lapse) takeBack(counter, name, kind)
}
