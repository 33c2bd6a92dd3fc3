/** Kept bodies in the dashboard: which requests have them, and their conversations in the styles of four real clients. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { type Started, start } from '../e2e/support/process.ts'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { skipBrowser, startBrowser } from './support/chromium.ts'
import { LOOKS, withDashboard } from './support/dashboard.ts'
import { HOSTILE } from './support/traffic.ts'

const LIST = '/dashboard/requests'
const PIXEL = `data:image/png;base64,iVBORw0KGgo${'A'.repeat(3_000)}`
const ANSWER = `The **forecast** is:\n\n- rain\n- ${HOSTILE}`
const EMBEDDINGS = {
  object: 'list',
  model: 'small',
  data: [0, 1].map((index) => ({ object: 'embedding', index, embedding: [0.25, 0.5] })),
  usage: { prompt_tokens: 4, total_tokens: 4 },
}
const CALL = { id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Bergen"}' } }

/** The bodies of clients: a question with a picture, a call of a tool and its result. */
const BODIES = {
  '/v1/chat/completions': {
    model: 'openai/small',
    messages: [
      { role: 'system', content: 'You are a weather service.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is on this map?' },
          { type: 'image_url', image_url: { url: PIXEL } },
        ],
      },
      { role: 'assistant', content: null, tool_calls: [CALL] },
      { role: 'tool', tool_call_id: 'call_1', content: 'rain, 7 degrees' },
    ],
  },
  '/v1/responses': {
    model: 'openai/small',
    instructions: 'You are a weather service.',
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'What is on this map?' },
          { type: 'input_image', image_url: PIXEL },
        ],
      },
      { type: 'function_call', call_id: 'call_1', name: 'get_weather', arguments: '{"city":"Bergen"}' },
      { type: 'function_call_output', call_id: 'call_1', output: 'rain, 7 degrees' },
    ],
  },
  '/v1/messages': {
    model: 'openai/small',
    max_tokens: 100,
    stream: true,
    system: 'You are a weather service.',
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is on this map?' },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PIXEL.slice(22) } },
        ],
      },
      {
        role: 'assistant',
        content: [{ type: 'tool_use', id: 'call_1', name: 'get_weather', input: { city: 'Bergen' } }],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: 'rain, 7 degrees' }] },
    ],
  },
  '/v1beta/models/openai/small:streamGenerateContent?alt=sse': {
    systemInstruction: { parts: [{ text: 'You are a weather service.' }] },
    contents: [
      {
        role: 'user',
        parts: [{ text: 'What is on this map?' }, { inlineData: { mimeType: 'image/png', data: PIXEL.slice(22) } }],
      },
      { role: 'model', parts: [{ functionCall: { name: 'get_weather', args: { city: 'Bergen' } } }] },
      {
        role: 'user',
        parts: [{ functionResponse: { name: 'get_weather', response: { weather: 'rain, 7 degrees' } } }],
      },
    ],
  },
} as const

