/**
 * All interleavings of processes that lease one counter, with faults at any point. A state is explored once for all states with
 * the same future: which process is which does not matter, nor a number that only grows.
 *
 * Steps that no other process can observe are not interleaved. An answer is received when the store gives it, or never. A process
 * reserves and settles just before its next question, or before something reads the ledger. What a process gives back, and how
 * much it asks for, is any amount: so shares, and what processes know of each other, are no part of a state.
 */
import assert from 'node:assert/strict'
import {
  answered,
  askOf,
  freeOf,
  type HeldLease,
  isStated,
  newLease,
  overdraw,
} from '../../src/policy/accounts/held-lease.ts'
import { type LeaseAnswer, type LeaseAsk, type LeasedSum, lease, newSum } from '../../src/policy/accounts/lease.ts'

/**
 * What is lost: the store, for one process or for all; the lease of a process that has no store for longer than it lives; a process,
 * which starts again; or what the store has. A question and an answer that are lost, late, or arrive twice are part of the first one.
 */
export type Loss = 'store of one' | 'store of all' | 'lease' | 'process' | 'counter'

/** `operations`: of each process. `losses`: of this kind. `limit`: of the counter. `leaves`: a process also gives its lease back. */
export type ModelSize = {
  readonly processes: number
  readonly operations: number
  readonly loss: Loss
  readonly losses: number
  readonly limit: number
  readonly leaves?: boolean
}

/** What a process may use without the store, in all its outages. */
const OVERDRAFT = 1

/** A question on its way. `isOpen`: its process waits for the answer. */
type Question = { readonly ask: LeaseAsk; readonly boot: number; readonly epoch: number; readonly isOpen: boolean }

/**
 * A step replaces what it changes. `isCut`: the store does not answer it. `wasCut`: it may have been overdrawn. `counted`: what the
 * store had of all that it has used when it ended its lease, and which store.
 */
type Modelled = {
  readonly held: Readonly<HeldLease>
  readonly counted: { readonly epoch: number; readonly used: number }
  readonly boot: number
  readonly left: number
  readonly isCut: boolean
  readonly wasCut: boolean
  readonly questions: readonly Question[]
}

/** `spent`: what was settled, or is charged because its process has ended: what the ledger knows; `recorded`: of each run. */
type Model = {
  readonly store: LeasedSum | null
  readonly epoch: number
  readonly isQuiet: boolean
  readonly spent: number
  readonly recorded: ReadonlyMap<string, number>
  readonly losses: number
  readonly processes: readonly Modelled[]
}

export type Explored = { readonly states: number; readonly steps: number; readonly most: number }

/** Explores all states. Throws at the first one in which a bound is exceeded or something is counted twice or not at all. */
export const exploreLeases = (size: ModelSize): Explored => {
  const fresh: Modelled = {
    ...{ held: newLease('budget', 'budget'), boot: 0, left: size.operations },
    ...{ isCut: false, wasCut: false, questions: [], counted: NONE },
  }
  const start: Model = {
    ...{ store: null, epoch: 0, isQuiet: false, spent: 0, recorded: new Map(), losses: size.losses },
    processes: Array.from({ length: size.processes }, () => fresh),
  }
  const seen = new StateSet()
  seen.add(keyOf(start, size))
  const open = [start]
  let [steps, most] = [0, 0]
  for (let model = open.pop(); model; model = open.pop())
    for (const reached of stepsOf(model, size)) {
      steps++
      if (!seen.add(keyOf(reached, size))) continue
      most = Math.max(most, check(reached, size))
      open.push(reached)
    }
  return { states: seen.size, steps, most }
}

// ── Bounds ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** Returns what may be used from now on, and was spent, if nothing else is granted. */
const check = (model: Model, { limit }: ModelSize): number => {
  const { spent, processes, store } = model
  let [committed, most, shown] = [spent, limit, store?.used ?? 0]
  for (const [of, one] of processes.entries()) {
    const { held } = one
    committed += Math.max(0, freeOf(held)) + held.held
    if (one.wasCut) most += OVERDRAFT
    shown += held.before + held.used - countedOf(model, one, of) + unstatedOf(model, one, of)
  }
  if (committed > most) assert.fail(`${committed} of ${most}: ${JSON.stringify(model, show)}`)
  // What the store has, and processes are about to state.
  if (store && shown !== spent) assert.fail(`${shown} instead of ${spent}: ${JSON.stringify(model, show)}`)
  return committed
}

