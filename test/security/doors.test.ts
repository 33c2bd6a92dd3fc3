/** Who may read the pages of operators: local requests, proxies, rebound names, keys and tokens of one team. */

import assert from 'node:assert/strict'
import { DEFAULT_TEAM, FULL_ACCESS, NO_ACCOUNTS, NO_LIMITS, type Team } from '../../src/core/accounts.ts'
import { NO_REQUIRE } from '../../src/core/data-policy.ts'
import { buildDirectory } from '../../src/policy/accounts/directory.ts'
import { namesCredential } from '../../src/policy/accounts/named-credentials.ts'
import { plainDigest } from '../../src/records/entities/secret-digest.ts'
import type { AdminToken } from '../../src/records/store/record-operations.ts'
import { onBothServers, send, sendBytes } from '../support/app-server.ts'

const PAGES = ['/metrics', '/providers/status'] as const
const ADMIN = 'the-token-of-the-operator'

const team = (id: string): Team => ({
  id,
  name: id,
  status: 'active',
  access: FULL_ACCESS,
  limits: NO_LIMITS,
  require: NO_REQUIRE,
  cache: null,
  tags: {},
  managed: 'api',
})
const token = (id: string, bindings: AdminToken['bindings']): AdminToken => ({
  id,
  name: id,
  status: 'active',
  expiresAt: null,
  digests: [plainDigest(id)],
  bindings,
})
const keysOf = (teams: readonly Team[], tokens: readonly AdminToken[] = []) => {
  const directory = buildDirectory(NO_ACCOUNTS, { ...NO_ACCOUNTS, teams })
  return {
    directory: () => directory,
    tokens: () => tokens,
    isNamed: () => namesCredential(directory),
    isUnavailable: () => false,
    used() {},
  }
}

onBothServers(
  'doors: a proxy on the same machine that adds no header opens nothing in production',
  async ({ given }) => {
    const settings = { auth: { keys: ['client-key'], admin: ADMIN } }
    const { server } = await given(settings, { production: true })
    // nginx without and with `proxy_set_header Host`, haproxy without forwardfor, and the names of this machine.
    for (const page of PAGES)
      for (const host of [`127.0.0.1:${server.port}`, 'localhost', '[::1]', 'x.localhost']) {
        assert.equal((await send(server.port, 'GET', page, { host })).status, 401, `${page} ${host}`)
        const authorization = `Bearer ${ADMIN}`
        assert.equal((await send(server.port, 'GET', page, { host, authorization })).status, 200, `${page} ${host}`)
      }
    assert.equal((await send(server.port, 'GET', '/health')).status, 200)
  },
)

onBothServers('doors: nginx without any setting is no local client, outside production too', async ({ given }) => {
  const { server } = await given()
  for (const page of PAGES) {
    const request = (version: string) =>
      `GET ${page} HTTP/${version}\r\nHost: 127.0.0.1:${server.port}\r\nConnection: close\r\n\r\n`
    assert.match(await sendBytes(server.port, request('1.0')), /^HTTP\/1\.1 401 /)
    assert.match(await sendBytes(server.port, request('1.1')), /^HTTP\/1\.1 200 /)
  }
})

for (const header of ['CF-Connecting-IP', 'True-Client-IP', 'X-Client-IP', 'Forwarded', 'Via', 'X-Real-IP', 'CDN-Loop'])
  onBothServers(`doors: a request of a proxy counts as local by no address of it (${header})`, async ({ given }) => {
    const { server } = await given()
    assert.equal((await send(server.port, 'GET', '/metrics')).status, 200)
    for (const value of ['127.0.0.1', 'for=127.0.0.1', ''])
      assert.equal((await send(server.port, 'GET', '/metrics', { [header]: value })).status, 401, value)
  })

onBothServers('doors: DNS rebinding reads nothing without client keys, on any interface', async ({ given }) => {
  const { server, calls } = await given({ hosts: ['gate.example'] }, { host: '0.0.0.0' })
  for (const path of [...PAGES, '/v1/models', '/models', '/v1/models/x', '/v1/usage', '/v1/responses/resp_x'])
    for (const host of ['evil.example', 'EVIL.EXAMPLE:3000', '127.0.0.1.evil.example', 'localhost.evil.example.'])
      for (const method of ['GET', 'HEAD']) {
        const { status } = await send(server.port, method, path, { host, authorization: 'Bearer placeholder' })
        assert.ok(
          status === 403 || (status === 401 && PAGES.some((page) => page === path)),
          `${path} ${host} ${status}`,
        )
      }
  assert.deepEqual(calls, [])
  for (const host of ['gate.example', '10.0.0.5:3000', 'localhost'])
    assert.equal((await send(server.port, 'GET', '/v1/models', { host })).status, 200, host)
  assert.equal((await send(server.port, 'GET', '/health', { host: 'checked.example' })).status, 200)
})

onBothServers(
  'doors: figures of other teams are closed to keys of auth.keys and to tokens of one team',
  async ({ given }) => {
    const tokens = [
      token('of-all-teams', [{ role: 'viewer', team: null }]),
      token('viewer-of-one', [{ role: 'viewer', team: 'team_a' }]),
      token('admin-of-two', [
        { role: 'admin', team: 'team_a' },
        { role: 'admin', team: DEFAULT_TEAM.id },
      ]),
    ]
    const settings = { auth: { keys: ['client-key'], admin: ADMIN } }
    const keys = keysOf([team('team_a')], tokens)
    const { server } = await given(settings, { production: true, keys })
    for (const page of PAGES)
      for (const [credential, status] of [
        ['client-key', 403],
        ['viewer-of-one', 403],
        ['admin-of-two', 403],
        ['of-all-teams', 200],
        [ADMIN, 200],
      ] as const)
        for (const headers of [
          { authorization: `Bearer ${credential}` },
          { 'x-api-key': credential },
          { 'api-key': credential },
        ])
          assert.equal((await send(server.port, 'GET', page, headers)).status, status, `${page} ${credential}`)
  },
)
