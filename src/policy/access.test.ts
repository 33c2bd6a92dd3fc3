import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { rowOf } from '../core/failure.ts'
import {
  type AccessPolicy,
  accessProblem,
  corsHeaders,
  preflightHeaders,
  presentedKey,
  type RequestHead,
} from './access.ts'

const loopback: AccessPolicy = { loopback: true, keyed: false, port: 3000, hosts: [], origins: [] }
const open: AccessPolicy = { ...loopback, loopback: false, keyed: true }
const unkeyed: AccessPolicy = { ...open, keyed: false }
const head = (more: Partial<RequestHead> = {}): RequestHead => ({
  method: 'POST',
  target: '/v1/chat/completions',
  host: ['localhost:3000'],
  ...more,
})

const hosts: readonly (readonly [string, 'host' | null])[] = [
  ['localhost', null],
  ['LOCALHOST:3000', null],
  ['localhost.', null],
  ['localhost:8080', null],
  ['app.localhost:3000', null],
  ['127.0.0.1:3000', null],
  ['127.8.9.10', null],
  ['[::1]:3000', null],
  ['[::1]', null],
  ['[0:0:0:0:0:0:0:1]', null],
  ['[::ffff:127.0.0.1]:3000', null],
  ['[::ffff:7f00:1]', null],
  ['evil.example', 'host'],
  ['evil.example:3000', 'host'],
  ['localhost.evil.example', 'host'],
  ['127.0.0.1.evil.example', 'host'],
  ['evillocalhost', 'host'],
  ['127.0.0.1@evil.example', 'host'],
  ['localhost@evil.example', 'host'],
  ['localhost/evil.example', 'host'],
  ['evil.example/localhost', 'host'],
  ['localhost:3000:80', 'host'],
  ['localhost:port', 'host'],
  ['localhost evil', 'host'],
  ['0.0.0.0:3000', 'host'],
  ['128.0.0.1', 'host'],
  ['192.168.1.5', 'host'],
  ['[::]', 'host'],
  ['[::2]', 'host'],
  ['[::ffff:8.8.8.8]', 'host'],
  ['[fe80::1]', 'host'],
  ['2130706433', 'host'],
  ['', 'host'],
  ['.', 'host'],
  [`${'a.'.repeat(5_000)}localhost`, 'host'],
]