const show = (_: string, value: unknown) => (value instanceof Map ? Object.fromEntries(value) : value)

const runOf = (of: number, boot: number): string => `${of}.${boot}`

/** What the store has of all that a process has used. */
const countedOf = ({ store, epoch }: Model, { counted, boot }: Modelled, of: number): number => {
  const entry = store?.entries.get(`${of}`)
  if (entry?.boot === boot) return entry.total
  return store?.recorded.get(runOf(of, boot)) ?? (counted.epoch === epoch ? counted.used : 0)
}

/** A process that has no lease yet. */
const NONE = { epoch: -1, used: 0 } as const

/** What an earlier process has spent and not stated. */
const unstatedOf = ({ store, recorded }: Model, { boot }: Modelled, of: number): number => {
  const entry = store?.entries.get(`${of}`)
  return entry && entry.boot !== boot ? (recorded.get(entry.run) ?? 0) - entry.total : 0
}

// ── Steps ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Every state that one step can lead to. */
function* stepsOf(model: Model, size: ModelSize): Generator<Model> {
  for (const [of, one] of model.processes.entries()) {
    for (const local of localsOf(one, !isCalmFor(model, of, size))) {
      const next = local === one ? model : settledIn(model, of, local)
      if (local.held.overdrawn !== one.held.overdrawn) yield next
      yield* questionsOf(next, of, size)
      if (model.losses > 0 && size.loss === 'process' && of === 0) yield restarted(next, of)
    }
    for (const at of one.questions.keys()) yield* deliver(model, of, at)
    if (one.isCut && size.loss === 'lease') yield* lapsesOf(model, of)
    if (one.isCut) yield replaced(model, of, { ...one, isCut: false })
  }
  if (model.losses > 0) yield* lossesOf(model, size)
  // The quiet time ends after each process has stated what it was granted, and waits for no answer from before.
  const { store } = model
  const isStated = model.processes.every(
    ({ held, questions }) =>
      (held.id === store?.id || (held.granted === 0 && held.used === 0)) &&
      questions.every(({ epoch }) => epoch === model.epoch),
  )
  if (model.isQuiet && store && isStated) yield { ...model, isQuiet: false, store: { ...store, quietUntil: 0 } }
}

const replaced = (model: Model, of: number, one: Modelled): Model => ({
  ...model,
  processes: model.processes.with(of, one),
})

/** The ledger has at once what a process has settled. */
const settledIn = (model: Model, of: number, local: Modelled): Model => {
  const spent = local.held.used - (model.processes[of]?.held.used ?? 0)
  return spent === 0 ? replaced(model, of, local) : spentIn(replaced(model, of, local), runOf(of, local.boot), spent)
}

const spentIn = (model: Model, run: string, amount: number): Model => ({
  ...model,
  spent: model.spent + amount,
  recorded: new Map(model.recorded).set(run, (model.recorded.get(run) ?? 0) + amount),
})

/** A process after each number of reservations and settlements that it can make now, none included. */
const localsOf = (one: Modelled, settles: boolean): readonly Modelled[] => {
  const all = [one]
  const known = new Set([`${one.held.held},${one.held.used},${one.left}`])
  for (const from of all) {
    if (from.left === 0) continue
    for (const held of changesOf(from, settles)) {
      const key = `${held.held},${held.used},${from.left - 1}`
      if (known.has(key)) continue
      known.add(key)
      all.push({ ...from, held, left: from.left - 1 })
    }
  }
  return all
}

const changesOf = ({ held, isCut }: Modelled, settles: boolean): readonly HeldLease[] => {
  const all: HeldLease[] = []
  // A process that reserves less than it could gives back more: that is among its questions.
  if (settles && freeOf(held) >= 1) all.push({ ...held, held: held.held + 1 })
  else if (isCut && held.overdrawn < OVERDRAFT) {
    const more = { ...held }
    overdraw(more, 1)
    more.held++
    all.push(more)
  }
  if (settles && held.held >= 1) all.push({ ...held, held: held.held - 1, used: held.used + 1 })
  return all
}

