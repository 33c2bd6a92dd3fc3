/** The playground: columns side by side, failures beside answers, Stop, programs and history, against a real gateway. */
import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import type { Started } from '../e2e/support/process.ts'
import { stage } from '../e2e/support/stage.ts'
import { answerWith, failWith, piecesOf } from '../support/answers.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { LOOKS, withDashboard } from './support/dashboard.ts'

const HOSTILE =
  '<img src=x onerror="alert(1)"></script><script>alert(2)</script> **bold** [a](javascript:alert(3)) \u202etxet\n<svg onload=alert(4)>'

/** What a model may write, and what a hostile one may. */
const MARKDOWN = `# Title

Some **bold** text with \`code\`, a [page](https://example.test/page), [run](javascript:alert(1)),
[data](data:text/html,<script>alert(2)</script>), [here](//example.test/x), ![a picture](https://example.test/pixel.png)
and a &lt; b &amp; &quot;c&quot;.

1. one
2. two

| a | b |
|---|---|
| 1 | <b>2</b> |

\`\`\`js
if (a < b) <script>
\`\`\`

<img src=x onerror="alert(3)">

<svg onload=alert(4)><style>body{display:none}</style><form action=/>
`
/** Too deep for the lexer. */
const DEEP = '>'.repeat(20_000)

/** The texts of the provider alpha, by a word of the prompt. */
const TEXTS = { markdown: MARKDOWN, deep: DEEP, hostile: HOSTILE, usual: 'A stream of events, one way.' }
const WORDS = ['markdown', 'deep', 'hostile'] as const

