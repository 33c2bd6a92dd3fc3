import assert from 'node:assert/strict'
import { test } from 'node:test'
import { planOf } from '../../../test/support/plan.ts'
import { defaultSettings } from '../../../test/support/settings.ts'
import type { Config } from '../../core/config.ts'
import type { Instance, Provider } from '../../core/provider.ts'
import type { Route, RouteTarget } from '../../core/route.ts'
import type { Settings } from '../../core/settings.ts'
import { statusOf } from '../reply/final-error.ts'
import { draftEmbeddings } from './plan-embeddings.ts'

const provider = (name: string, embeds: readonly string[] | null, more: Partial<Provider> = {}): Provider => ({
  name,
  title: name,
  order: 0,
  speaks: [{ protocol: 'openai-chat' }],
  auth: 'none',
  defaultModel: 'a-model-that-writes',
  ...(embeds && { embeds: { protocol: 'openai-embeddings', models: embeds } }),
  ...more,
})
const instance = (id: string, kind: Provider, models: readonly string[] = []): Instance => ({
  id,
  provider: kind,
  baseUrl: `http://${id}.example`,
  keys: [],
  models,
  speaks: [{ protocol: 'openai-chat' }],
  variables: {},
})

const openai = instance('openai', provider('openai', ['small', 'large']))
const east = instance('openai-east', provider('openai', ['small', 'large']), ['gpt-5', 'my-embedder'])
const router = instance('openrouter', provider('openrouter', ['openai/small', 'bge']))
const anthropic = instance('anthropic', provider('anthropic', null))
const local = instance('my-llm', provider('openai-compatible', [], { generic: true }))
const silent = instance('silent', provider('openai-compatible', [], { generic: true }))
const demo = instance('demo', provider('demo', ['embed'], { builtin: true }))

const lists = new Map([['my-llm', ['qwen', 'bge', 'nomic-embed-text']]])

const planFor = (model: string, config: Config) => {
  const moment = { catalogue: () => undefined, view: { latency: () => 0, price: () => undefined }, random: () => 0 }
  return planOf({ model, config, lists, ...moment }, draftEmbeddings)
}

const target = (provider: string, model?: string): RouteTarget => ({ provider, weight: 1, ...(model && { model }) })
const routes: readonly Route[] = [
  {
    name: 'vectors',
    targets: [target('openai', 'small'), target('anthropic', 'claude'), target('my-llm')],
    fallback: [target('openrouter', 'bge')],
  },
  { name: 'nowhere', targets: [target('anthropic')], fallback: [] },
]

const all = [anthropic, openai, east, router, local]

/** Targets in order as `provider:model`. */
const planned = (
  model: string,
  instances: readonly Instance[] = all,
  settings: Partial<Settings> = {},
): readonly string[] | string => {
  const config: Config = {
    settings: { ...defaultSettings, ...settings },
    instances,
    routes: new Map(routes.map((route) => [route.name, route])),
  }
  const plan = planFor(model, config)
  if (!plan.ok) return `${statusOf(plan.failure)} ${plan.failure.kind}: ${plan.failure.message}`
  return plan.value.candidates.map((one) => `${one.instance.id}:${one.model}`)
}

const same: readonly (readonly [string, string, readonly string[], (readonly Instance[])?, Partial<Settings>?])[] = [
  ['all instances that have it', 'small', ['openai:small', 'openai-east:small']],
  ['a model of a fetched list', 'bge', ['openrouter:bge', 'my-llm:bge']],
  [
    'only instances that have it, even with fallback: any',
    'large',
    ['openai:large', 'openai-east:large'],
    all,
    { fallback: 'any' },
  ],
  ['fallback: none', 'small', ['openai:small'], all, { fallback: 'none' }],
  [
    'a named provider, then the same model under its other names',
    'openai/small',
    ['openai:small', 'openai-east:small', 'openrouter:openai/small'],
  ],
  ['a named provider with an unlisted model', 'my-llm/new', ['my-llm:new']],
  ['a named provider without a model', 'openai-east/', ['openai-east:my-embedder']],
  ['the default model, at all instances that have it', 'auto', ['openai:small', 'openai-east:small']],
  ['a default model from a fetched list', 'auto', ['my-llm:nomic-embed-text'], [local]],
  ['a configured model first', 'auto', ['openai-east:my-embedder'], [east, router]],
  [
    'an unlisted name is sent unchanged',
    'new-one',
    ['openai:new-one', 'openai-east:new-one', 'openrouter:new-one', 'my-llm:new-one'],
  ],
  ['an unlisted name, fallback: none', 'new-one', ['openai:new-one'], all, { fallback: 'none' }],
  ['a route may list several models', 'vectors', ['openai:small', 'my-llm:nomic-embed-text', 'openrouter:bge']],
  ['the demo provider accepts any name', 'text-embedding-3-small', ['demo:embed'], [demo]],
  ['the demo provider is not used with a real one', 'small', ['openai:small'], [demo, openai]],
]
for (const [name, model, expected, instances, settings] of same)
  test(`plan of embeddings: ${name}`, () => assert.deepEqual(planned(model, instances, settings), expected))

