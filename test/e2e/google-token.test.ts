/** Google's library with a metadata server, without the gateway. The other cloud credentials tests are in `clouds.test.ts`. */
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { dialer } from '../../src/transport/client/dial.ts'
import { googleHeaders } from '../../src/transport/identity/google.ts'

let tokens = 0
const metadata = createServer((req, res) => {
  res.setHeader('metadata-flavor', 'Google')
  if (!req.url?.includes('/token')) return void res.end('ok')
  res.setHeader('content-type', 'application/json')
  res.end(JSON.stringify({ access_token: `token-${++tokens}`, expires_in: 3_600, token_type: 'Bearer' }))
})
const { dial, close } = dialer()
after(async () => {
  await close()
  metadata.close()
})

test('Google: every fetch returns a new token, also if the last one was refused', async () => {
  await new Promise<void>((resolve) => metadata.listen(0, '127.0.0.1', resolve))
  // The library reads the environment of this process.
  process.env.GCE_METADATA_HOST = `127.0.0.1:${(metadata.address() as AddressInfo).port}`
  process.env.HOME = '/nonexistent'
  delete process.env.GOOGLE_APPLICATION_CREDENTIALS
  const errors: unknown[] = []
  const fetch = googleHeaders(
    { dial, environment: async () => ({}), report: (error) => errors.push(error) },
    'https://www.googleapis.com/auth/cloud-platform',
  )
  for (const token of ['token-1', 'token-2']) {
    const fetched = await fetch(AbortSignal.timeout(120_000))
    assert.equal(fetched.ok && fetched.value.value.authorization, `Bearer ${token}`)
  }
  assert.deepEqual(errors, [])
})
