import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CapturedReply } from '../../../test/support/gateway.ts'
import { stillWorld } from '../../../test/support/still-world.ts'
import { bytesOf } from './answer-buffer.ts'
import { BroadcastResponse, type ReadOutcome } from './broadcast-response.ts'

const LIMIT = 4_000

const broadcastWith = (limit = LIMIT, writeTimeout = 100) => {
  const world = stillWorld()
  let taken = 0
  let largest = 0
  let unread = 0
  let over = 0
  const answer = new BroadcastResponse({
    world,
    limit,
    writeTimeout,
    quota: {
      take(bytes) {
        taken += bytes
        largest = Math.max(largest, taken)
        return true
      },
      give(bytes) {
        taken -= bytes
      },
    },
    onNoReaders: () => {
      unread++
    },
    onEnd: () => {
      over++
    },
  })
  const read = (own: Readonly<Record<string, string>> = {}) => {
    const reply = new CapturedReply()
    const left: ReadOutcome[] = []
    answer.read(reply, own, (outcome) => left.push(outcome))
    return Object.assign(reply, { left })
  }
  return { world, answer, read, taken: () => taken, largest: () => largest, unread: () => unread, over: () => over }
}

test('shared: a single reader receives each write unchanged', () => {
  const { answer, read, over } = broadcastWith()
  const reply = read()
  answer.writeHead(200, { a: 'b' })
  assert.equal(answer.write('one'), true)
  answer.end('two')
  assert.deepEqual(
    [reply.status, reply.headers, reply.written, reply.ending, reply.left],
    [200, { a: 'b' }, ['one', 'two'], 'ended', ['read']],
  )
  assert.equal(over(), 1)
})

test('shared: a later reader receives the whole answer, with its own headers', () => {
  const { answer, read } = broadcastWith()
  read()
  const early = read({ id: 'early' })
  answer.writeHead(200, { id: 'first', other: 'o' })
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
      [reply.status, reply.headers, reply.text, reply.ending],
      [200, { id, other: 'o' }, 'one two three', 'ended'],
    )
})

test('shared: a slow reader delays no other reader and misses nothing', () => {
  const { answer, read } = broadcastWith()
  const slow = read()
  const quick = read()
  answer.writeHead(200, {})
  slow.writable = false
  for (const word of ['a', 'b', 'c']) assert.equal(answer.write(word), true)
  assert.equal(quick.text, 'abc')
  assert.equal(slow.text, 'a')
  answer.end('d')
  assert.deepEqual([quick.ending, slow.ending], ['ended', null])
  slow.drain()
  assert.deepEqual([slow.text, slow.ending], ['abcd', 'ended'])
})

test('shared: a single full reader pauses the call until it drains or another reader joins', () => {
  const { answer, read } = broadcastWith()
  let drained = 0
  answer.onDrain(() => {
    drained++
  })
  const slow = read()
  answer.writeHead(200, {})
  slow.writable = false
  assert.equal(answer.write('a'), false)
  assert.equal(drained, 0)
  slow.drain()
  assert.equal(drained, 1)
  slow.writable = false
  assert.equal(answer.write('b'), false)
  const quick = read()
  assert.deepEqual([drained, quick.text], [2, 'ab'])
})

test('shared: the call resumes when the full reader leaves', () => {
  const { answer, read } = broadcastWith()
  let drained = 0
  answer.onDrain(() => {
    drained++
  })
  const slow = read()
  answer.writeHead(200, {})
  slow.writable = false
  assert.equal(answer.write('a'), false)
  slow.disconnect()
  assert.equal(drained, 1)
  assert.equal(answer.write('b'), true)
})

test('shared: a reader that stops reading is dropped after the write timeout; the others continue', async () => {
  const { answer, read, world, unread } = broadcastWith()
  const stuck = read()
  const quick = read()
  answer.writeHead(200, {})
  stuck.writable = false
  answer.write('a')
  await world.advance(101)
  assert.deepEqual([stuck.ending, stuck.left, unread()], ['cut', ['left'], 0])
  answer.end('b')
  assert.equal(quick.text, 'ab')
  assert.equal(world.timers(), 0)
})