/** A process asks. Without the store it is answered that it is lost, and goes on. At most one of its questions is late. */
function* questionsOf(model: Model, of: number, { limit, leaves = false }: ModelSize): Generator<Model> {
  const one = model.processes[of]
  if (!one || one.left === 0 || one.questions.some(({ isOpen }) => isOpen)) return
  const ask = (more: Pick<LeaseAsk, 'need' | 'want' | 'leaves'>): Modelled => {
    // The share of so much is no bound.
    const held = { ...one.held, room: 1_000 }
    const asked = { ...askOf(held, { limit, refill: 0, lapse: 600_000, life: 1, ...more }), want: 0 }
    const question = { ask: asked, boot: one.boot, epoch: model.epoch, isOpen: !one.isCut }
    const [late] = one.questions
    return { ...one, held: plain(held), left: one.left - 1, questions: late ? [late, question] : [question] }
  }
  const free = one.held.id === '' ? 0 : Math.max(0, freeOf(one.held))
  const asked = Array.from({ length: limit + 1 + free }, (_, at) =>
    ask({ need: Math.max(0, at - free), want: Math.min(at, free), leaves: false }),
  )
  // Some time after its last use: no question is late for so long.
  const isIdle = one.held.id !== '' && isStated(one.held) && one.questions.length === 0
  if (leaves && isIdle) asked.push(ask({ need: 0, want: 0, leaves: true }))
  for (const next of asked) {
    if (next.isCut && next.questions.length === 2) {
      yield replaced(model, of, { ...next, questions: next.questions.slice(0, 1) })
      yield replaced(model, of, { ...next, questions: next.questions.slice(1) })
    } else yield replaced(model, of, next)
  }
}

/** A lease without what a process knows of others. */
const plain = (held: HeldLease): HeldLease => ({
  ...held,
  ...{ room: 0, others: 0, users: 1, isShort: false, othersUsed: 0, othersHeld: 0, isKnown: true },
})

/** A question arrives, and its answer if the process still waits for it. */
function* deliver(model: Model, of: number, at: number): Generator<Model> {
  const question = model.processes[of]?.questions[at]
  if (!question) return
  const { ask, boot } = question
  const holder = { process: `${of}`, boot, run: runOf(of, boot) }
  const known = model.store && copyOf(model.store)
  const answer: LeaseAnswer = known ? lease(known, holder, ask, 0) : { status: 'unseeded' }
  if (answer.status !== 'unseeded' && answer.status !== 'restarted')
    yield received({ ...model, store: known }, of, at, answer)
  else
    for (const read of settledByAll(model)) {
      const recorded = [...read.recorded].map(([run, spent]) => ({ run, spent }))
      const seed = { spent: read.spent, recorded, by: 'begin', quiet: read.isQuiet ? 1 : 0 } as const
      const store = read.store ? copyOf(read.store) : newSum(`${read.epoch}`, 0, seed)
      yield received({ ...read, store }, of, at, lease(store, holder, { ...ask, id: '', seed }, 0))
    }
}

const received = (model: Model, of: number, at: number, answer: LeaseAnswer): Model => {
  const one = model.processes[of] as Modelled
  const { ask, boot, isOpen } = one.questions[at] as Question
  const held = { ...one.held }
  if (isOpen && boot === one.boot) answered(held, ask, answer)
  // Only whether something is short would differ.
  if (model.store) model.store.shortUntil = 0
  const isLeft = ask.leaves && answer.status === 'ok' && boot === one.boot
  const counted = isLeft ? { epoch: model.epoch, used: ask.before + ask.used } : one.counted
  return replaced(model, of, { ...one, held: plain(held), counted, questions: one.questions.toSpliced(at, 1) })
}

/** The ledger is read: each process may have settled something before. */
const settledByAll = (model: Model): readonly Model[] =>
  model.processes.reduce<readonly Model[]>(
    (models, one, of) => models.flatMap((each) => localsOf(one, true).map((local) => settledIn(each, of, local))),
    [model],
  )

