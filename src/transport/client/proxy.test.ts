/** Calls through a forward proxy, with both HTTP clients. */
import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { after, test } from 'node:test'
import { selfSigned } from '../../../test/support/certificate.ts'
import { egressWith } from '../../../test/support/egress.ts'
import { type ProxyAct, startProxy, type TestProxyOptions } from '../../../test/support/proxy.ts'
import { refusingUrl, startUpstream } from '../../../test/support/upstream.ts'
import type { Failure } from '../../core/failure.ts'
import { rowOf } from '../../core/failure.ts'
import type { Dial, UpstreamCall } from '../../core/world.ts'
import { connectionFor, dialer } from './dial.ts'

const CLIENTS = { own: await connectionFor('own'), undici: await connectionFor('undici') }
/** Its certificate has this name only. */
const HOST = 'somewhere.else.test'
const target = selfSigned('another host')

const closers: (() => Promise<void>)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

const onBothClients = (name: string, run: (client: 'own' | 'undici') => Promise<void>): void => {
  for (const client of ['own', 'undici'] as const) test(`${client} client: proxy: ${name}`, () => run(client))
}

type Answer =
  | { readonly status: number; readonly text: string; readonly failure?: undefined }
  | { readonly failure: Failure }

const send = (dial: Dial, url: string, call: Partial<UpstreamCall> = {}): Promise<Answer> =>
  new Promise((resolve) => {
    let status = 0
    let text = ''
    const headers = { authorization: 'Bearer sk-of-the-provider' }
    dial(
      { method: 'POST', url, headers, body: '{"model":"é"}', connectTimeout: 5_000, ...call },
      {
        onHeaders: (code) => {
          status = code
        },
        onBody: (chunk) => {
          text += Buffer.from(chunk).toString()
          return true
        },
        onEnd: () => resolve({ status, text }),
        onFailure: (failure) => resolve({ failure }),
      },
    )
  })

type Setup = { readonly secure?: boolean; readonly tls?: TestProxyOptions['tls']; readonly userInfo?: string }

/** A target behind a proxy, and a dialer that uses it. */
const given = async (client: 'own' | 'undici', { secure = true, tls, userInfo = '' }: Setup = {}) => {
  const upstream = await startUpstream(
    () => ({ do: 'answer', body: 'x'.repeat(100_000) }),
    secure ? { tls: target } : {},
  )
  const proxy = await startProxy({ ports: { [HOST]: upstream.port }, ...(tls && { tls }) })
  const address = `${tls ? 'https://localhost' : 'http://127.0.0.1'}:${proxy.port}`.replace('//', `//${userInfo}`)
  const egress = egressWith({ ca: target.cert + (tls?.cert ?? ''), env: { ALL_PROXY: address } })
  const outcomes: string[] = []
  const made = dialer({
    open: CLIENTS[client],
    egress: () => egress,
    onProxyConnect: (name, outcome) => outcomes.push(`${name} ${outcome}`),
  })
  closers.push(upstream.close, proxy.close, made.close)
  return {
    upstream,
    proxy,
    outcomes,
    dial: made.dial,
    url: `${secure ? 'https' : 'http'}://${HOST}/v1/chat/completions?a=b`,
  }
}

onBothClients('an https call uses a tunnel, and TLS checks the name of the target', async (client) => {
  const { upstream, proxy, dial, url } = await given(client, { userInfo: 'us%40er:p%3Aw@' })
  for (const _ of [1, 2, 3]) {
    const answer = await send(dial, url)
    assert.ok(!answer.failure, answer.failure?.message)
    assert.equal(answer.text.length, 100_000)
  }
  // One tunnel for three calls: its credentials are not part of the calls.
  assert.deepEqual(proxy.seen, [`CONNECT ${HOST}:443 HTTP/1.1`])
  assert.deepEqual(proxy.credentials, [`Basic ${btoa('us@er:p:w')}`])
  assert.deepEqual(proxy.agents, ['headgate'])
  assert.equal(upstream.requests.length, 3)
  for (const { path, headers } of upstream.requests) {
    assert.equal(path, '/v1/chat/completions?a=b')
    assert.equal(headers.host, HOST)
    assert.equal(headers['proxy-authorization'], undefined)
  }
})

onBothClients('an http call is sent in absolute form, and connections are kept', async (client) => {
  const { upstream, proxy, dial, url } = await given(client, { secure: false, userInfo: 'user:pw@' })
  for (const _ of [1, 2]) {
    const answer = await send(dial, url)
    assert.ok(!answer.failure, answer.failure?.message)
    assert.equal(answer.text.length, 100_000)
  }
  const line = `POST http://${HOST}/v1/chat/completions?a=b HTTP/1.1`
  const credentials = `Basic ${btoa('user:pw')}`
  assert.deepEqual(proxy.seen, [line, line])
  assert.deepEqual(proxy.credentials, [credentials, credentials])
  assert.equal(proxy.connections(), 1)
  assert.equal(upstream.requests[1]?.headers.authorization, 'Bearer sk-of-the-provider')
})

