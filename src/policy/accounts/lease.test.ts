import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answered, askOf, freeOf, type HeldLease, newLease } from './held-lease.ts'
import { LEASE_GRACE, type LeaseAnswer, type LeaseAsk, type LeasedSum, lease, newSum, takeBack } from './lease.ts'

const LIMIT = 4
const TERMS = { limit: LIMIT, refill: 0, lapse: 600_000, life: 1, leaves: false }
const NOTHING = { spent: 0, recorded: [], by: 'begin', quiet: 0 } as const

/** A counter and processes that lease it, without a network. */
const given = (limit: number) => {
  const counter = newSum('c', 0, NOTHING)
  const process = (name: string, kind: HeldLease['kind'] = 'budget') => {
    const held = newLease('budget', kind)
    const ask = (more: object = {}, now = 0, boot = 1) => {
      const asked = askOf(held, { ...TERMS, limit, need: 0, want: limit, ...more })
      const answer = lease(counter, { process: name, boot, run: `${name}${boot}` }, { ...asked, seed: NOTHING }, now)
      answered(held, asked, answer)
      return answer
    }
    return { held, ask, free: () => freeOf(held) }
  }
  return { counter, process }
}

test('lease: a process keeps half of an equal share, and gives back what is above it', () => {
  const { process } = given(1_200)
  const [a, b] = [process('a'), process('b')]
  a.ask()
  assert.equal(a.free(), 600)
  b.ask()
  assert.equal(b.free(), 150)
  // It learns of the other one, and then gives back.
  a.ask()
  a.ask()
  assert.equal(a.free(), Math.floor((450 + 600) / 4))
})

test('lease: a process gets what its requests need, as long as there is room', () => {
  const { process } = given(100)
  const [a, b] = [process('a'), process('b')]
  a.ask({ need: 70, want: 0 })
  b.ask({ need: 70, want: 0 })
  assert.deepEqual([a.free(), b.free()], [70, 30])
  assert.deepEqual([b.held.room, b.held.others], [0, 70])
})

test('lease: what was used of a rate comes back with time, but not beyond the limit', () => {
  const { process, counter } = given(60)
  const a = process('a', 'rate')
  const rate = { refill: 60 / 60_000, want: 0 }
  a.ask({ ...rate, need: 60 })
  a.held.used += 60
  assert.equal(a.ask({ ...rate, need: 1 }, 0).status, 'ok')
  assert.equal(a.free(), 0)
  a.ask({ ...rate, need: 10 }, 10_000)
  assert.equal(a.free(), 10)
  a.held.used += 10
  a.ask(rate, 600_000)
  a.ask(rate, 660_000)
  assert.equal(counter.sum, 0)
})

test('lease: a process that is gone gives back what it did not use, and its reservations are charged', () => {
  const { process, counter } = given(1_000)
  const [a, b] = [process('a'), process('b')]
  a.ask({ need: 100, want: 0 })
  a.held.held += 60
  a.held.used += 10
  a.ask()
  for (let now = 0; now <= 700_000; now += 10_000) b.ask({ want: 0 }, now)
  assert.deepEqual([counter.entries.size, counter.sum, counter.used, counter.held], [1, 70, 70, 0])
  assert.equal(a.ask({}, 700_000).status, 'lapsed')
  assert.deepEqual([a.held.used, a.held.held, a.free()], [-60, 60, 0])
  a.held.held -= 60
  a.held.used += 55
  a.ask({ want: 0 }, 700_000)
  a.ask({ want: 0 }, 700_000)
  assert.deepEqual([counter.sum, counter.used, counter.held], [65, 65, 0])
})

test('lease: after a pause of the store no process is gone at once', () => {
  const { process, counter } = given(1_000)
  const [a, b] = [process('a'), process('b')]
  a.ask({ need: 100, want: 0 })
  b.ask({ want: 0 }, 0)
  b.ask({ want: 0 }, 700_000)
  b.ask({ want: 0 }, 700_000 + LEASE_GRACE - 1)
  assert.equal(counter.entries.size, 2)
  a.ask({ want: 0 }, 700_000 + LEASE_GRACE - 1)
  assert.equal(a.free(), 0)
})

test('lease: a process that starts again takes back what it was granted before', () => {
  const { process, counter } = given(1_000)
  process('a').ask({ need: 500, want: 0 })
  process('a').ask({ want: 0 }, 0, 2)
  assert.equal(counter.sum, 0)
})

