/**
 * One request for each statement of the protocol, good and bad, sent to the reference (recorded in `data/probe.json` by `record-probe.ts`)
 * and to Headgate. What is compared is what a client reads.
 */
import { gzipSync } from 'node:zlib'
import { beginDevice, pollDevice, refreshTokens, sendForm } from '../../support/device-flow.ts'

export type Observed = {
  readonly status: number
  /** `content-type` without parameters. */
  readonly type: string
  /** The names of the members, of OAuth errors and of Anthropic's with their values. */
  readonly body: readonly string[]
  /** Of those that clients read. */
  readonly headers: readonly string[]
}

/** A gateway under test. `model`: one that it serves. */
export type Probed = {
  readonly url: string
  readonly model: string
  readonly approve: (code: string) => Promise<unknown>
  readonly deny: (code: string) => Promise<unknown>
}

type Context = Probed & { readonly token: string; readonly refresh: string; readonly checksum: string }
type Row = readonly [name: string, ask: (context: Context) => Promise<Response>]

const READ = ['etag', 'x-should-retry', 'x-cc-gateway-version', 'retry-after', 'location', 'www-authenticate']

const observe = async (response: Response): Promise<Observed> => {
  const text = await response.text()
  const type = (response.headers.get('content-type') ?? '').split(';')[0] ?? ''
  const noStore = /no-store/.test(response.headers.get('cache-control') ?? '') ? ['no-store'] : []
  return {
    status: response.status,
    type,
    body: type === 'application/json' ? membersOf(JSON.parse(text)) : [],
    headers: [...READ.filter((name) => response.headers.has(name)), ...noStore],
  }
}

/** Paths of members; `error: x` and `error.type: x` with their values. */
const membersOf = (value: unknown, at = ''): string[] => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [at]
  return Object.entries(value)
    .flatMap(([name, member]) => {
      const path = at === '' ? name : `${at}.${name}`
      if (/^(?:error|error\.type|type)$/.test(path) && typeof member === 'string') return [`${path}: ${member}`]
      return path === 'settings' || path === 'data' ? [path] : membersOf(member, path)
    })
    .toSorted()
}

const DEVICE = 'urn:ietf:params:oauth:grant-type:device_code'
const form = (fields: Readonly<Record<string, string>>) => ({ method: 'POST', body: new URLSearchParams(fields) })
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
const forged = (token: string, header: object, more: object = {}) => {
  const [, claims = '', signature = ''] = token.split('.')
  const changed = { ...JSON.parse(Buffer.from(claims, 'base64url').toString()), ...more }
  const text = [header, changed].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
  return `${text}.${signature}`
}
const get =
  (path: string, headers: Readonly<Record<string, string>> = {}): Row[1] =>
  ({ url, token }) =>
    fetch(url + path, { headers: { ...bearer(token), ...headers }, redirect: 'manual' })
const send =
  (path: string, body: string | Uint8Array, headers: Readonly<Record<string, string>> = {}): Row[1] =>
  ({ url, token }) =>
    fetch(url + path, { method: 'POST', body, headers: { ...bearer(token), ...headers }, redirect: 'manual' })
const JSON_TYPE = { 'content-type': 'application/json' }
const message = (model: string, more: object = {}) =>
  JSON.stringify({ model, max_tokens: 16, messages: [{ role: 'user', content: 'hi' }], ...more })
const ask =
  (more: object = {}, headers: Readonly<Record<string, string>> = {}): Row[1] =>
  (context) =>
    send('/v1/messages?beta=true', message(context.model, more), { ...JSON_TYPE, ...headers })(context)
const unauthorised =
  (path: string, token: (context: Context) => string | null): Row[1] =>
  (context) => {
    const given = token(context)
    return fetch(context.url + path, { headers: given === null ? {} : bearer(given) })
  }
const HS256 = { alg: 'HS256', typ: 'JWT' }