onBothClients('the proxy may use TLS itself', async (client) => {
  const own = selfSigned()
  for (const secure of [true, false]) {
    const { proxy, dial, url } = await given(client, { secure, tls: own })
    const answer = await send(dial, url)
    assert.ok(!answer.failure, answer.failure?.message)
    assert.equal(answer.text.length, 100_000)
    assert.match(proxy.seen[0] ?? '', secure ? /^CONNECT / : /^POST http:/)
  }
})

onBothClients('hosts of NO_PROXY and this machine are reached directly', async (client) => {
  const upstream = await startUpstream(() => ({ do: 'answer', body: { fine: true } }))
  const egress = egressWith({ env: { ALL_PROXY: 'http://127.0.0.1:9' } })
  const made = dialer({ open: CLIENTS[client], egress: () => egress })
  closers.push(upstream.close, made.close)
  const answer = await send(made.dial, `${upstream.url}/v1`)
  assert.equal(answer.failure, undefined)
})

const HEADS = {
  'one byte at a time': { do: 'connect', slice: 1 },
  'with headers and another reason': {
    do: 'connect',
    head: `HTTP/1.0 201 ok\r\nvia: 1.1 squid\r\nx: ${'y'.repeat(15_000)}\r\n\r\n`,
  },
  'after an interim response': { do: 'connect', head: 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n' },
} as const satisfies Record<string, ProxyAct>
for (const [name, act] of Object.entries(HEADS))
  onBothClients(`a response ${name} opens the tunnel`, async (client) => {
    const { proxy, dial, url } = await given(client)
    proxy.play(act)
    const answer = await send(dial, url)
    assert.equal(answer.failure?.message, undefined)
  })

onBothClients('bytes after the response of the proxy belong to TLS', async (client) => {
  const { proxy, dial, url } = await given(client)
  proxy.play({ do: 'connect', after: 'not TLS at all' })
  const { failure } = await send(dial, url)
  assert.equal(failure?.kind, 'tls')
  assert.equal(failure.unsent, true)
})

const PAGE = `<html>${'secret page of the proxy '.repeat(10)}</html>`
const page = (status: string, headers = '') => `HTTP/1.1 ${status}\r\ncontent-type: text/html\r\n${headers}\r\n${PAGE}`

/** Bytes, message, and whether only this endpoint is affected. Squid's and tinyproxy's texts. */
const REFUSALS: readonly (readonly [name: string, act: ProxyAct, message: RegExp, endpointOnly: boolean])[] = [
  [
    '407',
    { do: 'answer', bytes: page('407 Proxy Authentication Required', 'Proxy-Authenticate: Basic realm="Squid"\r\n') },
    /^The proxy 127\.0\.0\.1:\d+ asks for credentials \(407\)\. Set ALL_PROXY=http:\/\/USER:PASSWORD@/,
    false,
  ],
  [
    '407 for NTLM',
    {
      do: 'answer',
      bytes: page('407 authenticationrequired', 'Proxy-Authenticate: NEGOTIATE\r\nproxy-authenticate: NTLM\r\n'),
    },
    /^The proxy .* asks for credentials \(407\) by NTLM or Negotiate, which is not supported\. Run a local proxy/,
    false,
  ],
  [
    '403',
    { do: 'answer', bytes: page('403 Filtered') },
    /opens no connection to somewhere\.else\.test:443 \(403\)/,
    true,
  ],
  ['502', { do: 'answer', bytes: 'HTTP/1.1 502 x\r\n\r\n' }, /opens no connection .* \(502\)/, true],
  ['503, 1 byte at a time', { do: 'answer', bytes: page('503 Service Unavailable'), slice: 1 }, /\(503\)/, true],
  [
    'a redirect to a login page',
    { do: 'answer', bytes: page('302 Found', 'location: http://portal/\r\n') },
    /\(302\)/,
    true,
  ],
  ['a cut response', { do: 'cut', bytes: 'HTTP/1.1 200 Conn' }, /closed the connection before it was connected/, true],
  ['an end without a response', { do: 'answer', bytes: '' }, /closed the connection before it was connected/, true],
  ['SSH', { do: 'answer', bytes: 'SSH-2.0-OpenSSH_9.2\r\n' }, /\(ALL_PROXY\) did not answer with HTTP/, false],
  ['HTTP/2', { do: 'answer', bytes: 'HTTP/2 200\r\n\r\n' }, /did not answer with HTTP/, false],
  [
    'an endless header block',
    { do: 'answer', bytes: `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(20_000)}` },
    /above 16 KiB/,
    false,
  ],
]
for (const [name, act, message, endpointOnly] of REFUSALS)
  onBothClients(`${name} is a failure of the proxy`, async (client) => {
    const { proxy, dial, url, upstream } = await given(client)
    proxy.play(act)
    const { failure } = await send(dial, url)
    assert.equal(failure?.kind, 'proxy')
    assert.match(failure.message, message)
    assert.doesNotMatch(failure.message, /secret page/)
    assert.equal(failure.unsent, true)
    assert.equal(failure.endpointOnly ?? false, endpointOnly)
    const { status, code, charges } = rowOf(failure)
    assert.deepEqual(
      { status, code, charges },
      { status: 502, code: 'proxy_failed', charges: endpointOnly ? 'endpoint' : 'proxy' },
    )
    assert.equal(upstream.requests.length, 0)
  })

onBothClients('wrong credentials are named by their variable only', async (client) => {
  for (const secure of [true, false]) {
    const { proxy, dial, url } = await given(client, { secure, userInfo: 'user:hunter2@' })
    proxy.play({ do: 'answer', bytes: page('407 Proxy Authentication Required', 'proxy-authenticate: Basic\r\n') })
    const { failure } = await send(dial, url)
    assert.equal(failure?.kind, 'proxy')
    assert.match(failure.message, /does not accept the credentials in ALL_PROXY \(407\)\.$/)
    assert.doesNotMatch(JSON.stringify(failure), /hunter2|dXNlcjpodW50ZXIy/)
  }
})

onBothClients('a proxy that never answers ends at the connect timeout', async (client) => {
  const { proxy, dial, url } = await given(client)
  proxy.play({ do: 'freeze' })
  const { failure } = await send(dial, url, { connectTimeout: 50 })
  assert.equal(failure?.kind, 'proxy')
  assert.match(failure.message, /was not connected to somewhere\.else\.test:443 within 50 ms/)
})

onBothClients('a proxy that is down is named with its variable', async (client) => {
  const port = new URL(await refusingUrl()).port
  for (const scheme of ['http', 'https']) {
    const egress = egressWith({ env: { HTTPS_PROXY: `${scheme}://u:hunter2@127.0.0.1:${port}` } })
    const made = dialer({ open: CLIENTS[client], egress: () => egress })
    closers.push(made.close)
    const { failure } = await send(made.dial, `https://${HOST}/v1`)
    assert.equal(failure?.kind, 'proxy')
    assert.match(
      failure.message,
      new RegExp(`^The proxy 127\\.0\\.0\\.1:${port} \\(HTTPS_PROXY\\) cannot be reached\\. .*ECONNREFUSED`),
    )
  }
})

onBothClients('TLS to a proxy without TLS is a failure of the proxy', async (client) => {
  const server = createServer((socket) => socket.resume().end('HTTP/1.1 400 Bad Request\r\n\r\n'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const egress = egressWith({ env: { HTTPS_PROXY: `https://localhost:${port}` } })
  const made = dialer({ open: CLIENTS[client], egress: () => egress })
  closers.push(made.close, () => new Promise((resolve) => void server.close(() => resolve())))
  const { failure } = await send(made.dial, `https://${HOST}/v1`)
  assert.equal(failure?.kind, 'proxy')
})

onBothClients('a certificate of another name is refused inside the tunnel', async (client) => {
  const { proxy, dial } = await given(client)
  proxy.play({ do: 'connect' })
  const { failure } = await send(dial, 'https://unknown.test/v1')
  // The proxy connects to a port where nothing listens.
  assert.ok(failure)
  const upstream = await startUpstream(() => ({ do: 'answer', body: {} }), { tls: selfSigned() })
  const other = await startProxy({ ports: { [HOST]: upstream.port } })
  const egress = egressWith({ env: { HTTPS_PROXY: `http://127.0.0.1:${other.port}` } })
  const made = dialer({ open: CLIENTS[client], egress: () => egress })
  closers.push(upstream.close, other.close, made.close)
  const refused = await send(made.dial, `https://${HOST}/v1`)
  assert.equal(refused.failure?.kind, 'tls')
})

onBothClients('an aborted call closes the connection to the proxy', async (client) => {
  const { proxy, dial, url } = await given(client)
  proxy.play({ do: 'freeze' })
  const call = dial(
    { method: 'GET', url, headers: {}, connectTimeout: 0 },
    { onHeaders() {}, onBody: () => true, onEnd() {}, onFailure: () => assert.fail('reported after the abort') },
  )
  while (proxy.seen.length === 0) await new Promise((resolve) => setImmediate(resolve))
  call.abort()
  proxy.play({ do: 'connect' })
  assert.equal((await send(dial, url)).failure, undefined)
})