const copyOf = (store: LeasedSum): LeasedSum => ({
  ...store,
  entries: new Map(store.entries),
  recorded: new Map(store.recorded),
})

/** A process without the store: its questions may still arrive, the answers do not. */
function* lossesOf(model: Model, { loss }: ModelSize): Generator<Model> {
  const losses = model.losses - 1
  const cut = (one: Modelled): Modelled => ({
    ...{ ...one, isCut: true, wasCut: true },
    questions: one.questions.map((question) => ({ ...question, isOpen: false })),
  })
  const [first] = model.processes
  if ((loss === 'store of one' || loss === 'lease') && first && !first.isCut)
    yield { ...replaced(model, 0, cut(first)), losses }
  if (loss === 'store of all') yield { ...model, losses, processes: model.processes.map(cut) }
  if (loss === 'counter' && model.store) yield { ...model, losses, store: null, epoch: model.epoch + 1, isQuiet: true }
}

/** Time passes: a process no longer uses its lease, its requests end, and another one takes the lease back, by the ledger. */
function* lapsesOf(model: Model, of: number): Generator<Model> {
  const one = model.processes[of] as Modelled
  const entry = model.store?.entries.get(`${of}`)
  // No question is late for so long.
  if (!model.store || !entry || one.questions.length > 0) return
  const settled = { ...one.held, used: one.held.used + one.held.held, held: 0 }
  const ended = { ...one, held: { ...settled, granted: Math.min(settled.granted, settled.used) } }
  for (const read of settledByAll(settledIn(model, of, ended))) {
    const [store, now] = [copyOf(read.store as LeasedSum), 1_000_000]
    store.since -= now
    store.entries.set(`${of}`, { ...entry, at: -now })
    const recorded = [...read.recorded].map(([run, spent]) => ({ run, spent }))
    const seed = { spent: read.spent, recorded, by: 'gone', quiet: 0 } as const
    const ask = { ...askOf(newLease('budget', 'budget'), { ...TAKEN_BACK, limit: 0 }), seed }
    lease(store, { process: 'ledger', boot: 0, run: '' }, ask, 0)
    store.since += now
    yield { ...read, store }
  }
}

const TAKEN_BACK = { refill: 0, need: 0, want: 0, lapse: 600_000, life: 1, leaves: true } as const

/** A process is killed and starts again: what it had reserved is charged. */
const restarted = (model: Model, of: number): Model => {
  const one = model.processes[of] as Modelled
  const again: Modelled = {
    ...{ ...one, held: newLease('budget', 'budget'), boot: one.boot + 1, counted: NONE },
    questions: one.questions.map((question) => ({ ...question, isOpen: false })),
  }
  const next = { ...replaced(model, of, again), losses: model.losses - 1 }
  return one.held.held === 0 ? next : spentIn(next, runOf(of, one.boot), one.held.held)
}

// ── States with the same future ─────────────────────────────────────────────────────────────────────────────────

/**
 * The ledger will not be read for a process: what it has used and reserved makes no difference. Only the first process is lost: all
 * are the same before.
 */
const isCalmFor = ({ store, losses, isQuiet, processes }: Model, of: number, { loss, leaves }: ModelSize): boolean => {
  const one = processes[of]
  if (leaves || (loss === 'lease' && losses > 0 && of === 0)) return false
  if (!store || !one || isQuiet || (losses > 0 && (loss === 'counter' || (loss === 'process' && of === 0))))
    return false
  const { held, boot, questions } = one
  const entry = store.entries.get(`${of}`)
  const isOfNow = (id: string): boolean => id === store.id || (id === '' && (entry?.shift ?? 0) === 0)
  if (!isOfNow(held.id)) return false
  if (questions.some(({ ask, boot: asking }) => asking !== boot || ask.leaves || !isOfNow(ask.id))) return false
  if (entry) return entry.boot === boot
  return held.before === 0 && held.left === '' && !store.recorded.has(runOf(of, boot))
}

