/** Clients with signed tokens of issuers on this machine: rotation, an issuer that is away, and tokens as platforms sign them. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import WebSocket from 'ws'
import { selfSigned } from '../support/certificate.ts'
import { type Issuer, issuerKey, jwkOf, signToken, startIssuer } from '../support/issuer.ts'
import { post, type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const GITHUB = 'https://token.actions.githubusercontent.com'
const CLUSTER = 'https://kubernetes.default.svc.cluster.local'
const BODY = { model: 'demo/echo', messages: [{ role: 'user', content: 'hi' }] }
const now = Math.floor(Date.now() / 1_000)

/** The claims of a projected token of a service account (Kubernetes 1.34). */
const CLUSTER_CLAIMS = {
  aud: ['headgate'],
  exp: now + 3_607,
  iat: now,
  iss: CLUSTER,
  jti: '6d2c1b0e-0000-4000-8000-000000000000',
  'kubernetes.io': {
    namespace: 'search-eu',
    node: { name: 'node-1', uid: 'f3c1' },
    pod: { name: 'indexer-0', uid: 'a2b4' },
    serviceaccount: { name: 'indexer', uid: 'c9d0' },
  },
  nbf: now,
  sub: 'system:serviceaccount:search-eu:indexer',
}

/** The claims of a workflow (GitHub, "OpenID Connect reference", 2026-11). */
const GITHUB_CLAIMS = {
  jti: 'example-id',
  sub: 'repo:corp/app:ref:refs/heads/main',
  aud: 'https://ai.corp.example',
  ref: 'refs/heads/main',
  repository: 'corp/app',
  repository_owner: 'corp',
  repository_owner_id: '12345',
  iss: GITHUB,
  nbf: now - 600,
  exp: now + 300,
  iat: now,
}

