import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JsonObject } from '../core/json.ts'
import type { Instance, Provider } from '../core/provider.ts'
import { byStyle } from '../protocols/index.ts'
import { prepare } from './prepare.ts'
import { ask } from './question.ts'

/** A vendor that gives up whatever it is told to, by its own names. */
const givesUp = (...paths: readonly string[]): Provider => ({
  name: 'strict',
  title: 'Strict',
  order: 1,
  speaks: [{ protocol: 'anthropic-messages' }],
  auth: 'none',
  quirks: {
    requestBody(body, _model, lost) {
      for (const path of paths) lost(path)
      return body
    },
  },
})

const dropped = (style: string, body: JsonObject, ...paths: readonly string[]): readonly string[] => {
  const protocol = byStyle.get(style)
  assert.ok(protocol)
  const question = ask(protocol, JSON.stringify(body), () => undefined)
  assert.ok(question.ok)
  const provider = givesUp(...paths)
  const instance: Instance = {
    id: 'strict',
    provider,
    baseUrl: 'https://strict.example/v1',
    keys: [{ id: '0000', secret: null, weight: 1 }],
    models: [],
    speaks: provider.speaks,
    variables: {},
  }
  const prepared = prepare(
    question.value,
    { instance, model: 'm', because: 'asked', weight: 1 },
    { maxOutputTokens: 4_096 },
  )
  assert.ok(prepared)
  return prepared.dropped
}

const hello = { model: 'any', input: 'hello' }
const format = {
  type: 'json_schema',
  name: 'n',
  schema: { type: 'object', properties: {}, additionalProperties: false },
}
const cases: readonly (readonly [name: string, style: string, body: JsonObject, gives: string[], told: string[]])[] = [
  [
    'by the same name',
    'messages',
    { model: 'any', max_tokens: 9, messages: [{ role: 'user', content: 'x' }], top_k: 3 },
    ['top_k'],
    ['top_k'],
  ],
  ['by the name it came from', 'responses', { ...hello, temperature: 1 }, ['temperature'], ['temperature']],
  ['by another name', 'responses', { ...hello, max_output_tokens: 99 }, ['max_tokens'], ['max_output_tokens']],
  ['below a list', 'responses', hello, ['messages[0].content'], ['input[0].content']],
  [
    'inside another, each by its own',
    'responses',
    { ...hello, reasoning: { effort: 'low', summary: 'auto' }, text: { format } },
    ['output_config.effort', 'output_config.format.schema', 'thinking.display'],
    ['reasoning.effort', 'text.format.schema', 'reasoning.summary'],
  ],
  ['that came from nowhere, as it is', 'responses', hello, ['speed'], ['speed']],
]
for (const [name, style, body, gives, told] of cases)
  test(`prepare: what a provider gives up is named ${name}`, () =>
    assert.deepEqual(dropped(style, body, ...gives), told))
