/** The set-up parts of Configuration: alerts with a real receiver, prices with a real ledger, and admin tokens. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { post, type Started, start } from '../e2e/support/process.ts'
import { fileOf } from '../e2e/support/stage.ts'
import { answerWith } from '../support/answers.ts'
import { startUpstream } from '../support/upstream.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { LOOKS, type OpenDashboard, withDashboard } from './support/dashboard.ts'

const ADMIN = 'admin-token-of-the-setup-tests'
const HOOK_SECRET = 'hook-path-that-is-a-credential'
const PAGE = '/dashboard/config'
/** Parts of the page, and what shows that they are read. */
const SECTIONS = [
  ['/alerts', '.plain-table td, .plain-cards li'],
  ['/prices', '.plain-table td, .plain-cards li'],
  ['/tokens', '.plain-table td, .plain-cards li'],
  ['/reloads', '.config-versions li'],
  ['/audit', '.lines li'],
  ['/backup', '.code'],
] as const
/** Tokens of each answer of the upstream. */
const COUNTS = { input: 1_000, output: 200 }
const CALLS = 3

/** A receiver of alerts that answers with `status`. */
const startReceiver = async () => {
  const received: { readonly type: string; readonly path: string | undefined }[] = []
  const receiver = { received, status: 204, url: '', close: () => {} }
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request.setEncoding('utf8')) text += chunk
    received.push({ type: JSON.parse(text).type, path: request.url })
    response.writeHead(receiver.status).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // A server on a port has an address object.
  receiver.url = `http://127.0.0.1:${port}`
  receiver.close = () => {
    server.closeAllConnections()
    server.close()
  }
  return receiver
}

