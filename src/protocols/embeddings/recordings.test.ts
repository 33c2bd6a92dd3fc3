/** Recorded embeddings: their dimensions, and which answers can pass through. Answers to clients: test/conformance. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { recordingsOf, requireRecordings, skipWithoutRecordings } from '../../../test/support/recordings.ts'
import { problemsOf } from '../../../test/support/schemas.ts'
import { isObject, list, object } from '../../core/json.ts'
import { decodeRequest } from './decode-request.ts'
import { openaiEmbeddings, openaiShape } from './openai.ts'
import { dimensionsOf, isDoubles, withEncoding } from './vectors.ts'

requireRecordings()

/** Perplexity returns bytes instead of floats, so it is not used for embeddings. */
const BYTES = 'perplexity'
/** vLLM returns 64-bit floats. */
const DOUBLES = 'local-openai-compatible'

describe('recorded embeddings', { skip: skipWithoutRecordings }, () => {
  const all = recordingsOf('embeddings')
  test('the number of recordings is as expected', () => assert.ok(all.length >= 17, String(all.length)))

  for (const { id, provider, status, request, response } of all) {
    if ((status ?? 200) >= 400) continue
    test(`${id}: an answer`, () => {
      const decoded = openaiEmbeddings.decodeAnswer(response)
      assert.ok(decoded.ok, JSON.stringify(decoded))
      const { vectors, model } = decoded.value
      const body = object(response)
      assert.equal(model, body?.model)
      if (provider === BYTES) return
      const embeddings = list(body?.data).map((entry) => object(entry)?.embedding)
      const doubles = provider === DOUBLES
      assert.equal(typeof embeddings[0] === 'string' && isDoubles(embeddings[0]), doubles)
      // The recordings truncate the vectors, all to the same length.
      assert.equal(new Set(vectors.map(dimensionsOf)).size, 1)
      for (const vector of vectors) {
        const numbers = withEncoding(vector, 'float')
        assert.ok(Array.isArray(numbers) && numbers.every((number) => Math.abs(number) < 1 && number !== 0), id)
      }
      const form = typeof embeddings[0] === 'string' ? 'base64' : 'float'
      assert.equal(openaiShape.isReadable(response, form), !doubles)
      assert.equal(openaiShape.isReadable(response, form === 'float' ? 'base64' : 'float'), false)
    })
    if (isObject(request))
      test(`${id}: a request`, () => {
        const read = decodeRequest(request)
        assert.ok(read.ok, JSON.stringify(read))
        const { input } = request
        const isSingle = typeof input === 'string' || list(input).every((entry) => typeof entry === 'number')
        assert.equal(read.value.inputs.length, isSingle ? 1 : list(input).length)
        assert.equal(problemsOf('openai', 'CreateEmbeddingRequest', request), undefined)
      })
  }
})
