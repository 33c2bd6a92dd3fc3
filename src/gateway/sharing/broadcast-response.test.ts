import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CapturedReply } from '../../../test/support/gateway.ts'
import { stillWorld } from '../../../test/support/still-world.ts'
import { BroadcastResponse, bytesOf, type Leaving } from './broadcast-response.ts'

const MOST = 4_000

const stageFor = (most = MOST, patience = 100) => {
  const world = stillWorld()
  let taken = 0
  let largest = 0
  let deserted = 0
  let over = 0
  const answer = new BroadcastResponse({
    world,
    most,
    patience,
    room: {
      take(bytes) {
        taken += bytes
        largest = Math.max(largest, taken)
        return true
      },
      give(bytes) {
        taken -= bytes
      },
    },
    deserted: () => {
      deserted++
    },
    over: () => {
      over++
    },
  })
  const read = (own: Readonly<Record<string, string>> = {}) => {
    const reply = new CapturedReply()
    const left: Leaving[] = []
    answer.read(reply, own, (how) => left.push(how))
    return Object.assign(reply, { left })
  }
  return { world, answer, read, taken: () => taken, largest: () => largest, deserted: () => deserted, over: () => over }
}

test('shared: one reader is written to as if nobody stood between', () => {
  const { answer, read, over } = stageFor()
  const reply = read()
  answer.head(200, { a: 'b' })
  assert.equal(answer.write('one'), true)
  answer.end('two')
  assert.deepEqual(
    [reply.status, reply.headers, reply.written, reply.over, reply.left],
    [200, { a: 'b' }, ['one', 'two'], 'ended', ['read']],
  )
  assert.equal(over(), 1)
})

test('shared: whoever comes later gets all of it, with headers of its own, whenever it comes', () => {
  const { answer, read } = stageFor()
  read()
  const early = read({ id: 'early' })
  answer.head(200, { id: 'first', other: 'o' })
  answer.write('one ')
  const middle = read({ id: 'middle' })
  answer.write('two ')
  answer.end('three')
  const late = read({ id: 'late' })
  for (const [reply, id] of [
    [early, 'early'],
    [middle, 'middle'],
    [late, 'late'],
  ] as const)
    assert.deepEqual(
      [reply.status, reply.headers, reply.text, reply.over],
      [200, { id, other: 'o' }, 'one two three', 'ended'],
    )
})

test('shared: a slow reader holds nobody back, and misses nothing', () => {
  const { answer, read } = stageFor()
  const slow = read()
  const quick = read()
  answer.head(200, {})
  slow.room = false
  for (const word of ['a', 'b', 'c']) assert.equal(answer.write(word), true)
  assert.equal(quick.text, 'abc')
  assert.equal(slow.text, 'a')
  answer.end('d')
  assert.deepEqual([quick.over, slow.over], ['ended', null])
  slow.drain()
  assert.deepEqual([slow.text, slow.over], ['abcd', 'ended'])
})

test('shared: one that is full and alone holds the road back, until it has room or another reads', () => {
  const { answer, read } = stageFor()
  let drained = 0
  answer.onDrain(() => {
    drained++
  })
  const slow = read()
  answer.head(200, {})
  slow.room = false
  assert.equal(answer.write('a'), false)
  assert.equal(drained, 0)
  slow.drain()
  assert.equal(drained, 1)
  slow.room = false
  assert.equal(answer.write('b'), false)
  const quick = read()
  assert.deepEqual([drained, quick.text], [2, 'ab'])
})

test('shared: one that held the road back and leaves holds it no more', () => {
  const { answer, read } = stageFor()
  let drained = 0
  answer.onDrain(() => {
    drained++
  })
  const slow = read()
  answer.head(200, {})
  slow.room = false
  assert.equal(answer.write('a'), false)
  slow.leave()
  assert.equal(drained, 1)
  assert.equal(answer.write('b'), true)
})

test('shared: whoever reads nothing for its time is let go, and the rest goes on', async () => {
  const { answer, read, world, deserted } = stageFor()
  const stuck = read()
  const quick = read()
  answer.head(200, {})
  stuck.room = false
  answer.write('a')
  await world.pass(101)
  assert.deepEqual([stuck.over, stuck.left, deserted()], ['cut', ['left'], 0])
  answer.end('b')
  assert.equal(quick.text, 'ab')
  assert.equal(world.timers(), 0)
})