describe('conversations', { skip: skipBrowser, concurrency: false }, () => {
  let browser: Browser
  let upstream: Upstream
  let gateway: Started
  const ids = new Map<string, string>()
  const send = async (path: string, body: unknown, headers: Readonly<Record<string, string>> = {}): Promise<string> => {
    const response = await fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    })
    assert.equal(response.status, 200, `${path}: ${response.ok || (await response.text())}`)
    await response.text()
    return response.headers.get('x-request-id') ?? ''
  }
  before(async () => {
    ;[browser, upstream] = await Promise.all([
      startBrowser(),
      startUpstream((request) =>
        request.path.endsWith('/embeddings')
          ? { do: 'answer', body: EMBEDDINGS }
          : answerWith(request, { text: ANSWER, input: 20, output: 10 }),
      ),
    ])
    gateway = await start({
      env: {
        OPENAI_API_KEY: 'sk-test-0123456789',
        OPENAI_BASE_URL: `${upstream.url}/v1`,
        OPENAI_MODELS: 'small',
        BODIES_SAMPLE: '1',
      },
    })
    for (const [path, body] of Object.entries(BODIES)) ids.set(path, await send(path, body))
  })
  after(() => Promise.all([browser?.close(), gateway?.stop(), upstream?.close()]))

  for (const [at, path] of Object.keys(BODIES).entries())
    test(`${path} is a conversation`, () =>
      withDashboard(browser, { url: gateway.url, ...LOOKS[at % LOOKS.length] }, async ({ page, open, check, shot }) => {
        await open(`${LIST}/${ids.get(path)}`)
        await page.locator('.sheet summary', { hasText: 'Conversation' }).click()
        const turns = page.locator('.turn')
        await turns.last().locator('.markdown li').first().waitFor()
        assert.deepEqual(
          await turns.locator('h4').allTextContents(),
          ['System', 'User', 'Model', 'Model'].slice(0, await turns.count()),
        )
        assert.match((await turns.nth(1).textContent()) ?? '', /What is on this map\?.*image\/png, \d+ bytes/)
        const tool = page.locator('.turn-tool')
        await tool.getByText('Calls get_weather').click()
        await tool.getByText('"city": "Bergen"').waitFor()
        await tool.getByText('Result', { exact: true }).click()
        await tool.getByText(/rain, 7 degrees/).waitFor()
        assert.equal(await turns.last().locator('strong').textContent(), 'forecast')
        assert.ok((await turns.last().textContent())?.includes('<img src=x onerror='))
        assert.equal(await page.locator('main img, main script, aside img, aside script').count(), 0)
        await check()
        await shot('conversation')
        await page.locator('.sheet summary', { hasText: 'JSON, headers and events' }).click()
        await page.locator('.sheet-bodies summary', { hasText: 'Request /v1' }).first().click()
        await page.locator('.sheet-bodies pre', { hasText: 'What is on this map?' }).first().waitFor()
      }))

  test('rows with kept bodies are marked, and the list and the API find them', async () => {
    const without = await send('/v1/chat/completions', BODIES['/v1/chat/completions'], { 'x-headgate-no-log': '1' })
    const read = async (query: string) =>
      (await (await fetch(`${gateway.url}/admin/api/v1/requests?${query}`)).json()) as {
        readonly data: readonly { readonly id: string; readonly bodies?: boolean }[]
        readonly count?: { readonly value: number }
        readonly next: string | null
      }
    const kept = [...ids.values()].toReversed()
    for (const end = performance.now() + 60_000; performance.now() < end; )
      if ((await read('')).data.some(({ id }) => id === without)) break
    const marks = new Map((await read('')).data.map(({ id, bodies }) => [id, bodies]))
    assert.equal(marks.get(without), false)
    for (const id of kept) assert.equal(marks.get(id), true)
    const found = await read('bodies=kept&count=true')
    assert.deepEqual(
      found.data.map(({ id }) => id),
      kept,
    )
    assert.equal(found.count?.value, kept.length)
    // Pages continue, and other filters hold.
    const first = await read('bodies=kept&limit=1')
    const second = await read(`bodies=kept&limit=1&after=${first.next}`)
    assert.deepEqual([first.data[0]?.id, second.data[0]?.id], kept.slice(0, 2))
    assert.deepEqual((await read('bodies=kept&result=refused')).data, [])
    await withDashboard(browser, { url: gateway.url }, async ({ page, open, check, shot }) => {
      await open(LIST)
      await page
        .locator('.kept-mark')
        .nth(kept.length - 1)
        .waitFor()
      assert.equal(await page.locator('.kept-mark').count(), kept.length)
      await shot('kept-marks')
      await page.getByRole('button', { name: 'More' }).click()
      await page.locator('summary', { hasText: /^Bodies$/ }).click()
      await page.getByRole('radio', { name: 'kept' }).click()
      await page.waitForURL(/bodies=kept/)
      await page.locator(`table[aria-rowcount="${kept.length + 1}"]`).waitFor()
      await check()
    })
  })

  test('a body that is no conversation is shown as JSON, with the reason', async () => {
    const id = await send('/v1/embeddings', { model: 'openai/small', input: ['first text', 'second text'] })
    await withDashboard(browser, { url: gateway.url }, async ({ page, open, check }) => {
      await open(`${LIST}/${id}`)
      await page.locator('.sheet summary', { hasText: 'Conversation' }).click()
      await page.locator('.turn', { hasText: 'second text' }).waitFor()
      await page.getByText('Answer: shown below as JSON only.').waitFor()
      await check()
    })
  })
})