type Case = readonly [name: string, Partial<RequestHead>, AccessPolicy, 'invalid_request' | 'host' | 'origin' | null]
const cases: readonly Case[] = [
  ...hosts.map(([host, expected]): Case => [`Host ${host.slice(0, 40)}`, { host: [host] }, loopback, expected]),
  ['a plain call', {}, loopback, null],
  ['a query', { target: '/v1/models?limit=2' }, loopback, null],
  ['asking the server as a whole', { target: '*', method: 'OPTIONS' }, loopback, null],
  ['a star with another method', { target: '*' }, loopback, 'invalid_request'],
  ['two slashes', { target: '//evil.example/admin' }, loopback, 'invalid_request'],
  ['a slash and a backslash', { target: '/\\evil.example' }, loopback, 'invalid_request'],
  ['a backslash', { target: '\\admin' }, loopback, 'invalid_request'],
  ['absolute', { target: 'http://evil.example/admin' }, loopback, 'invalid_request'],
  ['absolute, ours', { target: 'http://localhost:3000/v1/models' }, loopback, 'invalid_request'],
  ['an authority', { target: 'evil.example:443', method: 'CONNECT' }, loopback, 'invalid_request'],
  ['empty', { target: '' }, loopback, 'invalid_request'],
  ['two slashes later on', { target: '/v1//models' }, loopback, null],

  ['two Hosts', { host: ['localhost:3000', 'evil.example'] }, loopback, 'invalid_request'],
  ['two Hosts alike', { host: ['localhost:3000', 'localhost:3000'] }, loopback, 'invalid_request'],
  ['two Hosts, listening anywhere', { host: ['a', 'b'] }, open, 'invalid_request'],
  ['no Host', { host: [] }, loopback, 'invalid_request'],
  ['no Host, listening anywhere', { host: [] }, open, null],
  ['any Host, listening anywhere', { host: ['gateway.example'] }, open, null],
  ['a listed Host', { host: ['My-Mac.local:3000'] }, { ...loopback, hosts: ['my-mac.local'] }, null],
  ['a listed Host with its port', { host: ['box:3000'] }, { ...loopback, hosts: ['box:3000'] }, null],
  ['a listed Host with another port', { host: ['box:3001'] }, { ...loopback, hosts: ['box:3000'] }, 'host'],
  [
    'a Host beside the listed one',
    { host: ['my-mac.local.evil.example'] },
    { ...loopback, hosts: ['my-mac.local'] },
    'host',
  ],

  ['our own page', { origin: 'http://localhost:3000' }, loopback, null],
  ['our own page by its address', { origin: 'http://127.0.0.1:3000' }, loopback, null],
  ['our own page through a tunnel', { origin: 'http://localhost:8080', host: ['localhost:8080'] }, loopback, null],
  ['another page of this machine', { origin: 'http://localhost:5173' }, loopback, 'origin'],
  ['another page, no port', { origin: 'http://localhost' }, loopback, 'origin'],
  ['a foreign page', { origin: 'https://evil.example' }, loopback, 'origin'],
  ['a foreign page that looks like ours', { origin: 'http://localhost:3000.evil.example' }, loopback, 'origin'],
  ['a foreign page with our name before an @', { origin: 'http://localhost:3000@evil.example' }, loopback, 'origin'],
  ['a sandboxed frame', { origin: 'null' }, loopback, 'origin'],
  ['a sandboxed frame, even if listed', { origin: 'null' }, { ...loopback, origins: ['null'] }, 'origin'],
  ['an empty origin', { origin: '' }, loopback, 'origin'],
  ['two origins', { origin: 'http://localhost:3000 https://evil.example' }, loopback, 'origin'],
  ['a file', { origin: 'file://' }, loopback, 'origin'],
  ['an extension', { origin: 'chrome-extension://abc' }, loopback, 'origin'],
  [
    'an extension that is listed',
    { origin: 'chrome-extension://abc' },
    { ...loopback, origins: ['chrome-extension://abc'] },
    null,
  ],
  ['a listed page', { origin: 'https://app.example' }, { ...loopback, origins: ['https://app.example'] }, null],
  [
    'a listed page, written otherwise',
    { origin: 'https://app.example' },
    { ...loopback, origins: ['https://App.example/'] },
    null,
  ],
  [
    'a listed page, other scheme',
    { origin: 'http://app.example' },
    { ...loopback, origins: ['https://app.example'] },
    'origin',
  ],
  [
    'a listed page, other port',
    { origin: 'https://app.example:444' },
    { ...loopback, origins: ['https://app.example'] },
    'origin',
  ],
  [
    'a page below the listed one',
    { origin: 'https://x.app.example' },
    { ...loopback, origins: ['https://app.example'] },
    'origin',
  ],
  ['a star lists nobody', { origin: 'https://evil.example' }, { ...loopback, origins: ['*'] }, 'origin'],
  ['our own page behind TLS', { origin: 'https://gw.example', host: ['gw.example'] }, open, null],
  ['our own page behind TLS, port written', { origin: 'https://gw.example', host: ['gw.example:443'] }, open, null],
  ['a foreign page, listening anywhere', { origin: 'https://evil.example', host: ['gw.example'] }, open, 'origin'],
  [
    'a page of this machine, listening anywhere',
    { origin: 'http://localhost:3000', host: ['gw.example'] },
    open,
    'origin',
  ],
  ['a page without Host to compare', { origin: 'http://localhost:3000', host: [] }, open, 'origin'],

  // DNS rebinding: without client keys, a name that resolves to this machine does not make a page ours.
  [
    'a page of a rebound name, no keys',
    { origin: 'http://evil.example:3000', host: ['evil.example:3000'] },
    unkeyed,
    'origin',
  ],
  [
    'a page of a rebound name that says same-origin, no keys',
    { origin: 'http://evil.example', host: ['evil.example'], secFetchSite: 'same-origin' },
    unkeyed,
    'origin',
  ],
  [
    'a page of a rebound name across sites, no keys',
    { origin: 'http://evil.example', host: ['evil.example'], secFetchSite: 'cross-site' },
    unkeyed,
    'origin',
  ],
  ['our page by IP address, no keys', { origin: 'http://10.1.2.3:3000', host: ['10.1.2.3:3000'] }, unkeyed, null],
  ['our page by IPv6 address, no keys', { origin: 'http://[fd00::1]:3000', host: ['[fd00::1]:3000'] }, unkeyed, null],
  [
    'a name that begins like an IP address, no keys',
    { origin: 'http://10.1.2.3.evil.example', host: ['10.1.2.3.evil.example'] },
    unkeyed,
    'origin',
  ],
  ['our page by localhost, no keys', { origin: 'http://localhost:3000', host: ['localhost:3000'] }, unkeyed, null],
  [
    'our page by a listed name, no keys',
    { origin: 'https://gw.example', host: ['gw.example'] },
    { ...unkeyed, hosts: ['gw.example'] },
    null,
  ],
  [
    'our page by a name beside the listed one, no keys',
    { origin: 'https://gw.example.evil.example', host: ['gw.example.evil.example'] },
    { ...unkeyed, hosts: ['gw.example'] },
    'origin',
  ],
  ['an IP origin with another Host, no keys', { origin: 'http://10.1.2.3', host: ['evil.example'] }, unkeyed, 'origin'],
  ['a client without Origin by any name, no keys', { host: ['gw.example'] }, unkeyed, null],
  [
    'cross-site with an origin like ours',
    { origin: 'http://localhost:3000', host: ['localhost:3000'], secFetchSite: 'cross-site' },
    loopback,
    'origin',
  ],
  [
    'cross-site with an origin like ours, keys set',
    { origin: 'https://gw.example', host: ['gw.example'], secFetchSite: 'cross-site' },
    open,
    'origin',
  ],

  ['a picture on a foreign page', { secFetchSite: 'cross-site' }, loopback, 'origin'],
  ['typed into the address bar', { secFetchSite: 'none' }, loopback, null],
  ['from our own page', { secFetchSite: 'same-origin' }, loopback, null],
  [
    'a listed page across sites',
    { secFetchSite: 'cross-site', origin: 'https://app.example' },
    { ...loopback, origins: ['https://app.example'] },
    null,
  ],
  [
    'a foreign page that says same-origin',
    { secFetchSite: 'same-origin', origin: 'https://evil.example' },
    loopback,
    'origin',
  ],
]
for (const [name, more, policy, expected] of cases)
  test(`access: ${name}`, () => assert.equal(accessProblem(head(more), policy)?.kind ?? null, expected))

