/** Routes that teams make for their own keys: who may use and change them, what they may reach, and three gateways that share them. */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { isObject, type JsonObject, list, object, parseObject } from '../../src/core/json.ts'
import { answerWith } from '../support/answers.ts'
import { skipPostgres, startPostgres } from '../support/postgres.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const ADMIN = 'admin-0123456789abcdefghijkl'
const HEALTH = 'health-key-0123456789abcdef'
const STYLES = {
  '/v1/chat/completions': { messages: [{ role: 'user', content: 'hello' }] },
  '/v1/responses': { input: 'hello' },
  '/v1/messages': { max_tokens: 10, messages: [{ role: 'user', content: 'hello' }] },
  '/v1/completions': { prompt: 'hello' },
} as const
const CHAT = STYLES['/v1/chat/completions']

const SPEC = {
  strategy: 'priority',
  targets: [
    {
      provider: 'small',
      model: 's',
      when: { inputTokens: { below: 1_000 }, tools: false },
      set: { maxOutputTokens: 50 },
    },
    'large/l',
  ],
  fallback: ['large/m'],
}

const configOf = (url: string) => `
coalesce: true
prove: { onFailure: refuse }
claims: ["key=only-fast: region in eu"]
unknownModel: reject
providers:
  small: { kind: openai-compatible, baseUrl: "${url}/small/v1", keys: [k], models: [s], styles: [chat, responses, messages], facts: { region: eu } }
  large: { kind: openai-compatible, baseUrl: "${url}/large/v1", keys: [k], models: [l, m], styles: [chat, responses, messages], facts: { region: us } }
fallback: none
routes:
  shared: { targets: [small/s] }
  "glob-*": { targets: [small/s] }
  twin: ${JSON.stringify(SPEC)}
teams: { health: {} }
keys: { only-fast: { team: health, secret: ${HEALTH}, access: { routes: [fast] } } }
`

type Answer = { readonly status: number; readonly body: JsonObject; readonly headers: Headers }

