import assert from 'node:assert/strict'
import { test } from 'node:test'
import { statusOf } from '../../policy/reply/final-error.ts'
import { upstreamProtocols } from '../index.ts'
import { decodeRequest } from './decode-request.ts'

const MINIMAL = { model: 'm', prompt: 'Once upon a time' }
const message = (text: string) => [{ role: 'user', at: 'prompt', content: [{ type: 'text', at: 'prompt', text }] }]

const good: readonly (readonly [string, object, object])[] = [
  ['a prompt', MINIMAL, { model: 'm', stream: false, messages: message('Once upon a time'), extras: [], settings: {} }],
  ['a list with one prompt', { ...MINIMAL, prompt: ['Once'] }, { messages: message('Once') }],
  [
    'settings shared with chat',
    {
      ...MINIMAL,
      max_tokens: 20,
      temperature: 0.7,
      top_p: 1,
      stop: '.',
      seed: 1,
      presence_penalty: 0.5,
      frequency_penalty: 0.5,
      logit_bias: { '50256': -100 },
      logprobs: 2,
      user: 'u',
    },
    {
      settings: {
        maxOutputTokens: { value: 20, at: 'max_tokens' },
        temperature: { value: 0.7, at: 'temperature' },
        topP: { value: 1, at: 'top_p' },
        stop: { value: ['.'], at: 'stop' },
        seed: { value: 1, at: 'seed' },
        presencePenalty: { value: 0.5, at: 'presence_penalty' },
        frequencyPenalty: { value: 0.5, at: 'frequency_penalty' },
        logitBias: { value: { '50256': -100 }, at: 'logit_bias' },
        logprobs: { value: true, at: 'logprobs' },
        topLogprobs: { value: 2, at: 'logprobs' },
        user: { value: 'u', at: 'user' },
      },
      extras: [],
    },
  ],
  // LangChain sends every member it knows, most of them null (recordings of its clients).
  [
    'null and neutral values',
    {
      ...MINIMAL,
      n: 1,
      best_of: 1,
      echo: false,
      suffix: null,
      logprobs: null,
      seed: null,
      stop: null,
      presence_penalty: 0,
      frequency_penalty: 0.0,
      logit_bias: {},
    },
    { settings: {}, extras: [] },
  ],
  [
    'log probabilities without alternatives',
    { ...MINIMAL, logprobs: 0 },
    { settings: { logprobs: { value: true, at: 'logprobs' } } },
  ],
  [
    'a stream with usage',
    { ...MINIMAL, stream: true, stream_options: { include_usage: true } },
    { stream: true, settings: { streamUsage: { value: true, at: 'stream_options.include_usage' } } },
  ],
  ['echo of the prompt', { ...MINIMAL, echo: true }, { settings: {}, extras: [] }],
  ['best_of', { ...MINIMAL, best_of: 3 }, { extras: [{ at: 'best_of', name: 'best_of', value: 3, essential: false }] }],
  [
    'an unknown member',
    { ...MINIMAL, min_p: 0.1 },
    { extras: [{ at: 'min_p', name: 'min_p', value: 0.1, essential: false }] },
  ],
]
for (const [name, body, expected] of good)
  test(`completions request: ${name}`, () => {
    const read = decodeRequest({ ...body })
    assert.ok(read.ok, JSON.stringify(read))
    const { value } = read
    // Compares only the members that the row lists.
    const named = Object.fromEntries(Object.keys(expected).map((key) => [key, value[key as keyof typeof value]]))
    assert.deepEqual(named, expected)
    for (const protocol of Object.values(upstreamProtocols)) {
      const { losses } = protocol.encodeRequest(value, { model: 'm', outputLimit: 4_096 })
      assert.deepEqual(
        losses.filter(({ essential }) => essential),
        [],
        protocol.name,
      )
    }
  })

const wrong: readonly (readonly [string, object, string, kind: string, RegExp])[] = [
  ['no model', { prompt: 'x' }, 'model', 'missing_parameter', /missing/],
  ['no prompt', { model: 'm' }, 'prompt', 'missing_parameter', /missing/],
  ['an empty prompt', { ...MINIMAL, prompt: '' }, 'prompt', 'invalid_value', /empty string/],
  ['a list with an empty prompt', { ...MINIMAL, prompt: [''] }, 'prompt', 'invalid_value', /text to complete/],
  ['an empty list of prompts', { ...MINIMAL, prompt: [] }, 'prompt', 'invalid_value', /empty list/],
  ['a number as prompt', { ...MINIMAL, prompt: 7 }, 'prompt', 'invalid_value', /string/],
  ['an object as prompt', { ...MINIMAL, prompt: {} }, 'prompt', 'invalid_value', /string/],
  ['a prompt of tokens', { ...MINIMAL, prompt: [755, 16178] }, 'prompt', 'unsupported', /Send text/],
  ['several prompts of tokens', { ...MINIMAL, prompt: [[755], [1471, 997]] }, 'prompt', 'unsupported', /Send text/],
  ['a list with one prompt of tokens', { ...MINIMAL, prompt: [[755]] }, 'prompt', 'unsupported', /Send text/],
  ['several prompts', { ...MINIMAL, prompt: ['a', 'b'] }, 'prompt', 'unsupported', /one request per prompt/],
  ['a suffix', { ...MINIMAL, suffix: 'the end' }, 'suffix', 'unsupported', /suffix/],
  ['several completions', { ...MINIMAL, n: 2 }, 'n', 'unsupported', /once per completion/],
  ['zero completions', { ...MINIMAL, n: 0 }, 'n', 'invalid_value', /from 1/],
  ['a limit of zero tokens', { ...MINIMAL, max_tokens: 0 }, 'max_tokens', 'unsupported', /at least 1/],
  ['a negative limit', { ...MINIMAL, max_tokens: -1 }, 'max_tokens', 'invalid_value', /at least 0/],
  [
    'log probabilities of the prompt',
    { ...MINIMAL, echo: true, logprobs: 1 },
    'echo',
    'unsupported',
    /log probabilities/,
  ],
  ['an echo that is not a boolean', { ...MINIMAL, echo: 'yes' }, 'echo', 'invalid_value', /true or false/],
  ['stops that are not strings', { ...MINIMAL, stop: [1] }, 'stop', 'invalid_value', /strings/],
  ['a seed that is not a number', { ...MINIMAL, seed: 'x' }, 'seed', 'invalid_value', /whole number/],
]
for (const [name, body, param, kind, message] of wrong)
  test(`completions request: rejects ${name}`, () => {
    const read = decodeRequest({ ...body })
    assert.ok(!read.ok)
    assert.equal(read.failure.param, param)
    assert.equal(read.failure.kind, kind)
    assert.match(read.failure.message, message)
    assert.equal(statusOf(read.failure), 400)
  })