/** What several clients take for "try again". */
const ALARMING =
  /429|500|502|503|504|524|rate.?limit|too many requests|overloaded|service.?unavailable|internal.?error|server.?error|provider.?returned.?error|fetch failed|network.?error|terminated/i

test('access: a refusal says what to do, repeats nothing of the request, and never reads like a reason to try again', () => {
  for (const [, more, policy, expected] of cases) {
    const failure = accessProblem(head({ ...more }), policy)
    if (!failure || !expected) continue
    assert.doesNotMatch(failure.message, ALARMING)
    assert.doesNotMatch(failure.message, /evil/)
    assert.ok([400, 403].includes(rowOf(failure).status))
    if (expected === 'host') assert.match(failure.message, /`hosts`.*HOSTS/)
    if (expected === 'origin') assert.match(failure.message, /`cors\.origins`.*CORS_ORIGINS/)
  }
})

test('access: on a loopback address no name but a loopback one comes in, whatever it looks like', () => {
  const piece = fc.constantFrom(
    'localhost',
    '127.0.0.1',
    '[::1]',
    'evil',
    '.',
    ':',
    '3000',
    '@',
    '/',
    '\\',
    ' ',
    '%',
    '#',
    '?',
    '\t',
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 6 }), (pieces) => {
      const host = pieces.join('')
      if (accessProblem(head({ host: [host] }), loopback)) return
      // What a browser would make of it has to be this machine.
      const { hostname } = new URL(`http://${host.trim()}/`)
      assert.match(hostname, /^(localhost\.?|.+\.localhost\.?|127\.[0-9.]+|\[::1\])$/)
    }),
    { numRuns: 5_000, seed: 9 },
  )
})

