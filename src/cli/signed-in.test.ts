import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import { CliError } from './cli.ts'
import { readCredentials, storeCredential } from './credentials.ts'
import { accessToken } from './signed-in.ts'

const TOKENS = { access_token: 'new', refresh_token: 'r1', expires_in: 3_600 }
const ENDED = { error: 'invalid_grant' }

describe('tokens of a sign-in', { concurrency: false }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-signed-in-'))
  const env = { XDG_CONFIG_HOME: folder }
  /** The answers of the gateway, in order; null: the connection breaks. */
  let answers: (readonly [status: number, body: object] | null)[] = []
  const server = createServer((_request, response) => {
    const next = answers.shift()
    if (!next) response.destroy()
    else response.writeHead(next[0]).end(JSON.stringify(next[1]))
  })
  let url = ''
  before(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    // An AddressInfo: it listens at a port.
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  after(() => {
    server.close()
    rmSync(folder, { recursive: true, force: true })
  })
  /** `left`: ms for which the stored token is valid. */
  const given = async (left: number, next: typeof answers) => {
    answers = next
    const stored = { access_token: 'old', refresh_token: 'r0', expires_at: Date.now() + left, email: null }
    await storeCredential(env, url, stored)
  }
  beforeEach(() => storeCredential(env, url, null))

  test('a token is used until 5 minutes before its end, and then refreshed', async () => {
    assert.equal(await accessToken(env, url), null)
    await given(600_000, [])
    assert.equal(await accessToken(env, url), 'old')
    await given(200_000, [[200, TOKENS]])
    assert.equal(await accessToken(env, url), 'new')
    assert.equal((await readCredentials(env)).gateways[url]?.refresh_token, 'r1')
    assert.equal(statSync(join(folder, 'headgate', 'credentials.json')).mode & 0o777, 0o600)
  })

  test('a refresh whose answer is lost is repeated', async () => {
    await given(0, [null, null, [200, TOKENS]])
    assert.equal(await accessToken(env, url), 'new')
  })

  test('while the gateway or the issuer is away, the token is used to its end and kept', async () => {
    await given(200_000, [[503, { error: 'temporarily_unavailable' }]])
    assert.equal(await accessToken(env, url), 'old')
    await given(200_000, [])
    assert.equal(await accessToken(env, url), 'old')
    await given(0, [])
    await assert.rejects(accessToken(env, url), /cannot be refreshed/)
    assert.equal((await readCredentials(env)).gateways[url]?.refresh_token, 'r0')
  })

  test('a sign-in that has ended is removed, and the message has the remedy', async () => {
    await given(200_000, [[401, ENDED]])
    await assert.rejects(
      accessToken(env, url),
      (error) => error instanceof CliError && /headgate login/.test(error.message),
    )
    assert.deepEqual((await readCredentials(env)).gateways, {})
  })
})
