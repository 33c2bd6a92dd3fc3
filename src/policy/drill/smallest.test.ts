import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { FEATURES, type Feature, SCHEMA_KEYWORDS } from './features.ts'
import { type Shape, shapeOf } from './shape.ts'
import { drilledPart, smallestRequest, undrilled } from './smallest.ts'

const anyShape = fc
  .record({
    features: fc.subarray([...FEATURES]),
    tools: fc.constantFrom(0, 1, 8, 32, 128, 129),
    depth: fc.integer({ min: 0, max: 12 }),
    media: fc.constantFrom(0, 1, 8, 32),
    others: fc.constantFrom(0, 1, 8),
    style: fc.constantFrom('chat' as const, 'messages' as const, 'responses' as const, 'gemini' as const),
  })
  .map((shape): Shape => ({ ...shape, input: 8_192, output: 4_096 }))

test('smallest requests: nothing that is never sent, no mark of a user, a session or a cache, whatever the shape', () => {
  fc.assert(
    fc.property(anyShape, fc.boolean(), (shape, reasons) => {
      const request = smallestRequest(shape, 'm', reasons)
      const { settings, extras, tools, messages } = request
      assert.equal(settings.store?.value, false)
      for (const name of ['user', 'promptCacheKey', 'metadata', 'serviceTier'] as const)
        assert.equal(settings[name], undefined)
      assert.ok(
        tools.every(({ kind, ...tool }) => kind !== 'foreign' && 'name' in tool && /^drill_\d+$/.test(tool.name)),
      )
      assert.ok((settings.maxOutputTokens?.value ?? 0) >= 16 && (settings.maxOutputTokens?.value ?? 0) <= 2_048)
      const extra = new Set(extras.map(({ name }) => name))
      for (const name of [
        'mcp_servers',
        'container',
        'background',
        'conversation',
        'previous_response_id',
        'cachedContent',
      ])
        assert.ok(!extra.has(name))
      for (const { content } of messages)
        for (const part of content) {
          assert.ok(!('extras' in part) && part.type !== 'foreign' && part.type !== 'reasoning')
          if (part.type === 'image' || part.type === 'file') assert.equal(part.source.kind, 'data')
        }
      assert.doesNotMatch(JSON.stringify(request), /https?:|cache_control|ephemeral/)
    }),
    { numRuns: 500 },
  )
})

/** Features that need others, which real shapes always have with them. */
const NEEDED: { readonly [feature in Feature]?: readonly Feature[] } = {
  'history.images': ['image.data', 'image.png', 'history.calls', 'history.results'],
  'history.calls': ['history.results'],
  'history.results': ['history.calls'],
  'format.strict': ['format.schema', 'schema.additionalProperties'],
  'tool.strict': ['strict.additionalProperties'],
  ...Object.fromEntries(
    SCHEMA_KEYWORDS.map((keyword) => [`strict.${keyword}`, ['tool.strict', 'strict.additionalProperties']]),
  ),
  ...Object.fromEntries(['png', 'jpeg', 'gif', 'webp'].map((type) => [`image.${type}`, ['image.data']])),
  ...Object.fromEntries(['pdf', 'text'].map((type) => [`file.${type}`, ['file.data']])),
}

test('smallest requests: each feature is in the request of a shape with it, and no other', () => {
  for (const feature of FEATURES) {
    const features: Feature[] = [feature, ...(NEEDED[feature] ?? [])]
    if (feature.startsWith('schema.')) features.push('format.schema')
    const amounts = {
      tools: /^(?:tool|strict)\./.test(feature) || feature.startsWith('choice.') ? 1 : 0,
      depth: 2,
      media: 0,
      others: 0,
    }
    const shape: Shape = { style: 'chat', features, ...amounts, input: 0, output: 0 }
    const sent = drilledPart(shape)
    if (sent.features.length === 0 || undrilled(shape) !== null || feature.endsWith('.data')) continue
    const { features: found, tools } = shapeOf(smallestRequest(shape, 'm', false), 'chat')
    const alsoSent = new Set<Feature>([
      'set.store',
      ...(feature === 'tool.propertyNames' ? ['tool.maxLength' as const] : []),
    ])
    if (feature === 'schema.propertyNames') alsoSent.add('schema.maxLength')
    if (feature === 'strict.propertyNames') alsoSent.add('strict.maxLength')
    assert.deepEqual(
      new Set(found.filter((one) => !alsoSent.has(one) || sent.features.includes(one))),
      new Set(sent.features),
      feature,
    )
    assert.equal(tools, shape.tools)
  }
})

