/** A key is rotated, and revoked, while its clients send requests: to one process, and to two workers. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { skipWithoutProc } from './support/gauges.ts'
import { post, type Started, start } from './support/process.ts'

/** Long, so that no worker takes it for a guess after the wrong keys of this address. */
const ADMIN = 'admin-0123456789abcdef0123456789abcdef'
const REQUESTS = 10_000
const BODY = { model: 'demo/echo', messages: [{ role: 'user', content: 'hi' }] }

const admin = async ({ url }: Started, method: string, path: string, body?: object) => {
  const response = await fetch(`${url}/admin/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json', connection: 'close' },
    ...(body && { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  assert.ok(response.ok, text)
  return text === '' ? {} : JSON.parse(text)
}
const statusWith = async ({ base }: Started, secret: string, headers: Readonly<Record<string, string>> = {}) =>
  (await post(`${base}/chat/completions`, BODY, { authorization: `Bearer ${secret}`, ...headers })).status
/** With a connection of its own, so that all workers receive some. */
const statusOfAny = (gateway: Started, secret: string) => statusWith(gateway, secret, { connection: 'close' })
/** Wrong keys are limited for each address. */
const isRefusal = (status: number) => status === 401 || status === 429

/** Waits until twenty requests in a row are answered as expected, at most 30 s; returns the ms until the first of them. */
const becomes = async (gateway: Started, secret: string, isExpected: (status: number) => boolean): Promise<number> => {
  const begun = performance.now()
  let since = begun
  for (let inRow = 0; inRow < 20; ) {
    const at = performance.now()
    assert.ok(at - begun < 30_000, 'a change does not act everywhere')
    if (isExpected(await statusOfAny(gateway, secret))) {
      if (inRow++ === 0) since = at
    } else {
      inRow = 0
      await sleep(20)
    }
  }
  return since - begun
}

describe('a key in use', { concurrency: false }, () => {
  for (const workers of [0, 2])
    test(`${workers === 0 ? 'one process' : `${workers} workers`}: ${REQUESTS} requests during rotations are answered, and ended secrets are refused`, {
      skip: workers > 0 && skipWithoutProc,
      timeout: 300_000,
    }, async (t) => {
      await using gateway = await start({
        env: { AUTH_ADMIN: ADMIN, ...(workers > 0 && { WORKERS: String(workers) }) },
      })
      const { id, secret } = await admin(gateway, 'POST', '/keys', { name: 'rotated' })
      const secrets: string[] = [secret]
      // A new secret is known to the process that was called, and a moment later to the others.
      const isKnown = (one: string) => (workers === 0 ? 0 : becomes(gateway, one, (status) => status === 200))
      await isKnown(secret)

      const statuses = new Map<number, number>()
      let sent = 0
      const work = async () => {
        while (sent < REQUESTS) {
          const status = await statusWith(gateway, secrets[sent++ % secrets.length] ?? '')
          statuses.set(status, (statuses.get(status) ?? 0) + 1)
        }
      }
      const rotateAt = async (count: number) => {
        while (sent < count) await sleep(5)
        const rotated = await admin(gateway, 'POST', `/keys/${id}/rotate`, { overlap: '24h' })
        await isKnown(rotated.secret)
        secrets.push(rotated.secret)
      }
      const rotations = async () => {
        await rotateAt(REQUESTS / 4)
        await rotateAt(REQUESTS / 2)
      }
      await Promise.all([rotations(), ...Array.from({ length: 16 }, work)])
      assert.deepEqual([...statuses], [[200, REQUESTS]])
      assert.equal(secrets.length, 3)

      const { secret: last } = await admin(gateway, 'POST', `/keys/${id}/rotate`, { overlap: '0s' })
      await isKnown(last)
      for (const old of secrets) {
        if (workers > 0) t.diagnostic(`ended after ${(await becomes(gateway, old, isRefusal)).toFixed(0)} ms`)
        const answers = await Promise.all(Array.from({ length: 100 }, () => statusWith(gateway, old)))
        assert.ok(answers.every(isRefusal), answers.join())
      }
      assert.equal(await statusWith(gateway, last), 200)

      await admin(gateway, 'DELETE', `/keys/${id}?force=true`)
      const ms = await becomes(gateway, last, isRefusal)
      t.diagnostic(`revoked after ${ms.toFixed(0)} ms`)
      if (workers === 0) assert.ok(isRefusal(await statusWith(gateway, last)))
    })
})