describe('the set-up parts of Configuration', { skip: skipBrowser }, () => {
  let browser: Browser
  let gateway: Started
  let receiver: Awaited<ReturnType<typeof startReceiver>>
  let upstream: Awaited<ReturnType<typeof startUpstream>>
  /** Calls the admin API, and fails unless it succeeds. */
  // biome-ignore lint/suspicious/noExplicitAny: the tests read bodies of every shape
  const admin = async (method: string, path: string, body?: unknown): Promise<any> => {
    const response = await fetch(`${gateway.url}/admin/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`)
    return JSON.parse(text)
  }
  /** A token for a role, and the page opened with it. */
  const openAs = async ({ page, context, open }: OpenDashboard, path: string, token = ADMIN) => {
    const response = await context.request.post(`${gateway.url}/admin/api/v1/session`, { data: { token } })
    assert.equal(response.status(), 201)
    await open(path)
    return page
  }
  const tokenFor = async (role: string): Promise<string> => {
    const { secret } = await admin('POST', '/tokens', { name: `${role}-${Date.now()}`, bindings: [{ role }] })
    return secret
  }
  before(async () => {
    receiver = await startReceiver()
    upstream = await startUpstream((request) => answerWith(request, { text: 'Answer', ...COUNTS }))
    const started = await Promise.all([
      startBrowser(),
      start({
        env: { AUTH_ADMIN: ADMIN },
        files: {
          'headgate.yaml': fileOf({
            providers: {
              own: { baseUrl: `${upstream.url}/v1`, models: ['small', 'free-of-price'] },
              openai: { kind: 'openai', baseUrl: `${upstream.url}/v1`, keys: ['sk-test-0123456789'] },
            },
            prices: [{ provider: 'own', model: 'small', perMillion: { input: 1, output: 4 } }],
            budgets: { month: { amount: '10.00', period: 'month', mode: 'soft', alerts: [80] } },
            alerts: { url: `${receiver.url}/${HOOK_SECRET}`, rules: { storeDown: 0, budget: [80, 100] } },
          }),
        },
      }),
    ])
    browser = started[0]
    gateway = started[1]
    for (let n = 0; n < CALLS; n++) {
      const body = { model: 'own/free-of-price', messages: [{ role: 'user', content: `Question ${n}` }] }
      const { status, text } = await post(`${gateway.url}/v1/chat/completions`, body)
      assert.equal(status, 200, text)
    }
  })
  after(async () => {
    receiver?.close()
    await Promise.all([browser?.close(), gateway?.stop(), upstream?.close()])
  })

  test('alerts: shows the receiver, sends a test, and lists an alert while it lasts and after', () =>
    withDashboard(browser, { url: gateway.url }, async (dashboard) => {
      const page = await openAs(dashboard, `${PAGE}/alerts`)
      await page.getByText(`${receiver.url}/…`).waitFor()
      await page.getByRole('button', { name: 'Send a test' }).click()
      await page.getByText('The receiver accepted the test.').waitFor()
      assert.deepEqual(receiver.received.at(-1), { type: 'test', path: `/${HOOK_SECRET}` })
      receiver.status = 404
      await page.getByRole('button', { name: 'Send a test' }).click()
      await page.getByText('The test was not delivered: the receiver responded with status 404.').waitFor()
      receiver.status = 204
      const off = page.getByRole('row', { name: /^Store down off none/ })
      await off.getByText('Lines for headgate.yaml').click()
      await off.getByText('storeDown: 60000').waitFor()
      await page.getByRole('row', { name: /^Budget 80%, 100% none/ }).waitFor()
      await page.getByRole('row', { name: /^Failed requests 20% of at least 20 requests in 5 min/ }).waitFor()
      const { data } = await admin('GET', '/budgets')
      await admin('POST', `/budgets/${encodeURIComponent(data[0].id)}/adjust`, { amount: '9.00', reason: 'test' })
      await page.getByRole('list', { name: 'Open alerts' }).getByText('budget.threshold').waitFor()
      assert.equal(receiver.received.at(-1)?.type, 'budget.threshold')
      await dashboard.shot('config-alerts-open')
      assert.ok(!(await page.content()).includes(HOOK_SECRET))
      const alerts = await admin('GET', '/alerts')
      assert.deepEqual([alerts.data.length, alerts.past, alerts.receiver.signed], [1, [], false])
      const rule = alerts.rules.find((one: { readonly rule: string }) => one.rule === 'budget')
      assert.equal(rule.last_at, alerts.data[0].sent_at)
      await page.locator(`time[datetime="${rule.last_at}"]`).first().waitFor()
      await admin('POST', `/budgets/${encodeURIComponent(data[0].id)}/adjust`, { amount: '-9.00', reason: 'test' })
      // An alert is over after a minute.
      await page
        .getByRole('list', { name: 'Past alerts' })
        .getByText(/lasted \d/)
        .waitFor()
      await page.getByText('No alert is open.').waitFor()
    }))

  test('alerts: a viewer sees which role they need', () =>
    withDashboard(browser, { url: gateway.url }, async (dashboard) => {
      const page = await openAs(dashboard, `${PAGE}/alerts`, await tokenFor('viewer'))
      await page.getByText('Alerts need the role operator for all teams.').waitFor()
    }))

  test('prices: a model without one gets one, its past attempts too, and the ledger has the difference', () =>
    withDashboard(browser, { url: gateway.url }, async (dashboard) => {
      const page = await openAs(dashboard, `${PAGE}/prices`)
      const unpriced = page.getByRole('table', { name: 'Used without a price' })
      const row = unpriced.getByRole('row', { name: /^own\/free-of-price/ })
      const today = new Date().toISOString().slice(0, 10)
      await row.getByText(String(CALLS), { exact: true }).waitFor()
      await row.getByText(today).first().waitFor()
      await row.getByText('no known price').waitFor()
      await dashboard.shot('config-prices-unpriced')
      await row.getByRole('button', { name: 'Set a price' }).click()
      const dialog = page.getByRole('dialog')
      assert.equal(await dialog.getByLabel('Model, or a pattern with *').inputValue(), 'free-of-price')
      await page.keyboard.type('2')
      await dialog.getByLabel('output').fill('10')
      await dialog.getByText(`${CALLS} attempts before it can be priced next.`).waitFor()
      await dashboard.check()
      await dashboard.shot('config-prices-dialog')
      await dialog.getByRole('button', { name: 'Save' }).click()
      // 1,000 tokens at $2 and 200 at $10 a million, three times.
      await dialog.getByText(`${CALLS} attempts would cost $0.012 more than the ledger has.`).waitFor()
      await dialog.getByRole('button', { name: 'Write adjustments' }).click()
      await page.getByText('1 adjustment written, $0.012 together.').waitFor()
      const adjusted: { readonly data: readonly { readonly amount: string; readonly reason: string }[] } = await admin(
        'GET',
        '/usage/adjustments',
      )
      // The test of alerts changed what a budget has spent.
      const written = adjusted.data.filter(({ reason }) => reason !== 'test')
      assert.deepEqual(
        written.map(({ amount }) => amount),
        ['0.012000000'],
      )
      await row.getByText('input $2, output $10').waitFor()
      await row.getByRole('button', { name: 'Price past attempts' }).click()
      await dialog.getByText(/^The ledger already has these costs/).waitFor()
      await page.keyboard.press('Escape')
      // A call from now on has the price by itself.
      const body = { model: 'own/free-of-price', messages: [{ role: 'user', content: 'Again' }] }
      assert.equal((await post(`${gateway.url}/v1/chat/completions`, body)).status, 200)
      const { data } = await admin('GET', '/prices/unpriced')
      assert.deepEqual([data.length, data[0].attempts, data[0].source], [1, CALLS, 'override'])
    }))

  test('prices: the list is searched, and an own price is changed and deleted', () =>
    withDashboard(browser, { url: gateway.url }, async (dashboard) => {
      await admin('POST', '/prices', { provider: 'openai', model: 'gpt-5-mini', prices: { input: 9, tiers: [] } })
      const page = await openAs(dashboard, `${PAGE}/prices`)
      const own = page.getByRole('table', { name: 'Own prices' })
      await own.getByRole('row', { name: /^own\/small input \$1, output \$4 always in headgate.yaml/ }).waitFor()
      const row = own.getByRole('row', { name: /^openai\/gpt-5-mini/ })
      await row.getByRole('button', { name: 'Edit' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('input', { exact: true }).fill('0.5')
      await dialog.getByRole('button', { name: 'Save' }).click()
      await row.getByText('input $0.5, tiers').waitFor()
      await page.getByRole('searchbox').fill('gpt-5-mini')
      await page.waitForURL('**q=gpt-5-mini')
      const list = page.getByRole('table', { name: 'All models' })
      await list.getByRole('row', { name: /^openai\/gpt-5-mini input \$0.5, output \$\d.* own price/ }).waitFor()
      const { data, total } = await admin('GET', '/prices/list?q=gpt-5-mini')
      await page.getByText(`${total} models, catalogue of`).waitFor()
      assert.equal(await list.getByRole('row').count(), data.length + 1)
      await row.getByRole('button', { name: 'Delete' }).click()
      await row.waitFor({ state: 'detached' })
      await list.getByRole('row', { name: /^openai\/gpt-5-mini input \$0\.25, .* catalogue/ }).waitFor()
    }))

  test('prices: a viewer sees them, and why they cannot be set', () =>
    withDashboard(browser, { url: gateway.url }, async (dashboard) => {
      const page = await openAs(dashboard, `${PAGE}/prices`, await tokenFor('viewer'))
      await page.getByText('Prices are set by the role admin for all teams.').waitFor()
      assert.ok(await page.getByRole('button', { name: 'New price' }).isDisabled())
      await page
        .getByRole('row', { name: /^own\/free-of-price/ })
        .first()
        .waitFor()
    }))

  test('tokens: one is created for a team, used, and revoked', () =>
    withDashboard(browser, { url: gateway.url }, async (dashboard) => {
      const team = await admin('POST', '/teams', { name: 'search' })
      const page = await openAs(dashboard, `${PAGE}/tokens`)
      await page.getByRole('button', { name: 'New token' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('Name').fill('ci')
      await dialog.getByLabel('Role').selectOption('operator')
      await dialog.getByLabel('For').selectOption('search')
      await dialog.getByLabel('Expires (empty: never)').fill('2030-12-31')
      await dashboard.check()
      await dialog.getByRole('button', { name: 'Create' }).click()
      const secret = await dialog.locator('input[readonly]').inputValue()
      assert.match(secret, /^hga_/)
      const session = await fetch(`${gateway.url}/admin/api/v1/session`, {
        headers: { authorization: `Bearer ${secret}` },
      })
      assert.deepEqual((await session.json()).roles, [{ role: 'operator', team: team.id }])
      await dialog.getByRole('checkbox').check()
      await dialog.getByRole('button', { name: 'Done' }).click()
      assert.ok(!(await page.content()).includes(secret))
      const row = page.getByRole('row', { name: /^ci …\w{4} operator of search active 31 Dec 2030 .*auth\.admin/ })
      await row.waitFor()
      await dashboard.shot('config-tokens')
      await row.getByRole('button', { name: 'Revoke' }).click()
      await dialog.getByRole('button', { name: 'Revoke' }).click()
      await page.getByRole('row', { name: /^ci .* revoked/ }).waitFor()
      const refused = await fetch(`${gateway.url}/admin/api/v1/session`, {
        headers: { authorization: `Bearer ${secret}` },
      })
      assert.equal(refused.status, 401)
      await page.getByRole('row', { name: /^See settings.* no$/ }).waitFor()
    }))

  test('tokens: an operator sees the roles, and which one the list needs', () =>
    withDashboard(browser, { url: gateway.url }, async (dashboard) => {
      const page = await openAs(dashboard, `${PAGE}/tokens`, await tokenFor('operator'))
      await page.getByText('Admin tokens need the role admin for all teams.').waitFor()
      await page.getByRole('table', { name: 'What each role may do' }).waitFor()
    }))

  test('history: secrets of a version are not kept, and it says so', () =>
    withDashboard(browser, { url: gateway.url }, async (dashboard) => {
      const path = join(gateway.folder, 'headgate.yaml')
      const file = JSON.parse(await readFile(path, 'utf8'))
      await writeFile(path, JSON.stringify({ ...file, circuit: { timeout: 12_345 } }))
      await admin('POST', '/system/reload')
      const page = await openAs(dashboard, `${PAGE}/reloads`)
      const versions = page.getByRole('list', { name: 'Versions of headgate.yaml' }).getByRole('listitem')
      await versions.nth(1).locator('summary').click()
      await versions
        .nth(1)
        .getByText(/^▲ 3 secrets of it are not kept\./)
        .waitFor()
      assert.equal(await versions.nth(1).locator('pre').count(), 0)
      const { data } = await admin('GET', '/config/history')
      const { text } = await admin('GET', `/config/history/${data[0].id}`)
      assert.match(text, /"timeout":12345/)
      for (const secret of [HOOK_SECRET, 'sk-test-0123456789', 'sk-own-one-0123456789'])
        assert.ok(!text.includes(secret) && !(await page.content()).includes(secret))
    }))

  test('history: an operator sees the reloads, and which role the versions need', () =>
    withDashboard(browser, { url: gateway.url }, async (dashboard) => {
      const page = await openAs(dashboard, `${PAGE}/reloads`, await tokenFor('operator'))
      await page.getByText('Versions of the file need the role admin for all teams.').waitFor()
      await page.getByRole('button', { name: 'Reload now' }).waitFor()
    }))

  test('audit: names in place of IDs, filters by the server, and sign-ins apart', () =>
    withDashboard(browser, { url: gateway.url }, async (dashboard) => {
      const team = await admin('POST', '/teams', { name: 'audited-team' })
      await admin('POST', '/keys', { name: 'audited-key', team: team.id })
      await admin('PATCH', `/teams/${team.id}?force=true`, { limits: { requestsPerMinute: 77 } })
      const page = await openAs(dashboard, `${PAGE}/audit`)
      const lines = page.getByRole('list', { name: 'Audit log, newest first' }).getByRole('listitem')
      await lines.filter({ hasText: 'Team changed' }).getByText('audited-team', { exact: true }).waitFor()
      assert.equal(await lines.filter({ hasText: 'session.create' }).count(), 0)
      await page.getByRole('button', { name: 'Sign-ins' }).click()
      await lines.filter({ hasText: 'session.create' }).first().waitFor()
      assert.equal(await lines.filter({ hasText: 'Team changed' }).count(), 0)
      await page.getByRole('button', { name: 'Changes' }).click()
      await page.getByRole('searchbox').fill('requestsPerMinute":77')
      await page.waitForURL('**q=**')
      await page.waitForFunction(() => document.querySelectorAll('.lines li').length === 1)
      await lines.getByText('Team changed').waitFor()
      await dashboard.check()
      await dashboard.shot('config-audit-search')
      await dashboard.open(`${PAGE}/audit?kind=key`)
      await lines.filter({ hasText: 'Key created' }).first().waitFor()
      assert.equal(await lines.filter({ hasText: /^Team / }).count(), 0)
      await dashboard.open(`${PAGE}/audit?q=nothing-like-it`)
      await page.getByText('No entry matches.').waitFor()
    }))

  test('backup: warns until one is known, and shows the last one of the command line', () =>
    withDashboard(browser, { url: gateway.url }, async (dashboard) => {
      const page = await openAs(dashboard, `${PAGE}/backup`)
      await page.getByText(/^▲ No backup is known\./).waitFor()
      const command = (await page.locator('.code', { hasText: 'headgate backup' }).textContent()) ?? ''
      const main = join(import.meta.dirname, '..', '..', 'src', 'main.ts')
      const ran = command.replace('headgate backup', `'${process.execPath}' '${main}' backup`)
      execFileSync('sh', ['-c', ran], { stdio: 'pipe' })
      await page.reload()
      await page.getByText(/with the ledger of usage$/).waitFor()
      const { last } = await admin('GET', '/system/backup')
      await page.locator(`time[datetime="${last.at}"]`).waitFor()
      const file = /backup (\S+)$/.exec(command)?.[1] ?? ''
      assert.equal(last.bytes, (await stat(join(gateway.folder, file))).size)
    }))

  test('backup: a viewer sees which role they need', () =>
    withDashboard(browser, { url: gateway.url }, async (dashboard) => {
      const page = await openAs(dashboard, `${PAGE}/backup`, await tokenFor('viewer'))
      await page.getByText('The state of backups needs the role operator for all teams.').waitFor()
    }))

  for (const { width, theme } of LOOKS)
    test(`are accessible ${width} and ${theme}`, () =>
      withDashboard(browser, { url: gateway.url, width, theme }, async (dashboard) => {
        for (const [section, shown] of SECTIONS) {
          const page = await openAs(dashboard, `${PAGE}${section}`)
          await page.locator(shown).first().waitFor()
          await dashboard.check()
          await dashboard.shot(`config${section.replace('/', '-')}`)
        }
      }))
})