describe('the playground', { skip: skipBrowser, concurrency: false }, () => {
  const { upstream, gateway: startGateway, keep } = stage()
  let browser: Browser
  let gateway: Started
  before(async () => {
    const [alpha, beta] = await Promise.all([
      upstream((request) => {
        const wants = request.body
        if (wants.includes('stall'))
          return { do: 'stream', pieces: piecesOf(request, { text: 'Part of it' }).slice(0, 2), ending: 'stall' }
        return answerWith(request, {
          text: TEXTS[WORDS.find((word) => wants.includes(word)) ?? 'usual'],
          input: 12,
          output: 31,
        })
      }),
      upstream((request) =>
        request.body.includes('fail')
          ? failWith(request, 400, { type: 'invalid_request_error', code: 'invalid_prompt', message: `No: ${HOSTILE}` })
          : answerWith(request, { text: 'A stream of lines, one way.', input: 12, output: 29 }),
      ),
    ])
    const started = await Promise.all([
      startBrowser(),
      startGateway({
        providers: {
          alpha: { baseUrl: `${alpha.url}/v1`, models: ['big'] },
          beta: { baseUrl: `${beta.url}/v1`, models: ['small'] },
        },
        prices: [{ provider: 'alpha', model: '*', perMillion: { input: 10, output: 40 } }],
      }),
    ])
    browser = started[0]
    gateway = started[1]
    keep(() => browser.close())
  })

  const column = (page: Page, number: number) => page.locator('.playground-column').nth(number - 1)
  const TWO = '/dashboard/playground?with=alpha/big,beta/small'

  test('question 7: a model answers one action after the overview, and sending', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open }) => {
      await open()
      await page.keyboard.press('g')
      await page.keyboard.press('y')
      await page.waitForURL('**/dashboard/playground*')
      await page.getByLabel('Prompt', { exact: true }).fill('Explain SSE')
      await page.keyboard.press('Control+Enter')
      const answer = page.locator('[data-answer]', { hasText: 'one way.' })
      await answer.waitFor()
      const box = await answer.boundingBox()
      assert.ok(box && box.y + box.height <= 800, 'visible without scrolling')
    }))

  test('columns are answered side by side; one that fails shows the error, the other goes on', () =>
    withDashboard(browser, { url: gateway.url, expected: /status of 4\d\d/ }, async ({ page, open, shot, check }) => {
      await open(TWO)
      await page.getByLabel('Prompt', { exact: true }).fill('Explain SSE')
      await page.getByRole('button', { name: 'Send' }).click()
      await column(page, 1).locator('.playground-state', { hasText: 'Complete' }).waitFor()
      await column(page, 2).locator('.playground-state', { hasText: 'Complete' }).waitFor()
      await column(page, 1).getByText('12 → 31').waitFor()
      await column(page, 2).getByRole('list', { name: 'Attempts' }).getByText('beta/small').waitFor()
      await page.getByRole('heading', { name: 'Comparison' }).waitFor()
      await page.locator('summary', { hasText: 'Difference' }).click()
      assert.equal(await page.locator('del').textContent(), 'events,')
      assert.equal(await page.locator('ins').textContent(), 'lines,')
      await check()
      await shot('playground-two')
      await page.getByLabel('Prompt', { exact: true }).fill('fail please')
      await page.keyboard.press('Control+Enter')
      await column(page, 2).locator('.playground-state', { hasText: 'Failed with status 400' }).waitFor()
      await column(page, 2).getByText('invalid_request_error').waitFor()
      await column(page, 1).locator('.playground-state', { hasText: 'Complete' }).waitFor()
      await check()
      await shot('playground-failed')
      await column(page, 2).getByRole('link', { name: 'Open the request' }).click()
      await page.waitForURL('**/dashboard/requests/req_*')
    }))

  test('each column says what it would cost before it is sent', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open }) => {
      await open(TWO)
      await page.getByLabel('Prompt', { exact: true }).fill('Explain SSE')
      await page.getByLabel('Max tokens').fill('100')
      const estimate = column(page, 1).locator('[data-estimate]')
      await estimate.getByText(/^about \$0\.004\d* at alpha\/big$/).waitFor()
      await column(page, 2).getByText('unknown cost at beta/small').waitFor()
      await page.getByLabel('Max tokens').fill('1000')
      await estimate.getByText(/^about \$0\.04\d* at alpha\/big$/).waitFor()
      await page.getByLabel('Prompt', { exact: true }).fill('')
      await estimate.waitFor({ state: 'detached' })
    }))

  test('a model is chosen from a list with the keyboard, and any other can be entered', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, check, shot }) => {
      await open('/dashboard/playground?with=alpha/big')
      const field = column(page, 1).getByRole('combobox', { name: 'Model or route' })
      const options = column(page, 1).getByRole('option')
      const isOpen = (yes: boolean) =>
        page.waitForFunction(
          (wanted) => document.querySelector('[role=combobox]')?.getAttribute('aria-expanded') === String(wanted),
          yes,
        )
      await field.fill('sma')
      await isOpen(true)
      assert.deepEqual(await options.allTextContents(), ['beta/small', 'small'])
      await check()
      await shot('playground-models')
      await field.press('ArrowDown')
      const active = await field.getAttribute('aria-activedescendant')
      assert.equal(await page.locator(`[id="${active}"][aria-selected="true"]`).textContent(), 'beta/small')
      await field.press('Enter')
      assert.equal(await field.inputValue(), 'beta/small')
      await page.waitForURL(/with=beta\/small/)
      await isOpen(false)
      // One of the models lists all of them.
      await field.press('ArrowDown')
      await isOpen(true)
      assert.ok((await options.count()) > 1)
      await field.press('Escape')
      await isOpen(false)
      assert.equal(await field.inputValue(), 'beta/small')
      await field.fill('alpha')
      await options.first().click()
      assert.match(await field.inputValue(), /^alpha\//)
      await field.fill('none/of these')
      await field.press('Tab')
      await page.waitForURL(/none/)
    }))

  test('each style streams the same text', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open }) => {
      await open('/dashboard/playground?with=alpha/big')
      await page.getByLabel('Prompt', { exact: true }).fill('Explain SSE')
      for (const style of ['responses', 'messages', 'chat']) {
        await page.getByLabel('API style').selectOption(style)
        await page.getByRole('button', { name: 'Send' }).click()
        await page.locator('.playground-column[data-state="done"]').waitFor()
        assert.equal(await page.locator('[data-answer]').textContent(), 'A stream of events, one way.', style)
      }
      await page.getByLabel('Stream', { exact: true }).uncheck()
      await page.getByRole('button', { name: 'Send' }).click()
      await column(page, 1).locator('.playground-state', { hasText: 'Complete' }).waitFor()
    }))

  test('Esc stops all columns, and what arrived stays', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open }) => {
      await open('/dashboard/playground?with=alpha/big')
      await page.getByLabel('Prompt', { exact: true }).fill('stall')
      await page.keyboard.press('Control+Enter')
      await page.locator('[data-answer]').waitFor()
      await page.keyboard.press('Escape')
      await column(page, 1).locator('.playground-state', { hasText: 'Stopped' }).waitFor()
      assert.notEqual(await page.locator('[data-answer]').textContent(), '')
    }))

  test('a model that is typed as soon as its column appears stays', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open }) => {
      await open(TWO)
      // In the turn after the one that adds the column.
      await page.evaluate(async () => {
        document.querySelector<HTMLButtonElement>('.playground-add')?.click()
        for (let turn = 0; turn < 20; turn++) {
          await new Promise((resolve) => queueMicrotask(() => resolve(undefined)))
          const field = document.querySelectorAll<HTMLInputElement>('.playground-column input[role=combobox]')[2]
          if (!field) continue
          field.value = 'alpha/typed'
          field.dispatchEvent(new InputEvent('input', { bubbles: true }))
          return
        }
        throw new Error('no third column')
      })
      await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 200)))
      assert.equal(await column(page, 3).getByLabel('Model or route').inputValue(), 'alpha/typed')
    }))

  test('hostile text is text: in a prompt, an answer, an error and a model name', () =>
    withDashboard(browser, { url: gateway.url, expected: /status of 4\d\d/ }, async ({ page, open, shot, check }) => {
      await open(TWO)
      await page.getByRole('button', { name: 'Add a column' }).click()
      await column(page, 3).getByLabel('Model or route').fill(HOSTILE.slice(0, 190))
      await page.getByLabel('Prompt', { exact: true }).fill(`hostile fail ${HOSTILE}`)
      await page.keyboard.press('Control+Enter')
      await page.locator('.playground-column[data-state="done"]').first().waitFor()
      await column(page, 2).locator('.playground-state', { hasText: 'Failed with status 400' }).waitFor()
      await column(page, 3).locator('[data-answer]').waitFor()
      assert.equal(await column(page, 3).locator('[data-answer]').textContent(), HOSTILE)
      assert.equal(await column(page, 1).locator('[data-answer]').textContent(), HOSTILE)
      assert.equal(await page.locator('main img, main script, main svg').count(), 0)
      await check()
      await shot('playground-hostile')
      await page.reload()
      await page.waitForSelector('.playground-column:nth-child(3)')
    }))

  test('an answer is shown as Markdown if that is wanted, and nothing in it runs, loads or leads elsewhere', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, check, shot }) => {
      await open('/dashboard/playground?with=alpha/big')
      await page.getByLabel('Show Markdown').check()
      await page.getByLabel('Prompt', { exact: true }).fill('markdown')
      await page.keyboard.press('Control+Enter')
      const answer = page.locator('[data-answer].markdown')
      await answer.waitFor()
      assert.equal(await answer.locator('strong').textContent(), 'bold')
      assert.deepEqual(await answer.locator('li').allTextContents(), ['one', 'two'])
      assert.deepEqual(await answer.locator('td').allTextContents(), ['1', '<b>2</b>'])
      assert.equal(await answer.locator('pre').textContent(), 'if (a < b) <script>')
      assert.deepEqual(
        await answer
          .locator('a')
          .evaluateAll((all) => all.map((one) => [one.getAttribute('href'), one.getAttribute('rel')])),
        [['https://example.test/page', 'noopener noreferrer']],
      )
      const text = (await answer.textContent()) ?? ''
      for (const part of [
        'run (javascript:alert(1))',
        'data (data:text/html,<script>alert(2)</script>)',
        'here (//example.test/x)',
        'a picture (https://example.test/pixel.png)',
        '<img src=x onerror="alert(3)">',
        '<svg onload=alert(4)>',
        'a < b & "c"',
      ])
        assert.ok(text.includes(part), `${part} in ${text}`)
      assert.equal(await page.locator('main img, main script, main svg, main iframe, main form, main style').count(), 0)
      await check()
      await shot('playground-markdown')
      await page.getByLabel('Show Markdown').uncheck()
      assert.equal(await page.locator('[data-answer]').textContent(), MARKDOWN)
      await page.getByLabel('Show Markdown').check()
      await page.getByLabel('Prompt', { exact: true }).fill('deep')
      await page.keyboard.press('Control+Enter')
      await page.locator('[data-answer]', { hasText: DEEP }).waitFor()
    }))

  test('wrong fields are marked, and nothing is sent', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open, check }) => {
      await open('/dashboard/playground?with=alpha/big')
      await page.getByRole('button', { name: 'Send' }).click()
      await page.getByText('Enter a prompt.').waitFor()
      await page.locator('summary', { hasText: 'Tools' }).click()
      await page.getByRole('textbox', { name: 'Tools' }).fill('{')
      await page.getByText('This is no JSON list.').waitFor()
      await check()
      assert.equal(await page.locator('.playground-column[data-state="idle"]').count(), 1)
    }))

  test('history is kept only where it was switched on', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, open }) => {
      const send = async (prompt: string) => {
        await page.getByLabel('Prompt', { exact: true }).fill(prompt)
        await page.keyboard.press('Control+Enter')
        await page.locator('.playground-column[data-state="done"]').waitFor()
      }
      const kept = () => page.evaluate(() => JSON.stringify(localStorage))
      await open('/dashboard/playground?with=alpha/big')
      await send('canary one')
      assert.doesNotMatch(await kept(), /canary/)
      await page.locator('summary', { hasText: 'History' }).click()
      await page.getByLabel('Keep prompts in this browser').check()
      await send(`canary two ${HOSTILE}`)
      await page.locator('.playground-history button').waitFor()
      await page.reload()
      await page.locator('summary', { hasText: 'History' }).click()
      await page.locator('.playground-history button').click()
      assert.match(await page.getByLabel('Prompt', { exact: true }).inputValue(), /^canary two/)
      await page.getByLabel('Keep prompts in this browser').uncheck()
      assert.doesNotMatch(await kept(), /canary/)
    }))

  test('a kept request is filled in, and programs are copied', () =>
    withDashboard(browser, { url: gateway.url }, async ({ page, context, open }) => {
      await context.grantPermissions(['clipboard-read', 'clipboard-write'])
      await open('/dashboard/playground?with=alpha/big')
      await page.getByLabel('Prompt', { exact: true }).fill('Explain SSE')
      await page.getByRole('button', { name: 'curl' }).click()
      await page.getByText('Copied').waitFor()
      await page.keyboard.press('Control+Enter')
      const link = column(page, 1).getByRole('link', { name: 'Open the request' })
      const id = (await link.getAttribute('href'))?.split('/').at(-1)?.split('?')[0]
      await column(page, 1).getByRole('list', { name: 'Attempts' }).waitFor()
      await open(`/dashboard/playground?request=${id}`)
      await page.getByText(new RegExp(`${id}`)).waitFor()
      assert.equal(await column(page, 1).getByLabel('Model or route').inputValue(), 'alpha/big')
    }))

  for (const { width, theme } of LOOKS)
    test(`is accessible ${width} and ${theme}`, () =>
      withDashboard(browser, { url: gateway.url, width, theme }, async ({ page, open, check, shot }) => {
        await open(TWO)
        await check()
        await page.getByLabel('Prompt', { exact: true }).fill('Explain SSE in one sentence.')
        await page.getByRole('button', { name: 'Send' }).click()
        await page.locator('.playground-column[data-state="done"]').first().waitFor()
        await page.getByRole('heading', { name: 'Comparison' }).waitFor()
        await check()
        await shot('playground')
      }))
})