test('access: a megabyte of anything is looked at in no time', () => {
  const began = performance.now()
  for (const unit of ['a', '127.', '[::', 'a.', ':', '/', 'http://']) {
    const long = unit.repeat(1_000_000 / unit.length)
    accessProblem(head({ host: [long] }), loopback)
    accessProblem(head({ origin: long }), { ...loopback, origins: ['https://app.example'] })
    accessProblem(head({ target: `/${long}` }), loopback)
    presentedKey(() => long)
    presentedKey(() => `Bearer ${' '.repeat(1_000_000)}x`)
  }
  assert.ok(performance.now() - began < 1_000)
})

const listed = { origins: ['https://app.example'] }
const cors: readonly [
  string,
  string | undefined,
  Pick<AccessPolicy, 'origins'>,
  string | undefined,
  string | undefined,
][] = [
  ['nothing listed', 'https://app.example', { origins: [] }, undefined, undefined],
  ['listed', 'https://app.example', listed, 'https://app.example', 'origin'],
  ['not listed', 'https://evil.example', listed, undefined, 'origin'],
  ['no origin', undefined, listed, undefined, 'origin'],
  ['null', 'null', { origins: ['null'] }, undefined, 'origin'],
  ['a star', 'https://evil.example', { origins: ['*'] }, undefined, 'origin'],
]
for (const [name, origin, policy, allowed, vary] of cors)
  test(`access: cors: ${name}`, () => {
    for (const headers of [corsHeaders(origin, policy), preflightHeaders(origin, policy)]) {
      assert.equal(headers['access-control-allow-origin'], allowed)
      assert.equal(headers.vary, vary)
      assert.equal(headers['access-control-allow-credentials'], undefined)
      assert.equal('access-control-expose-headers' in headers, allowed !== undefined)
    }
    assert.equal('access-control-allow-methods' in preflightHeaders(origin, policy), allowed !== undefined)
  })

const keys: readonly [string, Record<string, string>, string | undefined][] = [
  ['none', {}, undefined],
  ['bearer', { authorization: 'Bearer sk-1' }, 'sk-1'],
  ['bearer in any case, with spaces', { authorization: '  bEARER   sk-1  ' }, 'sk-1'],
  ['x-api-key', { 'x-api-key': 'sk-2' }, 'sk-2'],
  ['both: the bearer', { authorization: 'Bearer sk-1', 'x-api-key': 'sk-2' }, 'sk-1'],
  ['another scheme beside a key', { authorization: 'Basic c2stMQ==', 'x-api-key': 'sk-2' }, 'sk-2'],
  ['another scheme', { authorization: 'Basic c2stMQ==' }, undefined],
  ['bearer of nothing', { authorization: 'Bearer ' }, undefined],
  ['bearer of nothing beside a key', { authorization: 'Bearer', 'x-api-key': 'sk-2' }, 'sk-2'],
  ['a word that begins like it', { authorization: 'Bearersk-1' }, undefined],
  ['an empty key', { 'x-api-key': '  ' }, undefined],
]
for (const [name, headers, expected] of keys)
  test(`access: key: ${name}`, () => {
    const byName = new Map(Object.entries(headers))
    assert.equal(
      presentedKey((header) => byName.get(header)),
      expected,
    )
  })

