import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import { type Fetched, Kept } from './credential-cache.ts'

const MINUTE = 60_000
const late = (): Failure => fail('auth', 'late', { unsent: true })
const broke = (error: unknown): Failure => fail('auth', `broke: ${error}`, { unsent: true })
const patient = (): AbortSignal => new AbortController().signal

/** A token server whose answers the test gives, and a clock it moves. */
const server = ({ limit = 5_000 } = {}) => {
  const asked: { readonly answer: (outcome: Outcome<Fetched<string>>) => void; readonly signal: AbortSignal }[] = []
  const clock = { now: 1_000 * MINUTE }
  const kept = new Kept<string>((signal) => new Promise((resolve) => asked.push({ answer: resolve, signal })), {
    limit,
    late,
    broke,
    now: () => clock.now,
  })
  const token = (at: number, value: string, minutes: number) =>
    asked[at]?.answer(good({ value, expires: clock.now + minutes * MINUTE }))
  return { kept, asked, clock, token }
}

test('kept: everybody who waits shares one fetch, and later ones what it brought', async () => {
  const { kept, asked, token } = server()
  const all = Promise.all([1, 2, 3].map(() => kept.get(patient())))
  token(0, 'a', 60)
  assert.deepEqual(await all, [good('a'), good('a'), good('a')])
  assert.deepEqual(await kept.get(patient()), good('a'))
  assert.equal(asked.length, 1)
})

/** Minutes since a token of an hour came; what is answered then, and how often was asked by then, before and after the answer. */
const ages: readonly (readonly [string, number, string, number])[] = [
  ['young', 10, 'a', 1],
  ['old, it is still used while a new one is fetched', 56, 'a', 2],
  ['about to end, it is not used any more', 59.6, 'b', 2],
  ['ended', 61, 'b', 2],
]
for (const [what, minutes, expected, fetches] of ages)
  test(`kept: a token that is ${what}`, async () => {
    const { kept, asked, clock, token } = server()
    const first = kept.get(patient())
    token(0, 'a', 60)
    await first
    clock.now += minutes * MINUTE
    const then = kept.get(patient())
    token(1, 'b', 60)
    assert.deepEqual(await then, good(expected))
    assert.equal(asked.length, fetches)
    assert.deepEqual(await kept.get(patient()), good(fetches === 2 ? 'b' : 'a'))
  })

test('kept: a renewal that fails leaves the old one in use, and is not tried again at once', async () => {
  const { kept, asked, clock, token } = server()
  const first = kept.get(patient())
  token(0, 'a', 60)
  await first
  clock.now += 56 * MINUTE
  await kept.get(patient())
  asked[1]?.answer(bad(late()))
  await sleep(1)
  assert.deepEqual(await kept.get(patient()), good('a'))
  assert.equal(asked.length, 2)
  clock.now += 11_000
  assert.deepEqual(await kept.get(patient()), good('a'))
  assert.equal(asked.length, 3)
})

test('kept: a failure is told to everybody who waits, and not kept', async () => {
  const { kept, asked, token } = server()
  const all = Promise.all([kept.get(patient()), kept.get(patient())])
  asked[0]?.answer(bad(fail('auth', 'no')))
  assert.deepEqual(await all, [bad(fail('auth', 'no')), bad(fail('auth', 'no'))])
  const next = kept.get(patient())
  token(1, 'b', 60)
  assert.deepEqual(await next, good('b'))
})

test('kept: what throws is a failure', async () => {
  const kept = new Kept<string>(() => Promise.reject(new Error('bug')), { limit: 1_000, late, broke })
  assert.deepEqual(await kept.get(patient()), bad(broke(new Error('bug'))))
})

test('kept: a fetch ends at its limit, whatever it still does, and the next begins anew', async () => {
  const { kept, asked, token } = server({ limit: 20 })
  assert.deepEqual(await kept.get(patient()), bad(late()))
  assert.equal(asked[0]?.signal.aborted, true)
  const next = kept.get(patient())
  token(0, 'too late', 60)
  token(1, 'b', 60)
  assert.deepEqual(await next, good('b'))
  assert.deepEqual(await kept.get(patient()), good('b'))
})

test('kept: one who leaves takes nothing from the others; the last one ends the fetch', async () => {
  const { kept, asked } = server()
  const [one, two] = [new AbortController(), new AbortController()]
  const waits = [kept.get(one.signal), kept.get(two.signal)]
  one.abort()
  assert.deepEqual(await waits[0], bad(late()))
  assert.equal(asked[0]?.signal.aborted, false)
  two.abort()
  assert.deepEqual(await waits[1], bad(late()))
  assert.equal(asked[0]?.signal.aborted, true)
})

test('kept: one who has left before it began fetches nothing for long', async () => {
  const { kept, asked } = server()
  assert.deepEqual(await kept.get(AbortSignal.abort()), bad(late()))
  assert.ok(asked.every(({ signal }) => signal.aborted))
})

test('kept: a refused one is fetched anew, unless it has only just come', async () => {
  const { kept, asked, clock, token } = server()
  const first = kept.get(patient())
  token(0, 'a', 60)
  await first
  kept.refused()
  assert.deepEqual(await kept.get(patient()), good('a'))
  clock.now += MINUTE
  kept.refused()
  const next = kept.get(patient())
  token(1, 'b', 60)
  assert.deepEqual(await next, good('b'))
  assert.equal(asked.length, 2)
})

test('kept: closing ends the waiting', async () => {
  const { kept, asked } = server()
  const wait = kept.get(patient())
  kept.close()
  assert.deepEqual(await wait, bad(late()))
  assert.equal(asked[0]?.signal.aborted, true)
})
