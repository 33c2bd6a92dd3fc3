/** The process as a user starts it, without any configuration: one request in every client style, whole and streamed. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { post, type Started, start } from './support/process.ts'

const DEMO = /\[demo\] No model was called\./
const messages = [{ role: 'user', content: 'hello' }]

type Style = {
  readonly name: string
  readonly path: string
  readonly body: object
  /** The text of a whole answer. */
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into bodies of every shape
  readonly textOf: (body: any) => unknown
  /** How a complete stream ends. */
  readonly end: RegExp
}

const STYLES: readonly Style[] = [
  {
    name: 'chat completions',
    path: '/chat/completions',
    body: { messages },
    textOf: (body) => body.choices[0].message.content,
    end: /"finish_reason":"stop"[\s\S]*data: \[DONE\]\n\n$/,
  },
  {
    name: 'responses',
    path: '/responses',
    body: { input: 'hello' },
    textOf: (body) => body.output[0].content[0].text,
    end: /event: response\.completed\n[\s\S]*data: \[DONE\]\n\n$/,
  },
  {
    name: 'messages',
    path: '/messages',
    body: { messages, max_tokens: 100 },
    textOf: (body) => body.content[0].text,
    end: /event: message_stop\n[\s\S]*\n\n$/,
  },
  {
    name: 'completions',
    path: '/completions',
    body: { prompt: 'hello' },
    textOf: (body) => body.choices[0].text,
    end: /"finish_reason":"stop"[\s\S]*data: \[DONE\]\n\n$/,
  },
]

describe('quick: a started gateway answers in every style', () => {
  let gateway: Started
  before(async () => {
    gateway = await start()
  })
  after(() => gateway.stop())

  for (const { name, path, body, textOf, end } of STYLES) {
    test(name, async () => {
      const answer = await post(gateway.base + path, { model: 'demo/echo', ...body })
      assert.equal(answer.status, 200, answer.text)
      assert.match(String(textOf(answer.json())), DEMO)
    })
    test(`${name}, streamed`, async () => {
      const answer = await post(gateway.base + path, { model: 'demo/echo', stream: true, ...body })
      assert.equal(answer.status, 200, answer.text)
      assert.match(answer.headers.get('content-type') ?? '', /^text\/event-stream/)
      assert.match(answer.text, end)
    })
  }

  test('models, health and the reference are served', async () => {
    for (const path of ['/v1/models', '/health', '/openapi.json', '/providers/status'])
      assert.equal((await fetch(gateway.url + path)).status, 200, path)
  })
})