test('shared: reports no readers when the last one has left, not earlier', () => {
  const { answer, read, unread } = broadcastWith()
  let gone = 0
  answer.onDisconnect(() => {
    gone++
  })
  const one = read()
  const two = read()
  answer.writeHead(200, {})
  one.disconnect()
  assert.equal(unread(), 0)
  two.disconnect()
  assert.deepEqual([unread(), gone], [1, 0])
  assert.equal(answer.write('still here'), true)
  const back = read()
  assert.equal(back.text, 'still here')
  answer.abandon()
  answer.abandon()
  assert.equal(gone, 1)
})

test('shared: a call that starts after the answer was abandoned is cancelled', () => {
  const { answer } = broadcastWith()
  let gone = 0
  answer.abandon()
  answer.onDisconnect(() => {
    gone++
  })
  assert.equal(gone, 1)
})

test('shared: a cut answer is cut for every reader and has no status', () => {
  const { answer, read, over } = broadcastWith()
  const one = read()
  const slow = read()
  answer.writeHead(200, {})
  slow.writable = false
  answer.write('a')
  answer.write('b')
  answer.abort()
  answer.end('c')
  assert.deepEqual([one.ending, slow.ending, over(), answer.status], ['cut', 'cut', 1, null])
})

test('shared: above its limit an answer follows the slowest reader and keeps only unread text', () => {
  const { answer, read, taken, largest } = broadcastWith(1_000)
  const one = read()
  const slow = read()
  answer.writeHead(200, {})
  slow.writable = false
  const piece = 'x'.repeat(200)
  let written = 0
  while (answer.write(piece) && written < 50) written++
  assert.equal(answer.replayable, false)
  assert.ok(largest() <= 1_000 + bytesOf(piece), `${largest()}`)
  assert.throws(() => read(), /no longer buffered/)
  slow.drain()
  assert.equal(taken(), 0)
  assert.equal(slow.text, one.text)
  for (let at = 0; at < 50; at++) assert.equal(answer.write(piece), true)
  assert.equal(taken(), 0)
  answer.end('last')
  assert.equal(slow.text, one.text)
  assert.equal(one.text.length, 200 * (written + 51) + 4)
})

test('shared: an answer that exceeds its limit without readers reports it again', () => {
  const { answer, read, unread } = broadcastWith(100)
  read().disconnect()
  answer.writeHead(200, {})
  assert.equal(unread(), 1)
  answer.write('x'.repeat(200))
  assert.equal(unread(), 2)
})

test('shared: readers that join, pause, resume and leave in any order receive a prefix; those that stay receive all', async () => {
  for (let seed = 1; seed <= 400; seed++) {
    const limit = seed % 3 === 0 ? 700 : 1_000_000
    const broadcast = broadcastWith(limit, 0)
    const { world, answer, read } = broadcast
    const pick = (n: number) => Math.floor(world.random() * n)
    const readers: ReturnType<typeof read>[] = [read()]
    let paused = false
    answer.onDrain(() => {
      paused = false
    })
    answer.writeHead(200, {})
    let all = ''
    for (let step = 0; step < 60; step++) {
      const one = readers[pick(readers.length)]
      switch (pick(6)) {
        case 0:
          if (answer.replayable) readers.push(read())
          break
        case 1:
          if (one) one.writable = false
          break
        case 2:
          one?.drain()
          break
        case 3:
          if (one && readers.length > 1 && one.left.length === 0) one.disconnect()
          break
        default:
          if (paused) break
          all += `${step} `
          paused = !answer.write(`${step} `)
      }
      for (const reader of readers) assert.ok(all.startsWith(reader.text), `seed ${seed}, step ${step}`)
      const open = readers.filter(({ left }) => left.length === 0)
      // A paused call must have a reader that can resume it.
      if (paused)
        assert.ok(
          open.some(({ writable }) => !writable),
          `seed ${seed}, step ${step}: paused without a full reader`,
        )
    }
    for (const reader of readers) reader.drain()
    answer.end('end')
    for (const reader of readers) reader.drain()
    answer.release()
    for (const { left, ending, text } of readers)
      if (left[0] === 'left') assert.equal(ending, null)
      else assert.deepEqual([left, ending, text], [['read'], 'ended', `${all}end`], `seed ${seed}`)
    assert.equal(broadcast.taken(), 0, `seed ${seed}`)
    assert.equal(world.timers(), 0)
  }
})