const refused: readonly (readonly [string, string, RegExp, (readonly Instance[])?, Partial<Settings>?])[] = [
  ['no provider is configured', 'small', /^503 unconfigured/, []],
  [
    'no provider supports embeddings',
    'small',
    /^400 unsupported: No configured provider supports embeddings\. Add one/,
    [anthropic],
  ],
  [
    'the named provider does not support embeddings',
    'anthropic/x',
    /^400 unsupported: The provider "anthropic" does not support embeddings/,
  ],
  ['unknown names are rejected', 'smal', /^404 unknown_model: .*Did you mean "small"/, all, { unknownModel: 'reject' }],
  ['no default model is known', 'auto', /^404 unknown_model/, [silent]],
  ['a route without a configured target', 'nowhere', /^404 unknown_model: The route/],
]
for (const [name, model, message, instances, settings] of refused)
  test(`plan of embeddings: fails: ${name}`, () => {
    const plan = planned(model, instances, settings)
    assert.ok(typeof plan === 'string', JSON.stringify(plan))
    assert.match(plan, message)
  })

/** The plan with its reasons: how the name was resolved, why each candidate is included, why others were skipped. */
const reasonsOf = (
  model: string,
  instances: readonly Instance[] = all,
  settings: Partial<Settings> = {},
  more: readonly Route[] = [],
) => {
  const config: Config = {
    settings: { ...defaultSettings, ...settings },
    instances,
    routes: new Map([...routes, ...more].map((route) => [route.name, route])),
  }
  const plan = planFor(model, config)
  assert.ok(plan.ok, model)
  const { by, candidates, skipped } = plan.value
  return {
    by,
    because: candidates.map(({ instance, because }) => `${instance.id}: ${because}`),
    skipped: skipped.map(({ provider, model: of, why }) => `${provider}/${of}: ${why}`),
  }
}

const noEmbeddings = 'anthropic/small: it does not support embeddings'
test('plan of embeddings: a listed model states its providers, and skips those without embeddings', () =>
  assert.deepEqual(reasonsOf('small'), {
    by: 'listed',
    because: ['openai: openai has it', 'openai-east: openai-east has it'],
    skipped: [noEmbeddings],
  }))

test('plan of embeddings: with fallback: none the others are reported as skipped', () =>
  assert.deepEqual(reasonsOf('small', all, { fallback: 'none' }), {
    by: 'listed',
    because: ['openai: openai has it'],
    skipped: [noEmbeddings, 'openai-east/small: fallback is "none"'],
  }))

test('plan of embeddings: a named provider and its failover candidates', () => {
  assert.deepEqual(reasonsOf('openai/small').by, 'provider')
  assert.deepEqual(reasonsOf('openai/small').because, [
    'openai: the model\'s name begins with "openai/"',
    'openai-east: openai-east has it',
    'openrouter: openrouter has it',
  ])
  assert.deepEqual(reasonsOf('openai-east/').because, ['openai-east: the model\'s name begins with "openai-east/"'])
  // Its default model, not a model with the provider's name.
  assert.deepEqual(reasonsOf('openai/').because.slice(0, 1), ['openai: the model\'s name begins with "openai/"'])
})

test('plan of embeddings: the default model, and an unlisted name', () => {
  assert.deepEqual(reasonsOf('auto'), {
    by: 'default',
    because: ['openai: default route', 'openai-east: openai-east has it'],
    skipped: ['anthropic/auto: it does not support embeddings'],
  })
  const { by, because } = reasonsOf('new-one')
  assert.deepEqual([by, because[0]], ['default', 'openai: in no list: sent by its name'])
})

test('plan of embeddings: a route reports its skipped targets with the reason', () =>
  assert.deepEqual(
    reasonsOf('mixed', all, {}, [
      {
        name: 'mixed',
        targets: [
          target('unconfigured', 'x'),
          target('unconfigured'),
          target('anthropic', 'claude'),
          target('openai', 'small'),
        ],
        fallback: [target('openrouter', 'bge')],
      },
    ]),
    {
      by: 'route',
      because: ['openai: the route "mixed"', 'openrouter: the fallback of the route "mixed"'],
      skipped: [
        'unconfigured/x: this provider is not configured',
        'unconfigured/: this provider is not configured',
        'anthropic/claude: it does not support embeddings',
      ],
    },
  ))

test('plan of embeddings: errors name the member and suggest similar names', () => {
  const refusal = (model: string, instances: readonly Instance[], settings: Partial<Settings> = {}) => {
    const config: Config = { settings: { ...defaultSettings, ...settings }, instances, routes: new Map() }
    const plan = planFor(model, config)
    assert.ok(!plan.ok)
    assert.equal(plan.failure.param, 'model')
    return plan.failure.message
  }
  assert.equal(
    refusal('auto', [silent]),
    'No configured provider has a default model for embeddings. Set `model` to one that a provider has.',
  )
  assert.match(refusal('small', [anthropic]), /^No configured provider supports embeddings\./)
  assert.match(refusal('anthropic/x', all), /does not support embeddings, or no embeddings model of it is known\./)
  const reject: Partial<Settings> = { unknownModel: 'reject' }
  assert.equal(
    refusal('my-embeder', [east], reject),
    'The model "my-embeder" is not known here. Did you mean "my-embedder"?',
  )
  assert.match(refusal('openai/smal', [router], reject), /Did you mean "openai\/small"/)
  assert.equal(
    refusal('zzzzzzzzzzzz', all, reject),
    'The model "zzzzzzzzzzzz" is not known here. Write `provider/model` to choose a provider.',
  )
})
