import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  NO_SETTINGS,
  type PlaygroundSettings,
  requestOf,
  STYLES,
  settingsOf,
  wrongFields,
} from '../../../dashboard/src/playground/request.ts'
import { SNIPPETS, snippet } from '../../../dashboard/src/playground/snippets.ts'
import { NO_ANSWER, sseReader, wholeAnswer, withEvent } from '../../../src/core/shown-answer.ts'
import { piecesOf } from '../../support/answers.ts'
import type { UpstreamRequest } from '../../support/upstream.ts'

const FULL: PlaygroundSettings = {
  style: 'chat',
  system: 'Be brief.',
  prompt: "It's <b>\\ $HOME",
  temperature: '0.2',
  maxTokens: '200',
  stream: true,
  tools: JSON.stringify([{ name: 'weather', description: 'The weather', parameters: { type: 'object' } }], null, 2),
  schema: JSON.stringify({ type: 'object', properties: { a: { type: 'string' } } }, null, 2),
  earlier: JSON.stringify([{ role: 'user', content: 'Hi' }], null, 2),
  image: null,
}

describe('requests', () => {
  for (const style of STYLES) {
    test(`${style}: a request is read back as it was entered`, () => {
      const settings = { ...FULL, style }
      const { path, body } = requestOf(settings, 'm')
      assert.ok(path.startsWith('/'))
      assert.equal(body.model, 'm')
      assert.deepEqual(settingsOf(style, body), settings)
    })
    test(`${style}: empty fields are left out`, () => {
      const { body } = requestOf({ ...NO_SETTINGS, style, prompt: 'Hi', stream: false }, 'm')
      const expected = {
        chat: ['model', 'messages'],
        responses: ['model', 'input', 'store'],
        messages: ['model', 'max_tokens', 'messages'],
      }
      assert.deepEqual(Object.keys(body).sort(), expected[style].sort())
    })
    test(`${style}: an image is a part of the prompt`, () => {
      const image = 'data:image/png;base64,AAAA'
      const { body } = requestOf({ ...NO_SETTINGS, style, prompt: 'What is it?', image }, 'm')
      assert.match(JSON.stringify(body), style === 'messages' ? /"media_type":"image\/png","data":"AAAA"/ : /AAAA/)
      assert.equal(wrongFields({ ...NO_SETTINGS, style, image }).length, 0)
    })
  }
  test('any JSON can be filled in', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(...STYLES), (value, style) => {
        assert.equal(settingsOf(style, value).style, style)
        assert.equal(typeof settingsOf(style, { messages: value, input: value, tools: value }).prompt, 'string')
      }),
    )
  })
  test('wrong fields are named', () => {
    const bad = { prompt: ' ', temperature: '3', maxTokens: '0', tools: '{', schema: '[]', earlier: '{}' }
    assert.deepEqual(wrongFields({ ...NO_SETTINGS, ...bad }), Object.keys(bad))
    assert.deepEqual(wrongFields(FULL), [])
  })
})

const PATHS = { chat: '/v1/chat/completions', responses: '/v1/responses', messages: '/v1/messages' } as const
const requestFor = (style: keyof typeof PATHS) =>
  // The pieces depend on these members only.
  ({
    path: PATHS[style],
    method: 'POST',
    stream: true,
    headers: {},
    json: { model: 'm', stream_options: { include_usage: true } },
  }) as unknown as UpstreamRequest

describe('answers', () => {
  for (const style of STYLES)
    test(`${style}: a stream cut at any place is the same answer`, () => {
      const tools = [{ id: 'call_1', name: 'weather', arguments: '{"city":"Kyoto"}' }]
      const wire = piecesOf(requestFor(style), { text: 'Hello <b>world</b>', tools, input: 3, output: 5 }).join('')
      const run = (parts: readonly string[]) => {
        const next = sseReader()
        return parts.flatMap(next).reduce((answer, data) => withEvent(style, answer, data), NO_ANSWER)
      }
      const whole = run([wire])
      assert.equal(whole.text, 'Hello <b>world</b>')
      assert.deepEqual(Object.values(whole.calls), [{ name: 'weather', arguments: '{"city":"Kyoto"}' }])
      assert.deepEqual(whole.usage, { input: 3, output: 5 })
      for (let cut = 0; cut <= wire.length; cut++)
        assert.deepEqual(run([wire.slice(0, cut), wire.slice(cut)]), whole, `cut at ${cut}`)
    })

  test('whole answers of each style', () => {
    const usage = { input: 1, output: 2 }
    const chat = {
      choices: [{ message: { content: 'a' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 1, completion_tokens: 2 },
    }
    assert.deepEqual(wholeAnswer('chat', chat), { ...NO_ANSWER, text: 'a', finish: 'stop', usage })
    const content = [{ type: 'output_text', text: 'a' }]
    const responses = {
      status: 'completed',
      output: [{ type: 'message', content }],
      usage: { input_tokens: 1, output_tokens: 2 },
    }
    assert.deepEqual(wholeAnswer('responses', responses), { ...NO_ANSWER, text: 'a', finish: 'completed', usage })
    const blocks = [
      { type: 'text', text: 'a' },
      { type: 'tool_use', name: 'f', input: { b: 1 } },
    ]
    const messages = { content: blocks, stop_reason: 'tool_use', usage: { input_tokens: 1, output_tokens: 2 } }
    const calls = { 1: { name: 'f', arguments: '{"b":1}' } }
    assert.deepEqual(wholeAnswer('messages', messages), { ...NO_ANSWER, text: 'a', calls, finish: 'tool_use', usage })
  })

  test('an error in a stream is kept as it came', () => {
    const error = '{"error":{"message":"<img src=x>"}}'
    assert.match(withEvent('chat', NO_ANSWER, error).error ?? '', /<img src=x>/)
    assert.match(withEvent('messages', NO_ANSWER, '{"type":"error","error":{}}').error ?? '', /error/)
  })

  test('no event is a reason to fail', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(...STYLES), (value, style) => {
        withEvent(style, NO_ANSWER, JSON.stringify(value))
        wholeAnswer(style, value)
      }),
    )
    assert.equal(withEvent('chat', NO_ANSWER, '[DONE]'), NO_ANSWER)
  })
})

describe('programs', () => {
  const gateway = { url: 'http://127.0.0.1:3000', key: 'any' }
  test('curl sends the body as it was built', () => {
    const program = snippet('curl', FULL, "m'<", gateway).replace(/^curl/, 'printf "%s\\n" --')
    const printed = execFileSync('sh', ['-c', program], { encoding: 'utf8' })
    assert.deepEqual(JSON.parse(printed.slice(printed.indexOf('\n{'))), requestOf(FULL, "m'<").body)
  })
  test('Python has its own literals, and the SDK of the style', () => {
    const program = snippet('python', { ...FULL, style: 'responses' }, 'm', gateway)
    assert.match(program, /from openai import OpenAI/)
    assert.match(program, /stream=True,/)
    assert.match(program, /store=False,/)
    assert.doesNotMatch(program, /: (?:true|false|null)\b/)
    assert.match(snippet('python', { ...FULL, style: 'messages' }, 'm', gateway), /from anthropic import Anthropic/)
  })
  test('all contain the model and the address', () => {
    for (const name of SNIPPETS)
      for (const style of STYLES) {
        const program = snippet(name, { ...FULL, style }, 'a/b', gateway)
        assert.ok(program.includes('a/b') && program.includes(gateway.url), name)
      }
  })
})
