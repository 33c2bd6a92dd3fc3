/** Routes: what they would lose if a provider failed, as the API states it. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { post, type Started, start } from '../e2e/support/process.ts'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { LOOKS, withDashboard } from './support/dashboard.ts'

const ADMIN = 'hg-admin-token-of-this-test-0123'
const SENTENCE = 'route `fast` would lose 12 % of its requests if OpenAI failed: tools are refused by house/m1'

const fileOf = (url: string) => `
fallback: same-model
drill: { shapes: true }
auth: { admin: ${ADMIN}, required: false }
providers:
  openai: { baseUrl: "${url}/v1", keys: [sk-test-0123456789], models: [gpt-5-mini], styles: [chat] }
  house: { kind: perplexity, baseUrl: "${url}", keys: [house-key-0123456789], models: [m1], styles: [chat] }
routes:
  fast: { targets: [openai/gpt-5-mini, house/m1] }
  sound: { targets: [openai/gpt-5-mini, house/m1] }
`

describe('the drill on Routes', { skip: skipBrowser }, () => {
  let browser: Browser
  let upstream: Upstream
  let gateway: Started
  before(async () => {
    upstream = await startUpstream((call) =>
      call.method === 'GET'
        ? { do: 'answer', status: 404, body: {} }
        : answerWith(call, { text: 'yes', input: 5, output: 5 }),
    )
    const files = { 'headgate.yaml': fileOf(upstream.url) }
    ;[browser, gateway] = await Promise.all([startBrowser(), start({ files })])
    const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }]
    for (let count = 0; count < 100; count++)
      for (const model of ['fast', 'sound']) {
        const hasTools = model === 'fast' && count % 25 < 3
        const body = { model, messages: [{ role: 'user', content: 'hi' }], ...(hasTools && { tools }) }
        assert.equal((await post(`${gateway.url}/v1/chat/completions`, body)).status, 200)
      }
    const headers = { authorization: `Bearer ${ADMIN}` }
    assert.equal((await post(`${gateway.url}/admin/api/v1/drill/run`, {}, headers)).status, 200)
  })
  after(async () => {
    await Promise.all([browser?.close(), gateway?.stop()])
    await upstream?.close()
  })

  for (const { width, theme } of LOOKS)
    test(`the loss is a sentence and a row with its reason (${width}, ${theme})`, () =>
      withDashboard(browser, { url: gateway.url, token: ADMIN, width, theme }, async ({ page, open, check, shot }) => {
        await open('/dashboard/routes')
        const panel = page.getByRole('region', { name: 'Fallback drill' })
        await panel.getByText(SENTENCE).waitFor()
        const rows = panel.locator('.stack > li')
        assert.equal(await rows.count(), 1, 'a route without losses is not listed')
        assert.match(
          (await rows.first().textContent()) ?? '',
          /^fast without OpenAI: loses 12% \(12 of 100 requests\)12% tools are refused by house\/m1 planned$/,
        )
        await panel.scrollIntoViewIfNeeded()
        await shot('routes-drill')
        await check()
      }))
})
