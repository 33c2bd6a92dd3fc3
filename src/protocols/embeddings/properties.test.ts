/** Random input of clients and upstreams: nothing throws, and decoded vectors are valid. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Json, JsonObject } from '../../core/json.ts'
import { decodeRequest as decodeCompletion } from '../openai-completions/decode-request.ts'
import { decodeRequest } from './decode-request.ts'
import { embeddingsProtocols } from './index.ts'
import { openaiShape } from './openai.ts'
import { dimensionsOf, withEncoding } from './vectors.ts'

const json = fc.jsonValue({ maxDepth: 3 }).map((value) => value as Json)
/** Vectors, and other values. */
const vector = fc.oneof(fc.array(fc.double(), { maxLength: 4 }), fc.base64String(), json)
const maybeVector = fc.oneof({ weight: 3, arbitrary: vector }, { weight: 1, arbitrary: json })
const bodies = fc.oneof(
  json,
  fc.record({
    data: fc.array(fc.record({ index: fc.oneof(fc.nat(3), json), embedding: maybeVector }), { maxLength: 3 }),
    usage: fc.oneof(fc.record({ prompt_tokens: json }), json),
    model: json,
  }),
  fc.record({ embeddings: fc.array(fc.oneof(fc.record({ values: maybeVector }), json), { maxLength: 3 }) }),
  fc.record({ embeddings: fc.record({ float: fc.array(maybeVector, { maxLength: 3 }) }), meta: json }),
  fc.record({ predictions: fc.array(fc.record({ embeddings: fc.record({ values: maybeVector, statistics: json }) })) }),
)

for (const format of Object.values(embeddingsProtocols))
  test(`embeddings: ${format.name} decodes any answer without throwing`, () => {
    fc.assert(
      fc.property(bodies, fc.nat(599), (body, status) => {
        // As JSON.parse returns it; JSON has null for NaN and infinity.
        const parsed: Json = JSON.parse(JSON.stringify(body) ?? 'null')
        format.decodeFailure(status, parsed, () => undefined)
        const answer = format.decodeAnswer(parsed)
        if (!answer.ok) return assert.equal(typeof answer.failure.message, 'string')
        for (const encoding of ['float', 'base64'] as const) {
          const written = openaiShape.encodeAnswer(answer.value, { encoding, model: 'm' })
          if (answer.value.vectors.every((vector) => dimensionsOf(vector) < 8))
            assert.ok(openaiShape.isReadable(written, encoding))
          openaiShape.isReadable(parsed, encoding)
        }
        for (const vector of answer.value.vectors) {
          assert.ok(dimensionsOf(vector) > 0)
          assert.equal(withEncoding(vector, 'float').length, dimensionsOf(vector))
        }
      }),
      { numRuns: 1_000, seed: 7 },
    )
  })

for (const [name, decode] of [
  ['embeddings', decodeRequest],
  ['completions', decodeCompletion],
] as const)
  test(`${name}: decodes any request, or names the invalid parameter`, () => {
    const members = fc.dictionary(
      fc.constantFrom(
        'model',
        'input',
        'prompt',
        'n',
        'stop',
        'echo',
        'logprobs',
        'dimensions',
        'user',
        'input_type',
        'x',
      ),
      fc.oneof(json, fc.constantFrom('a', 1, true, ['a'], [1])),
    )
    fc.assert(
      fc.property(members, (body) => {
        const parsed: JsonObject = JSON.parse(JSON.stringify(body))
        const read = decode(parsed)
        if (!read.ok) assert.ok(read.failure.param !== undefined && read.failure.message !== '')
      }),
      { numRuns: 1_000, seed: 7 },
    )
  })