test('shared: it is deserted when the last has left, and not before', () => {
  const { answer, read, deserted } = stageFor()
  let gone = 0
  answer.onGone(() => {
    gone++
  })
  const one = read()
  const two = read()
  answer.head(200, {})
  one.leave()
  assert.equal(deserted(), 0)
  two.leave()
  assert.deepEqual([deserted(), gone], [1, 0])
  assert.equal(answer.write('still here'), true)
  const back = read()
  assert.equal(back.text, 'still here')
  answer.abandon()
  answer.abandon()
  assert.equal(gone, 1)
})

test('shared: who begins to write an answer nobody wants is told so', () => {
  const { answer } = stageFor()
  let gone = 0
  answer.abandon()
  answer.onGone(() => {
    gone++
  })
  assert.equal(gone, 1)
})

test('shared: what breaks off breaks off for all, and never looks whole', () => {
  const { answer, read, over } = stageFor()
  const one = read()
  const slow = read()
  answer.head(200, {})
  slow.room = false
  answer.write('a')
  answer.write('b')
  answer.cut()
  answer.end('c')
  assert.deepEqual([one.over, slow.over, over(), answer.status], ['cut', 'cut', 1, null])
})

test('shared: an answer that outgrows its room goes on at the pace of its slowest, and holds nothing more', () => {
  const { answer, read, taken, largest } = stageFor(1_000)
  const one = read()
  const slow = read()
  answer.head(200, {})
  slow.room = false
  const piece = 'x'.repeat(200)
  let written = 0
  while (answer.write(piece) && written < 50) written++
  assert.equal(answer.whole, false)
  assert.ok(largest() <= 1_000 + bytesOf(piece), `${largest()}`)
  assert.throws(() => read(), /without its beginning/)
  slow.drain()
  assert.equal(taken(), 0)
  assert.equal(slow.text, one.text)
  for (let at = 0; at < 50; at++) assert.equal(answer.write(piece), true)
  assert.equal(taken(), 0)
  answer.end('last')
  assert.equal(slow.text, one.text)
  assert.equal(one.text.length, 200 * (written + 51) + 4)
})

test('shared: one that outgrows its room while nobody reads is deserted again', () => {
  const { answer, read, deserted } = stageFor(100)
  read().leave()
  answer.head(200, {})
  assert.equal(deserted(), 1)
  answer.write('x'.repeat(200))
  assert.equal(deserted(), 2)
})

test('shared: readers that come, stop, go on and leave in any order each get a beginning of it, and all who stay get all', async () => {
  for (let seed = 1; seed <= 400; seed++) {
    const most = seed % 3 === 0 ? 700 : 1_000_000
    const stage = stageFor(most, 0)
    const { world, answer, read } = stage
    const pick = (n: number) => Math.floor(world.random() * n)
    const readers: ReturnType<typeof read>[] = [read()]
    let held = false
    answer.onDrain(() => {
      held = false
    })
    answer.head(200, {})
    let all = ''
    for (let step = 0; step < 60; step++) {
      const one = readers[pick(readers.length)]
      switch (pick(6)) {
        case 0:
          if (answer.whole) readers.push(read())
          break
        case 1:
          if (one) one.room = false
          break
        case 2:
          one?.drain()
          break
        case 3:
          if (one && readers.length > 1 && one.left.length === 0) one.leave()
          break
        default:
          if (held) break
          all += `${step} `
          held = !answer.write(`${step} `)
      }
      for (const reader of readers) assert.ok(all.startsWith(reader.text), `seed ${seed}, step ${step}`)
      const open = readers.filter(({ left }) => left.length === 0)
      // A held road is one somebody can still let go on.
      if (held)
        assert.ok(
          open.some(({ room }) => !room),
          `seed ${seed}, step ${step}: held by nobody`,
        )
    }
    for (const reader of readers) reader.drain()
    answer.end('end')
    for (const reader of readers) reader.drain()
    answer.release()
    for (const { left, over, text } of readers)
      if (left[0] === 'left') assert.equal(over, null)
      else assert.deepEqual([left, over, text], [['read'], 'ended', `${all}end`], `seed ${seed}`)
    assert.equal(stage.taken(), 0, `seed ${seed}`)
    assert.equal(world.timers(), 0)
  }
})