const ROWS: readonly Row[] = [
  ['metadata', ({ url }) => fetch(`${url}/.well-known/oauth-authorization-server`)],
  [
    'a code, as Claude Code asks',
    ({ url }) => fetch(`${url}/oauth/device_authorization`, form({ surface: 'claude_code' })),
  ],
  ['a code, with an empty form', ({ url }) => fetch(`${url}/oauth/device_authorization`, form({}))],
  [
    'a code, with members of other programs',
    ({ url }) => fetch(`${url}/oauth/device_authorization`, form({ client_id: 'x', scope: 'openid', other: '1' })),
  ],
  ['a code, by GET', ({ url }) => fetch(`${url}/oauth/device_authorization`)],
  [
    'a poll before the decision',
    async ({ url }) => {
      const { device_code } = await beginDevice(url)
      return fetch(`${url}/oauth/token`, form({ grant_type: DEVICE, device_code }))
    },
  ],
  [
    'a poll too soon',
    async ({ url }) => {
      const { device_code } = await beginDevice(url)
      await pollDevice(url, device_code)
      return fetch(`${url}/oauth/token`, form({ grant_type: DEVICE, device_code }))
    },
  ],
  [
    'a code that was refused',
    async ({ url, deny }) => {
      const { device_code, user_code } = await beginDevice(url)
      await deny(user_code)
      return fetch(`${url}/oauth/token`, form({ grant_type: DEVICE, device_code }))
    },
  ],
  [
    'a code that was allowed',
    async ({ url, approve }) => {
      const { device_code, user_code } = await beginDevice(url)
      await approve(user_code)
      return fetch(`${url}/oauth/token`, form({ grant_type: DEVICE, device_code }))
    },
  ],
  [
    'a code that was used',
    async ({ url, approve }) => {
      const { device_code, user_code } = await beginDevice(url)
      await approve(user_code)
      await pollDevice(url, device_code)
      return fetch(`${url}/oauth/token`, form({ grant_type: DEVICE, device_code }))
    },
  ],
  [
    'an unknown code',
    ({ url }) => fetch(`${url}/oauth/token`, form({ grant_type: DEVICE, device_code: 'x'.repeat(43) })),
  ],
  ['no code', ({ url }) => fetch(`${url}/oauth/token`, form({ grant_type: DEVICE }))],
  ['an unknown grant', ({ url }) => fetch(`${url}/oauth/token`, form({ grant_type: 'password' }))],
  ['an empty form for tokens', ({ url }) => fetch(`${url}/oauth/token`, form({}))],
  [
    'a refresh',
    async ({ url, approve }) => {
      const { device_code, user_code } = await beginDevice(url)
      await approve(user_code)
      const { body } = await pollDevice(url, device_code)
      return fetch(`${url}/oauth/token`, form({ grant_type: 'refresh_token', refresh_token: body.refresh_token }))
    },
  ],
  [
    'a second refresh by the next token',
    async ({ url, refresh }) => {
      const { body } = await refreshTokens(url, refresh)
      return fetch(`${url}/oauth/token`, form({ grant_type: 'refresh_token', refresh_token: body.refresh_token }))
    },
  ],
  [
    'an unknown refresh token',
    ({ url }) => fetch(`${url}/oauth/token`, form({ grant_type: 'refresh_token', refresh_token: 'x' })),
  ],
  ['no refresh token', ({ url }) => fetch(`${url}/oauth/token`, form({ grant_type: 'refresh_token' }))],
  ['the page for the code', ({ url }) => fetch(`${url}/device?user_code=BCDF-GHJK`)],
  [
    'an unknown code at the page',
    ({ url }) => fetch(`${url}/device`, { ...form({ user_code: 'BCDF-GHJK' }), redirect: 'manual' }),
  ],
  ['settings', get('/managed/settings')],
  [
    'settings that the client has',
    (context) => get('/managed/settings', { 'if-none-match': `"${context.checksum}"` })(context),
  ],
  [
    'settings, by a weak tag',
    (context) => get('/managed/settings', { 'if-none-match': `W/"${context.checksum}"` })(context),
  ],
  [
    'settings, in a list of tags',
    (context) => get('/managed/settings', { 'if-none-match': `"a", "${context.checksum}"` })(context),
  ],
  ['settings, by an old tag', get('/managed/settings', { 'if-none-match': '"sha256:0"' })],
  ['settings, as Claude Desktop asks', get('/managed/settings', { 'if-none-match': '*', 'cache-control': 'no-cache' })],
  ['settings, by POST', send('/managed/settings', '')],
  ['settings without a token', unauthorised('/managed/settings', () => null)],
  ['settings with another text', unauthorised('/managed/settings', () => 'x')],
  [
    'settings with a changed token',
    unauthorised('/managed/settings', ({ token }) => forged(token, HS256, { groups: ['admins'] })),
  ],
  [
    'settings with an unsigned token',
    unauthorised('/managed/settings', ({ token }) => forged(token, { alg: 'none', typ: 'JWT' }).replace(/[^.]*$/, '')),
  ],
  [
    'settings with an expired token',
    unauthorised('/managed/settings', ({ token }) => forged(token, HS256, { exp: 1 })),
  ],
  ['models', get('/v1/models?limit=1000')],
  ['models without a token', unauthorised('/v1/models', () => null)],
  ['what was spent, without a token', unauthorised('/api/oauth/usage', () => null)],
  ['metrics', send('/v1/metrics', new Uint8Array([10, 0]), { 'content-type': 'application/x-protobuf' })],
  ['logs in JSON', send('/v1/logs', '{"resourceLogs":[]}', JSON_TYPE)],
  [
    'traces, compressed',
    send('/v1/traces', gzipSync(new Uint8Array([10, 0])), {
      'content-type': 'application/x-protobuf',
      'content-encoding': 'gzip',
    }),
  ],
  ['metrics that are none', send('/v1/metrics', 'none')],
  ['no metrics', send('/v1/metrics', '')],
  [
    'metrics with another text',
    ({ url }) => fetch(`${url}/v1/metrics`, { method: 'POST', body: 'x', headers: bearer('x') }),
  ],
  ['a message', ask()],
  ['a message, streamed', ask({ stream: true })],
  [
    'a message with unknown members and headers',
    ask({ unknown_member: 1 }, { 'x-app': 'cli', 'x-stainless-lang': 'js', 'anthropic-beta': 'unknown-2026-01-01' }),
  ],
  ['a message in no JSON', send('/v1/messages', '{bad', JSON_TYPE)],
  [
    'a message to a model that is not served',
    (context) => send('/v1/messages', message('denied-model'), JSON_TYPE)(context),
  ],
  [
    'a message with another text',
    ({ url, model }) =>
      fetch(`${url}/v1/messages`, { method: 'POST', body: message(model), headers: { ...JSON_TYPE, ...bearer('x') } }),
  ],
  [
    'a message with a changed token',
    ({ url, model, token }) =>
      fetch(`${url}/v1/messages`, {
        method: 'POST',
        body: message(model),
        headers: { ...JSON_TYPE, ...bearer(forged(token, HS256, { sub: 'bob' })) },
      }),
  ],
  ['the protocol', ({ url }) => fetch(`${url}/protocol`)],
  ['an unknown path', get('/v1/nothing')],
]

/** Asks everything. Rows run one after the other. */
export const probe = async (probed: Probed): Promise<Readonly<Record<string, Observed>>> => {
  const { url, approve } = probed
  const { device_code, user_code } = await beginDevice(url)
  await approve(user_code)
  const { body } = await sendForm(`${url}/oauth/token`, { grant_type: DEVICE, device_code })
  const settings = await fetch(`${url}/managed/settings`, { headers: bearer(body.access_token) })
  const { checksum } = (await settings.json()) as { readonly checksum: string }
  const context = { ...probed, token: body.access_token, refresh: body.refresh_token, checksum }
  const observed: Record<string, Observed> = {}
  for (const [name, ask] of ROWS) observed[name] = await observe(await ask(context))
  return observed
}
