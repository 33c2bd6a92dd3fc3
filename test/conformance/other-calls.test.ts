/** Recorded answers of other calls than chat: embeddings in both encodings, token counts, and model lists. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { loadProviders } from '../../src/config/catalogue/load-providers.ts'
import type { EmbeddingsProtocolName } from '../../src/core/embeddings.ts'
import { isList, isObject, type Json, type JsonObject, list, number, object, text } from '../../src/core/json.ts'
import type { Instance } from '../../src/core/provider.ts'
import { FetchedModelLists } from '../../src/gateway/handlers/model-lists.ts'
import { anthropicMessages } from '../../src/protocols/anthropic-messages/index.ts'
import { embeddingsProtocols } from '../../src/protocols/embeddings/index.ts'
import { openaiShape } from '../../src/protocols/embeddings/openai.ts'
import { type Recording, requireRecordings, skipWithoutRecordings } from '../support/recordings.ts'
import { problemsOf } from '../support/schemas.ts'
import { stillWorld } from '../support/still-world.ts'
import { indexRecordings } from './recording-index.ts'
import { Tally } from './tally.ts'

const all = indexRecordings()
const tally = new Tally('other calls')
const nameOf = ({ id }: Recording): string => id
const isError = ({ status }: Recording): boolean => (status ?? 200) >= 400
const none = () => undefined

// ── Embeddings ───────────────────────────────────────────────────────────────────────────────────────────────────

/** The numbers of a vector: a JSON list, or base64 with floats of 32 bits (of 64 bits in one recording of vLLM). */
const numbersIn = (vector: Json | undefined, size: 4 | 8): number[] => {
  if (isList(vector)) return vector.map((one) => number(one) ?? Number.NaN)
  const bytes = Buffer.from(text(vector) ?? '', 'base64')
  const offsets = Array.from({ length: bytes.length / size }, (_, at) => at * size)
  return offsets.map((at) => (size === 4 ? bytes.readFloatLE(at) : bytes.readDoubleLE(at)))
}

/** The vectors and the token count, read without the codecs. */
const REFERENCE: { readonly [name in EmbeddingsProtocolName]: (body: JsonObject) => [vectors: Json[], count?: Json] } =
  {
    'openai-embeddings': ({ data, usage }) => [
      list(data).map((entry) => object(entry)?.embedding ?? null),
      object(usage)?.prompt_tokens ?? null,
    ],
    'gemini-embeddings': ({ embeddings, usageMetadata }) => [
      list(embeddings).map((entry) => object(entry)?.values ?? null),
      object(usageMetadata)?.promptTokenCount ?? null,
    ],
    'cohere-embeddings': ({ embeddings, meta }) => [
      [...list(object(embeddings)?.float)],
      object(object(meta)?.billed_units)?.input_tokens ?? null,
    ],
    'vertex-embeddings': ({ predictions }) => {
      const made = list(predictions).map((entry) => object(object(entry)?.embeddings))
      const counts = made.map((entry) => number(object(entry?.statistics)?.token_count) ?? 0)
      return [made.map((entry) => entry?.values ?? null), counts.reduce((sum, count) => sum + count, 0)]
    },
  }

const checkEmbeddings = (name: EmbeddingsProtocolName, { provider, response }: Recording, form: 'float' | 'base64') => {
  const decoded = embeddingsProtocols[name].decodeAnswer(response)
  assert.ok(decoded.ok, JSON.stringify(decoded))
  const [vectors, count] = REFERENCE[name](object(response) ?? {})
  const expected = vectors.map((vector) => numbersIn(vector, provider === 'local-openai-compatible' ? 8 : 4))
  assert.ok(expected.length > 0)
  const body = openaiShape.encodeAnswer(decoded.value, { encoding: form, model: 'm' })
  if (form === 'float') assert.equal(problemsOf('openai', 'CreateEmbeddingResponse', body), undefined)
  // Base64 has floats of 32 bits.
  const short = (numbers: readonly number[]) => numbers.map((one) => (form === 'base64' ? Math.fround(one) : one))
  const received = list(body.data).map((entry) => object(entry)?.embedding)
  assert.deepEqual(
    received.map((vector) => [typeof vector, numbersIn(vector, 4)]),
    expected.map((numbers) => [form === 'base64' ? 'string' : 'object', short(numbers)]),
  )
  if (typeof count === 'number') assert.equal(object(body.usage)?.prompt_tokens, count)
  return undefined
}

