/** Routes: what answers, why, and what would answer if a provider were down. Nothing is sent to a provider. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import type { Browser, Locator } from 'playwright-core'
import { type Started, start } from '../e2e/support/process.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { LOOKS, withDashboard } from './support/dashboard.ts'
import { ADMIN, fileOf, type Routed, startRouted } from './support/routed.ts'

const PAGE = '/dashboard/routes'
const FILE = `
fallback: same-model
routes:
  chat-default:
    targets: [anthropic/claude-sonnet-4-5, openai/gpt-5-mini]
  cheap:
    targets: [anthropic/claude-haiku-4-5, openai/gpt-5.5-cyber]
  vision:
    targets: [anthropic/claude-sonnet-4-5]
`

describe('the Routes page', { skip: skipBrowser }, () => {
  let browser: Browser
  let upstream: Upstream
  let gateway: Started
  let sent = 0
  before(async () => {
    upstream = await startUpstream(({ method }) => {
      // The gateway reads the lists of models by itself.
      if (method !== 'GET') sent++
      return { do: 'answer', status: 500, body: '{}' }
    })
    const started = await Promise.all([
      startBrowser(),
      start({
        env: {
          OPENAI_API_KEY: 'sk-test-0123456789',
          OPENAI_BASE_URL: `${upstream.url}/v1`,
          OPENAI_MODELS: 'gpt-5-mini,gpt-5.5-cyber',
          ANTHROPIC_API_KEY: 'sk-ant-test-0123456789',
          ANTHROPIC_BASE_URL: upstream.url,
          ANTHROPIC_MODELS: 'claude-sonnet-4-5,claude-haiku-4-5',
          PROVIDERS: 'openai,anthropic',
        },
        files: { 'headgate.yaml': FILE },
      }),
    ])
    browser = started[0]
    gateway = started[1]
  })
  after(async () => {
    await Promise.all([browser?.close(), gateway?.stop()])
    await upstream?.close()
    assert.equal(sent, 0, 'a request was sent to a provider')
  })

  test('question 8: what if a provider is down takes two actions from the overview', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, shot }) => {
      await open()
      await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Routes' }).click()
      await page.getByRole('checkbox', { name: 'anthropic' }).check()
      const effect = page.locator('.routes-effect')
      await effect.waitFor()
      const text = (await effect.textContent()) ?? ''
      assert.match(text, /3 of 4 routes still answer/)
      assert.match(text, /1 has no target: vision/)
      assert.match(text, /1 loses tools.*: cheap/)
      const box = await effect.boundingBox()
      assert.ok(box && box.y + box.height <= 800, 'visible without scrolling')
      const chat = page.getByRole('row', { name: /chat-default/ })
      assert.match((await chat.textContent()) ?? '', /openai\/gpt-5-mini.*instead of anthropic\/claude-sonnet-4-5/)
      await page.getByText('A simulation: nothing changes, and nothing is sent to a provider.').waitFor()
      await shot('routes-down')
      const address = page.url()
      await page.goto('about:blank')
      await page.goto(address)
      await page.getByText('1 has no target: vision').waitFor()
      await page.getByRole('button', { name: 'Clear' }).click()
      await page.waitForURL((url) => !url.search.includes('down'))
    }))

  test('explains a request by its needs, and a pasted body', () =>
    // The browser reports the refused body on the console.
    withDashboard(browser, { url: gateway.url, expected: /status of 400/ }, async ({ page, open, check, shot }) => {
      await open(PAGE)
      const explain = page.getByRole('region', { name: 'Explain a request' })
      await explain.getByLabel('Model or route').fill('cheap')
      await page.keyboard.press('Enter')
      await page.waitForURL('**/routes/cheap')
      await explain.getByText('“cheap” is a route.').waitFor()
      await explain.getByRole('checkbox', { name: 'tools' }).check()
      await explain.getByRole('button', { name: 'Explain' }).click()
      const turbo = explain.locator('.routes-plan > li', { hasText: 'gpt-5.5-cyber' })
      await turbo.getByText('it cannot do tools').waitFor()
      // Rows below the head of the table are covered in part.
      await page.evaluate(() => window.scrollTo(0, 0))
      await check()
      await shot('routes-explained')
      await explain.getByText('Or paste a request body').click()
      await explain.getByLabel('Request body').fill('{"model": ')
      await explain.getByRole('button', { name: 'Explain' }).click()
      await explain.getByText('This is no JSON object.').waitFor()
      await explain.getByLabel('Model or route').fill('')
      await explain
        .getByLabel('Request body')
        .fill(JSON.stringify({ model: '<img src=x onerror=alert(1)>', messages: [{ role: 'user', content: 'Hello' }] }))
      await explain.getByRole('button', { name: 'Explain' }).click()
      await explain.getByText('<img src=x onerror').first().waitFor()
      await explain.getByLabel('Request body').fill('{"model": "cheap", "messages": []}')
      await explain.getByRole('button', { name: 'Explain' }).click()
      await explain.getByText('it must be a list with at least one message').waitFor()
      await shot('routes-refused')
    }))

  test('works without a mouse, and finds models', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open }) => {
      await open()
      await page.keyboard.press('g')
      await page.keyboard.press('t')
      await page.waitForURL(`**${PAGE}`)
      await page.getByRole('checkbox', { name: 'openai' }).focus()
      await page.keyboard.press('Space')
      await page.waitForURL('**down=openai')
      await page.locator('.routes-effect').waitFor()
      await page.locator('h1').click()
      await page.keyboard.press('/')
      await page.keyboard.type('haiku')
      await page.waitForURL('**q=haiku')
      const rows = page.getByRole('table', { name: 'Models' }).locator('tbody tr:not(.spacer)')
      await page.waitForFunction(() => document.querySelectorAll('[aria-label^="Models"] tbody tr').length === 1)
      await page.locator('h1').click()
      await page.keyboard.press('j')
      await page.waitForFunction(() => document.activeElement?.getAttribute('aria-rowindex') === '2')
      await page.keyboard.press('Enter')
      await page.waitForURL('**/routes/anthropic/claude-haiku-4-5**')
      assert.equal(await rows.count(), 1)
      await page.getByText('would be tried first').waitFor()
    }))

  for (const { width, theme } of LOOKS)
    test(`is accessible ${width} and ${theme}`, () =>
      withDashboard(browser, { url: gateway.url, width, theme }, async ({ page, open, check, shot }) => {
        await open(PAGE)
        await page.locator('.routes-targets').first().waitFor()
        await page.getByText(/200k/).first().waitFor()
        await check()
        await shot('routes')
        await open(`${PAGE}/chat-default?down=anthropic`)
        await page.locator('.routes-effect').waitFor()
        await page.getByText('would be tried first').waitFor()
        await check()
        await shot('routes-what-if')
        await page.locator('#explain').scrollIntoViewIfNeeded()
        await shot('routes-explain')
        await page.locator('.routes-page > section').last().scrollIntoViewIfNeeded()
        await shot('routes-models')
      }))
})