test('lease: an emptied store begins with what the ledger has, and grants nothing at first', () => {
  const ask = (seq: number, seed: LeaseAsk['seed'], now: number) => ({
    ...{ ...askOf(newLease('budget', 'budget'), { ...TERMS, limit: 100, need: 10, want: 0 }), seq, seed },
    now,
  })
  const counter = newSum('d', 0, { ...NOTHING, spent: 40, quiet: 3_000 })
  const answer = lease(counter, { process: 'a', boot: 0, run: '' }, ask(1, null, 0), 0)
  assert.deepEqual([answer.status === 'ok' && answer.granted, counter.sum], [0, 40])
  const other = { process: 'b', boot: 0, run: '' }
  for (const by of ['begin', 'raise'] as const) lease(counter, other, ask(1, { ...NOTHING, spent: 30, by }, 1), 1)
  assert.equal(counter.sum, 40)
  const later = lease(counter, other, ask(2, null, 3_001), 3_001)
  assert.equal(later.status === 'ok' && later.granted, 10)
})

test('lease: what the ledger has of processes is not counted twice, whenever it was read', () => {
  const [a, b] = ['a', 'b'].map((name) => ({ process: name, boot: 1, run: name }))
  assert.ok(a && b)
  const held = newLease('budget', 'budget')
  const ask = (counter: LeasedSum, more: object = {}) => {
    const asked = askOf(held, { ...TERMS, limit: 1_000, need: 0, want: 0, ...more })
    return answered(held, asked, lease(counter, a, asked, 0))
  }
  const first = newSum('first', 0, NOTHING)
  ask(first)
  held.used += 10
  ask(first)
  ask(first, { leaves: true })
  held.used += 20
  ask(first)
  assert.deepEqual([first.used, held.before, held.used], [30, 10, 20])
  // The store was emptied. The ledger has 25 of what a process has used, and all of another one.
  held.used += 3
  const recorded = [
    { run: 'a', spent: 25 },
    { run: 'b', spent: 7 },
  ]
  const second = newSum('second', 0, { ...NOTHING, spent: 132, recorded })
  held.id = ''
  held.used += 2
  // The first answer is lost.
  lease(second, a, askOf(held, { ...TERMS, limit: 1_000, need: 0, want: 0 }), 0)
  ask(second)
  assert.deepEqual([second.used, held.before + held.used], [142, 35])
  held.used += 1
  ask(second, { leaves: true })
  ask(second)
  assert.equal(second.used, 143)
  const other = { ...askOf(newLease('budget', 'budget'), { ...TERMS, limit: 1_000, need: 0, want: 0 }), used: 9 }
  lease(second, b, other, 0)
  assert.equal(second.used, 145)
  // It starts again: the ledger has what it has spent last.
  const again = { ...NOTHING, spent: 150, recorded: [{ run: 'b', spent: 12 }], by: 'raise' } as const
  lease(second, { ...b, boot: 2, run: 'b2' }, { ...other, used: 0, seed: again }, 0)
  assert.deepEqual([second.used, second.sum, second.held], [150, 150, 0])
})

// ── All interleavings ───────────────────────────────────────────────────────────────────────────────────────────

type Message =
  | { readonly to: 'store'; readonly epoch: number; readonly of: number; readonly boot: number; readonly ask: LeaseAsk }
  | {
      readonly to: 'process'
      readonly epoch: number
      readonly of: number
      readonly boot: number
      readonly ask: LeaseAsk
      readonly answer: LeaseAnswer
    }
type Modelled = { held: HeldLease; boot: number; left: number; isAsking: boolean }
/** `spent`: what was settled, or is charged because its process has ended: what the ledger knows; `recorded`: of each run. */
type Model = {
  store: LeasedSum | null
  epoch: number
  isQuiet: boolean
  spent: number
  recorded: Map<string, number>
  faults: number
  processes: Modelled[]
  messages: Message[]
}

const copyOf = (model: Model): Model => ({
  ...model,
  store: model.store && { ...model.store, entries: new Map(model.store.entries) },
  recorded: new Map(model.recorded),
  processes: model.processes.map((one) => ({ ...one, held: { ...one.held } })),
  messages: [...model.messages],
})

