/**
 * What upstreams were recorded to answer besides chat: embeddings, told to clients in both of their forms; counts of
 * tokens; lists of models.
 */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { EmbeddingsProtocolName } from '../../src/core/embeddings.ts'
import { isList, isObject, type Json, type JsonObject, list, number, object, text } from '../../src/core/json.ts'
import type { Instance } from '../../src/core/provider.ts'
import { loadProviders } from '../../src/edge/catalogue/load-providers.ts'
import { FetchedModelLists } from '../../src/gateway/endpoints/model-lists.ts'
import { anthropicMessages } from '../../src/protocols/anthropic-messages/index.ts'
import { embeddingsProtocols } from '../../src/protocols/embeddings/index.ts'
import { encodeAnswer } from '../../src/protocols/embeddings/openai.ts'
import { type Recording, requireRecordings, skipWithoutRecordings } from '../support/recordings.ts'
import { problemsOf } from '../support/schemas.ts'
import { stillWorld } from '../support/still-world.ts'
import { places } from './recording-index.ts'
import { Tally } from './tally.ts'

const all = places()
const board = new Tally('other calls')
const nameOf = ({ id }: Recording): string => id
const isError = ({ status }: Recording): boolean => (status ?? 200) >= 400
const none = () => undefined

// ── Embeddings ───────────────────────────────────────────────────────────────────────────────────────────────────

/** Numbers as they stand, or the floats that base64 holds: of 32 bits, or of 64 (vLLM, once). */
const numbersIn = (vector: Json | undefined, size: 4 | 8): number[] => {
  if (isList(vector)) return vector.map((one) => number(one) ?? Number.NaN)
  const bytes = Buffer.from(text(vector) ?? '', 'base64')
  const places = Array.from({ length: bytes.length / size }, (_, at) => at * size)
  return places.map((at) => (size === 4 ? bytes.readFloatLE(at) : bytes.readDoubleLE(at)))
}

/** What was made and counted, read without a codec. */
const HEARD: { readonly [name in EmbeddingsProtocolName]: (body: JsonObject) => [vectors: Json[], count?: Json] } = {
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

const embeds = (name: EmbeddingsProtocolName, { provider, response }: Recording, form: 'float' | 'base64') => {
  const decoded = embeddingsProtocols[name].decodeAnswer(response)
  assert.ok(decoded.ok, JSON.stringify(decoded))
  const [vectors, count] = HEARD[name](object(response) ?? {})
  const heard = vectors.map((vector) => numbersIn(vector, provider === 'local-openai-compatible' ? 8 : 4))
  assert.ok(heard.length > 0)
  const body = encodeAnswer(decoded.value, { encoding: form, model: 'm' })
  if (form === 'float') assert.equal(problemsOf('openai', 'CreateEmbeddingResponse', body), undefined)
  // Base64 holds floats of 32 bits.
  const short = (numbers: readonly number[]) => numbers.map((one) => (form === 'base64' ? Math.fround(one) : one))
  const told = list(body.data).map((entry) => object(entry)?.embedding)
  assert.deepEqual(
    told.map((vector) => [typeof vector, numbersIn(vector, 4)]),
    heard.map((numbers) => [form === 'base64' ? 'string' : 'object', short(numbers)]),
  )
  if (typeof count === 'number') assert.equal(object(body.usage)?.prompt_tokens, count)
  return undefined
}

requireRecordings()

describe('recorded embeddings', { skip: skipWithoutRecordings }, () => {
  for (const { name, decodeFailure } of Object.values(embeddingsProtocols)) {
    const own = all.flatMap(({ recording, place }) =>
      place.is === 'embeddings' && place.protocol.name === name ? [recording] : [],
    )
    const style = name.replace('-', ' ')
    for (const form of ['float', 'base64'] as const)
      test(`${style}, told as ${form}`, () => {
        const answers = own.filter((one) => !isError(one))
        assert.ok(answers.length > 0)
        const wrong = board.each(`${style} → ${form}`, answers, nameOf, (one) => embeds(name, one, form))
        assert.equal(wrong.length, 0, wrong.join('\n'))
      })
    const errors = own.filter(isError)
    if (errors.length > 0)
      test(`${style}: errors`, () => {
        const wrong = board.each(`${style} errors`, errors, nameOf, ({ status, response }) => {
          const failure = decodeFailure(status ?? 0, response, none)
          assert.equal(failure.kind, { 401: 'auth', 404: 'model_missing' }[status ?? 0] ?? 'invalid_request')
          assert.equal(failure.message, text(object(object(response)?.error)?.message))
          return undefined
        })
        assert.equal(wrong.length, 0, wrong.join('\n'))
      })
  }
})

// ── Counts ───────────────────────────────────────────────────────────────────────────────────────────────────────

test('recorded counts of tokens', { skip: skipWithoutRecordings }, () => {
  const { counting, decodeFailure } = anthropicMessages
  assert.ok(counting)
  const counts = all.flatMap(({ recording, place }) => (place.is === 'count' ? [recording] : []))
  const wrong = board.each('messages counts', counts, nameOf, ({ status, request, response }) => {
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

// ── Lists of models ──────────────────────────────────────────────────────────────────────────────────────────────

/** Whose list is taken as it is: others leave out what is for something else than chat. */
const provider = [...(await loadProviders()).values()].find(({ models }) => models && !models.decode)
assert.ok(provider)
const instance: Instance = {
  id: 'theirs',
  provider,
  baseUrl: 'http://127.0.0.1:9/v1',
  keys: [{ id: '0000', secret: null, weight: 1 }],
  models: [],
  speaks: provider.speaks,
  variables: {},
}

/** The names the gateway has after it asked for that list. */
const listed = async (body: Json): Promise<readonly string[]> => {
  const world = stillWorld((asked) => {
    asked.head(200, { 'content-type': 'application/json' })
    asked.send(JSON.stringify(body))
    asked.end()
  })
  const lists = new FetchedModelLists(world)
  lists.follow([instance])
  await world.settle()
  lists.stop()
  return lists.all.get(instance.id) ?? []
}

test('recorded lists of models', { skip: skipWithoutRecordings }, async () => {
  const lists = all.flatMap(({ recording, place }) => (place.is === 'models' ? [recording] : []))
  const names = new Map<string, readonly string[]>()
  for (const { id, response } of lists) names.set(id, await listed(response))
  const wrong = board.each('lists of models', lists, nameOf, ({ id, response }) => {
    const ids = list(object(response)?.data).map((model) => text(object(model)?.id))
    assert.ok(ids.length > 0)
    assert.deepEqual(names.get(id), ids)
    return undefined
  })
  assert.equal(wrong.length, 0, wrong.join('\n'))
})

after(() => board.print())
