import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import { CredentialCache, type Fetched } from './credential-cache.ts'

const MINUTE = 60_000
const timedOut = (): Failure => fail('auth', 'timedOut', { unsent: true })
const threw = (error: unknown): Failure => fail('auth', `threw: ${error}`, { unsent: true })
const neverAborted = (): AbortSignal => new AbortController().signal

/** A cache whose fetches and clock the test controls. */
const server = ({ limit = 5_000 } = {}) => {
  const requests: { readonly answer: (outcome: Outcome<Fetched<string>>) => void; readonly signal: AbortSignal }[] = []
  const clock = { now: 1_000 * MINUTE }
  const cache = new CredentialCache<string>(
    (signal) => new Promise((resolve) => requests.push({ answer: resolve, signal })),
    {
      limit,
      timedOut,
      threw,
      now: () => clock.now,
    },
  )
  const token = (at: number, value: string, minutes: number) =>
    requests[at]?.answer(good({ value, expires: clock.now + minutes * MINUTE }))
  return { cache, requests, clock, token }
}

test('credential cache: concurrent callers share one fetch; later callers get the cached value', async () => {
  const { cache, requests, token } = server()
  const all = Promise.all([1, 2, 3].map(() => cache.get(neverAborted())))
  token(0, 'a', 60)
  assert.deepEqual(await all, [good('a'), good('a'), good('a')])
  assert.deepEqual(await cache.get(neverAborted()), good('a'))
  assert.equal(requests.length, 1)
})

/** Minutes since a one-hour token was fetched, the token returned then, and the number of fetches by then. */
const ages: readonly (readonly [string, number, string, number])[] = [
  ['fresh is returned', 10, 'a', 1],
  ['due for renewal is returned while a new one is fetched', 56, 'a', 2],
  ['about to expire is not returned', 59.6, 'b', 2],
  ['expired is not returned', 61, 'b', 2],
]
for (const [what, minutes, expected, fetches] of ages)
  test(`credential cache: a token that is ${what}`, async () => {
    const { cache, requests, clock, token } = server()
    const first = cache.get(neverAborted())
    token(0, 'a', 60)
    await first
    clock.now += minutes * MINUTE
    const then = cache.get(neverAborted())
    token(1, 'b', 60)
    assert.deepEqual(await then, good(expected))
    assert.equal(requests.length, fetches)
    assert.deepEqual(await cache.get(neverAborted()), good(fetches === 2 ? 'b' : 'a'))
  })

test('credential cache: a failed renewal keeps the old token and is not retried at once', async () => {
  const { cache, requests, clock, token } = server()
  const first = cache.get(neverAborted())
  token(0, 'a', 60)
  await first
  clock.now += 56 * MINUTE
  await cache.get(neverAborted())
  requests[1]?.answer(bad(timedOut()))
  await sleep(1)
  assert.deepEqual(await cache.get(neverAborted()), good('a'))
  assert.equal(requests.length, 2)
  clock.now += 11_000
  assert.deepEqual(await cache.get(neverAborted()), good('a'))
  assert.equal(requests.length, 3)
})

test('credential cache: a failure goes to every waiting caller and is not cached', async () => {
  const { cache, requests, token } = server()
  const all = Promise.all([cache.get(neverAborted()), cache.get(neverAborted())])
  requests[0]?.answer(bad(fail('auth', 'no')))
  assert.deepEqual(await all, [bad(fail('auth', 'no')), bad(fail('auth', 'no'))])
  const next = cache.get(neverAborted())
  token(1, 'b', 60)
  assert.deepEqual(await next, good('b'))
})

test('credential cache: a fetch that rejects is a failure', async () => {
  const cache = new CredentialCache<string>(() => Promise.reject(new Error('bug')), { limit: 1_000, timedOut, threw })
  assert.deepEqual(await cache.get(neverAborted()), bad(threw(new Error('bug'))))
})

test('credential cache: a fetch ends at its time limit, and the next call starts another', async () => {
  const { cache, requests, token } = server({ limit: 20 })
  assert.deepEqual(await cache.get(neverAborted()), bad(timedOut()))
  assert.equal(requests[0]?.signal.aborted, true)
  const next = cache.get(neverAborted())
  token(0, 'too late', 60)
  token(1, 'b', 60)
  assert.deepEqual(await next, good('b'))
  assert.deepEqual(await cache.get(neverAborted()), good('b'))
})

test('credential cache: an abort affects only its caller; the last abort ends the fetch', async () => {
  const { cache, requests } = server()
  const [one, two] = [new AbortController(), new AbortController()]
  const waits = [cache.get(one.signal), cache.get(two.signal)]
  one.abort()
  assert.deepEqual(await waits[0], bad(timedOut()))
  assert.equal(requests[0]?.signal.aborted, false)
  two.abort()
  assert.deepEqual(await waits[1], bad(timedOut()))
  assert.equal(requests[0]?.signal.aborted, true)
})

test('credential cache: a call that is already aborted ends its fetch', async () => {
  const { cache, requests } = server()
  assert.deepEqual(await cache.get(AbortSignal.abort()), bad(timedOut()))
  assert.ok(requests.every(({ signal }) => signal.aborted))
})

test('credential cache: a refused token is fetched again, unless it is new', async () => {
  const { cache, requests, clock, token } = server()
  const first = cache.get(neverAborted())
  token(0, 'a', 60)
  await first
  cache.refused()
  assert.deepEqual(await cache.get(neverAborted()), good('a'))
  clock.now += MINUTE
  cache.refused()
  const next = cache.get(neverAborted())
  token(1, 'b', 60)
  assert.deepEqual(await next, good('b'))
  assert.equal(requests.length, 2)
})

test('credential cache: close ends the wait', async () => {
  const { cache, requests } = server()
  const wait = cache.get(neverAborted())
  cache.close()
  assert.deepEqual(await wait, bad(timedOut()))
  assert.equal(requests[0]?.signal.aborted, true)
})
