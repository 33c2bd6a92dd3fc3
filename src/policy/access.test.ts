import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { assertLinear } from '../../test/support/growth.ts'
import { rowOf } from '../core/failure.ts'
import {
  type AccessPolicy,
  accessProblem,
  corsHeaders,
  credentialReaders,
  exposedHeaders,
  preflightHeaders,
  presentedKeys,
  type RequestHead,
} from './access.ts'

const loopback: AccessPolicy = { loopback: true, keyed: false, port: 3000, hosts: [], origins: [], exposed: '' }
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
  ['a plain path', {}, loopback, null],
  ['a path with a query', { target: '/v1/models?limit=2' }, loopback, null],
  ['OPTIONS with *', { target: '*', method: 'OPTIONS' }, loopback, null],
  ['* with another method', { target: '*' }, loopback, 'invalid_request'],
  ['two slashes', { target: '//evil.example/admin' }, loopback, 'invalid_request'],
  ['a slash and a backslash', { target: '/\\evil.example' }, loopback, 'invalid_request'],
  ['a backslash', { target: '\\admin' }, loopback, 'invalid_request'],
  ['an absolute URL', { target: 'http://evil.example/admin' }, loopback, 'invalid_request'],
  ['an absolute URL of the gateway', { target: 'http://localhost:3000/v1/models' }, loopback, 'invalid_request'],
  ['an authority', { target: 'evil.example:443', method: 'CONNECT' }, loopback, 'invalid_request'],
  ['an empty target', { target: '' }, loopback, 'invalid_request'],
  ['two slashes within a path', { target: '/v1//models' }, loopback, null],

  ['two Hosts', { host: ['localhost:3000', 'evil.example'] }, loopback, 'invalid_request'],
  ['two equal Hosts', { host: ['localhost:3000', 'localhost:3000'] }, loopback, 'invalid_request'],
  ['two Hosts, on all addresses', { host: ['a', 'b'] }, open, 'invalid_request'],
  ['no Host', { host: [] }, loopback, 'invalid_request'],
  ['no Host, on all addresses', { host: [] }, open, null],
  ['any Host, on all addresses', { host: ['gateway.example'] }, open, null],
  ['a listed Host', { host: ['My-Mac.local:3000'] }, { ...loopback, hosts: ['my-mac.local'] }, null],
  ['a listed Host with its port', { host: ['box:3000'] }, { ...loopback, hosts: ['box:3000'] }, null],
  ['a listed Host with another port', { host: ['box:3001'] }, { ...loopback, hosts: ['box:3000'] }, 'host'],
  [
    'a Host that begins with a listed one',
    { host: ['my-mac.local.evil.example'] },
    { ...loopback, hosts: ['my-mac.local'] },
    'host',
  ],

  ['the gateway’s own page', { origin: 'http://localhost:3000' }, loopback, null],
  ['the gateway’s own page by IP address', { origin: 'http://127.0.0.1:3000' }, loopback, null],
  [
    'the gateway’s own page through a tunnel',
    { origin: 'http://localhost:8080', host: ['localhost:8080'] },
    loopback,
    null,
  ],
  ['a page of another port of this machine', { origin: 'http://localhost:5173' }, loopback, 'origin'],
  ['a page of this machine, without a port', { origin: 'http://localhost' }, loopback, 'origin'],
  ['a foreign page', { origin: 'https://evil.example' }, loopback, 'origin'],
  [
    'a foreign page whose name begins with the gateway’s',
    { origin: 'http://localhost:3000.evil.example' },
    loopback,
    'origin',
  ],
  [
    'a foreign page with the gateway’s name before an @',
    { origin: 'http://localhost:3000@evil.example' },
    loopback,
    'origin',
  ],
  ['a sandboxed frame', { origin: 'null' }, loopback, 'origin'],
  ['a sandboxed frame, even if listed', { origin: 'null' }, { ...loopback, origins: ['null'] }, 'origin'],
  ['an empty origin', { origin: '' }, loopback, 'origin'],
  ['two origins', { origin: 'http://localhost:3000 https://evil.example' }, loopback, 'origin'],
  ['a file URL', { origin: 'file://' }, loopback, 'origin'],
  ['a browser extension', { origin: 'chrome-extension://abc' }, loopback, 'origin'],
  [
    'a listed browser extension',
    { origin: 'chrome-extension://abc' },
    { ...loopback, origins: ['chrome-extension://abc'] },
    null,
  ],
  ['a listed page', { origin: 'https://app.example' }, { ...loopback, origins: ['https://app.example'] }, null],
  [
    'a listed page, with other case and a slash',
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
    'a subdomain of a listed page',
    { origin: 'https://x.app.example' },
    { ...loopback, origins: ['https://app.example'] },
    'origin',
  ],
  ['a listed * matches no page', { origin: 'https://evil.example' }, { ...loopback, origins: ['*'] }, 'origin'],
  ['the gateway’s own page behind TLS', { origin: 'https://gw.example', host: ['gw.example'] }, open, null],
  [
    'the gateway’s own page behind TLS, with a port in Host',
    { origin: 'https://gw.example', host: ['gw.example:443'] },
    open,
    null,
  ],
  ['a foreign page, on all addresses', { origin: 'https://evil.example', host: ['gw.example'] }, open, 'origin'],
  [
    'a page of this machine, on all addresses',
    { origin: 'http://localhost:3000', host: ['gw.example'] },
    open,
    'origin',
  ],
  ['a page, without a Host', { origin: 'http://localhost:3000', host: [] }, open, 'origin'],

  // DNS rebinding: without client keys, a name that resolves to this machine does not prove that the gateway served the page.
  [
    'a page of a rebound name, no keys',
    { origin: 'http://evil.example:3000', host: ['evil.example:3000'] },
    unkeyed,
    'origin',
  ],
  [
    'a page of a rebound name with same-origin, no keys',
    { origin: 'http://evil.example', host: ['evil.example'], secFetchSite: 'same-origin' },
    unkeyed,
    'origin',
  ],
  [
    'a page of a rebound name with cross-site, no keys',
    { origin: 'http://evil.example', host: ['evil.example'], secFetchSite: 'cross-site' },
    unkeyed,
    'origin',
  ],
  [
    'the gateway’s page by IPv4 address, no keys',
    { origin: 'http://10.1.2.3:3000', host: ['10.1.2.3:3000'] },
    unkeyed,
    null,
  ],
  [
    'the gateway’s page by IPv6 address, no keys',
    { origin: 'http://[fd00::1]:3000', host: ['[fd00::1]:3000'] },
    unkeyed,
    null,
  ],
  [
    'a name that begins like an IP address, no keys',
    { origin: 'http://10.1.2.3.evil.example', host: ['10.1.2.3.evil.example'] },
    unkeyed,
    'origin',
  ],
  [
    'the gateway’s page by localhost, no keys',
    { origin: 'http://localhost:3000', host: ['localhost:3000'] },
    unkeyed,
    null,
  ],
  [
    'the gateway’s page by a listed name, no keys',
    { origin: 'https://gw.example', host: ['gw.example'] },
    { ...unkeyed, hosts: ['gw.example'] },
    null,
  ],
  [
    'a name that begins with a listed one, no keys',
    { origin: 'https://gw.example.evil.example', host: ['gw.example.evil.example'] },
    { ...unkeyed, hosts: ['gw.example'] },
    'origin',
  ],
  ['an IP origin with another Host, no keys', { origin: 'http://10.1.2.3', host: ['evil.example'] }, unkeyed, 'origin'],
  ['a client without Origin by any name, no keys', { host: ['gw.example'] }, unkeyed, null],
  [
    'cross-site with the gateway’s origin',
    { origin: 'http://localhost:3000', host: ['localhost:3000'], secFetchSite: 'cross-site' },
    loopback,
    'origin',
  ],
  [
    'cross-site with the gateway’s origin, keys set',
    { origin: 'https://gw.example', host: ['gw.example'], secFetchSite: 'cross-site' },
    open,
    'origin',
  ],

  ['a subresource of a foreign page', { secFetchSite: 'cross-site' }, loopback, 'origin'],
  ['the address bar', { secFetchSite: 'none' }, loopback, null],
  ['a subresource of the gateway’s own page', { secFetchSite: 'same-origin' }, loopback, null],
  [
    'a listed page with cross-site',
    { secFetchSite: 'cross-site', origin: 'https://app.example' },
    { ...loopback, origins: ['https://app.example'] },
    null,
  ],
  [
    'a foreign page with same-origin',
    { secFetchSite: 'same-origin', origin: 'https://evil.example' },
    loopback,
    'origin',
  ],
]
for (const [name, more, policy, expected] of cases)
  test(`access: ${name}`, () => assert.equal(accessProblem(head(more), policy)?.kind ?? null, expected))