test('access: a browser is told of methods, headers and what it may read, word for word', () => {
  const headers = preflightHeaders('https://app.example', listed)
  assert.deepEqual(headers, {
    'access-control-allow-origin': 'https://app.example',
    'access-control-expose-headers':
      'x-request-id, request-id, x-headgate-provider, x-headgate-model, x-headgate-attempts, x-headgate-trail, x-headgate-dropped, x-headgate-estimated, x-headgate-idempotent, x-headgate-coalesced, retry-after, x-should-retry',
    vary: 'origin',
    'access-control-allow-methods': 'GET, HEAD, POST, DELETE, OPTIONS',
    'access-control-allow-headers': 'authorization, *',
    'access-control-max-age': '600',
  })
})

const reasons: readonly (readonly [string, RequestHead, RegExp])[] = [
  ['a target that is no path', head({ target: 'x' }), /one slash at its beginning/],
  ['two Hosts', head({ host: ['localhost', 'localhost'] }), /more than one Host/],
  ['no Host', head({ host: [] }), /no Host header/],
  ['another Host', head({ host: ['evil.example'] }), /names another one/],
  ['another origin', head({ origin: 'https://evil.example' }), /web page of another origin/],
]
for (const [name, given, message] of reasons)
  test(`access: the error names the cause: ${name}`, () =>
    assert.match(accessProblem(given, loopback)?.message ?? '', message))

const places: readonly (readonly [string, Partial<RequestHead>, AccessPolicy, boolean])[] = [
  // Neither may go further than the address they are of.
  ['a long octet', { host: ['127.100.100.100'] }, loopback, true],
  ['an octet too long', { host: ['127.0.0.1000'] }, loopback, false],
  ['a long mapped octet', { host: ['[::ffff:127.100.100.100]'] }, loopback, true],
  ['a mapped address with something before it', { host: ['[1::ffff:127.0.0.1]'] }, loopback, false],
  ['a mapped address in hexadecimal', { host: ['[::ffff:7f12:abcd]'] }, loopback, true],
  ['a mapped address with too much of it', { host: ['[::ffff:7f00:1:2]'] }, loopback, false],
  ['blanks around a Host', { host: [' localhost:3000 '] }, loopback, true],
  ['a name of just the longest length', { host: [`${'a'.repeat(250)}.localhost`] }, loopback, true],
  ['a name of one more', { host: [`${'a'.repeat(251)}.localhost`] }, loopback, false],
  ['our own page over TLS, on its usual port', { origin: 'https://box.example', host: ['box.example'] }, open, true],
  ['our own page over TLS, its port named', { origin: 'https://box.example:443', host: ['box.example'] }, open, true],
  ['our own page on port 80', { origin: 'http://box.example:80', host: ['box.example'] }, open, true],
  [
    'a page over TLS at the port of the other',
    { origin: 'https://box.example:80', host: ['box.example'] },
    open,
    false,
  ],
  ['a page of another port', { origin: 'http://box.example:81', host: ['box.example'] }, open, false],
  ['an origin with a path', { origin: 'http://localhost:3000/x' }, loopback, false],
  ['an origin behind something', { origin: 'xhttp://localhost:3000' }, loopback, false],
  ['an origin whose name cannot be read, and no Host', { origin: 'http://!', host: [] }, open, false],
  ['an origin and a Host that cannot be read', { origin: 'http://!', host: ['!'] }, open, false],
]
for (const [name, more, policy, enters] of places)
  test(`access: ${name} ${enters ? 'is let in' : 'is not'}`, () =>
    assert.equal(accessProblem(head(more), policy) === null, enters))

test('access: a bearer is the first word', () => {
  assert.equal(
    presentedKey((name) => (name === 'authorization' ? 'Basic bearer x' : undefined)),
    undefined,
  )
})
