/**
 * The real Claude Code in a terminal, signed in at the gateway: trust, code, consent, a turn, the notice of a budget, its end, a blocked
 * person. Its managed settings are a file of the system, so it runs in a mount namespace with a copy of /etc, which needs root. It runs where
 * `npm run clients` has installed the client, or with CLAUDE_PROGRAM.
 */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { CLAUDE_PROGRAM, isReferenceInstalled } from '../conformance/claude-gateway/reference.ts'
import { answerWith } from '../support/answers.ts'
import { confirmCode, submit } from '../support/device-flow.ts'
import { type IdentityProviderFixture, startIdentityProvider } from '../support/identity-provider.ts'
import { freePorts } from '../support/ports.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { BELOW, type Started, start } from './support/process.ts'

const ADMIN = 'break-glass-token-of-the-operator'
const hasTools = () =>
  process.getuid?.() === 0 &&
  [
    ['tmux', '-V'],
    ['unshare', '-m', 'true'],
  ].every(([program = '', ...args]) => spawnSync(program, args).status === 0)
const skip = !isReferenceInstalled
  ? 'Claude Code is not installed: npm run clients'
  : !hasTools() && 'it needs tmux and mount namespaces'

/** A terminal with the client. */
class Terminal {
  readonly #socket = `headgate-${process.pid}`
  constructor(command: string) {
    this.#tmux('new-session', '-d', '-x', '130', '-y', '45', '-s', 'c', command)
  }
  #tmux(...args: string[]): string {
    return execFileSync('tmux', ['-L', this.#socket, ...args], { encoding: 'utf8' })
  }
  /** Waits until the screen shows this. Returns the screen. */
  async shows(wanted: RegExp): Promise<string> {
    let screen = ''
    for (const end = performance.now() + 60_000; performance.now() < end; await sleep(200)) {
      screen = this.#tmux('capture-pane', '-p')
      if (wanted.test(screen)) return screen
    }
    assert.fail(`the screen does not show ${wanted}:\n${screen}`)
  }
  async press(...keys: string[]): Promise<void> {
    for (const key of keys) {
      // The client drops keys that arrive while it draws.
      await sleep(700)
      this.#tmux('send-keys', key)
    }
  }
  async type(text: string): Promise<void> {
    this.#tmux('send-keys', '-l', text)
    await this.press('Enter')
  }
  close(): void {
    this.#tmux('kill-server')
  }
}

describe('Claude Code at the gateway', { skip, concurrency: false }, () => {
  let gateway: Started
  let corp: IdentityProviderFixture
  let upstream: Upstream
  let terminal: Terminal
  let folder = ''
  let url = ''
  const admin = (path: string, method: string, body?: object) =>
    fetch(`${url}/admin/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    })
  const first = async (path: string): Promise<string> => JSON.parse(await (await admin(path, 'GET')).text()).data[0].id
  const messages = () => upstream.requests.filter(({ path, json }) => path.startsWith('/v1/messages') && json.stream)

  before(async () => {
    const [port = 0, own = 0] = await freePorts(2)
    url = `http://127.0.0.1:${port}${BELOW}`
    upstream = await startUpstream((request) =>
      request.method === 'GET'
        ? { do: 'answer', status: 404, body: { error: { message: 'no list' } } }
        : answerWith(request, { text: `Answer ${messages().length}.`, input: 100, output: 100 }),
    )
    corp = await startIdentityProvider(url, own)
    corp.people.set('ann', { email: 'ann@corp.example', email_verified: true, name: 'Ann', groups: ['devs'] })
    corp.signedIn = 'ann'
    gateway = await start({
      env: {
        PORT: String(port),
        AUTH_ADMIN: ADMIN,
        AUTH_REQUIRED: 'true',
        ANTHROPIC_API_KEY: 'sk-ant-0123456789',
        ANTHROPIC_BASE_URL: upstream.url,
        ANTHROPIC_MODELS: 'claude-sonnet-4-5',
      },
      files: {
        'headgate.yaml': `
prices: [ { provider: anthropic, model: "*", perMillion: { input: 10, output: 40 } } ]
sso:
  publicUrl: ${url}
  secret: sso-secret-canary-0123456789-0123456789
  providers:
    corp: { issuer: "${corp.issuer}", clientId: headgate, clientSecret: "${corp.clientSecret}", scopes: [ openid, profile, email, groups, offline_access ], parameters: { prompt: consent } }
  teams: [ { group: devs, team: search } ]
teams: { search: {} }
budgets: { own: { amount: "5", period: month, per: user } }
claude:
  enabled: true
  loginNotice: Call 4357 if the code differs.
  policies: [ { settings: { permissions: { deny: [ WebFetch ] }, env: { HEADGATE_PROBE: "1" } } } ]
`,
      },
    })
    folder = mkdtempSync(join(tmpdir(), 'headgate-claude-'))
    const [home, etc] = [join(folder, 'home'), join(folder, 'etc')]
    mkdirSync(join(home, 'work'), { recursive: true })
    cpSync('/etc', etc, { recursive: true, dereference: false, verbatimSymlinks: true })
    mkdirSync(join(etc, 'claude-code'), { recursive: true })
    writeFileSync(
      join(etc, 'claude-code', 'managed-settings.json'),
      JSON.stringify({ forceLoginMethod: 'gateway', forceLoginGatewayUrl: url }),
    )
    // Nothing leaves this machine: the proxy of all other addresses does not exist.
    const env = `PATH=/usr/bin:/bin TERM=xterm-256color LANG=C.UTF-8 HOME=${home} DISABLE_AUTOUPDATER=1 BROWSER=/bin/true https_proxy=http://127.0.0.1:9 NO_PROXY=127.0.0.1`
    terminal = new Terminal(
      `unshare -m sh -c 'mount --bind ${etc} /etc && cd ${home}/work && exec env -i ${env} ${CLAUDE_PROGRAM}'; sleep 60`,
    )
  })
  after(async () => {
    terminal?.close()
    await gateway?.stop()
    await corp?.stop()
    await upstream?.close()
    if (folder !== '') rmSync(folder, { recursive: true, force: true })
  })

  test('a person trusts the gateway, confirms the code, and consents to the settings', async () => {
    await terminal.shows(/Choose the text style/)
    await terminal.press('Enter')
    await terminal.shows(/Enter to connect/)
    await terminal.press('Enter')
    await terminal.shows(/Trust gateway/)
    await terminal.press('Up', 'Enter')
    const screen = await terminal.shows(/Code: {2}[A-Z]{4}-[A-Z]{4}/)
    assert.match(screen, /Call 4357 if the code differs/)
    const [, code = ''] = /Code: {2}([A-Z]{4}-[A-Z]{4})/.exec(screen) ?? []
    const { browser, confirm, page } = await confirmCode(url, code)
    assert.match(page.text, /claude_code/)
    await submit(browser, `${url}/device`, { confirm, decision: 'approve' })
    await terminal.shows(/Signed in to Cloud gateway as ann@corp\.example/)
    await terminal.press('Up', 'Enter')
    await terminal.shows(/Connected to Cloud gateway/)
    await terminal.press('Enter')
    await terminal.shows(/Security notes/)
    await terminal.press('Enter')
    for (;;) {
      const next = await terminal.shows(/Managed settings require approval|trust this folder|Cloud gateway\n/)
      if (/Managed settings/.test(next)) {
        assert.match(next, /HEADGATE_PROBE/)
        await terminal.press('Enter')
      } else if (/trust this folder/.test(next)) await terminal.press('Down', 'Enter')
      else return
      await sleep(2_000)
    }
  })

  test('it calls a model, with its checks in the request', async () => {
    await terminal.type('Say hello')
    await terminal.shows(/Answer 1\./)
    assert.equal(messages().length, 1)
    assert.ok(messages()[0]?.json.safeguards, 'auto mode sends safeguards, which pass')
  })

  test('it shows how much of the budget is used, and the message of a used one without a retry', async () => {
    const budget = await first('/budgets')
    await admin(`/budgets/${budget}/adjust`, 'POST', { of: 'ann@corp.example', amount: '3.85', reason: 'test' })
    await sleep(2_000)
    await terminal.type('Say hello again')
    await terminal.shows(/You've used 7\d% of your usage credits · resets/)
    await admin(`/budgets/${budget}/adjust`, 'POST', { of: 'ann@corp.example', amount: '2', reason: 'test' })
    await sleep(2_000)
    const before = messages().length
    await terminal.type('And again')
    await terminal.shows(/The budget of this user for the month is used up/)
    assert.equal(messages().length, before)
  })

  test('a person who is blocked has to sign in again', async () => {
    const person = await first('/people')
    assert.equal((await admin(`/people/${person}?force=true`, 'PATCH', { status: 'blocked' })).status, 200)
    await sleep(2_000)
    await terminal.type('Say hello when blocked')
    await terminal.shows(/Please run \/login/)
  })
})