/** Texts that several clients take as a reason to retry. */
const ALARMING =
  /429|500|502|503|504|524|rate.?limit|too many requests|overloaded|service.?unavailable|internal.?error|server.?error|provider.?returned.?error|fetch failed|network.?error|terminated/i

test('access: an error states the remedy, repeats nothing of the request, and does not read like a reason to retry', () => {
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

test('access: on a loopback address only names that a browser resolves to loopback are accepted', () => {
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
      // A browser must parse it as a loopback name.
      const { hostname } = new URL(`http://${host.trim()}/`)
      assert.match(hostname, /^(localhost\.?|.+\.localhost\.?|127\.[0-9.]+|\[::1\])$/)
    }),
    { numRuns: 5_000, seed: 9 },
  )
})

test('access: a megabyte of any input is checked in linear time', () => {
  for (const unit of ['a', '127.', '[::', 'a.', ':', '/', 'http://'])
    assertLinear(unit, 1_000_000, (size) => {
      const long = unit.repeat(size / unit.length)
      accessProblem(head({ host: [long] }), loopback)
      accessProblem(head({ origin: long }), { ...loopback, origins: ['https://app.example'] })
      accessProblem(head({ target: `/${long}` }), loopback)
      presentedKeys(() => long, READERS)
      presentedKeys(() => `Bearer ${' '.repeat(size)}x`, READERS)
    })
})