describe('the Routes page with traffic', { skip: skipBrowser }, () => {
  let browser: Browser
  let routed: Routed
  before(async () => {
    const started = await Promise.all([startBrowser(), startRouted()])
    browser = started[0]
    routed = started[1]
    await routed.send('split', 40)
    await routed.send('chain', 3)
    await routed.send('fresh', 20)
    await routed.send('gpt-5', 7)
    await routed.send('groq/llama-3.3-70b-versatile', 2)
  })
  after(async () => {
    await Promise.all([browser?.close(), routed?.stop()])
  })

  test('shares, failures and latencies of each target are those that the providers counted', () =>
    withDashboard(browser, { url: routed.gateway.url, token: ADMIN }, async ({ page, open, check, shot }) => {
      await open(PAGE)
      const rowsOf = (name: string) =>
        page.locator('.routes-targets', { has: page.getByRole('link', { name, exact: true }) }).getByRole('row')
      const split = rowsOf('split')
      await split.first().getByText('40 requests in the last hour').waitFor()
      await split.first().getByText('drawn by weight for each request').waitFor()
      const mini = routed.received('split', 'gpt-5-mini')
      const llama = routed.received('split', 'llama-3.3-70b-versatile')
      assert.equal(mini + llama, 40)
      const cells = async (row: Locator) => (await row.getByRole('cell').allTextContents()).map((text) => text.trim())
      const shareText = (n: number) => `${Number(((100 * n) / 40).toFixed(1))}%`
      const [, target, first, answered, failed, token] = await cells(split.nth(0))
      assert.match(target ?? '', /openai\/gpt-5-mini.*when inputTokens below 50,000.*set effort low/)
      assert.deepEqual([first, answered, failed], ['75% first', `${shareText(mini)} ${mini}`, `0 of ${mini}`])
      assert.match(token ?? '', /^[\d.]+ m?s$/)
      const other = await cells(split.nth(1))
      assert.match(other[0] ?? '', /groq\/llama-3.3-70b-versatile.*firstByte 8000 ms/)
      assert.deepEqual(other.slice(1, 4), ['25% first', `${shareText(llama)} ${llama}`, `0 of ${llama}`])
      const chain = rowsOf('chain')
      const down = await cells(chain.nth(0))
      const attempts = routed.received('chain', 'down')
      assert.ok(attempts > 0)
      assert.deepEqual(down.slice(2, 5), ['1', '0% 0', `${attempts} of ${attempts}`])
      assert.deepEqual((await cells(chain.nth(1))).slice(1, 3), ['2', '100% 3'])
      const fresh = await cells(rowsOf('fresh').nth(1))
      assert.match(fresh[0] ?? '', /canary/)
      assert.deepEqual(fresh.slice(1, 2), ['20% first'])
      await check()
      await shot('routes-traffic')
    }))

  test('an order that is drawn is shown as shares in an explanation', () =>
    withDashboard(browser, { url: routed.gateway.url, token: ADMIN }, async ({ page, open }) => {
      await open(`${PAGE}/split`)
      const explain = page.getByRole('region', { name: 'Explain a request' })
      await explain.getByText('would be tried first for 75% of requests').waitFor()
      await explain.getByText('would be tried first for 25% of requests').waitFor()
      assert.equal(await explain.getByText('would be tried first', { exact: true }).count(), 0)
      await explain.getByLabel('Model or route').fill('auto')
      await page.keyboard.press('Enter')
      await explain.getByText('“auto” is the default route.').waitFor()
    }))

  test('what if counts models that are named directly, and what substitutes cost more', async () => {
    const read = async (method: string, path: string, body?: unknown) => (await routed.api(method, path, body)).json()
    const { data, hours } = await read('POST', '/what-if', { assume: { down: ['openai'] } })
    const of = (name: string) => data.find((one: { name: string }) => one.name === name) ?? assert.fail(name)
    // Dollars for the tokens of a request, which the fakes state, by the prices of the catalogue and the file.
    const priceOf = (input: number, output: number) => (1_000 * input + 100 * output) / 1e6
    const more = priceOf(0.59, 0.79) - priceOf(0.25, 2)
    const mini = routed.received('split', 'gpt-5-mini')
    assert.equal(hours, 1)
    assert.deepEqual([of('split').requests, of('split').affected], [40, mini])
    assert.equal(Number(of('split').extra_per_hour).toFixed(9), (mini * more).toFixed(9))
    // The price of `house` is not known.
    const { affected, answers, extra_per_hour: unknown } = of('chain')
    assert.deepEqual([affected, answers?.provider, unknown], [3, 'house', null])
    const { direct, requests, loses_target: isLost, cost_per_hour: cost } = of('gpt-5')
    assert.deepEqual([direct, requests, isLost], [true, 7, true])
    assert.equal(Number(cost).toFixed(9), (7 * priceOf(1.25, 10)).toFixed(9))
    assert.deepEqual([of('groq/llama-3.3-70b-versatile').affected, of('auto').loses_target], [0, false])
    await withDashboard(browser, { url: routed.gateway.url, token: ADMIN }, async ({ page, open, check, shot }) => {
      await open(`${PAGE}?down=openai`)
      await page.getByText('7 requests of the last day name gpt-5 directly and would have no target').waitFor()
      await page.getByText(/Substitutes would cost about [+-]\$[\d.]+ an hour/).waitFor()
      await page.getByText('For 1 name the extra cost is unknown').waitFor()
      await check()
      await shot('routes-effects')
    })
  })

  test('a team’s own route is made after a look at its plan, changed, deleted, and hidden by the file', () =>
    withDashboard(
      browser,
      { url: routed.gateway.url, token: ADMIN, expected: /status of 400/ },
      async ({ page, open, check, shot }) => {
        await open(PAGE)
        const own = page.getByRole('region', { name: 'Teams’ own routes' })
        await own.getByText('No team has a route of its own.').waitFor()
        await own.getByRole('button', { name: 'New route' }).click()
        const dialog = page.getByRole('dialog')
        await dialog.getByLabel('Name (sent as model)').fill('ours')
        await dialog.getByLabel('Team').selectOption('search')
        const targets = dialog.getByLabel('Targets, one a line')
        const submit = dialog.getByRole('button', { name: 'Check and show the plan' })
        await targets.fill('{"provider": ')
        await submit.click()
        await dialog.getByText('This line is no JSON object: {"provider":').waitFor()
        await targets.fill('nowhere/gpt-5')
        await submit.click()
        await dialog
          .getByText(/No provider "nowhere" is configured/)
          .first()
          .waitFor()
        await targets.fill(
          'groq/llama-3.3-70b-versatile\n{"provider": "openai", "model": "gpt-5", "set": {"effort": "low"}}',
        )
        await submit.click()
        await dialog.locator('.routes-plan > li').nth(1).getByText('set effort low').waitFor()
        await check()
        await shot('routes-own-dialog')
        await dialog.getByRole('button', { name: 'Save' }).click()
        // Not the plan of the dialog, which names the same targets before they are stored.
        const row = own.locator('.routes-own').getByRole('listitem').filter({ hasText: 'ours' })
        await row.getByText('of search').waitFor()
        const stored = async () => (await (await routed.api('GET', '/routes')).json()).data
        assert.deepEqual((await stored())[0].spec.targets[1].set, { effort: 'low' })
        await row.getByRole('button', { name: 'Edit route ours' }).click()
        await targets.fill('openai/gpt-5')
        await submit.click()
        await dialog.getByRole('button', { name: 'Save' }).click()
        await row.getByText('openai/gpt-5', { exact: true }).waitFor()
        await row.getByRole('button', { name: 'Delete route ours' }).click()
        await own.getByText('No team has a route of its own.').waitFor()
        assert.deepEqual(await stored(), [])
        await page.getByRole('button', { name: 'Undo' }).last().click()
        await row.waitFor()
        const file = fileOf(routed.providerUrl).replace('routes:\n', 'routes:\n  ours: { targets: [openai/gpt-5] }\n')
        await writeFile(join(routed.gateway.folder, 'headgate.yaml'), file)
        for (const end = Date.now() + 30_000; !(await stored())[0].shadowed; await setTimeout(100))
          assert.ok(Date.now() < end)
        await open(PAGE)
        await row.getByText('hidden: headgate.yaml has a route of this name').waitFor()
        await check()
        await own.scrollIntoViewIfNeeded()
        await shot('routes-own')
      },
    ))

  test('a canary has its step and share, and an operator changes it after a confirmation', () =>
    withDashboard(browser, { url: routed.gateway.url, token: ADMIN }, async ({ page, open, check, shot }) => {
      await open(PAGE)
      await page.getByText('canary running: step 1 of 2, 20% of sessions').waitFor()
      await page.getByRole('button', { name: 'Promote the canary of fresh' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByText('groq/llama-3.3-70b-versatile receives the share of the last step at once.').waitFor()
      await check()
      await shot('routes-canary')
      await dialog.getByRole('button', { name: 'Promote' }).click()
      await page.getByText('canary running: step 2 of 2, 100% of sessions').waitFor()
      await page.getByRole('button', { name: 'Stop the canary of fresh' }).click()
      await dialog.getByRole('button', { name: 'Stop' }).click()
      await page.getByText('canary stopped: step 2 of 2, 0% of sessions').waitFor()
      await page.getByText('sent back by').waitFor()
      const { data } = await (await routed.api('GET', '/canaries')).json()
      assert.deepEqual([data[0].status, data[0].share], ['stopped', 0])
    }))

  for (const { width, theme } of LOOKS)
    test(`with traffic is accessible ${width} and ${theme}`, () =>
      withDashboard(
        browser,
        { url: routed.gateway.url, token: ADMIN, width, theme },
        async ({ page, open, check, shot }) => {
          await open(PAGE)
          await page.getByText('40 requests in the last hour').waitFor()
          await check()
          await shot('routes-shares')
          await open(`${PAGE}?down=openai`)
          await page.getByText(/Substitutes would cost about/).waitFor()
          await check()
          await shot('routes-effects')
        },
      ))
})
