import assert from 'node:assert/strict'
import { test } from 'node:test'
import { instance } from '../../../test/support/gateway.ts'
import { stillWorld } from '../../../test/support/still-world.ts'
import type { Json } from '../../core/json.ts'
import type { ModelLimits } from '../../core/provider.ts'
import lmstudio from '../../providers/lmstudio.ts'
import { FetchedModelLists } from './model-lists.ts'

/** A server with these lists by path; another path is answered with `missing`. */
const fetched = async (baseUrl: string, lists: { readonly [path: string]: Json }, missing: readonly [number, Json]) => {
  const world = stillWorld((call) => {
    const found = lists[new URL(call.url).pathname]
    call.head(found === undefined ? missing[0] : 200, { 'content-type': 'application/json' })
    call.send(JSON.stringify(found ?? missing[1]))
    call.end()
  })
  const limits: (readonly [string, ModelLimits])[] = []
  const ends: (readonly [string, number])[] = []
  const models = new FetchedModelLists(world, (_id, found) => {
    limits.push(...found.limits)
    ends.push(...found.ends)
  })
  const { id, ...server } = instance('lm', ['k1'], { models: lmstudio.models, basePath: lmstudio.basePath })
  models.follow([{ ...server, id, baseUrl }])
  await world.settle()
  models.stop()
  assert.equal(world.timers(), 0)
  return { names: models.all.get(id), limits, ends, paths: world.calls.map(({ url }) => new URL(url).pathname) }
}

const NATIVE = {
  data: [
    { id: 'google/gemma-4-12b-qat', state: 'loaded', max_context_length: 262_144, loaded_context_length: 122_880 },
    { id: 'qwen3', state: 'not-loaded', max_context_length: 40_960 },
    { id: 'text-embedding-nomic', type: 'embeddings', state: 'not-loaded', max_context_length: 2_048 },
  ],
}
const PLAIN = { data: [{ id: 'google/gemma-4-12b-qat', object: 'model' }] }
const GEMMA = ['google/gemma-4-12b-qat', { contextWindow: 122_880 }] as const
const NOT_FOUND = [404, { error: 'Not found' }] as const

test("model list: a server's own list states the window of a loaded model", async () => {
  const both = { '/api/v0/models': NATIVE, '/v1/models': PLAIN }
  assert.deepEqual(await fetched('http://127.0.0.1:1234/v1', both, NOT_FOUND), {
    names: ['google/gemma-4-12b-qat', 'qwen3'],
    limits: [GEMMA],
    ends: [],
    paths: ['/api/v0/models'],
  })
  const below = { '/lm/api/v0/models': NATIVE }
  assert.deepEqual((await fetched('http://127.0.0.1:1234/lm/v1', below, NOT_FOUND)).limits, [GEMMA])
})

for (const [server, missing] of [
  ['answers 404', NOT_FOUND],
  ['answers 200 for unknown paths, as older versions do', [200, { error: 'Unexpected endpoint or method.' }]],
  ['refuses it', [401, {}]],
] as const)
  test(`model list: the usual one is fetched if the server ${server}`, async () => {
    const { names, paths } = await fetched('http://127.0.0.1:1234/v1', { '/v1/models': PLAIN }, missing)
    assert.deepEqual(names, ['google/gemma-4-12b-qat'])
    assert.deepEqual(paths, ['/api/v0/models', '/v1/models'])
  })

test('model list: the ends of models, as OpenAI and OpenRouter state them', async () => {
  // Members of developers.openai.com/api/reference/resources/models/methods/list.md, and of OpenRouter's `Model`.
  const model = { object: 'model', created: 1_686_935_002, owned_by: 'openai' }
  const list = {
    object: 'list',
    data: [
      { id: 'gpt-5', ...model, shutdown_date: '2026-12-11' },
      { id: 'gpt-6.1-sol', ...model, shutdown_date: null },
      { id: 'older', ...model },
      { id: 'odd', ...model, shutdown_date: 'soon' },
      { id: 'molmo-2-8b:free', expiration_date: '2026-12-31' },
    ],
  }
  const { ends } = await fetched('http://127.0.0.1:1234/v1', { '/v1/models': list }, NOT_FOUND)
  assert.deepEqual(ends, [
    ['gpt-5', Date.parse('2026-12-11T00:00:00Z')],
    ['molmo-2-8b:free', Date.parse('2026-12-31T00:00:00Z')],
  ])
})
