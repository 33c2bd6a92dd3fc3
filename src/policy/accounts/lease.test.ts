import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answered, askOf, freeOf, type HeldLease, type LeaseTerms, newLease } from './held-lease.ts'
import { LEASE_GRACE, type LeaseAsk, type LeasedSum, lease, newSum, takeBack } from './lease.ts'

const LIMIT = 4
const TERMS = { limit: LIMIT, refill: 0, lapse: 600_000, life: 1, leaves: false }
const NOTHING = { spent: 0, recorded: [], by: 'begin', quiet: 0 } as const

/** A counter and processes that lease it, without a network. */
const given = (limit: number) => {
  const counter = newSum('c', 0, NOTHING)
  const process = (name: string, kind: HeldLease['kind'] = 'budget') => {
    const held = newLease('budget', kind)
    const ask = ({ seed = NOTHING, ...more }: Partial<LeaseTerms & Pick<LeaseAsk, 'seed'>> = {}, now = 0, boot = 1) => {
      const asked = askOf(held, { ...TERMS, limit, need: 0, want: limit, ...more })
      const answer = lease(counter, { process: name, boot, run: `${name}${boot}` }, { ...asked, seed }, now)
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

for (const [known, charged] of [
  [0, 70],
  [65, 70],
  [95, 95],
] as const)
  test(`lease: a process that is gone is charged ${charged}, if the ledger has ${known} and it had used and reserved 70`, () => {
    const { process, counter } = given(1_000)
    const [a, b] = [process('a'), process('b')]
    a.ask({ need: 100, want: 0 })
    a.held.held += 60
    a.held.used += 10
    a.ask({ want: 0 })
    let isGone = false
    for (let now = 0; now <= 700_000; now += 10_000) {
      const answer = b.ask({ want: 0 }, now)
      isGone = answer.status === 'ok' && answer.isGone
    }
    // Its lease is its own until the ledger is read.
    assert.deepEqual([isGone, counter.sum, counter.used, counter.held], [true, 70, 10, 60])
    const recorded = known === 0 ? [] : [{ run: 'a1', spent: known }]
    b.ask({ want: 0, seed: { ...NOTHING, recorded, by: 'gone' } }, 700_000)
    assert.deepEqual([counter.entries.size, counter.sum, counter.used, counter.held], [1, charged, charged, 0])
    a.held.held -= 60
    a.held.used += 55
    assert.equal(a.ask({}, 700_000).status, 'lapsed')
    a.ask({ want: 0 }, 700_000)
    a.ask({ want: 0 }, 700_000)
    assert.deepEqual([counter.sum, counter.used, counter.held], [65, 65, 0])
  })

test('lease: slots of a process that is gone are free without the ledger', () => {
  const { process, counter } = given(10)
  const [a, b] = [process('a', 'slots'), process('b', 'slots')]
  a.ask({ need: 4, want: 0 })
  a.held.held += 3
  a.ask({ want: 0 })
  for (let now = 0; now <= 700_000; now += 10_000) b.ask({ want: 0 }, now)
  assert.deepEqual([counter.sum, counter.used, counter.held], [0, 0, 0])
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

test('lease: taking back a process that is not there changes nothing', () => {
  const counter = newSum('c', 0, NOTHING)
  takeBack(counter, 'a', 'budget')
  assert.deepEqual(counter, newSum('c', 0, NOTHING))
})