/** What may be used from now on, beyond what was spent, if nothing else is granted. */
const committedOf = ({ spent, processes }: Model): number =>
  processes.reduce((sum, { held }) => sum + Math.max(0, freeOf(held)) + held.held, spent)

const runOf = (of: number, boot: number): string => `${of}.${boot}`

const spend = (model: Model, run: string, amount: number): void => {
  model.spent += amount
  model.recorded.set(run, (model.recorded.get(run) ?? 0) + amount)
}

/** What the store has of all that a process has used. */
const countedOf = ({ store }: Model, { held, boot }: Modelled, of: number): number => {
  const entry = store?.entries.get(`${of}`)
  if (entry?.boot === boot) return entry.total
  return held.left === store?.id ? held.before : (store?.recorded.get(runOf(of, boot)) ?? 0)
}

/** What an earlier process has spent and not stated. */
const unstatedOf = ({ store, recorded }: Model, { boot }: Modelled, of: number): number => {
  const entry = store?.entries.get(`${of}`)
  return entry && entry.boot !== boot ? (recorded.get(entry.run) ?? 0) - entry.total : 0
}

/** What the store has, and processes are about to state. */
const shownOf = (model: Model, store: LeasedSum): number =>
  model.processes.reduce(
    (sum, one, of) => sum + one.held.before + one.held.used - countedOf(model, one, of) + unstatedOf(model, one, of),
    store.used,
  )

const deliver = (model: Model, message: Message): void => {
  const process = model.processes[message.of]
  if (!process) return
  if (message.to === 'process') {
    if (message.boot !== process.boot) return
    if (message.ask.seq === process.held.seq) process.isAsking = false
    answered(process.held, message.ask, message.answer)
    return
  }
  const { of, boot, ask } = message
  const holder = { process: `${of}`, boot, run: runOf(of, boot) }
  const quiet = model.isQuiet ? 1 : 0
  let answer: LeaseAnswer = model.store ? lease(model.store, holder, ask, 0) : { status: 'unseeded' }
  if (answer.status === 'unseeded' || answer.status === 'restarted') {
    const recorded = [...model.recorded].map(([run, spent]) => ({ run, spent }))
    const by = answer.status === 'restarted' ? 'raise' : 'begin'
    const seed = { spent: model.spent, recorded, by, quiet } as const
    model.store ??= newSum(`${model.epoch}`, 0, seed)
    answer = lease(model.store, holder, { ...ask, id: '', seed }, 0)
  }
  model.messages.push({ to: 'process', epoch: message.epoch, of, boot, ask, answer })
}

/** Every state that one step can lead to. */
function* stepsOf(model: Model): Generator<Model> {
  for (const [of, { held, left, isAsking }] of model.processes.entries()) {
    const step = (change: (process: Modelled, next: Model) => void, isFault = false): Model => {
      const next = copyOf(model)
      const process = next.processes[of] as Modelled
      if (isFault) next.faults--
      else process.left--
      change(process, next)
      return next
    }
    if (left > 0) {
      // A process that has given up waiting asks again; the earlier question may still arrive.
      for (const need of [0, 1, 2])
        if (!isAsking || model.faults > 0)
          yield step((process, next) => {
            if (isAsking) next.faults--
            process.isAsking = true
            const ask = askOf(process.held, { ...TERMS, need, want: LIMIT })
            next.messages.push({ to: 'store', epoch: next.epoch, of, boot: process.boot, ask })
          })
      if (freeOf(held) >= 1) yield step((process) => process.held.held++)
      if (held.held >= 1)
        yield step((process, next) => {
          process.held.held--
          process.held.used++
          spend(next, runOf(of, process.boot), 1)
        })
    }
    if (model.faults > 0)
      yield step((process, next) => {
        spend(next, runOf(of, process.boot), process.held.held)
        process.held = newLease('budget', 'budget')
        process.boot++
        process.isAsking = false
        for (let at = next.messages.length - 1; at >= 0; at--)
          if (next.messages[at]?.of === of && next.messages[at]?.to === 'process') next.messages.splice(at, 1)
      }, true)
  }
  for (const at of model.messages.keys()) {
    const next = copyOf(model)
    const [message] = next.messages.splice(at, 1)
    if (message) deliver(next, message)
    yield next
    if (model.faults === 0) continue
    const lost = copyOf(model)
    lost.messages.splice(at, 1)
    lost.faults--
    yield lost
  }
  if (model.faults > 0 && model.store) {
    const emptied = copyOf(model)
    emptied.store = null
    emptied.epoch++
    emptied.isQuiet = true
    emptied.faults--
    yield emptied
  }
  // The quiet time ends after each process has stated what it was granted, and waits for no answer from before.
  const { store } = model
  const isStated = model.processes.every(({ held }) => held.id === store?.id || (held.granted === 0 && held.used === 0))
  if (model.isQuiet && store && isStated && model.messages.every(({ epoch }) => epoch === model.epoch)) {
    const next = copyOf(model)
    next.isQuiet = false
    if (next.store) next.store.quietUntil = 0
    yield next
  }
}