test('smallest requests: amounts are those of the shape', () => {
  const shape: Shape = {
    ...{ style: 'chat', tools: 129, depth: 7, media: 8, others: 3, input: 65_536, output: 8_192 },
    features: ['image.data', 'image.png', 'image.jpeg', 'tool.enum'],
  }
  const found = shapeOf(smallestRequest(shape, 'm', false), 'chat')
  assert.deepEqual([found.tools, found.depth, found.media, found.others], [129, 7, 8, 0])
  assert.deepEqual(found.features, ['image.data', 'image.png', 'image.jpeg', 'tool.enum', 'set.store'])
})

const EMPTY = { style: 'chat', tools: 0, depth: 0, media: 0, others: 0, input: 0, output: 0 } as const

test('smallest requests: of several tools the last one is strict, and has no keyword of the others', () => {
  const features: Feature[] = ['tool.strict', 'tool.allOf', 'strict.additionalProperties', 'strict.enum']
  const { tools } = smallestRequest({ ...EMPTY, features, tools: 8, depth: 7 }, 'm', false)
  assert.deepEqual(
    tools.flatMap((tool, at) => (tool.kind === 'function' && tool.strict ? [at] : [])),
    [7],
  )
  const [first, last] = [JSON.stringify(tools[0]), JSON.stringify(tools[7])]
  assert.match(first, /allOf/)
  assert.match(first, /nested/)
  assert.doesNotMatch(first, /enum/)
  assert.match(last, /enum/)
  assert.doesNotMatch(last, /allOf|nested/)
})

test('smallest requests: the depth of tools is not that of the answer', () => {
  const features: Feature[] = ['format.schema', 'format.strict', 'schema.additionalProperties']
  const beside = smallestRequest({ ...EMPTY, features, tools: 8, depth: 9 }, 'm', false)
  assert.doesNotMatch(JSON.stringify(beside.settings.format), /nested/)
  assert.match(JSON.stringify(beside.tools), /nested/)
  const alone = smallestRequest({ ...EMPTY, features, depth: 9 }, 'm', false)
  assert.match(JSON.stringify(alone.settings.format), /nested/)
})

test('smallest requests: thinking is adaptive without a budget, and models that reason take a temperature of 1', () => {
  const thinking = (...features: Feature[]) =>
    smallestRequest({ ...EMPTY, style: 'messages', features }, 'm', false).extras.map(({ value }) => value)
  assert.deepEqual(thinking('extra.thinking'), [{ type: 'adaptive' }])
  assert.deepEqual(thinking('set.thinkingBudget', 'extra.thinking'), [
    { type: 'enabled', budget_tokens: 1_024, display: 'omitted' },
  ])
  const { settings } = smallestRequest({ ...EMPTY, features: ['set.temperature'] }, 'm', true)
  assert.equal(settings.temperature?.value, 1)
})

test('smallest requests: what providers run, keep or fetch is not drilled', () => {
  const shape = (...features: Feature[]): Shape => ({
    ...{ style: 'responses', tools: 1, depth: 0, media: 0, others: 0, input: 0, output: 0 },
    features,
  })
  for (const feature of [
    'hosted.mcp',
    'hosted.web_search',
    'extra.container',
    'extra.background',
    'image.url',
    'file.id',
  ] as const)
    assert.equal(undrilled(shape('stream', feature)), feature)
  assert.equal(undrilled({ ...shape(), style: 'embeddings' }), 'embeddings')
  assert.equal(undrilled(shape('stream', 'cache.marks', 'set.user')), null)
})
