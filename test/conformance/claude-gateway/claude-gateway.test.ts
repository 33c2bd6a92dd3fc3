/** The gateway protocol of Claude Code: what a client reads of Headgate is what it reads of the reference, but for stated differences. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { type Started, start } from '../../e2e/support/process.ts'
import { answerWith } from '../../support/answers.ts'
import { confirmCode, submit } from '../../support/device-flow.ts'
import { startIdentityProvider } from '../../support/identity-provider.ts'
import { freePorts } from '../../support/ports.ts'
import { startUpstream } from '../../support/upstream.ts'
import { ADDED, DIFFERENCES } from './differences.ts'
import { type Observed, probe } from './probe.ts'

const { source, rows } = JSON.parse(readFileSync(join(import.meta.dirname, 'data', 'probe.json'), 'utf8')) as {
  readonly source: string
  readonly rows: Readonly<Record<string, Observed>>
}
const MODEL = 'claude-sonnet-4-5-20250929'

const startGateway = async (upstream: string) => {
  const [port = 0, own = 0] = await freePorts(2)
  const url = `http://127.0.0.1:${port}`
  const issuer = await startIdentityProvider(url, own)
  issuer.people.set('ann', { email: 'ann@corp.example', email_verified: true, name: 'Ann', groups: ['devs'] })
  issuer.signedIn = 'ann'
  const gateway: Started = await start({
    env: {
      PORT: String(port),
      AUTH_ADMIN: 'break-glass-token-of-the-operator',
      AUTH_REQUIRED: 'true',
      ANTHROPIC_API_KEY: 'sk-ant-0123456789',
      ANTHROPIC_BASE_URL: upstream,
      ANTHROPIC_MODELS: `${MODEL},denied-model`,
    },
    files: {
      'headgate.yaml': `
sso:
  publicUrl: ${url}
  secret: sso-secret-canary-0123456789-0123456789
  providers:
    corp: { issuer: "${issuer.issuer}", clientId: headgate, clientSecret: "${issuer.clientSecret}", scopes: [ openid, profile, email, groups, offline_access ], parameters: { prompt: consent } }
  teams: [ { group: devs, team: search } ]
teams: { search: { access: { models: [ ${MODEL} ] } } }
claude: { enabled: true, policies: [ { settings: { permissions: { deny: [ WebFetch ] } } } ] }
`,
    },
  })
  const stop = async () => {
    await gateway.stop()
    await issuer.stop()
  }
  return { url, [Symbol.asyncDispose]: stop }
}

/** Without what Headgate adds everywhere. */
const withoutAdded = (given: Observed, expected: Observed): Observed => {
  const without = (names: readonly string[], known: readonly string[]) =>
    names.filter((name) => known.includes(name) || !Object.hasOwn(ADDED, name))
  return { ...given, body: without(given.body, expected.body), headers: without(given.headers, expected.headers) }
}

const decide = (url: string, decision: string) => async (code: string) => {
  const { browser, confirm } = await confirmCode(url, code)
  return submit(browser, `${url}/device`, { confirm, decision })
}

test(`Headgate answers as ${source}`, async () => {
  const upstream = await startUpstream((request) => answerWith(request, { text: 'x', input: 1, output: 1 }))
  await using gateway = await startGateway(upstream.url)
  const { url } = gateway
  const own = await probe({ url, model: MODEL, approve: decide(url, 'approve'), deny: decide(url, 'deny') })
  await upstream.close()
  assert.deepEqual(Object.keys(own), Object.keys(rows))
  const found: Record<string, Record<string, unknown>> = {}
  for (const [name, expected] of Object.entries(rows)) {
    const given = own[name] && withoutAdded(own[name], expected)
    for (const member of ['status', 'type', 'body', 'headers'] as const)
      if (JSON.stringify(given?.[member]) !== JSON.stringify(expected[member]))
        found[name] = { ...found[name], [member]: given?.[member] }
  }
  const stated = Object.fromEntries(
    Object.entries(DIFFERENCES).map(([name, { because: _because, ...members }]) => [name, members]),
  )
  assert.deepEqual(found, stated)
})