describe('signed tokens', { concurrency: false }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-jwt-'))
  const clusterKey = issuerKey('RS256', 'cluster')
  const githubKey = issuerKey('RS256', 'github')
  const { key, cert } = selfSigned()
  const asked: (string | undefined)[] = []
  const api = createServer({ key, cert }, (request, response) => {
    asked.push(request.headers.authorization)
    response.end(JSON.stringify({ keys: [jwkOf(clusterKey)] }))
  })
  let people: Issuer
  let gateway: Started
  let files: Readonly<Record<string, string>>

  before(async () => {
    await new Promise<void>((resolve) => api.listen(0, '127.0.0.1', resolve))
    people = await startIssuer()
    writeFileSync(join(folder, 'token'), 'service-account-token\n')
    writeFileSync(join(folder, 'ca.crt'), cert)
    writeFileSync(join(folder, 'github.json'), JSON.stringify({ keys: [jwkOf(githubKey)] }))
    const { port } = api.address() as AddressInfo
    const yaml = `data: { dir: "${folder}/data" }
teams: { search: {}, ci: {}, people: {} }
auth:
  required: auto
  jwt:
    - { name: people, issuer: "${people.url}", audience: [headgate], user: email, team: { claim: groups, map: { devs: people } }, limits: { requestsPerMinute: 100000 } }
    - { name: cluster, issuer: "${CLUSTER}", audience: [headgate], jwks: "https://127.0.0.1:${port}/openid/v1/jwks", tokenFile: "${folder}/token", caFile: "${folder}/ca.crt",
        require: { sub: "system:serviceaccount:*:*" }, team: { claim: /kubernetes.io/namespace, map: { search: search, "search-*": search } }, tags: { sa: /kubernetes.io/serviceaccount/name } }
    - { name: actions, issuer: "${GITHUB}", audience: ["https://ai.corp.example"], jwksFile: "${folder}/github.json", require: { repository_owner_id: "12345" },
        subject: repository, team: { value: ci }, tags: { repo: repository, ref: ref } }
`
    files = { 'headgate.yaml': yaml }
    gateway = await start({ files })
  })
  after(async () => {
    await gateway?.stop()
    await people?.close()
    api.close()
    rmSync(folder, { recursive: true, force: true })
  })

  const person = (claims: object = {}) =>
    people.token({ email: 'alice@corp.example', groups: ['all', 'devs'], ...claims })
  const ask = (token: string) => post(`${gateway.base}/chat/completions`, BODY, { authorization: `Bearer ${token}` })

  test('signed tokens: of people, of Kubernetes with its own certificates, and of GitHub', async () => {
    const clusterToken = signToken(clusterKey, CLUSTER_CLAIMS, { typ: undefined })
    for (const token of [person(), clusterToken, signToken(githubKey, GITHUB_CLAIMS)]) {
      const answer = await ask(token)
      assert.equal(answer.status, 200, answer.text)
    }
    assert.deepEqual(new Set(asked), new Set(['Bearer service-account-token']))
    const run = await verb(['identities', 'list', '--json'], { env: { HEADGATE_URL: gateway.url } })
    const rows = run
      .json()
      .data.map(({ rule, subject, team, user }: Record<string, unknown>) => [rule, subject, team, user])
    assert.deepEqual(rows.toSorted(), [
      ['actions', 'corp/app', 'ci', null],
      ['cluster', 'system:serviceaccount:search-eu:indexer', 'search', null],
      ['people', 'alice', 'people', 'alice@corp.example'],
    ])
  })

  test('signed tokens: the routes of the team of a token are used and explained, and those of others are unknown', async () => {
    const spec = { targets: ['demo/slow'] }
    const made = await post(`${gateway.url}/admin/api/v1/routes`, { name: 'fast', team: 'people', spec })
    assert.equal(made.status, 201, made.text)
    const asked = { ...BODY, model: 'fast' }
    const [own, other] = [person(), signToken(githubKey, GITHUB_CLAIMS)].map((token) => `Bearer ${token}`)
    const answer = await post(`${gateway.base}/chat/completions`, asked, { authorization: own ?? '' })
    assert.deepEqual([answer.status, answer.headers.get('x-headgate-model')], [200, 'slow'], answer.text)
    const plans = await Promise.all(
      [own, other].map((authorization = '') => post(`${gateway.base}/route`, asked, { authorization })),
    )
    assert.deepEqual(
      plans.map(({ text }) => JSON.parse(text)).map(({ by, targets = [] }) => [by, targets[0]?.model]),
      [
        ['route', 'slow'],
        ['default', 'echo'],
      ],
    )
  })

  test('signed tokens: refusals have one text, and the log has the reason', async () => {
    const expired = await ask(person({ iat: now - 900, exp: now - 300 }))
    const forged = await ask(`${person().slice(0, -8)}AAAAAAAA`)
    const fork = await ask(signToken(githubKey, { ...GITHUB_CLAIMS, repository_owner_id: '666' }))
    for (const answer of [expired, forged, fork]) {
      assert.equal(answer.status, 401)
      assert.equal(answer.json().error.code, 'invalid_api_key')
      assert.equal(
        answer.json().error.message.replace(/req_\w+/, ''),
        expired.json().error.message.replace(/req_\w+/, ''),
      )
      assert.equal(answer.headers.get('x-should-retry'), 'false')
    }
    const teamless = await ask(person({ groups: ['all'] }))
    assert.deepEqual([teamless.status, teamless.json().error.code], [403, 'team_unknown'])
    const reasons = (await gateway.logged()).filter(({ event }) => event === 'refused').map(({ detail }) => detail)
    assert.deepEqual(reasons, [
      'jwt people: exp',
      'jwt people: signature',
      'jwt actions: require repository_owner_id',
      'jwt people: team',
    ])
    assert.ok(!gateway.output().includes(person().split('.')[2] ?? '-'))
  })

  test('signed tokens: a WebSocket is accepted, with a token that was not seen before too', async () => {
    const socket = new WebSocket(`${gateway.base.replace('http', 'ws')}/responses`, {
      headers: { authorization: `Bearer ${person({ jti: 'socket' })}` },
    })
    const answer = await new Promise<string>((resolve, reject) => {
      socket.on('error', reject)
      socket.on('open', () => socket.send(JSON.stringify({ type: 'response.create', model: 'demo/echo', input: 'hi' })))
      socket.on('message', (data) => {
        const { type } = JSON.parse(String(data))
        if (type === 'response.completed' || type === 'error') resolve(type)
      })
    })
    socket.close()
    assert.equal(answer, 'response.completed')
  })

  test('signed tokens: a rotation under load refuses none', async () => {
    const statuses: number[] = []
    const lane = async (name: string) => {
      for (let n = 0; n < 25; n++) {
        if (name === 'lane 0' && n === 8) people.keys = [...people.keys, issuerKey('ES256')]
        if (name === 'lane 0' && n === 16) people.keys = [...people.keys.slice(1)]
        statuses.push((await ask(person({ jti: `${name} ${n}` }))).status)
      }
    }
    await Promise.all(Array.from({ length: 8 }, (_, at) => lane(`lane ${at}`)))
    assert.deepEqual(new Set(statuses), new Set([200]))
  })

  test('signed tokens: a blocked subject is refused at once, and accepted again', async () => {
    const env = { HEADGATE_URL: gateway.url }
    const token = person()
    assert.equal((await ask(token)).status, 200)
    const blocked = await verb(['identities', 'block', 'people', 'alice', '--reason', 'left'], { env })
    assert.equal(blocked.stdout, 'alice is blocked\n', blocked.stderr)
    assert.equal((await ask(token)).status, 401)
    assert.equal((await ask(person({ sub: 'bob' }))).status, 200)
    const list = await verb(['identities', 'list'], { env })
    assert.match(list.stdout, /people +alice .* blocked/)
    assert.equal((await verb(['identities', 'unblock', 'people', 'alice'], { env })).code, 0)
    assert.equal((await ask(token)).status, 200)
  })

  test('signed tokens: a restart while the issuer is frozen refuses none, and an unknown issuer key is 503', async () => {
    people.frozen = true
    await gateway.stop()
    gateway = await start({ files })
    const statuses = await Promise.all(Array.from({ length: 20 }, async () => (await ask(person())).status))
    assert.deepEqual(new Set(statuses), new Set([200]))
    const offline = await verb(['jwt', 'check', person()], { cwd: gateway.folder })
    assert.match(offline.stdout, /rule people: accepted\nsignature: valid\nsubject: alice\nteam: people\n/)
    const wrong = await verb(['jwt', 'check', person({ aud: 'x' })], { cwd: gateway.folder })
    assert.deepEqual([wrong.code, wrong.stdout.split('\n')[0]], [1, 'rule people: refused: aud'])
    people.keys = [issuerKey('ES256')]
    const unknown = await ask(person())
    assert.deepEqual([unknown.status, unknown.json().error.code], [503, 'keys_unavailable'])
  })
})
