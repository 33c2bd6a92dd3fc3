/**
 * Answers of a hostile issuer, of a hostile browser, and of a hostile page that sends a browser. Each is refused with a page, gives no
 * session, and leaves one row in the audit log.
 */
import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { CompactSign, exportJWK, generateKeyPair, type JWK, SignJWT, UnsecuredJWT } from 'jose'
import { type Started, start } from '../e2e/support/process.ts'
import { navigate, type Page, TestBrowser } from '../support/identity-provider.ts'
import { freePorts } from '../support/ports.ts'

const ADMIN = 'break-glass-token-of-the-operator'
const CLIENT_SECRET = 'client-secret-of-the-gateway-0123456789'

type Claims = Record<string, unknown>
/** What the issuer answers next. */
type Answer = {
  claims: Claims
  header: Record<string, unknown>
  /** Replaces the ID token. */
  idToken: ((claims: Claims) => Promise<string> | string) | null
  /** Replaces the body of the token endpoint. */
  tokens: ((tokens: Claims) => unknown) | null
  status: number
  type: string
  userinfo: Claims
}

const keyPair = await generateKeyPair('RS256', { extractable: true })
const otherPair = await generateKeyPair('RS256', { extractable: true })
const ecPair = await generateKeyPair('ES256', { extractable: true })
const publicJwk: JWK = { ...(await exportJWK(keyPair.publicKey)), kid: 'k1', alg: 'RS256', use: 'sig' }

const now = () => Math.floor(Date.now() / 1000)
const sign = (claims: Claims, header: Record<string, unknown> = {}, key = keyPair.privateKey) =>
  new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: 'k1', ...header }).sign(key)
const signBytes = (claims: Claims, header: { alg: string } & Record<string, unknown>, key: Uint8Array) =>
  new CompactSign(new TextEncoder().encode(JSON.stringify(claims))).setProtectedHeader(header).sign(key)

