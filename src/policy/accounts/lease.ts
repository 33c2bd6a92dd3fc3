/**
 * Leases of counters that several processes share. A store keeps one sum a counter: what is settled, and what is granted. A
 * process uses only what it was granted before, so the sum of all uses stays below the limit, whatever answers are lost.
 *
 * Slots, rates and budgets follow the same rule. A slot has nothing that is used up. What is used of a rate comes back with
 * time. What a process that is gone had reserved is charged to a budget, and free again in a limit of requests in progress.
 *
 * A process states all that it was granted, each time: an answer that is lost is corrected by the next question, and one that
 * comes twice changes nothing. Amounts are nano-dollars, tokens or requests; times are in ms.
 *
 * A budget that a store does not know begins with what the ledger says. Part of that was used by processes that run, which
 * states it again. So a counter keeps which parts of it are theirs (`recorded`), and a process that begins to lease it has used
 * in addition what is not among them. It makes no difference when the ledger was read.
 *
 * A process that is cut off spends from its lease, and no longer after a time that is shorter than `lapse`. When the store takes the
 * rest back, it charges what the ledger has of that process, and keeps it in `recorded` until the process asks again.
 */

export type LeaseKind = 'slots' | 'rate' | 'budget'

/**
 * A process that leases. `boot`: higher after a restart, when what the earlier process was granted is taken back. `run`: its name in
 * the ledger; empty: it records nothing.
 */
export type LeaseHolder = { readonly process: string; readonly boot: number; readonly run: string }

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
  /** What the process has used of a budget before it began to lease it, and the counter that contains it; empty: none. */
  readonly before: number
  readonly left: string
  /** In addition to what is free: for requests that wait, and for those to come. */
  readonly need: number
  readonly want: number
  /** ms without a question after which the process is gone, and no longer uses what it was granted. */
  readonly lapse: number
  /** ms for which the store keeps the counter. */
  readonly life: number
  readonly seed: LeaseSeed | null
  /** The process no longer leases the counter. */
  readonly leaves: boolean
}

/**
 * What the ledger says was spent. A counter that the store does not know begins with it. `by`: what happens to one that it knows:
 * nothing, but for a process that has started again; it is `raise`d to it; it lacks it, and it is `add`ed; or leases of processes that
 * are `gone` are taken back. `recorded`: the parts of processes. `quiet`: ms without grants, because the store was emptied: processes
 * state within this time what they were granted before.
 */
export type LeaseSeed = {
  readonly spent: number
  readonly recorded: readonly RecordedPart[]
  readonly by: 'begin' | 'raise' | 'add' | 'gone'
  readonly quiet: number
}

/** What a process has spent of a counter, as the ledger has it. `run`: as in `LeaseHolder`. */
export type RecordedPart = { readonly run: string; readonly spent: number }

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
      /** The lease of a budget can be taken back by the ledger, since its process is gone. */
      readonly isGone: boolean
      /** What the process has used that the counter began with: it must not be stated again. Negative: it lacks that. */
      readonly shift: number
    }
  /**
   * A seed is needed: the store does not know the counter, or knows another one of its name since it was emptied; or the process
   * has started again, and only the ledger has what it has spent last.
   */
  | { readonly status: 'unseeded' | 'restarted' }
  /** The process no longer leases the counter. `counted`: what the sum has of all that it has used; null: what it has stated last. */
  | { readonly status: 'lapsed'; readonly counted: number | null }
  /** The question came after a later one. `boot`: of the process that has asked it. */
  | { readonly status: 'stale'; readonly boot: number }
  /** The store does not answer. `spent`: what the ledger says was spent; null: not known. */
  | { readonly status: 'lost'; readonly spent: number | null }

/**
 * What a store keeps of one process. `used` and `granted` are what it has stated without `shift`, `total` is what it has used in
 * all; `at`: its last question.
 */
export type LeaseEntry = Pick<LeaseHolder, 'boot' | 'run'> & {
  readonly seq: number
  readonly granted: number
  readonly used: number
  readonly held: number
  readonly shift: number
  readonly total: number
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
  /** What the counter has of runs that do not lease it: it began with that, or was charged it when their leases were taken back. */
  readonly recorded: Map<string, number>
}

/** ms without any question after which processes are not yet gone: the store itself was. */
export const LEASE_PAUSE = 15_000
/** ms after such a pause in which no process is gone. */
export const LEASE_GRACE = 30_000

/** ms after a question that was not granted in which processes give back what they do not use. */
export const LEASE_SHORT = 3_000

/** A counter that a store has not known. */
export const newSum = (id: string, now: number, { spent, recorded, quiet }: LeaseSeed): LeasedSum => ({
  id,
  sum: spent,
  used: spent,
  held: 0,
  at: now,
  since: now,
  quietUntil: now + quiet,
  shortUntil: 0,
  entries: new Map(),
  recorded: new Map(recorded.map((part) => [part.run, part.spent])),
})

