/** The page "Keys & budgets": the life of a key without a mouse, what a secret leaves, changes elsewhere, and roles. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { type Started, start } from '../e2e/support/process.ts'
import { fileOf } from '../e2e/support/stage.ts'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream, until } from '../support/upstream.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { LOOKS, withDashboard } from './support/dashboard.ts'

const ADMIN = 'operator-token-0123456789'
const FILE_KEY = 'own-key-of-the-file-0123456789'
/** 100 tokens of input at $1000 and 100 of output at $4000 per million: 50 cents. */
const ANSWER = { text: 'hello', input: 100, output: 100 }

describe('keys and budgets', { skip: skipBrowser, concurrency: false }, () => {
  let browser: Browser
  let upstream: Upstream
  let gateway: Started
  /** Secrets of keys that the tests use. */
  let ci = ''
  before(async () => {
    upstream = await startUpstream((request) =>
      request.method === 'GET'
        ? { do: 'answer', status: 404, body: { error: { message: 'no list' } } }
        : answerWith(request, ANSWER),
    )
    browser = await startBrowser()
    gateway = await start({
      env: { AUTH_ADMIN: ADMIN },
      files: {
        'headgate.yaml': fileOf({
          providers: { alpha: { kind: 'openai', baseUrl: `${upstream.url}/v1`, models: ['small'] } },
          routes: { fast: { targets: ['alpha/small'] } },
          prices: [{ provider: 'alpha', model: '*', perMillion: { input: 1_000, output: 4_000 } }],
          keys: { batch: { secret: FILE_KEY } },
        }),
      },
    })
    const team = await admin('POST', '/teams', { name: 'search' })
    const made = await admin('POST', '/keys', {
      name: 'ci',
      team: team.id,
      access: { models: ['fast', 'alpha/*', 'small'] },
      limits: { requestsPerMinute: 600, tokensPerMinute: 1_000_000 },
    })
    ci = made.secret
    await admin('POST', '/budgets', {
      name: 'search',
      amount: '1.20',
      period: 'month',
      alerts: [50, 80],
      appliesTo: { teams: [team.id] },
    })
    for (let times = 0; times < 2; times++) assert.equal(await ask(ci), 200)
    const old = await admin('POST', '/keys', { name: 'old', expires_at: new Date(Date.now() + 3_000).toISOString() })
    await admin('POST', `/keys/${old.id}/block`)
  })
  after(async () => {
    await Promise.all([browser?.close(), gateway?.stop()])
    await upstream?.close()
  })

  /** Calls the admin API, and fails unless it succeeds. */
  const admin = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(`${gateway.url}/admin/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${ADMIN}`, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    assert.ok(response.ok, text)
    // biome-ignore lint/suspicious/noExplicitAny: the tests read bodies of every shape
    return JSON.parse(text) as any
  }
  /** The status of a model call with a key. */
  const ask = async (secret: string): Promise<number> => {
    const response = await fetch(`${gateway.base}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'fast', messages: [{ role: 'user', content: 'hello' }], max_tokens: 100 }),
    })
    await response.arrayBuffer()
    return response.status
  }
  const signIn = async (page: Page, token = ADMIN) => {
    await page.getByLabel('Admin token').fill(token)
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
  }
  /** Presses Tab until the element has the focus. */
  const tabTo = async (page: Page, name: string | RegExp) => {
    const target = page.getByRole('dialog').last().getByRole('button', { name })
    for (let times = 0; times < 40; times++) {
      if (await target.evaluate((element) => element === document.activeElement)) return
      await page.keyboard.press('Tab')
    }
    assert.fail(`no Tab reaches ${name}`)
  }

  for (const { width, theme } of LOOKS)
    test(`is accessible ${width} and ${theme}`, () =>
      withDashboard(
        browser,
        { url: gateway.url, width, theme, expected: /401/ },
        async ({ page, open, check, shot }) => {
          await open('/dashboard/keys')
          await signIn(page)
          await page.getByRole('link', { name: 'ci', exact: true }).waitFor()
          await page.getByText(/headgate\.yaml:\d+, read only/).waitFor({ state: 'attached' })
          await page
            .getByRole('img', { name: /Budget search: 83/ })
            .first()
            .waitFor()
          await check()
          await shot('keys')
          await page.getByRole('button', { name: 'New key' }).click()
          await check()
          await shot('keys-create')
          await page.keyboard.press('Escape')
          await page.getByRole('link', { name: 'ci', exact: true }).click()
          await page.getByText(/2 requests in the last hour/).waitFor()
          await check()
          await shot('keys-sheet')
          await page.keyboard.press('Escape')
          await open('/dashboard/keys?show=budgets')
          await page.getByRole('heading', { name: 'search' }).waitFor()
          await check()
          await shot('budgets')
          await page.getByRole('button', { name: /^Edit/ }).first().click()
          await page.getByLabel('Amount in dollars').fill('0.5')
          await page.getByText(/requests are refused as soon as this is saved/).waitFor()
          await check()
          await shot('budget-edit')
        },
      ))

  test('a key lives without a mouse: create, copy, use, rotate, block, undo, revoke', () =>
    withDashboard(browser, { url: gateway.url, expected: /401/ }, async ({ page, context, open, shot }) => {
      await context.grantPermissions(['clipboard-write'], { origin: gateway.url })
      await open('/dashboard/keys')
      await signIn(page)
      const newKey = page.getByRole('button', { name: 'New key' })
      await newKey.focus()
      await page.keyboard.press('Enter')
      await page.keyboard.type('night-job')
      await page.keyboard.press('Enter')
      const dialog = page.getByRole('dialog', { name: 'The secret of night-job' })
      await dialog.waitFor()
      const secret = await dialog.getByLabel('Secret').inputValue()
      assert.match(secret, /^hgk_[0-9A-Za-z]{38}$/)
      const done = dialog.getByRole('button', { name: 'Done' })
      assert.equal(await done.isDisabled(), true)
      // It cannot be lost by Esc.
      await page.keyboard.press('Escape')
      await shot('keys-secret')
      await tabTo(page, 'Copy as env line')
      await page.keyboard.press('Enter')
      await dialog.getByText('Copied.').waitFor()
      await tabTo(page, 'Done')
      await page.keyboard.press('Enter')
      await dialog.waitFor({ state: 'detached' })
      assert.equal(await ask(secret), 200)

      // The row's menu by keyboard.
      const menu = async (action: string | RegExp) => {
        await page.getByRole('button', { name: 'More actions: night-job' }).focus()
        await page.keyboard.press('Enter')
        const item = page.getByRole('button', { name: action, exact: true }).locator('visible=true')
        await item.focus()
        await page.keyboard.press('Enter')
      }
      await menu('Rotate…')
      await page.getByRole('dialog', { name: 'Rotate night-job' }).waitFor()
      await tabTo(page, 'Rotate')
      await page.keyboard.press('Enter')
      await dialog.waitFor()
      const second = await dialog.getByLabel('Secret').inputValue()
      assert.notEqual(second, secret)
      await dialog.getByLabel('I have it').focus()
      await page.keyboard.press('Space')
      await tabTo(page, 'Done')
      await page.keyboard.press('Enter')
      await dialog.waitFor({ state: 'detached' })
      assert.deepEqual([await ask(secret), await ask(second)], [200, 200])
      await page.getByText(/two secrets, 24 h left|two secrets, 1 d left/).waitFor()
      await shot('keys-rotated')
      await menu('End the old secret now')
      await page.getByText('The old secret of night-job has ended').waitFor()
      await eventually('the old secret is refused', async () => (await ask(secret)) === 401)
      assert.equal(await ask(second), 200)

      await menu('Block')
      await page.getByText('night-job is blocked').waitFor()
      await eventually('the key is refused', async () => (await ask(second)) !== 200)
      await page.getByRole('button', { name: 'Undo' }).focus()
      await page.keyboard.press('Enter')
      await page.getByText('night-job is active').waitFor()
      await eventually('the key is accepted', async () => (await ask(second)) === 200)

      await menu('Revoke…')
      const revoke = page.getByRole('dialog', { name: 'Revoke night-job?' })
      await revoke.getByText(/requests in the last hour, the last at/).waitFor()
      await shot('keys-revoke')
      assert.equal(await revoke.getByRole('button', { name: 'Revoke' }).isDisabled(), true)
      await page.keyboard.type('night-job')
      await page.keyboard.press('Enter')
      await page.getByText('night-job is revoked').waitFor()
      await page.getByRole('link', { name: 'night-job', exact: true }).waitFor({ state: 'detached' })
      await eventually('the key is refused', async () => (await ask(second)) === 401)

      for (const value of [secret, second]) await leavesNothing(page, value)
    }))

  test('text that is selected across the edge of a dialog does not close it; a click beside it does', () =>
    withDashboard(browser, { url: gateway.url, expected: /401/ }, async ({ page, open }) => {
      await open('/dashboard/keys')
      await signIn(page)
      await page.getByRole('button', { name: 'New key' }).click()
      const dialog = page.getByRole('dialog')
      const field = dialog.getByLabel('Name')
      await field.fill('half-typed')
      const box = await field.boundingBox()
      assert.ok(box)
      await page.mouse.move(box.x + 20, box.y + box.height / 2)
      await page.mouse.down()
      await page.mouse.move(5, 5)
      await page.mouse.up()
      assert.equal(await field.inputValue(), 'half-typed')
      await page.mouse.click(5, 5)
      await dialog.waitFor({ state: 'detached' })
    }))

  /** Neither the page, its address and storage, nor the log contains a secret. */
  const leavesNothing = async (page: Page, secret: string) => {
    const kept = await page.evaluate(async () => ({
      dom: document.documentElement.outerHTML,
      fields: [...document.querySelectorAll('input, textarea')].map((field) => Reflect.get(field, 'value')),
      address: location.href,
      state: JSON.stringify(history.state),
      storage: JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]),
      caches: await caches.keys(),
    }))
    assert.equal(JSON.stringify(kept).includes(secret), false)
    assert.equal(gateway.output().includes(secret), false)
    assert.equal(JSON.stringify((await admin('GET', '/audit')).data).includes(secret), false)
  }
  const eventually = async (what: string, check: () => Promise<boolean>) => {
    let isTrue = false
    const loop = (async () => {
      while (!isTrue) {
        isTrue = await check()
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
    })()
    await until(what, () => isTrue)
    await loop
  }

  test('a change elsewhere is shown and not overwritten; an undo is a second call', () =>
    withDashboard(browser, { url: gateway.url, expected: /401|412/ }, async ({ page, open, check, shot }) => {
      await open('/dashboard/keys')
      await signIn(page)
      const { id } = await admin('POST', '/keys', { name: 'shared' })
      await page.getByRole('button', { name: 'Try now' }).waitFor({ state: 'detached' })
      await open('/dashboard/keys')
      const edit = async (perMinute: string) => {
        await page.getByRole('button', { name: 'More actions: shared' }).click()
        await page.getByRole('button', { name: 'Edit…', exact: true }).locator('visible=true').click()
        await page.getByLabel('Requests per minute').fill(perMinute)
      }
      const limit = async () => (await admin('GET', `/keys/${id}`)).limits.requestsPerMinute
      await edit('60')
      await page.keyboard.press('Enter')
      await page.getByText('shared saved').waitFor()
      await page.getByRole('button', { name: 'Undo' }).click()
      await page.getByText('shared: change undone').waitFor()
      assert.equal(await limit(), null)

      await edit('60')
      await admin('PATCH', `/keys/${id}?force=true`, { limits: { requestsPerMinute: 90 } })
      await page.keyboard.press('Enter')
      const asked = page.getByRole('dialog', { name: 'Changed elsewhere in the meantime' })
      await asked.getByRole('cell', { name: 'limits.requestsPerMinute' }).waitFor()
      assert.deepEqual(await asked.locator('tbody td').allTextContents(), ['limits.requestsPerMinute', '60', '90'])
      await check()
      await shot('keys-conflict')
      assert.equal(await limit(), 90)
      await asked.getByRole('button', { name: 'Save mine' }).click()
      await page.getByText('shared saved').waitFor()
      assert.equal(await limit(), 60)
    }))

  test('the answer to a call from before the sign-in does not ask for another one', () =>
    withDashboard(browser, { url: gateway.url, expected: /401/ }, async ({ page, open }) => {
      const { promise: released, resolve: release } = Promise.withResolvers<void>()
      const { promise: held, resolve: hold } = Promise.withResolvers<number>()
      let isFirst = true
      await page.route('**/admin/api/v1/keys?*', async (route) => {
        if (!isFirst) return route.continue()
        isFirst = false
        const response = await route.fetch()
        hold(response.status())
        await released
        await route.fulfill({ response })
      })
      await open('/dashboard/keys')
      // A busy machine may load the page, or send the call, after the form for the sign-in is there.
      assert.equal(await held, 401)
      await signIn(page)
      const late = page.waitForResponse((response) => response.url().includes('/keys?') && response.status() === 401)
      release()
      await late
      await page.getByRole('link', { name: 'ci', exact: true }).waitFor()
      assert.equal(await page.getByRole('dialog').count(), 0)
    }))

  test('what is typed stays while the lists are read again', () =>
    withDashboard(browser, { url: gateway.url, expected: /401|412/ }, async ({ page, open }) => {
      await admin('POST', '/keys', { name: 'draft' })
      const { id } = await admin('POST', '/budgets', { name: 'draft', amount: '10', period: 'month' })
      await page.clock.install()
      await open('/dashboard/keys?show=budgets')
      await signIn(page)
      const item = page.getByRole('listitem').filter({ has: page.getByRole('heading', { name: 'draft' }) })
      const dialog = page.getByRole('dialog')
      /** Changes the budget elsewhere, and waits until the list shows it. */
      const change = async (amount: string) => {
        await admin('PATCH', `/budgets/${id}?force=true`, { amount })
        await page.clock.fastForward(31_000)
        await item.getByText(`of $${amount}.00`, { exact: false }).waitFor({ state: 'attached' })
      }
      await item.getByRole('button', { name: /^Edit/ }).click()
      await dialog.getByLabel('Name').fill('renamed')
      await dialog.getByLabel('Amount in dollars').fill('15')
      await change('20')
      assert.equal(await dialog.getByLabel('Name').inputValue(), 'renamed')
      assert.equal(await dialog.getByLabel('Amount in dollars').inputValue(), '15')
      await page.keyboard.press('Enter')
      await page.getByRole('dialog', { name: 'Changed elsewhere in the meantime' }).waitFor()
      await page.keyboard.press('Escape')

      await page.getByRole('button', { name: 'New budget' }).click()
      await dialog.getByLabel('Name').fill('another')
      await change('30')
      assert.equal(await dialog.getByLabel('Name').inputValue(), 'another')
      await page.keyboard.press('Escape')
      await admin('DELETE', `/budgets/${id}?force=true`)

      await open('/dashboard/keys')
      await page.getByRole('button', { name: 'More actions: draft' }).click()
      await page.getByRole('button', { name: 'Edit…', exact: true }).locator('visible=true').click()
      await dialog.getByLabel('Requests per minute').fill('60')
      const read = page.waitForResponse(/\/keys\?/)
      await page.clock.fastForward(31_000)
      await read
      assert.equal(await dialog.getByLabel('Requests per minute').inputValue(), '60')
    }))

  test('several keys are ticked and revoked; the key of the file is not', () =>
    withDashboard(browser, { url: gateway.url, expected: /401/ }, async ({ page, open, check, shot }) => {
      for (const name of ['bulk-a', 'bulk-b']) await admin('POST', '/keys', { name })
      await open('/dashboard/keys')
      await signIn(page)
      for (const name of ['bulk-a', 'bulk-b']) await page.getByRole('checkbox', { name: `Select ${name}` }).check()
      assert.equal(await page.getByRole('checkbox', { name: 'Select batch' }).count(), 0)
      await page.getByText('2 keys selected').waitFor()
      await check()
      await shot('keys-bulk')
      await page.getByRole('button', { name: 'Revoke…' }).click()
      await page.keyboard.type('revoke')
      await page.keyboard.press('Enter')
      await page.getByText('2 keys revoked').waitFor()
      await page.getByRole('link', { name: 'bulk-a' }).waitFor({ state: 'detached' })
      await open('/dashboard/keys?state=revoked')
      await page.getByRole('link', { name: 'bulk-a' }).waitFor()
    }))

  test('a budget is created, adjusted, undone, reset and deleted', () =>
    withDashboard(browser, { url: gateway.url, expected: /401/ }, async ({ page, open }) => {
      await open('/dashboard/keys?show=budgets')
      await signIn(page)
      await page.getByRole('button', { name: 'New budget' }).click()
      await page.getByLabel('Budget', { exact: true }).or(page.getByLabel('Name')).fill('trial')
      await page.getByLabel('Amount in dollars').fill('10')
      await page.keyboard.press('Enter')
      await page.getByText('Budget trial created').waitFor()
      const item = page.getByRole('listitem').filter({ has: page.getByRole('heading', { name: 'trial' }) })
      const spent = (amount: string) => item.getByText(`${amount} of $10.00`, { exact: false }).waitFor()
      await item.getByRole('button', { name: 'Adjust…' }).click()
      await page.getByLabel(/^Amount in dollars/).fill('2.5')
      await page.getByLabel('Reason').fill('moved from another account')
      await page.getByText('Spent afterwards: $2.50.').waitFor()
      await page.keyboard.press('Enter')
      await page.getByText('trial adjusted').waitFor()
      await spent('$2.50')
      await page.getByRole('button', { name: 'Undo' }).click()
      await spent('$0')
      await item.getByRole('button', { name: 'Delete…' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
      await item.waitFor({ state: 'detached' })
    }))

  test('a viewer sees the keys, cannot write, and reads why', async () => {
    const { secret } = await admin('POST', '/tokens', { name: 'looker', bindings: [{ role: 'viewer', team: null }] })
    await withDashboard(browser, { url: gateway.url, expected: /401/ }, async ({ page, open, check, shot }) => {
      await open('/dashboard/keys')
      await signIn(page, secret)
      await page.getByText('Your role is viewer.', { exact: false }).waitFor()
      await page.getByRole('link', { name: 'ci', exact: true }).waitFor()
      assert.equal(await page.getByRole('button', { name: 'New key' }).isDisabled(), true)
      assert.equal(await page.getByRole('checkbox').count(), 0)
      await page.getByRole('button', { name: 'More actions: ci' }).click()
      assert.equal(await page.getByRole('button', { name: 'Rotate…' }).count(), 0)
      await page.keyboard.press('Escape')
      await check()
      await shot('keys-viewer')
      await open('/dashboard/keys?show=budgets')
      await page.getByText('It takes the role admin for all teams to change budgets.').waitFor()
      assert.equal(await page.getByRole('button', { name: /Edit/ }).count(), 0)
      await check()
    })
  })
})