const keyOf = (model: Model, size: ModelSize): string => {
  const { store, isQuiet, spent, losses, processes } = model
  let committed = spent
  const texts: string[] = []
  for (const [of, one] of processes.entries()) {
    const { held } = one
    texts.push(isCalmFor(model, of, size) ? calmKey(model, one, of) : fullKey(model, one, of))
    committed += Math.max(0, freeOf(held)) + held.held
  }
  // One that may be lost is different from the others.
  const first = size.loss === 'counter' || size.loss === 'store of all' ? '' : texts.shift()
  texts.sort()
  return `${first}!${texts.join('/')}#${store ? store.sum : 'n'}#${committed}#${isQuiet}#${losses}`
}

/** A process that asks no more makes no difference. Its overdraft does as long as it can be used, or is about to be covered. */
const calmKey = ({ store }: Model, one: Modelled, of: number): string => {
  const { held, questions, left, isCut } = one
  const entry = store?.entries.get(`${of}`)
  const granted = entry ? entry.granted + entry.shift : 0
  let key = one.wasCut ? 'w' : ''
  if (left > 0) {
    key += `${left},${held.granted - granted},${freeOf(held)},${held.id === ''},${isCut},${held.overdrawn}`
    if (questions.some(({ isOpen }) => isOpen)) key += `,${held.overdrawnAsked}`
  }
  for (const { ask, isOpen } of questions)
    key += `;${ask.granted - granted},${ask.need},${isOpen},${ask.id === ''},${ask.seq <= (entry?.seq ?? 0)}`
  return key
}

const fullKey = (model: Model, one: Modelled, of: number): string => {
  const { held, boot, questions } = one
  const { store } = model
  const entry = store?.entries.get(`${of}`)
  const counted = countedOf(model, one, of)
  const idOf = (id: string): number => (id === '' ? 0 : id === store?.id ? 1 : 2)
  let key = `${one.left},${one.isCut},${one.wasCut},${held.overdrawn},${held.overdrawnAsked},`
  key += `${held.granted - held.used},${held.before + held.used - counted},${held.held},${idOf(held.id)}`
  key += `,${idOf(held.left)},${held.stated.used - held.used},${held.stated.held},${boot === 0 ? 0 : 1}`
  if (entry)
    key += `|${entry.granted - entry.used},${entry.held},${boot - entry.boot},${unstatedOf(model, one, of)},${entry.total - counted}`
  for (const { ask, boot: asking, epoch, isOpen } of questions) {
    key += `;${ask.granted - ask.used},${ask.before + ask.used - counted},${ask.held},${ask.need},${idOf(ask.id)},${idOf(ask.left)}`
    key += `,${ask.leaves},${boot - asking},${model.epoch - epoch},${isOpen},${entry?.boot === asking && ask.seq <= entry.seq}`
  }
  return key
}

/** A set of texts by 64 bits of their hash: of 100 million states, two are taken for one with a probability below 1:3,000. */
class StateSet {
  size = 0
  #mask = (1 << 20) - 1
  #high = new Int32Array(1 << 20)
  #low = new Int32Array(1 << 20)

  /** Returns whether it was not in the set. */
  add(text: string): boolean {
    let [high, low] = [0x2f0b4c47, 0x1b873593]
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at)
      high = Math.imul(high ^ code, 0x85ebca6b)
      high ^= high >>> 13
      low = Math.imul(low ^ code, 0xc2b2ae35)
      low ^= low >>> 15
    }
    high = Math.imul(high ^ (high >>> 16), 0x7feb352d)
    low = Math.imul(low ^ (low >>> 16), 0x846ca68b)
    if (!this.#put(high, low || 1)) return false
    if (++this.size * 3 > this.#mask * 2) this.#grow()
    return true
  }

  #put(high: number, low: number): boolean {
    let at = (high ^ (low >>> 7)) & this.#mask
    for (; this.#low[at] !== 0; at = (at + 1) & this.#mask)
      if (this.#low[at] === low && this.#high[at] === high) return false
    this.#high[at] = high
    this.#low[at] = low
    return true
  }

  #grow(): void {
    const [highs, lows] = [this.#high, this.#low]
    const length = 2 * lows.length
    this.#mask = length - 1
    this.#high = new Int32Array(length)
    this.#low = new Int32Array(length)
    for (const [at, low] of lows.entries()) if (low !== 0) this.#put(highs[at] ?? 0, low)
  }
}
