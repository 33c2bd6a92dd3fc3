/** OpenAI's legacy completions with the official SDKs, over upstreams of three formats. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import OpenAI from 'openai'
import { skipPython, testPython } from './support/python.ts'
import { KINDS, type Kind, startThreeKinds, TEXT, type ThreeKinds } from './support/three-kinds.ts'

let kinds: ThreeKinds
let client: OpenAI
before(async () => {
  kinds = await startThreeKinds()
  client = new OpenAI({ baseURL: kinds.gateway.base, apiKey: 'any', maxRetries: 0 })
})
after(() => kinds.stop())

const PROMPT = 'Once upon a time'

for (const kind of Object.keys(KINDS) as Kind[])
  describe(`completions over a ${kind} upstream`, () => {
    const model = (name: string) => `${KINDS[kind]}/${name}`

    test('a text', async () => {
      const { data, response } = await client.completions
        .create({ model: model('text'), prompt: [PROMPT], max_tokens: 99, temperature: 0.3, best_of: 2 })
        .withResponse()
      assert.equal(data.object, 'text_completion')
      assert.equal(data.model, 'text')
      assert.deepEqual(data.choices, [{ text: TEXT, index: 0, logprobs: null, finish_reason: 'stop' }])
      assert.deepEqual(
        [data.usage?.prompt_tokens, data.usage?.completion_tokens, data.usage?.total_tokens],
        [21, 7, 28],
      )
      assert.equal(response.headers.get('x-headgate-provider'), KINDS[kind])
      assert.equal(response.headers.get('x-headgate-dropped'), 'best_of')
      const { json, body } = kinds.last(kind)
      assert.equal(json.temperature, 0.3)
      assert.equal(json.max_completion_tokens ?? json.max_output_tokens ?? json.max_tokens, 99)
      assert.ok(body.includes(PROMPT))
    })

    for (const wanted of [true, false])
      test(`a stream, ${wanted ? 'with' : 'without'} usage`, async () => {
        const stream = await client.completions.create({
          model: model('text'),
          prompt: PROMPT,
          echo: true,
          stream: true,
          ...(wanted && { stream_options: { include_usage: true } }),
        })
        let text = ''
        const reasons: string[] = []
        const totals: number[] = []
        for await (const chunk of stream) {
          assert.equal(chunk.object, 'text_completion')
          for (const choice of chunk.choices) {
            text += choice.text
            // Typed as non-null, but null until the last chunk.
            const reason: string | null = choice.finish_reason
            if (reason !== null) reasons.push(reason)
          }
          if (chunk.usage) totals.push(chunk.usage.total_tokens)
        }
        assert.equal(text, PROMPT + TEXT)
        assert.deepEqual(reasons, ['stop'])
        assert.deepEqual(totals, wanted ? [28] : [])
      })

    test('a truncated text', async () => {
      const { choices } = await client.completions.create({ model: model('cut'), prompt: PROMPT })
      assert.equal(choices[0]?.finish_reason, 'length')
    })

    test('a broken stream raises an error', async () => {
      const stream = await client.completions.create({ model: model('breaks'), prompt: PROMPT, stream: true })
      let text = ''
      await assert.rejects(async () => {
        for await (const chunk of stream) text += chunk.choices[0]?.text ?? ''
      }, OpenAI.APIError)
      assert.ok(TEXT.repeat(3).startsWith(text) && text !== '')
    })

    test('a rejection by the upstream', async () => {
      await assert.rejects(client.completions.create({ model: model('bad'), prompt: PROMPT }), OpenAI.BadRequestError)
    })
  })

test('completions: unsupported members are rejected by name', async () => {
  const cases: [string, Partial<OpenAI.CompletionCreateParamsNonStreaming>][] = [
    ['prompt', { prompt: [[1, 2, 3]] }],
    ['n', { n: 2 }],
    ['suffix', { suffix: 'The end.' }],
  ]
  for (const [param, more] of cases)
    await assert.rejects(client.completions.create({ model: 'chatty/text', prompt: PROMPT, ...more }), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError)
      assert.deepEqual([error.param, error.code], [param, 'unsupported_parameter'])
      return true
    })
})

test('completions: also without /v1', async () => {
  const answer = await fetch(`${kinds.gateway.url}/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'chatty/text', prompt: PROMPT }),
  })
  assert.equal(answer.status, 200)
})

test('completions: the SDK for Python', { skip: skipPython() }, (t) => {
  const given = { base: kinds.gateway.base, kinds: Object.values(KINDS), text: TEXT }
  return testPython(t, { script: 'completions.py', given, cases: 9 })
})