/**
 * A text that is the same for states with the same future: which process is which does not matter, nor what only messages show,
 * and of numbers that only grow, the distance to what the store has.
 */
const keyOf = (model: Model): string => {
  const { store, isQuiet, spent, faults, processes, messages } = model
  const texts = processes.map((process, of) => {
    const { held, boot, left, isAsking } = process
    const entry = store?.entries.get(`${of}`)
    const seq = entry?.seq ?? 0
    const counted = countedOf(model, process, of)
    const isKnown = held.id === '' ? 0 : held.id === store?.id ? 1 : 2
    const sent = messages.flatMap((one) => {
      if (one.of !== of) return []
      const { ask } = one
      const used = ask.before + ask.used - counted
      const about = [boot - one.boot, ask.seq - seq, ask.granted - ask.used, used, ask.held, ask.need]
      const isIn = ask.id === '' ? 0 : ask.id === store?.id ? 1 : 2
      return one.to === 'store' ? [`>${about},${isIn}`] : [`<${about},${isIn},${answerKey(one.answer)}`]
    })
    const unstated = unstatedOf(model, process, of)
    const stored = entry ? [entry.granted - entry.used, entry.held, boot - entry.boot, unstated].join() : ''
    const own = [
      held.granted - held.used,
      held.before + held.used - counted,
      held.held,
      isKnown,
      held.seq - seq,
      held.room,
      held.users,
      left,
      isAsking,
    ]
    const stated = [held.stated.used - held.used, held.stated.held]
    return [own, stated, stored, sent.sort().join(';')].join('|')
  })
  return [texts.sort().join('/'), store?.sum, store?.used, store?.held, isQuiet, spent, faults].join('#')
}

const answerKey = (answer: LeaseAnswer): string =>
  answer.status === 'ok' ? [answer.granted, answer.sum, answer.users].join() : answer.status

const explore = (processes: number, operations: number, faults: number) => {
  const fresh = () => ({ held: newLease('budget', 'budget'), boot: 0, left: operations, isAsking: false })
  const start: Model = {
    ...{ store: null, epoch: 0, isQuiet: false, spent: 0, recorded: new Map(), faults, messages: [] },
    processes: Array.from({ length: processes }, fresh),
  }
  const seen = new Set([keyOf(start)])
  let frontier = [start]
  let most = 0
  while (frontier.length > 0) {
    const next: Model[] = []
    for (const model of frontier)
      for (const reached of stepsOf(model)) {
        const key = keyOf(reached)
        if (seen.has(key)) continue
        seen.add(key)
        const committed = committedOf(reached)
        most = Math.max(most, committed)
        assert.ok(committed <= LIMIT, `${committed} of ${LIMIT}: ${JSON.stringify(reached)}`)
        if (reached.store) assert.equal(shownOf(reached, reached.store), reached.spent, JSON.stringify(reached))
        next.push(reached)
      }
    frontier = next
  }
  return { states: seen.size, most }
}

for (const [processes, operations, faults] of [
  [3, 2, 0],
  [2, 2, 1],
] as const)
  test(`lease: ${processes} processes with ${operations} operations and ${faults} faults never exceed the limit`, (t) => {
    const { states, most } = explore(processes, operations, faults)
    t.diagnostic(`${states} states`)
    assert.equal(most, LIMIT)
  })

test('lease: taking back a process that is not there changes nothing', () => {
  const counter = newSum('c', 0, NOTHING)
  takeBack(counter, 'a', 'budget')
  assert.deepEqual(counter, newSum('c', 0, NOTHING))
})