/** Answers a question of a process, and changes the counter. `lease-script.ts` is the same for Redis. */
export const lease = (
  counter: LeasedSum,
  { process, boot, run }: LeaseHolder,
  ask: LeaseAsk,
  now: number,
): LeaseAnswer => {
  if (ask.id !== '' && ask.id !== counter.id) return { status: 'unseeded' }
  const known = counter.entries.get(process)
  if (known && (known.boot > boot || (known.boot === boot && ask.seq <= known.seq)))
    return { status: 'stale', boot: known.boot }
  // What it has spent last may be missing: only the ledger has it.
  if (known && known.boot < boot && ask.kind === 'budget' && !ask.seed) return { status: 'restarted' }
  if (known && known.boot < boot) replace(counter, process, ask)
  const entry = known?.boot === boot ? known : undefined
  if (!entry && ask.id !== '') return { status: 'lapsed', counted: counter.recorded.get(run) ?? null }
  const { held, leaves } = ask
  const shift = entry?.shift ?? shiftOf(counter, run, ask)
  counter.recorded.delete(run)
  // An answer with it was received, or it is part of this one.
  const stated = ask.id === '' ? shift : 0
  const [granted, used] = [ask.granted - stated, ask.used - stated]
  pass(counter, ask.refill, now)
  if (ask.seed) seed(counter, ask.seed, now)
  counter.sum += granted - (entry?.granted ?? 0)
  counter.used += used - (entry?.used ?? 0)
  counter.held += held - (entry?.held ?? 0)
  const isGone = takeBackLapsed(counter, process, ask, now)
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
  else {
    const total = ask.before + ask.used
    counter.entries.set(process, {
      boot,
      run,
      seq: ask.seq,
      granted: granted + more,
      used,
      held,
      shift,
      total,
      at: now,
    })
  }
  return {
    ...{ status: 'ok', id: counter.id, granted: more, sum: counter.sum, used: counter.used, held: counter.held },
    ...{ users, isShort: now < counter.shortUntil, isGone, shift: stated },
  }
}

/**
 * The same for a counter that the store may not know (null): it begins with the seed of the question. `newId`: one that no other
 * counter has. Null: it is not known, and there is no seed.
 */
export const leaseOrBegin = (
  known: LeasedSum | null,
  { holder, ask, now }: { readonly holder: LeaseHolder; readonly ask: LeaseAsk; readonly now: number },
  newId: () => string,
): { readonly counter: LeasedSum; readonly answer: LeaseAnswer } | null => {
  if (known) return { counter: known, answer: lease(known, holder, ask, now) }
  if (!ask.seed) return null
  const counter = newSum(newId(), now, ask.seed)
  return { counter, answer: lease(counter, holder, { ...ask, seed: null }, now) }
}

/** What one of several processes keeps free at most, so that half of the rest stays for requests that need it. */
export const shareOf = (rest: number, users: number): number => Math.floor(Math.max(0, rest) / (2 * Math.max(1, users)))

/** What a process that begins to lease a counter has used that the counter has. */
const shiftOf = ({ id, recorded }: LeasedSum, run: string, { kind, before, left }: LeaseAsk): number =>
  kind !== 'budget' ? 0 : (recorded.get(run) ?? (left === id ? before : 0)) - before

/** A process has started again: what the ledger has of the earlier one is charged, or else what it had reserved. */
const replace = (counter: LeasedSum, process: string, { kind, seed }: LeaseAsk): void => {
  const entry = counter.entries.get(process)
  const part = entry && seed?.recorded.find(({ run }) => run === entry.run)
  takeBack(counter, process, kind)
  if (!entry || !part) return
  const missing = Math.max(0, part.spent - entry.total) - entry.held
  counter.sum += missing
  counter.used += missing
}

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

const seed = (counter: LeasedSum, { spent, recorded, by, quiet }: LeaseSeed, now: number): void => {
  if (by === 'begin' || by === 'gone') return
  counter.quietUntil = Math.max(counter.quietUntil, now + quiet)
  const missing = by === 'add' ? spent : Math.max(0, spent - counter.used)
  if (by === 'add') for (const part of recorded) counter.recorded.set(part.run, part.spent)
  counter.sum += missing
  counter.used += missing
}

/** Returns whether leases of a budget remain that only the ledger can end. */
const takeBackLapsed = (counter: LeasedSum, process: string, { kind, lapse, seed }: LeaseAsk, now: number): boolean => {
  if (now - counter.since < Math.min(lapse, LEASE_GRACE)) return false
  const gone = [...counter.entries].filter(([name, { at }]) => name !== process && at < now - lapse)
  if (kind === 'budget' && seed?.by !== 'gone') return gone.length > 0
  for (const [name, { run, total, held }] of gone) {
    takeBack(counter, name, kind)
    if (kind !== 'budget') continue
    const charged = Math.max(total + held, seed?.recorded.find((part) => part.run === run)?.spent ?? 0)
    counter.sum += charged - total - held
    counter.used += charged - total - held
    counter.recorded.set(run, charged)
  }
  return false
}
