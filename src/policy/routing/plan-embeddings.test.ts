import assert from 'node:assert/strict'
import { test } from 'node:test'
import { planOf } from '../../../test/support/plan.ts'
import { defaultSettings } from '../../../test/support/settings.ts'
import type { Config, Route, RouteTarget } from '../../core/config.ts'
import type { Instance, Provider } from '../../core/provider.ts'
import type { Settings } from '../../core/settings.ts'
import { statusOf } from '../reply/final-error.ts'
import { draftEmbeddings } from './plan-embeddings.ts'

const provider = (name: string, embeds: readonly string[] | null, more: Partial<Provider> = {}): Provider => ({
  name,
  title: name,
  order: 0,
  speaks: [],
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
  speaks: [],
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
  const moment = { catalogue: () => undefined, view: { latency: () => 0 }, random: () => 0 }
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
  ['everyone who has it', 'small', ['openai:small', 'openai-east:small']],
  ['one of a list', 'bge', ['openrouter:bge', 'my-llm:bge']],
  [
    'only who has it, whatever else fails over',
    'large',
    ['openai:large', 'openai-east:large'],
    all,
    { fallback: 'any' },
  ],
  ['one provider alone', 'small', ['openai:small'], all, { fallback: 'none' }],
  [
    'a provider named, and the same model elsewhere by its other name',
    'openai/small',
    ['openai:small', 'openai-east:small', 'openrouter:openai/small'],
  ],
  ['a provider named, a model nobody lists', 'my-llm/new', ['my-llm:new']],
  ['a provider named, no model', 'openai-east/', ['openai-east:my-embedder']],
  ['the usual model, and then only that one', 'auto', ['openai:small', 'openai-east:small']],
  ['the usual model of a list', 'auto', ['my-llm:nomic-embed-text'], [local]],
  ['the operator’s word first', 'auto', ['openai-east:my-embedder'], [east, router]],
  [
    'a name no list has is asked for as it is',
    'new-one',
    ['openai:new-one', 'openai-east:new-one', 'openrouter:new-one', 'my-llm:new-one'],
  ],
  ['the same, of one provider alone', 'new-one', ['openai:new-one'], all, { fallback: 'none' }],
  ['a route is the operator’s word', 'vectors', ['openai:small', 'my-llm:nomic-embed-text', 'openrouter:bge']],
  ['what is built in has one', 'text-embedding-3-small', ['demo:embed'], [demo]],
  ['what is built in never stands beside a real one', 'small', ['openai:small'], [demo, openai]],
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
  [
    'names nobody knows are rejected',
    'smal',
    /^404 unknown_model: .*Did you mean "small"/,
    all,
    { unknownModel: 'reject' },
  ],
  ['no usual model is known', 'auto', /^404 unknown_model/, [silent]],
  ['a route that leads nowhere', 'nowhere', /^404 unknown_model: The route/],
]
for (const [name, model, message, instances, settings] of refused)
  test(`plan of embeddings: refused since ${name}`, () => {
    const plan = planned(model, instances, settings)
    assert.ok(typeof plan === 'string', JSON.stringify(plan))
    assert.match(plan, message)
  })

/** The whole plan: who said where it goes, why each is in it, and why the others are not. */
const told = (
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
test('plan of embeddings: a listed model says who has it and who makes none', () =>
  assert.deepEqual(told('small'), {
    by: 'listed',
    because: ['openai: openai has it', 'openai-east: openai-east has it'],
    skipped: [noEmbeddings],
  }))

test('plan of embeddings: one provider alone says why the others are out', () =>
  assert.deepEqual(told('small', all, { fallback: 'none' }), {
    by: 'listed',
    because: ['openai: openai has it'],
    skipped: [noEmbeddings, 'openai-east/small: fallback is "none"'],
  }))

test('plan of embeddings: a named provider and who stands in for it', () => {
  assert.deepEqual(told('openai/small').by, 'provider')
  assert.deepEqual(told('openai/small').because, [
    'openai: the model\'s name begins with "openai/"',
    'openai-east: openai-east has it',
    'openrouter: openrouter has it',
  ])
  assert.deepEqual(told('openai-east/').because, ['openai-east: the model\'s name begins with "openai-east/"'])
  // Its usual model, wherever else it is, and no model of the same name as the provider.
  assert.deepEqual(told('openai/').because.slice(0, 1), ['openai: the model\'s name begins with "openai/"'])
})

test('plan of embeddings: the default, and a name that no list has', () => {
  assert.deepEqual(told('auto'), {
    by: 'default',
    because: ['openai: default route', 'openai-east: openai-east has it'],
    skipped: ['anthropic/auto: it does not support embeddings'],
  })
  const { by, because } = told('new-one')
  assert.deepEqual([by, because[0]], ['default', 'openai: in no list: sent by its name'])
})

test('plan of embeddings: a route says who of it is out, and why', () =>
  assert.deepEqual(
    told('mixed', all, {}, [
      {
        name: 'mixed',
        targets: [target('nobody', 'x'), target('nobody'), target('anthropic', 'claude'), target('openai', 'small')],
        fallback: [target('openrouter', 'bge')],
      },
    ]),
    {
      by: 'route',
      because: ['openai: the route "mixed"', 'openrouter: the fallback of the route "mixed"'],
      skipped: [
        'nobody/x: this provider is not configured',
        'nobody/: this provider is not configured',
        'anthropic/claude: it does not support embeddings',
      ],
    },
  ))

test('plan of embeddings: what is refused names the member, and what could be meant', () => {
  const refusal = (model: string, instances: readonly Instance[], settings: Partial<Settings> = {}) => {
    const config: Config = { settings: { ...defaultSettings, ...settings }, instances, routes: new Map() }
    const plan = planFor(model, config)
    assert.ok(!plan.ok)
    assert.equal(plan.failure.param, 'model')
    return plan.failure.message
  }
  assert.equal(
    refusal('auto', [silent]),
    'No model for embeddings is known here. Name one that a configured provider has.',
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