const listed = { origins: ['https://app.example'], exposed: exposedHeaders(['x-id', 'x-other', 'x-id']) }
const READERS = credentialReaders(['x-api-key', 'api-key'])
const cors: readonly [
  string,
  string | undefined,
  Pick<AccessPolicy, 'origins' | 'exposed'>,
  string | undefined,
  string | undefined,
][] = [
  ['nothing listed', 'https://app.example', { origins: [], exposed: '' }, undefined, undefined],
  ['listed', 'https://app.example', listed, 'https://app.example', 'origin'],
  ['not listed', 'https://evil.example', listed, undefined, 'origin'],
  ['no origin', undefined, listed, undefined, 'origin'],
  ['the origin null', 'null', { origins: ['null'], exposed: '' }, undefined, 'origin'],
  ['a listed *', 'https://evil.example', { origins: ['*'], exposed: '' }, undefined, 'origin'],
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

const keys: readonly [string, Record<string, string>, readonly string[]][] = [
  ['no key', {}, []],
  ['bearer', { authorization: 'Bearer sk-1' }, ['sk-1']],
  ['bearer in any case, with spaces', { authorization: '  bEARER   sk-1  ' }, ['sk-1']],
  ['x-api-key', { 'x-api-key': 'sk-2' }, ['sk-2']],
  ['api-key, as Azure’s clients send it', { 'api-key': 'sk-3' }, ['sk-3']],
  ['both', { authorization: 'Bearer sk-1', 'x-api-key': 'sk-2' }, ['sk-1', 'sk-2']],
  ['the same key twice', { authorization: 'Bearer sk-1', 'x-api-key': 'sk-1' }, ['sk-1']],
  ['another scheme and x-api-key', { authorization: 'Basic c2stMQ==', 'x-api-key': 'sk-2' }, ['sk-2']],
  ['another scheme', { authorization: 'Basic c2stMQ==' }, []],
  ['an empty bearer token', { authorization: 'Bearer ' }, []],
  ['an empty bearer token and x-api-key', { authorization: 'Bearer', 'x-api-key': 'sk-2' }, ['sk-2']],
  ['no space after Bearer', { authorization: 'Bearersk-1' }, []],
  ['an empty key', { 'x-api-key': '  ' }, []],
]
for (const [name, headers, expected] of keys)
  test(`access: key: ${name}`, () => {
    const byName = new Map(Object.entries(headers))
    assert.deepEqual(
      presentedKeys((header) => byName.get(header), READERS),
      expected,
    )
  })

test('access: the exact headers of a preflight response', () => {
  const headers = preflightHeaders('https://app.example', listed)
  assert.deepEqual(headers, {
    'access-control-allow-origin': 'https://app.example',
    'access-control-expose-headers':
      'x-request-id, x-headgate-provider, x-headgate-model, x-headgate-attempts, x-headgate-trail, x-headgate-dropped, x-headgate-estimated, x-headgate-idempotent, x-headgate-coalesced, x-headgate-cost, x-headgate-usage, x-headgate-limit, x-headgate-warning, x-headgate-cache, x-headgate-guards, x-headgate-loop, x-headgate-successor, x-headgate-switch, sunset, deprecation, age, retry-after, retry-after-ms, x-should-retry, ratelimit, ratelimit-policy, x-id, x-other',
    vary: 'origin',
    'access-control-allow-methods': 'GET, HEAD, POST, PATCH, DELETE, OPTIONS',
    'access-control-allow-headers': 'authorization, *',
    'access-control-max-age': '600',
  })
})

const reasons: readonly (readonly [string, RequestHead, RegExp])[] = [
  ['a target without a slash', head({ target: 'x' }), /one slash at its beginning/],
  ['two Hosts', head({ host: ['localhost', 'localhost'] }), /more than one Host/],
  ['no Host', head({ host: [] }), /no Host header/],
  ['another Host', head({ host: ['evil.example'] }), /names another one/],
  ['another origin', head({ origin: 'https://evil.example' }), /web page of another origin/],
]
for (const [name, given, message] of reasons)
  test(`access: the error names the cause: ${name}`, () =>
    assert.match(accessProblem(given, loopback)?.message ?? '', message))

const places: readonly (readonly [string, Partial<RequestHead>, AccessPolicy, boolean])[] = [
  // The patterns must match the whole address.
  ['octets of three digits', { host: ['127.100.100.100'] }, loopback, true],
  ['an octet of four digits', { host: ['127.0.0.1000'] }, loopback, false],
  ['mapped octets of three digits', { host: ['[::ffff:127.100.100.100]'] }, loopback, true],
  ['a mapped address with a prefix', { host: ['[1::ffff:127.0.0.1]'] }, loopback, false],
  ['a mapped address in hexadecimal', { host: ['[::ffff:7f12:abcd]'] }, loopback, true],
  ['a mapped address with too many groups', { host: ['[::ffff:7f00:1:2]'] }, loopback, false],
  ['spaces around a Host', { host: [' localhost:3000 '] }, loopback, true],
  ['a name of 260 characters', { host: [`${'a'.repeat(250)}.localhost`] }, loopback, true],
  ['a name of 261 characters', { host: [`${'a'.repeat(251)}.localhost`] }, loopback, false],
  [
    'the gateway’s own page over TLS, on the default port',
    { origin: 'https://box.example', host: ['box.example'] },
    open,
    true,
  ],
  [
    'the gateway’s own page over TLS, with the default port',
    { origin: 'https://box.example:443', host: ['box.example'] },
    open,
    true,
  ],
  ['the gateway’s own page on port 80', { origin: 'http://box.example:80', host: ['box.example'] }, open, true],
  ['a page over TLS on port 80', { origin: 'https://box.example:80', host: ['box.example'] }, open, false],
  ['a page of another port', { origin: 'http://box.example:81', host: ['box.example'] }, open, false],
  ['an origin with a path', { origin: 'http://localhost:3000/x' }, loopback, false],
  ['an origin with a prefix', { origin: 'xhttp://localhost:3000' }, loopback, false],
  ['a malformed origin and no Host', { origin: 'http://!', host: [] }, open, false],
  ['a malformed origin and a malformed Host', { origin: 'http://!', host: ['!'] }, open, false],
]
for (const [name, more, policy, enters] of places)
  test(`access: ${name} is ${enters ? 'accepted' : 'refused'}`, () =>
    assert.equal(accessProblem(head(more), policy) === null, enters))

test('access: Bearer must be the first word', () => {
  assert.deepEqual(
    presentedKeys((name) => (name === 'authorization' ? 'Basic bearer x' : undefined), READERS),
    [],
  )
})
