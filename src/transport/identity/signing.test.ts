/** The signing dialer without a socket: requests sent, events received and calls it leaves unchanged. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Failure } from '../../core/failure.ts'
import type { Dial, UpstreamCall, UpstreamListener } from '../../core/world.ts'
import { signing } from './signing.ts'

const TOKEN = 'eyJ0eXAi.canary-entra-token.c2ln'
const TOKEN_HOST = 'http://tokens.test'

type Sent = { readonly call: UpstreamCall; readonly listener: UpstreamListener; aborted: boolean; resumed: number }

/** A dialer whose calls the test answers. Token requests are answered automatically unless `token` is null. */
const setUp = ({ token = TOKEN }: { readonly token?: string | null } = {}) => {
  const calls: Sent[] = []
  const tokenRequests: Sent[] = []
  const reports: string[] = []
  const dial: Dial = (call, listener) => {
    const sent: Sent = { call, listener, aborted: false, resumed: 0 }
    const forToken = call.url.startsWith(TOKEN_HOST)
    ;(forToken ? tokenRequests : calls).push(sent)
    if (forToken && token !== null)
      queueMicrotask(() => {
        listener.onHeaders(200, () => undefined)
        listener.onBody(Buffer.from(JSON.stringify({ access_token: token, expires_in: 3_600 })))
        listener.onEnd()
      })
    return {
      abort: () => {
        sent.aborted = true
      },
      resume: () => {
        sent.resumed++
      },
    }
  }
  const environment = async () => ({ AZURE_POD_IDENTITY_AUTHORITY_HOST: TOKEN_HOST })
  const clock = { now: Date.now() }
  const report = ({ message }: { readonly message: string }) => void reports.push(message)
  const signed = signing({ dial, environment, report, now: () => clock.now })
  return { ...signed, calls, tokenRequests, reports, clock }
}

/** Records everything a listener receives, in order. */
const recorder = (room = true) => {
  const received: string[] = []
  const listener: UpstreamListener = {
    onHeaders: (status) => void received.push(`head ${status}`),
    onBody: (chunk) => {
      received.push(Buffer.from(chunk).toString())
      return room
    },
    onEnd: () => void received.push('end'),
    onFailure: (failure: Failure) => void received.push(`failed ${failure.kind}${failure.unsent ? ', unsent' : ''}`),
  }
  return { received, listener }
}

const call: UpstreamCall = {
  method: 'POST',
  url: 'http://m.test/x',
  headers: { a: 'b' },
  body: '{}',
  connectTimeout: 9,
}
const identityCall: UpstreamCall = { ...call, identity: { cloud: 'entra', scope: 'https://s.test/.default' } }
const nothing = () => undefined

const until = async (check: () => boolean): Promise<void> => {
  for (const end = Date.now() + 120_000; !check() && Date.now() < end; ) await sleep(2)
  assert.ok(check())
}

test('signing: a call without an identity passes unchanged and at once', () => {
  const { dial, calls } = setUp()
  const { listener } = recorder()
  dial(call, listener)
  assert.equal(calls[0]?.call, call)
  assert.equal(calls[0]?.listener, listener)
})

test('signing: the headers are added to the call, and the response is passed on', async () => {
  const { dial, calls, tokenRequests } = setUp()
  const { received, listener } = recorder(false)
  const ongoing = dial(identityCall, listener)
  assert.deepEqual(received, [])
  await until(() => calls.length === 1)
  assert.deepEqual(calls[0]?.call.headers, { a: 'b', authorization: `Bearer ${TOKEN}` })
  assert.equal(calls[0]?.call.body, '{}')
  calls[0]?.listener.onHeaders(200, nothing)
  assert.equal(calls[0]?.listener.onBody(Buffer.from(`an answer may contain ${TOKEN}`)), false)
  ongoing.resume()
  assert.equal(calls[0]?.resumed, 1)
  calls[0]?.listener.onEnd()
  assert.deepEqual(received, ['head 200', `an answer may contain ${TOKEN}`, 'end'])
  dial(identityCall, listener)
  await until(() => calls.length === 2)
  assert.equal(tokenRequests.length, 1)
})

for (const ending of ['end', 'failed'] as const)
  test(`signing: an error response is passed on without the token, ${ending}`, async () => {
    const { dial, calls } = setUp()
    const { received, listener } = recorder()
    dial(identityCall, listener)
    await until(() => calls.length === 1)
    calls[0]?.listener.onHeaders(403, nothing)
    calls[0]?.listener.onBody(Buffer.from(`no: ${TOKEN.slice(0, 9)}`))
    calls[0]?.listener.onBody(Buffer.from(`${TOKEN.slice(9)}, ${TOKEN.slice(0, 5)}`))
    if (ending === 'end') calls[0]?.listener.onEnd()
    else calls[0]?.listener.onFailure({ kind: 'reset', message: 'gone' })
    const [head, ...rest] = received
    assert.equal(head, 'head 403')
    assert.equal(rest.slice(0, -1).join(''), `no: [key], ${TOKEN.slice(0, 5)}`)
    assert.equal(rest.at(-1), ending === 'end' ? 'end' : 'failed reset')
  })

for (const [status, fetches] of [
  [401, 2],
  [403, 1],
  [200, 1],
] as const)
  test(`signing: after a ${status} the next call ${fetches === 2 ? 'fetches a new token' : 'uses the same token'}`, async () => {
    const { dial, calls, tokenRequests, clock } = setUp()
    dial(identityCall, recorder().listener)
    await until(() => calls.length === 1)
    clock.now += 60_000
    calls[0]?.listener.onHeaders(status, nothing)
    dial(identityCall, recorder().listener)
    await until(() => calls.length === 2)
    assert.equal(tokenRequests.length, fetches)
  })

test('signing: without credentials nothing is sent', async () => {
  const { dial, calls, reports } = setUp({ token: 'no token at all' })
  const { received, listener } = recorder()
  dial(identityCall, listener)
  await until(() => received.length > 0)
  assert.deepEqual(received, ['failed auth, unsent'])
  assert.equal(calls.length, 0)
  assert.equal(reports.length, 1)
})

test('signing: aborted during the token request, nothing is sent or received', async () => {
  const { dial, calls, tokenRequests } = setUp({ token: null })
  const { received, listener } = recorder()
  const ongoing = dial(identityCall, listener)
  await until(() => tokenRequests.length === 1)
  ongoing.abort()
  await until(() => tokenRequests[0]?.aborted === true)
  await sleep(5)
  assert.deepEqual([received, calls.length], [[], 0])
})

test('signing: aborted at once, token requests end', async () => {
  const { dial, calls, tokenRequests } = setUp()
  const { received, listener } = recorder()
  dial(identityCall, listener).abort()
  await sleep(20)
  assert.deepEqual([received, calls.length], [[], 0])
  assert.ok(tokenRequests.every(({ aborted }) => aborted))
})

test('signing: an abort during the response reaches the upstream call', async () => {
  const { dial, calls } = setUp()
  const ongoing = dial(identityCall, recorder().listener)
  await until(() => calls.length === 1)
  ongoing.abort()
  assert.equal(calls[0]?.aborted, true)
})

test('signing: close ends a token request in flight', async () => {
  const { dial, close, tokenRequests } = setUp({ token: null })
  const { received, listener } = recorder()
  dial(identityCall, listener)
  await until(() => tokenRequests.length === 1)
  close()
  await until(() => received.length === 1)
  assert.deepEqual(received, ['failed sign_in, unsent'])
  assert.equal(tokenRequests[0]?.aborted, true)
})