describe('sign-in', { concurrency: false }, () => {
  let gateway: Started
  let url = ''
  let issuer = ''
  let server: Server
  let answer: Answer
  let refused = 0
  let addresses = 0
  const good = (): Answer => ({
    claims: {},
    header: {},
    idToken: null,
    tokens: null,
    status: 200,
    type: 'application/json',
    userinfo: {},
  })

  before(async () => {
    const [port = 0] = await freePorts(1)
    url = `http://127.0.0.1:${port}`
    answer = good()
    server = createServer(async (request, response) => {
      const { pathname } = new URL(request.url ?? '', issuer)
      const send = (body: unknown, status = 200, type = 'application/json') => {
        response.writeHead(status, {
          'content-type': type,
          ...(status === 302 && { location: 'https://evil.example/' }),
        })
        response.end(typeof body === 'string' ? body : JSON.stringify(body))
      }
      if (pathname.endsWith('/.well-known/openid-configuration')) {
        const own = `${issuer}${pathname.slice(0, -'/.well-known/openid-configuration'.length)}`
        return send({
          issuer: own === `${issuer}/liar` ? issuer : own === `${issuer}/slash` ? `${own}/` : own,
          authorization_endpoint: `${own}/authorize`,
          token_endpoint: `${own}/token`,
          userinfo_endpoint: `${own}/userinfo`,
          jwks_uri: `${own}/jwks`,
          end_session_endpoint: `${own}/end`,
          authorization_response_iss_parameter_supported: true,
          id_token_signing_alg_values_supported: ['RS256', 'HS256', 'none', 'ES256'],
          response_types_supported: ['code'],
          subject_types_supported: ['public'],
        })
      }
      if (pathname.endsWith('/jwks')) return send({ keys: [publicJwk] })
      if (pathname.endsWith('/userinfo')) return send({ sub: answer.claims.sub, ...answer.userinfo })
      const { claims, header, idToken, tokens, status, type } = answer
      const id_token = idToken ? await idToken(claims) : await sign(claims, header)
      const usual = { access_token: 'access', token_type: 'Bearer', expires_in: 60, id_token }
      return send(tokens ? tokens(usual) : usual, status, type)
    }).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const provider = (path: string, more = '') =>
      `{ issuer: "${issuer}${path}", clientId: headgate, clientSecret: ${CLIENT_SECRET}, groups: groups${more} }`
    gateway = await start({
      env: { PORT: String(port), AUTH_ADMIN: ADMIN },
      files: {
        'headgate.yaml': `
trustedProxies: [ 127.0.0.1 ]
sso:
  publicUrl: ${url}
  secret: a-secret-of-more-than-32-characters-0123
  providers:
    corp: ${provider('')}
    other: ${provider('/other')}
    liar: ${provider('/liar')}
    slash: ${provider('/slash')}
    domain: ${provider('', ', domains: [ corp.example ]')}
  roles: [ { group: ai-admins, role: admin } ]
`,
      },
    })
  })
  after(async () => {
    await gateway?.stop()
    server?.closeAllConnections()
    server?.close()
  })

  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape
  const admin = async (path: string): Promise<any> => {
    const response = await fetch(`${url}/admin/api/v1${path}`, { headers: { authorization: `Bearer ${ADMIN}` } })
    assert.equal(response.status, 200)
    return response.json()
  }
  const sessions = async (): Promise<number> =>
    (await admin('/people?limit=200')).data.reduce((sum: number, one: { sessions: number }) => sum + one.sessions, 0)

  /** Leaves for the issuer, as a browser does. */
  const begin = async (provider = 'corp', more = '') => {
    const browser = new TestBrowser()
    const page = await browser.open(`${url}/admin/api/v1/login?provider=${provider}${more}`, { until: /\/authorize\?/ })
    const asked = new URL(page.url).searchParams
    const claims = {
      iss: issuer,
      aud: 'headgate',
      sub: 's1',
      nonce: asked.get('nonce'),
      iat: now(),
      exp: now() + 60,
      groups: ['ai-admins'],
    }
    return { browser, claims, state: asked.get('state') ?? '', asked }
  }
  const callback = (
    browser: TestBrowser,
    query: Readonly<Record<string, string>> | string,
    cookie?: string,
  ): Promise<Page> => {
    const address = `${url}/oauth/callback?${typeof query === 'string' ? query : new URLSearchParams(query)}`
    addresses++
    const from = `10.0.${addresses >> 8}.${addresses & 255}`
    const headers = { cookie: cookie ?? browser.header(address), 'x-forwarded-for': from }
    return navigate(address, {
      ...headers,
      'sec-fetch-site': 'cross-site',
      'sec-fetch-mode': 'navigate',
      'sec-fetch-dest': 'document',
    })
  }
  const assertRefused = (page: Page, statuses: readonly number[] = [400, 403]) => {
    assert.ok(statuses.includes(page.status), `${page.status} ${page.text}`)
    assert.equal(page.headers['set-cookie'], undefined)
    assert.match(page.text, /You are not signed in/)
    assert.doesNotMatch(page.text, /evil|<script|s1/)
    if (page.status < 500) refused++
  }

  test('a sign-in that is valid is accepted, so that the refusals below have one cause', async () => {
    const { browser, claims, state } = await begin()
    answer = { ...good(), claims }
    const page = await callback(browser, { code: 'c', state, iss: issuer })
    assert.equal(page.status, 302, page.text)
    assert.equal(page.headers.location, `${url}/dashboard/`)
    assert.match(
      page.headers['set-cookie']?.[0] ?? '',
      /^headgate-\d+=.*; Path=\/admin\/api\/v1; HttpOnly; SameSite=Lax$/,
    )
    assert.equal(await sessions(), 1)
  })

  const without = (claims: Claims, name: string) =>
    Object.fromEntries(Object.entries(claims).filter(([key]) => key !== name))
  const CLAIMS: readonly (readonly [name: string, change: (claims: Claims) => Claims])[] = [
    ['another issuer', (claims) => ({ ...claims, iss: 'https://evil.example' })],
    ['the issuer with a slash', (claims) => ({ ...claims, iss: `${issuer}/` })],
    ['no issuer', (claims) => without(claims, 'iss')],
    ['another audience', (claims) => ({ ...claims, aud: 'other' })],
    ['no audience', (claims) => without(claims, 'aud')],
    ['an empty audience', (claims) => ({ ...claims, aud: [] })],
    ['a list of others as audience', (claims) => ({ ...claims, aud: ['a', 'b'] })],
    ['two audiences and no authorized party', (claims) => ({ ...claims, aud: ['headgate', 'other'] })],
    [
      'two audiences and another authorized party',
      (claims) => ({ ...claims, aud: ['headgate', 'other'], azp: 'other' }),
    ],
    ['another authorized party', (claims) => ({ ...claims, azp: 'other' })],
    ['another nonce', (claims) => ({ ...claims, nonce: 'x' })],
    ['no nonce', (claims) => without(claims, 'nonce')],
    ['a list as nonce', (claims) => ({ ...claims, nonce: [claims.nonce] })],
    ['an expiry in the past', (claims) => ({ ...claims, exp: now() - 120 })],
    ['no expiry', (claims) => without(claims, 'exp')],
    ['a text as expiry', (claims) => ({ ...claims, exp: '9999999999' })],
    ['no time of issue', (claims) => without(claims, 'iat')],
    ['a time from which it is valid', (claims) => ({ ...claims, nbf: now() + 600 })],
    ['no subject', (claims) => without(claims, 'sub')],
    ['an empty subject', (claims) => ({ ...claims, sub: '' })],
    ['a number as subject', (claims) => ({ ...claims, sub: 1 })],
    ['a subject of 300 characters', (claims) => ({ ...claims, sub: 's'.repeat(300) })],
    ['groups that are objects', (claims) => ({ ...claims, groups: [{ name: 'ai-admins' }] })],
    [
      'groups that are left out (Entra)',
      (claims) => ({ ...without(claims, 'groups'), _claim_names: { groups: 'src1' } }),
    ],
    ['groups that differ in case', (claims) => ({ ...claims, groups: ['AI-ADMINS'] })],
    [
      "an administrator's e-mail address under another subject",
      (claims) => ({ ...claims, sub: 's2', email: 'ann@corp.example', email_verified: true, groups: [] }),
    ],
  ]
  for (const [name, change] of CLAIMS)
    test(`a forged sign-in is refused: an ID token with ${name}`, async () => {
      const { browser, claims, state } = await begin()
      answer = { ...good(), claims: change(claims) }
      assertRefused(await callback(browser, { code: 'c', state, iss: issuer }))
    })

  const TOKENS: readonly (readonly [name: string, token: (claims: Claims) => Promise<string> | string])[] = [
    ['no algorithm', (claims) => new UnsecuredJWT(claims).encode()],
    [
      'no algorithm and a signature',
      async (claims) => `${new UnsecuredJWT(claims).encode()}${(await sign(claims)).split('.')[2]}`,
    ],
    [
      'HS256 with the public key',
      (claims) => signBytes(claims, { alg: 'HS256', kid: 'k1' }, new TextEncoder().encode(JSON.stringify(publicJwk))),
    ],
    [
      'HS256 with the client secret',
      (claims) => signBytes(claims, { alg: 'HS256' }, new TextEncoder().encode(CLIENT_SECRET)),
    ],
    ['the key of another', (claims) => sign(claims, {}, otherPair.privateKey)],
    ['a key that is not in the set', (claims) => sign(claims, { kid: 'k2' }, otherPair.privateKey)],
    ['another algorithm than its key', (claims) => sign(claims, { alg: 'ES256' }, ecPair.privateKey)],
    [
      'its own key in the header',
      async (claims) =>
        sign(claims, { kid: undefined, jwk: await exportJWK(otherPair.publicKey) }, otherPair.privateKey),
    ],
    [
      'the address of its key in the header',
      (claims) => sign(claims, { jku: 'https://evil.example/jwks' }, otherPair.privateKey),
    ],
    [
      'an unknown critical header',
      async (claims) => {
        const [, payload, signature] = (await sign(claims)).split('.')
        return `${Buffer.from('{"alg":"RS256","kid":"k1","crit":["x"],"x":1}').toString('base64url')}.${payload}.${signature}`
      },
    ],
    [
      'claims that were changed',
      async (claims) => {
        const [header, , signature] = (await sign({ ...claims, groups: [] })).split('.')
        return `${header}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.${signature}`
      },
    ],
    ['no signature', async (claims) => (await sign(claims)).split('.').slice(0, 2).join('.')],
    ['an empty signature', async (claims) => `${(await sign(claims)).split('.').slice(0, 2).join('.')}.`],
    ['five parts', async (claims) => `${await sign(claims)}.a.b`],
    ['no JSON', () => 'a.b.c'],
    ['no text', () => ''],
  ]
  for (const [name, idToken] of TOKENS)
    test(`a forged sign-in is refused: an ID token with ${name}`, async () => {
      const { browser, claims, state } = await begin()
      answer = { ...good(), claims, idToken }
      assertRefused(await callback(browser, { code: 'c', state, iss: issuer }))
    })

  const ENDPOINT: readonly (readonly [name: string, change: Partial<Answer>, statuses?: readonly number[]])[] = [
    ['no ID token', { tokens: (tokens) => without(tokens, 'id_token') }],
    ['no access token', { tokens: (tokens) => without(tokens, 'access_token') }],
    ['another kind of token', { tokens: (tokens) => ({ ...tokens, token_type: 'mac' }) }],
    ['a web page', { tokens: () => '<html><script>evil</script>', type: 'text/html' }],
    ['text that is no JSON', { tokens: () => '{"access_token":' }],
    ['a list', { tokens: (tokens) => [tokens] }],
    ['a redirect', { status: 302 }],
    [
      'a code that was used',
      { tokens: () => ({ error: 'invalid_grant', error_description: '<script>evil</script>' }), status: 400 },
    ],
    ['an unknown client', { tokens: () => ({ error: 'invalid_client' }), status: 401 }],
    ['a megabyte', { tokens: (tokens) => ({ ...tokens, x: 'x'.repeat(1_000_000) }) }],
    ['an error of its own', { tokens: () => 'evil', status: 500 }, [503]],
    ['too many requests', { tokens: () => 'evil', status: 429 }, [503]],
  ]
  for (const [name, change, statuses] of ENDPOINT)
    test(`a forged sign-in is refused: the token endpoint answers with ${name}`, async () => {
      const { browser, claims, state } = await begin()
      answer = { ...good(), claims, ...change }
      assertRefused(await callback(browser, { code: 'c', state, iss: issuer }), statuses)
    })

  const QUERIES: readonly (readonly [name: string, query: (state: string) => string])[] = [
    ['another state', () => `code=c&state=x&iss=${issuer}`],
    ['no state', () => `code=c&iss=${issuer}`],
    ['two states', (state) => `code=c&state=${state}&state=x&iss=${issuer}`],
    ['two codes', (state) => `code=c&code=d&state=${state}&iss=${issuer}`],
    ['no code', (state) => `state=${state}&iss=${issuer}`],
    ['the name of another issuer (mix-up)', (state) => `code=c&state=${state}&iss=https://evil.example`],
    ['no name of the issuer, which always sends it', (state) => `code=c&state=${state}`],
    ['an error of the issuer', (state) => `error=access_denied&error_description=evil&state=${state}&iss=${issuer}`],
    ['an error and a code', (state) => `error=access_denied&code=c&state=${state}&iss=${issuer}`],
    ['an ID token in the address', (state) => `code=c&id_token=a.b.c&state=${state}&iss=${issuer}`],
    ['a whole response in the address', (state) => `response=a.b.c&state=${state}&iss=${issuer}`],
  ]
  for (const [name, query] of QUERIES)
    test(`a forged sign-in is refused: a browser returns with ${name}`, async () => {
      const { browser, claims, state } = await begin()
      answer = { ...good(), claims }
      assertRefused(await callback(browser, query(state)))
    })

  test('a sign-in of another browser is refused: no cookie, as with a link of an attacker (login CSRF)', async () => {
    const { claims, state } = await begin()
    answer = { ...good(), claims }
    assertRefused(await callback(new TestBrowser(), { code: 'c', state, iss: issuer }))
  })

  test('a sign-in of another browser is refused: the cookie of another sign-in, or a changed one', async () => {
    const { browser, claims, state } = await begin()
    const { browser: other } = await begin()
    answer = { ...good(), claims }
    assertRefused(await callback(other, { code: 'c', state, iss: issuer }))
    const cookie = browser.header(`${url}/oauth/callback`)
    for (const at of [20, 60, cookie.length - 2]) {
      const changed = `${cookie.slice(0, at)}${cookie[at] === 'A' ? 'B' : 'A'}${cookie.slice(at + 1)}`
      assertRefused(await callback(browser, { code: 'c', state, iss: issuer }, changed))
    }
    assertRefused(
      await callback(
        browser,
        { code: 'c', state, iss: issuer },
        `${cookie.split('=')[0]}=${Buffer.from('[]').toString('base64url')}`,
      ),
    )
  })

  test('a sign-in of another issuer is refused: its answer counts for the one that was begun only (mix-up)', async () => {
    const { browser, claims, state } = await begin('other')
    answer = { ...good(), claims }
    assertRefused(await callback(browser, { code: 'c', state, iss: issuer }))
    const { browser: second, claims: own, state: again } = await begin('other')
    answer = { ...good(), claims: own }
    assertRefused(await callback(second, { code: 'c', state: again, iss: `${issuer}/other` }))
  })

  test('an issuer with a slash at its end that the settings lack is the same, and its tokens state the slash', async () => {
    const { browser, claims, state } = await begin('slash')
    answer = { ...good(), claims: { ...claims, iss: `${issuer}/slash` } }
    assertRefused(await callback(browser, { code: 'c', state, iss: `${issuer}/slash/` }))
    answer = { ...good(), claims: { ...claims, iss: `${issuer}/slash/` } }
    const page = await callback(browser, { code: 'c', state, iss: `${issuer}/slash/` })
    assert.equal(page.status, 302, page.text)
    const token = await sign(logoutToken({ iss: `${issuer}/slash/` }))
    assert.equal(await sendLogout(token), 200)
  })

  test('an issuer that states another name is refused before a browser leaves', async () => {
    const page = await navigate(`${url}/admin/api/v1/login?provider=liar`, {})
    assert.equal(page.status, 503)
    assert.equal(page.headers.location, undefined)
  })

  test('a userinfo of another subject is refused', async () => {
    const { browser, claims, state } = await begin()
    answer = { ...good(), claims: without(claims, 'groups'), userinfo: { sub: 's9', groups: ['ai-admins'] } }
    assertRefused(await callback(browser, { code: 'c', state, iss: issuer }))
  })

  for (const [name, profile] of [
    ['not verified', { email: 'ann@corp.example', email_verified: false }],
    ['not stated as verified', { email: 'ann@corp.example' }],
    ['of another domain', { email: 'ann@evil.example', email_verified: true }],
  ] as const)
    test(`an e-mail address gives no access: ${name}`, async () => {
      const { browser, claims, state } = await begin('domain')
      answer = { ...good(), claims: { ...claims, ...profile }, userinfo: { email_verified: true } }
      assertRefused(await callback(browser, { code: 'c', state, iss: issuer }))
    })

  for (const to of [
    'https://evil.example/',
    '//evil.example',
    '/\\evil.example',
    '/dashboard/\\..\\..',
    'javascript:alert(1)',
    '/dashboard//evil.example',
    '/oauth/callback',
  ])
    test(`an open redirect does not exist: return=${to}`, async () => {
      const { browser, claims, state } = await begin('corp', `&return=${encodeURIComponent(to)}`)
      answer = { ...good(), claims }
      const page = await callback(browser, { code: 'c', state, iss: issuer })
      assert.equal(page.status, 302)
      assert.equal(page.headers.location, `${url}/dashboard/`)
    })

  const logoutToken = (more: Claims = {}): Claims => ({
    iss: issuer,
    aud: 'headgate',
    sub: 's1',
    iat: now(),
    exp: now() + 60,
    jti: `j${addresses++}`,
    events: { 'http://schemas.openid.net/event/backchannel-logout': {} },
    ...more,
  })
  const sendLogout = async (token: string): Promise<number> => {
    const body = new URLSearchParams({ logout_token: token })
    const headers = { 'x-forwarded-for': `10.9.0.${addresses++ & 255}` }
    return (await fetch(`${url}/oauth/backchannel-logout`, { method: 'POST', body, headers })).status
  }

  test('a forged logout token ends no session, and a valid one works once', async () => {
    const before = await sessions()
    assert.ok(before > 0)
    const forged = [
      await sign(logoutToken({ nonce: 'n' })),
      await sign(without(logoutToken(), 'events')),
      await sign(logoutToken({ events: {} })),
      await sign(logoutToken({ events: 'http://schemas.openid.net/event/backchannel-logout' })),
      await sign(logoutToken({ aud: 'other' })),
      await sign(logoutToken({ iss: 'https://evil.example' })),
      await sign(logoutToken({ iat: now() - 3_600 })),
      await sign(logoutToken({ exp: now() - 120 })),
      await sign(without(logoutToken(), 'jti')),
      await sign(without(logoutToken(), 'sub')),
      await sign(logoutToken(), {}, otherPair.privateKey),
      new UnsecuredJWT(logoutToken()).encode(),
      await signBytes(logoutToken(), { alg: 'HS256' }, new TextEncoder().encode(CLIENT_SECRET)),
      'a.b.c',
      '',
    ]
    for (const [index, token] of forged.entries()) assert.equal(await sendLogout(token), 400, String(index))
    assert.equal(await sessions(), before)
    const valid = await sign(logoutToken())
    assert.equal(await sendLogout(valid), 200)
    assert.equal(await sessions(), 0)
    assert.equal(await sendLogout(valid), 400, 'replayed')
  })

  test('a forged sign-in leaves one row in the audit log, and no session', async () => {
    assert.equal(await sessions(), 0)
    let rows = 0
    for (let after: string | null = ''; after !== null; ) {
      const page: { data: readonly unknown[]; next: string | null } = await admin(
        `/audit?action=login.refused&limit=200${after && `&after=${encodeURIComponent(after)}`}`,
      )
      rows += page.data.length
      after = page.next
    }
    assert.equal(rows, refused)
    assert.ok(refused >= 60, String(refused))
  })

  test('guesses are limited: after 20 failures of an address follows 429', async () => {
    const statuses: number[] = []
    for (let n = 0; n < 25; n++)
      statuses.push(
        (await navigate(`${url}/oauth/callback?code=c&state=x`, { 'x-forwarded-for': '10.200.0.1' })).status,
      )
    assert.deepEqual(new Set(statuses.slice(0, 20)), new Set([400]))
    assert.equal(statuses.at(-1), 429)
  })
})