const api = async ({ url }: Started, call: string, body?: unknown, token = ADMIN): Promise<Answer> => {
  const [method = 'GET', path] = call.split(' ')
  const response = await fetch(`${url}/admin/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  return { status: response.status, headers: response.headers, body: parseObject(await response.text()) ?? {} }
}

const made = async (gateway: Started, kind: string, body: object): Promise<JsonObject> => {
  const { status, body: answer } = await api(gateway, `POST /${kind}`, body)
  assert.equal(status, 201, JSON.stringify(answer))
  return answer
}

const call = async (
  { url }: Started,
  key: unknown,
  model: string,
  {
    path = '/v1/chat/completions',
    headers = {},
    ...members
  }: { readonly path?: string; readonly headers?: Record<string, string>; readonly tools?: readonly object[] } = {},
) => {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ ...STYLES[path as keyof typeof STYLES], model, ...members }),
  })
  const body = parseObject(await response.text()) ?? {}
  const answeredBy = response.headers.get('x-headgate-provider')
  return { status: response.status, code: object(body.error)?.code, answeredBy }
}

const namesFor = async ({ url }: Started, key: unknown): Promise<readonly unknown[]> => {
  const response = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })
  return list(parseObject(await response.text())?.data).map((one) => object(one)?.id)
}

const errorOf = ({ body }: Answer): JsonObject => object(body.error) ?? {}

const until = async (what: string, check: () => Promise<boolean>) => {
  for (const end = performance.now() + 60_000; !(await check()); await sleep(50))
    assert.ok(performance.now() < end, `not within a minute: ${what}`)
}

describe('routes of teams', { concurrency: false }, () => {
  let upstream: Upstream
  let gateway: Started
  const keys: Record<string, unknown> = {}
  const ids: Record<string, unknown> = {}
  const tokens: Record<string, string> = {}
  before(async () => {
    upstream = await startUpstream((request) => answerWith(request, { text: 'hello' }))
    gateway = await start({ env: { AUTH_ADMIN: ADMIN }, files: { 'headgate.yaml': configOf(upstream.url) } })
    for (const [team, access] of Object.entries({
      search: {},
      other: {},
      thin: { models: ['small/*'] },
    })) {
      const { id } = await made(gateway, 'teams', { name: team, access })
      const key = await made(gateway, 'keys', { name: `key ${team}`, team })
      keys[team] = key.secret
      ids[team] = key.id
      for (const role of ['admin', 'viewer'])
        tokens[`${team} ${role}`] = String(
          (await made(gateway, 'tokens', { name: `${team} ${role}`, bindings: [{ role, team: id }] })).secret,
        )
    }
    await made(gateway, 'routes', { name: 'fast', team: 'search', spec: SPEC })
  })
  after(async () => {
    await gateway?.stop()
    await upstream?.close()
  })

  for (const path of Object.keys(STYLES))
    test(`${path}: the keys of the team use the route, for others the name is unknown`, async () => {
      assert.equal((await call(gateway, keys.search, 'fast', { path })).answeredBy, 'small')
      assert.deepEqual(await call(gateway, keys.search, 'FAST', { path }).then(({ status }) => status), 200)
      const [named, invented] = [
        await call(gateway, keys.other, 'fast', { path }),
        await call(gateway, keys.other, 'fasd', { path }),
      ]
      assert.equal(named.status, invented.status)
      assert.equal(named.code, invented.code)
      assert.equal(named.answeredBy, invented.answeredBy)
    })

  test('conditions and overrides apply, and the list of models has the name for the team only', async () => {
    await call(gateway, keys.search, 'fast')
    const sent = upstream.requests.at(-1)
    assert.equal(parseObject(sent?.body ?? '')?.max_tokens ?? parseObject(sent?.body ?? '')?.max_completion_tokens, 50)
    const tools = [{ type: 'function', function: { name: 't', parameters: { type: 'object' } } }]
    assert.equal((await call(gateway, keys.search, 'fast', { tools })).answeredBy, 'large')
    assert.ok((await namesFor(gateway, keys.search)).includes('fast'))
    assert.ok(!(await namesFor(gateway, keys.other)).includes('fast'))
  })

  test('a draft is planned as the same route in the file', async () => {
    const request = { ...CHAT, tools: [{ type: 'function', function: { name: 't', parameters: { type: 'object' } } }] }
    for (const asked of [CHAT, request]) {
      const draft = await api(gateway, 'POST /routes/test', {
        team: 'search',
        name: 'draft',
        spec: SPEC,
        request: asked,
      })
      assert.equal(draft.status, 200, JSON.stringify(draft.body))
      const file = await api(gateway, 'POST /explain', { request: { ...asked, model: 'twin' } })
      const { as, refused, ...plan } = file.body
      assert.deepEqual(JSON.parse(JSON.stringify(draft.body).replaceAll('draft', 'twin')), plan)
      const stored = await api(gateway, 'POST /explain', {
        request: { ...asked, model: 'fast' },
        as: ids.search,
      })
      assert.deepEqual(JSON.parse(JSON.stringify(stored.body.targets).replaceAll('fast', 'twin')), plan.targets)
    }
    assert.deepEqual((await api(gateway, 'GET /routes?q=draft')).body.data, [])
  })

  const refusals: readonly (readonly [string, object, number, string, RegExp])[] = [
    ['a name of the file', { name: 'shared' }, 409, 'name_taken', /headgate\.yaml has a route/],
    ['such a name in another spelling', { name: 'SHARED' }, 409, 'name_taken', /headgate\.yaml has a route/],
    ['a name that a glob of the file matches', { name: 'glob-7' }, 409, 'name_taken', /headgate\.yaml has a route/],
    ['a name that another route of the team has', { name: 'fast' }, 409, 'name_taken', /has the name "fast"/],
    ['a glob', { name: 'a*' }, 400, 'invalid_value', /letters, digits/],
    ['an unknown provider', { spec: { targets: ['smal/s'] } }, 400, 'invalid_value', /Did you mean "small"/],
    ['headers', { spec: { targets: [{ provider: 'small', headers: { a: 'b' } }] } }, 400, 'invalid_value', /headers/],
    [
      'members of the body',
      { spec: { targets: [{ provider: 'small', extra: { a: 1 } }] } },
      400,
      'invalid_value',
      /extra/,
    ],
    ['an unknown member', { spec: { targets: ['small/s'], shadow: {} } }, 400, 'invalid_value', /shadow/],
    ['more than 20 targets', { spec: { targets: Array(21).fill('small/s') } }, 400, 'invalid_value', /20 entries/],
    ['a large text', { spec: { targets: [`small/${'x'.repeat(20_000)}`] } }, 400, 'invalid_value', /16 KiB/],
    ['an unknown team', { team: 'nobodys' }, 400, 'invalid_value', /No team/],
    [
      'a target beyond the access',
      { team: 'thin', spec: { targets: ['large/l'] } },
      400,
      'invalid_value',
      /may not use large\/l/,
    ],
  ]
  for (const [what, change, status, code, message] of refusals)
    test(`creating: ${what} gives ${status}`, async () => {
      const body = {
        name: `new-${what.replaceAll(' ', '-')}`,
        team: 'search',
        spec: { targets: ['small/s'] },
        ...change,
      }
      const answer = await api(gateway, 'POST /routes', body)
      assert.equal(answer.status, status, JSON.stringify(answer.body))
      assert.equal(errorOf(answer).code, code)
      assert.match(`${errorOf(answer).message} ${JSON.stringify(errorOf(answer).errors)}`, message)
    })

  test('a route that breaks a claim is refused, when created and when changed', async () => {
    const body = { name: 'fast', team: 'health', spec: { targets: ['large/l'] } }
    const refused = await api(gateway, 'POST /routes', body)
    assert.equal(refused.status, 409)
    assert.equal(errorOf(refused).code, 'claim_fails')
    assert.match(String(errorOf(refused).message), /key only-fast asks "fast" .*large\/l/)
    const { id } = await made(gateway, 'routes', { ...body, spec: { targets: ['small/s'] } })
    const changed = await api(gateway, `PATCH /routes/${id}?force=true`, { spec: { fallback: ['large/l'] } })
    assert.equal(errorOf(changed).code, 'claim_fails')
    assert.equal((await call(gateway, HEALTH, 'fast')).answeredBy, 'small')
  })

  test('an access that is narrowed later applies to routes that are stored', async () => {
    const { id } = await made(gateway, 'teams', { name: 'narrowed' })
    const { secret } = await made(gateway, 'keys', { name: 'key narrowed', team: 'narrowed' })
    await made(gateway, 'routes', { name: 'large/cheap', team: 'narrowed', spec: { targets: ['large/l', 'small/s'] } })
    assert.equal((await call(gateway, secret, 'large/cheap')).answeredBy, 'large')
    // A list that allows the name of the route allows no target by it.
    await api(gateway, `PATCH /teams/${id}?force=true`, { access: { models: ['large/cheap', 'small/*'] } })
    assert.equal((await call(gateway, secret, 'large/cheap')).answeredBy, 'small')
    await api(gateway, `PATCH /teams/${id}?force=true`, { access: { models: null, routes: ['shared', 'large/*'] } })
    assert.equal((await call(gateway, secret, 'large/cheap')).code, 'model_not_allowed')
  })

  test('a key is limited to a route of its team by its name', async () => {
    const { secret } = await made(gateway, 'keys', { name: 'only fast', team: 'search', access: { models: ['fast'] } })
    assert.equal((await call(gateway, secret, 'fast')).answeredBy, 'small')
    assert.equal((await call(gateway, secret, 'small/s')).code, 'model_not_allowed')
    const { secret: routed } = await made(gateway, 'keys', {
      name: 'routed',
      team: 'search',
      access: { routes: ['fast'] },
      defaultRoute: 'fast',
    })
    assert.equal((await call(gateway, routed, 'fast')).answeredBy, 'small')
    assert.equal((await call(gateway, routed, 'auto')).answeredBy, 'small')
    assert.equal((await call(gateway, routed, 'shared')).code, 'model_not_allowed')
  })

  test('equal requests that differ in a header of a condition are not answered together', async () => {
    const gold = { provider: 'large', model: 'l', when: { header: { 'x-tier': 'gold' } } }
    await made(gateway, 'routes', { name: 'tiers', team: 'search', spec: { targets: [gold, 'small/s'] } })
    const both = await Promise.all(
      ['gold', 'iron'].map((tier) => call(gateway, keys.search, 'tiers', { headers: { 'x-tier': tier } })),
    )
    assert.deepEqual(
      both.map(({ answeredBy }) => answeredBy),
      ['large', 'small'],
    )
  })

  test('roles: a team sees and changes its own, with If-Match, and each change is in the audit log', async () => {
    const body = { name: 'mine', team: 'search', spec: { targets: ['small/s'] } }
    assert.equal((await api(gateway, 'POST /routes', body, tokens['search viewer'])).status, 403)
    assert.equal((await api(gateway, 'POST /routes', body, tokens['other admin'])).status, 403)
    const { status, body: route } = await api(gateway, 'POST /routes', body, tokens['search admin'])
    assert.equal(status, 201)
    const path = `/routes/${route.id}`
    assert.equal((await api(gateway, `GET ${path}`, undefined, tokens['other admin'])).status, 404)
    assert.equal((await api(gateway, `GET ${path}`, undefined, tokens['search viewer'])).body.name, 'mine')
    const listed = await api(gateway, 'GET /routes', undefined, tokens['other viewer'])
    assert.deepEqual(listed.body.data, [])
    const patch = { spec: { targets: ['large/l'] } }
    assert.equal((await api(gateway, `PATCH ${path}`, patch)).status, 428)
    assert.equal((await api(gateway, `PATCH ${path}?force=true`, { team: 'other' })).status, 400)
    const changed = await fetch(`${gateway.url}/admin/api/v1${path}`, {
      method: 'PATCH',
      headers: {
        authorization: `Bearer ${tokens['search admin']}`,
        'content-type': 'application/json',
        'if-match': '"1"',
      },
      body: JSON.stringify(patch),
    })
    assert.equal(changed.status, 200)
    assert.equal((await call(gateway, keys.search, 'mine')).answeredBy, 'large')
    assert.equal((await api(gateway, `DELETE ${path}?force=true`, undefined, tokens['other admin'])).status, 404)
    assert.equal((await api(gateway, `DELETE ${path}?force=true`)).status, 200)
    assert.notEqual((await call(gateway, keys.search, 'mine')).answeredBy, 'large')
    const audit = await api(gateway, `GET /audit?object=${route.id}`)
    assert.deepEqual(
      list(audit.body.data).map((one) => object(one)?.action),
      ['route.delete', 'route.update', 'route.create'],
    )
  })

  test('the command line: contents that are shown are edited, by the administrator of the team', async () => {
    const run = (words: string, role = 'search admin') =>
      verb(words.split(' '), {
        cwd: gateway.folder,
        env: { HEADGATE_URL: gateway.url, HEADGATE_ADMIN_TOKEN: tokens[role] ?? '' },
      })
    const file = join(gateway.folder, 'edited.yaml')
    await writeFile(file, JSON.stringify({ ...SPEC, cache: { ttl: 60, scope: 'team' }, require: { region: ['eu'] } }))
    assert.equal((await run('routes create edited edited.yaml --team search', 'search viewer')).code, 5)
    const planned = await run('routes test edited.yaml --team search', 'search viewer')
    assert.match(planned.stdout, /^1 +small\/s +the route .+; when .+tools/m, planned.stderr)
    const created = await run('routes create edited edited.yaml --team search')
    assert.match(created.stdout, /edited +rte_\w+ +search +small\/s \(when\), large\/l +active +1$/m, created.stderr)

    await writeFile(file, (await run('routes show edited --yaml')).stdout)
    const unchanged = (await run('routes edit edited edited.yaml --rev 1 --json')).json()
    assert.deepEqual(unchanged.spec, (await run('routes show edited --json')).json().spec)
    // Members that the file no longer has are removed, also those of a target.
    const shown = await readFile(file, 'utf8')
    assert.match(shown, /strategy: priority/)
    await writeFile(file, 'targets: [{ provider: large, model: m }]\ncache: { ttl: 30 }\n')
    const { rev, spec } = (await run('routes edit edited edited.yaml --name renamed --json')).json()
    assert.deepEqual(spec, {
      targets: [{ provider: 'large', model: 'm', weight: 1 }],
      fallback: [],
      cache: { ttl: 30, scope: 'key', anyTemperature: false, tools: false, requestControl: true },
    })
    assert.equal((await call(gateway, keys.search, 'renamed')).answeredBy, 'large')

    await writeFile(file, shown)
    const late = await run(`routes edit renamed edited.yaml --rev ${rev - 1}`)
    assert.deepEqual([late.code, late.stdout], [6, ''])
    assert.deepEqual((await run('routes show renamed --json')).json().spec, spec)
    assert.match((await run('routes adopt renamed')).stdout, /^routes:\n {2}renamed:\n/)
    assert.equal((await run('routes show renamed', 'other viewer')).code, 6)
    assert.equal((await run('routes list', 'other viewer')).stdout, 'No team has a route of its own.\n')
    assert.equal((await run('routes delete renamed', 'search viewer')).code, 5)
    assert.equal((await run('routes delete renamed')).code, 0)
  })

  test('adopted YAML, put into the file, replaces the route, with a warning', async () => {
    const { body: route } = await api(gateway, 'POST /routes', { name: 'adopted', team: 'search', spec: SPEC })
    const { yaml } = (await api(gateway, `POST /routes/${route.id}/adopt`)).body
    assert.match(String((await api(gateway, 'GET /routes/export?team=search')).body.yaml), /^ {2}adopted:$/m)
    const file = join(gateway.folder, 'headgate.yaml')
    await writeFile(file, configOf(upstream.url).replace('routes:\n', String(yaml)))
    await until('reload', async () => (await api(gateway, `GET /routes/${route.id}`)).body.shadowed === true)
    assert.equal((await call(gateway, keys.other, 'adopted')).answeredBy, 'small')
    await gateway.line(
      ({ event, message }) => event === 'routes' && /route for the name "adopted"/.test(String(message)),
    )
    assert.equal((await api(gateway, `DELETE /routes/${route.id}?force=true`)).status, 200)
  })

  test('a deleted team leaves no route, and 200 are the most', async () => {
    const { id } = await made(gateway, 'teams', { name: 'many' })
    for (let at = 0; at < 200; at += 20)
      await Promise.all(
        Array.from({ length: 20 }, (_, of) =>
          made(gateway, 'routes', { name: `r${at + of}`, team: 'many', spec: { targets: ['small/s'] } }),
        ),
      )
    const full = await api(gateway, 'POST /routes', { name: 'more', team: 'many', spec: { targets: ['small/s'] } })
    assert.equal(errorOf(full).code, 'too_many_routes')
    assert.equal((await api(gateway, `DELETE /teams/${id}?force=true`)).status, 200)
    assert.deepEqual((await api(gateway, `GET /routes?team=${id}`)).body.data, [])
  })
})

test('three gateways on Postgres: a change is in effect at all within 5 s', { skip: skipPostgres }, async () => {
  const upstream = await startUpstream((request) => answerWith(request, { text: 'hello' }))
  const postgres = await startPostgres()
  const started: Started[] = []
  const folder = await mkdtemp(join(tmpdir(), 'headgate-routes-'))
  const settings = (dataDir = folder) => ({
    env: { AUTH_ADMIN: ADMIN, DATABASE_URL: postgres.url, DATA_DIR: dataDir },
    files: { 'headgate.yaml': configOf(upstream.url) },
  })
  try {
    for (const dataDir of ['data', 'data', folder]) started.push(await start(settings(dataDir)))
    const [first, second, third] = started
    assert.ok(first && second && third)
    await made(first, 'teams', { name: 'search' })
    const { secret } = await made(first, 'keys', { name: 'k', team: 'search' })
    const answeredBy = async (wanted: string | null) => {
      const since = performance.now()
      for (const gateway of started)
        for (;;) {
          const { answeredBy: by, status } = await call(gateway, secret, 'fast')
          if ((wanted === null && status === 404) || by === wanted) break
          assert.ok(performance.now() - since < 5_000, `${by} instead of ${wanted}`)
          await sleep(20)
        }
    }
    const route = await made(second, 'routes', { name: 'fast', team: 'search', spec: { targets: ['small/s'] } })
    await answeredBy('small')
    const patched = await api(third, `PATCH /routes/${route.id}?force=true`, { spec: { targets: ['large/l'] } })
    assert.equal(patched.status, 200, JSON.stringify(patched.body))
    await answeredBy('large')
    // A gateway whose database is gone serves the routes of its snapshot, also after a restart.
    assert.equal(await third.stop(), 0)
    await postgres.stop()
    const restarted = await start(settings())
    started[2] = restarted
    assert.equal((await call(restarted, secret, 'fast')).answeredBy, 'large')
    await postgres.start()
    const deleting = () => api(first, `DELETE /routes/${route.id}?force=true`)
    // 404: an attempt without an answer was carried out.
    await until('the database is back', async () => [200, 404].includes((await deleting()).status))
    await answeredBy(null)
    for (const gateway of started) {
      const data = list((await api(gateway, 'GET /routes')).body.data)
      assert.deepEqual(data.filter(isObject), [])
    }
  } finally {
    for (const gateway of started) await gateway.stop()
    await postgres.remove()
    await upstream.close()
    await rm(folder, { recursive: true, force: true })
  }
})
