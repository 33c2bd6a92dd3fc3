/** Around the dialer, without a socket: what is sent, what is heard, and who is left alone. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Failure } from '../../core/failure.ts'
import type { Dial, UpstreamCall, UpstreamListener } from '../../core/world.ts'
import { signing } from './signing.ts'

const TOKEN = 'eyJ0eXAi.canary-entra-token.c2ln'
const TOKEN_HOST = 'http://tokens.test'

type Line = { readonly call: UpstreamCall; readonly listener: UpstreamListener; aborted: boolean; resumed: number }

/** A dialer whose calls the test answers; calls for tokens are answered by themselves if `token` is. */
const stage = ({ token = TOKEN }: { readonly token?: string | null } = {}) => {
  const lines: Line[] = []
  const asked: Line[] = []
  const told: string[] = []
  const dial: Dial = (call, listener) => {
    const line: Line = { call, listener, aborted: false, resumed: 0 }
    const forToken = call.url.startsWith(TOKEN_HOST)
    ;(forToken ? asked : lines).push(line)
    if (forToken && token !== null)
      queueMicrotask(() => {
        listener.head(200, () => undefined)
        listener.bytes(Buffer.from(JSON.stringify({ access_token: token, expires_in: 3_600 })))
        listener.end()
      })
    return {
      abort: () => {
        line.aborted = true
      },
      resume: () => {
        line.resumed++
      },
    }
  }
  const environment = async () => ({ AZURE_POD_IDENTITY_AUTHORITY_HOST: TOKEN_HOST })
  const clock = { now: Date.now() }
  const signed = signing({ dial, environment, tell: ({ message }) => void told.push(message), now: () => clock.now })
  return { ...signed, lines, asked, told, clock }
}

/** Everything a listener hears, in a row. */
const ear = (room = true) => {
  const heard: string[] = []
  const listener: UpstreamListener = {
    head: (status) => void heard.push(`head ${status}`),
    bytes: (chunk) => {
      heard.push(Buffer.from(chunk).toString())
      return room
    },
    end: () => void heard.push('end'),
    failed: (failure: Failure) => void heard.push(`failed ${failure.kind}${failure.unsent ? ', unsent' : ''}`),
  }
  return { heard, listener }
}

const call: UpstreamCall = {
  method: 'POST',
  url: 'http://m.test/x',
  headers: { a: 'b' },
  body: '{}',
  connectTimeout: 9,
}
const signedIn: UpstreamCall = { ...call, identity: { cloud: 'entra', scope: 'https://s.test/.default' } }
const nothing = () => undefined

const soon = async (check: () => boolean): Promise<void> => {
  for (const end = Date.now() + 5_000; !check() && Date.now() < end; ) await sleep(2)
  assert.ok(check())
}

test("signing: a call without an identity is the dialer's own affair, at once", () => {
  const { dial, lines } = stage()
  const { listener } = ear()
  dial(call, listener)
  assert.equal(lines[0]?.call, call)
  assert.equal(lines[0]?.listener, listener)
})

test('signing: headers join the call, and what comes is passed on', async () => {
  const { dial, lines, asked } = stage()
  const { heard, listener } = ear(false)
  const ongoing = dial(signedIn, listener)
  assert.deepEqual(heard, [])
  await soon(() => lines.length === 1)
  assert.deepEqual(lines[0]?.call.headers, { a: 'b', authorization: `Bearer ${TOKEN}` })
  assert.equal(lines[0]?.call.body, '{}')
  lines[0]?.listener.head(200, nothing)
  assert.equal(lines[0]?.listener.bytes(Buffer.from(`an answer may say ${TOKEN}`)), false)
  ongoing.resume()
  assert.equal(lines[0]?.resumed, 1)
  lines[0]?.listener.end()
  assert.deepEqual(heard, ['head 200', `an answer may say ${TOKEN}`, 'end'])
  dial(signedIn, listener)
  await soon(() => lines.length === 2)
  assert.equal(asked.length, 1)
})

for (const ending of ['end', 'failed'] as const)
  test(`signing: an error is told without the token, ${ending}`, async () => {
    const { dial, lines } = stage()
    const { heard, listener } = ear()
    dial(signedIn, listener)
    await soon(() => lines.length === 1)
    lines[0]?.listener.head(403, nothing)
    lines[0]?.listener.bytes(Buffer.from(`no: ${TOKEN.slice(0, 9)}`))
    lines[0]?.listener.bytes(Buffer.from(`${TOKEN.slice(9)}, ${TOKEN.slice(0, 5)}`))
    if (ending === 'end') lines[0]?.listener.end()
    else lines[0]?.listener.failed({ kind: 'reset', message: 'gone' })
    const [head, ...rest] = heard
    assert.equal(head, 'head 403')
    assert.equal(rest.slice(0, -1).join(''), `no: [key], ${TOKEN.slice(0, 5)}`)
    assert.equal(rest.at(-1), ending === 'end' ? 'end' : 'failed reset')
  })

for (const [status, fetches] of [
  [401, 2],
  [403, 1],
  [200, 1],
] as const)
  test(`signing: after a ${status} the next call ${fetches === 2 ? 'fetches a new token' : 'has the same token'}`, async () => {
    const { dial, lines, asked, clock } = stage()
    dial(signedIn, ear().listener)
    await soon(() => lines.length === 1)
    clock.now += 60_000
    lines[0]?.listener.head(status, nothing)
    dial(signedIn, ear().listener)
    await soon(() => lines.length === 2)
    assert.equal(asked.length, fetches)
  })

test('signing: without a credential nothing is sent', async () => {
  const { dial, lines, told } = stage({ token: 'no token at all' })
  const { heard, listener } = ear()
  dial(signedIn, listener)
  await soon(() => heard.length > 0)
  assert.deepEqual(heard, ['failed auth, unsent'])
  assert.equal(lines.length, 0)
  assert.equal(told.length, 1)
})

test('signing: aborted while it signs in, nothing is sent and nothing is heard', async () => {
  const { dial, lines, asked } = stage({ token: null })
  const { heard, listener } = ear()
  const ongoing = dial(signedIn, listener)
  await soon(() => asked.length === 1)
  ongoing.abort()
  await soon(() => asked[0]?.aborted === true)
  await sleep(5)
  assert.deepEqual([heard, lines.length], [[], 0])
})

test('signing: aborted before it began, nobody is asked for long', async () => {
  const { dial, lines, asked } = stage()
  const { heard, listener } = ear()
  dial(signedIn, listener).abort()
  await sleep(20)
  assert.deepEqual([heard, lines.length], [[], 0])
  assert.ok(asked.every(({ aborted }) => aborted))
})

test('signing: aborted while it is answered, the call is', async () => {
  const { dial, lines } = stage()
  const ongoing = dial(signedIn, ear().listener)
  await soon(() => lines.length === 1)
  ongoing.abort()
  assert.equal(lines[0]?.aborted, true)
})

test('signing: closing ends a sign-in under way', async () => {
  const { dial, close, asked } = stage({ token: null })
  const { heard, listener } = ear()
  dial(signedIn, listener)
  await soon(() => asked.length === 1)
  close()
  await soon(() => heard.length === 1)
  assert.deepEqual(heard, ['failed sign_in, unsent'])
  assert.equal(asked[0]?.aborted, true)
})