requireRecordings()

describe('recorded embeddings', { skip: skipWithoutRecordings }, () => {
  for (const { name, decodeFailure } of Object.values(embeddingsProtocols)) {
    const own = all.flatMap(({ recording, classification }) =>
      classification.is === 'embeddings' && classification.protocol.name === name ? [recording] : [],
    )
    const style = name.replace('-', ' ')
    for (const form of ['float', 'base64'] as const)
      test(`${style}, encoded as ${form}`, () => {
        const answers = own.filter((one) => !isError(one))
        assert.ok(answers.length > 0)
        const wrong = tally.checkEach(`${style} → ${form}`, answers, nameOf, (one) => checkEmbeddings(name, one, form))
        assert.equal(wrong.length, 0, wrong.join('\n'))
      })
    const errors = own.filter(isError)
    if (errors.length > 0)
      test(`${style}: errors`, () => {
        const wrong = tally.checkEach(`${style} errors`, errors, nameOf, ({ status, response }) => {
          const failure = decodeFailure(status ?? 0, response, none)
          assert.equal(failure.kind, { 401: 'auth', 404: 'model_missing' }[status ?? 0] ?? 'incompatible')
          assert.equal(failure.message, text(object(object(response)?.error)?.message))
          return undefined
        })
        assert.equal(wrong.length, 0, wrong.join('\n'))
      })
  }
})

// ── Token counts ─────────────────────────────────────────────────────────────────────────────────────────────────

test('recorded token counts', { skip: skipWithoutRecordings }, () => {
  const { counting, decodeFailure } = anthropicMessages
  assert.ok(counting)
  const counts = all.flatMap(({ recording, classification }) => (classification.is === 'count' ? [recording] : []))
  const wrong = tally.checkEach('messages token counts', counts, nameOf, ({ status, request, response }) => {
    if (status !== 200) {
      assert.equal(decodeFailure(status ?? 0, response, none).kind, 'model_missing')
      return undefined
    }
    assert.ok(isObject(request) && counting.decodeRequest(request).ok)
    const tokens = counting.decodeAnswer(response)
    assert.deepEqual(counting.encodeAnswer(tokens ?? -1), response)
    return undefined
  })
  assert.equal(wrong.length, 0, wrong.join('\n'))
})

// ── Model lists ──────────────────────────────────────────────────────────────────────────────────────────────────

/** A provider whose list is used unchanged; others exclude models that are not for chat. */
const provider = [...(await loadProviders()).values()].find(({ models }) => models && !models.decode)
assert.ok(provider)
const instance: Instance = {
  id: 'example',
  provider,
  baseUrl: 'http://127.0.0.1:9/v1',
  keys: [{ id: '0000', secret: null, weight: 1 }],
  models: [],
  speaks: provider.speaks,
  variables: {},
}

/** The model names that the gateway has after it fetched this list. */
const listed = async (body: Json): Promise<readonly string[]> => {
  const world = stillWorld((call) => {
    call.head(200, { 'content-type': 'application/json' })
    call.send(JSON.stringify(body))
    call.end()
  })
  const lists = new FetchedModelLists(world)
  lists.follow([instance])
  await world.settle()
  lists.stop()
  return lists.all.get(instance.id) ?? []
}

test('recorded model lists', { skip: skipWithoutRecordings }, async () => {
  const lists = all.flatMap(({ recording, classification }) => (classification.is === 'models' ? [recording] : []))
  const names = new Map<string, readonly string[]>()
  for (const { id, response } of lists) names.set(id, await listed(response))
  const wrong = tally.checkEach('model lists', lists, nameOf, ({ id, response }) => {
    const ids = list(object(response)?.data).map((model) => text(object(model)?.id))
    assert.ok(ids.length > 0)
    assert.deepEqual(names.get(id), ids)
    return undefined
  })
  assert.equal(wrong.length, 0, wrong.join('\n'))
})

after(() => tally.print())
