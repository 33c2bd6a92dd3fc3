import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { planOf } from '../../../test/support/plan.ts'
import { defaultSettings } from '../../../test/support/settings.ts'
import type { Catalogue, Config, ModelFacts } from '../../core/config.ts'
import type { Instance, Provider } from '../../core/provider.ts'
import type { Route, RouteTarget } from '../../core/route.ts'
import type { Settings } from '../../core/settings.ts'
import type { Candidate } from '../../core/target.ts'
import { listModels } from './models.ts'
import type { CandidateView } from './order.ts'
import { explainPlan } from './plan.ts'

const provider = (name: string, more: Partial<Provider> = {}): Provider => ({
  name,
  title: name,
  order: 0,
  speaks: [{ protocol: 'openai-chat' }],
  auth: 'none',
  ...more,
})
const instance = (id: string, models: readonly string[] = [], kind = provider(id)): Instance => ({
  id,
  provider: kind,
  baseUrl: `http://${id}.example`,
  keys: [],
  models,
  speaks: [{ protocol: 'openai-chat' }],
  variables: {},
})

const openai = instance('openai', [], provider('openai', { defaultModel: 'gpt-5-mini' }))
const east = instance('openai-east', ['gpt-east'], provider('openai', { defaultModel: 'gpt-5-mini' }))
const gemini = instance('gemini', [], provider('gemini', { aliases: ['google'], defaultModel: 'gemini-flash' }))
const router = instance('openrouter', [], provider('openrouter', { defaultModel: 'openrouter/best' }))
const local = instance('my-llm', [], provider('openai-compatible', { generic: true }))
const demo = instance('demo', ['echo', 'flaky'], provider('demo', { builtin: true }))

/** It has embeddings only. */
const vectors: Instance = { ...instance('vectors', ['embed-1']), speaks: [] }

const prices: Record<string, ModelFacts> = {
  'openai gpt-5-mini': { prices: { input: 250, output: 2_000 }, contextWindow: 400_000 },
  'gemini gemini-flash': { prices: { input: 100, output: 400 } },
  'openai gpt-5': { prices: { input: 1_250, output: 10_000 } },
}
const catalogue: Catalogue = (name, model) =>
  Object.hasOwn(prices, `${name} ${model}`) ? prices[`${name} ${model}`] : undefined

const price: CandidateView['price'] = ({ instance: { provider: kind }, model }) =>
  catalogue(kind.name, model)?.prices?.input

const lists = new Map<string, readonly string[]>([
  ['openrouter', ['openai/gpt-5', 'google/gemini-flash', 'qwen/qwen-3', 'shared-1']],
  ['my-llm', ['qwen-local', 'shared-1']],
])

const target = (one: string, weight = 1): RouteTarget => {
  const [name = '', model] = one.split('/')
  return { provider: name, weight, ...(model !== undefined && { model }) }
}
const route = (name: string, targets: readonly RouteTarget[], fallback: readonly RouteTarget[] = []): Route => ({
  name,
  targets,
  fallback,
})
const routes: readonly Route[] = [
  route('fast', [target('openai/gpt-5-mini'), target('my-llm')], [target('gemini/gemini-pro')]),
  route('openai/mine', [target('gemini/gemini-pro')]),
  route('twice', [target('openai/a'), target('openai/b'), target('openai/a')], [target('openai/b'), target('gemini')]),
  route('lost', [target('unconfigured/x'), target('gemini')]),
  route('nowhere', [target('unconfigured/x')]),
  route('aliased', [target('google/gemini-pro')]),
]

type Given = {
  readonly instances?: readonly Instance[]
  readonly settings?: Partial<Settings>
  readonly routes?: readonly Route[]
  readonly random?: (() => number) | null
  readonly latency?: (candidate: Candidate) => number
}
const allInstances = [openai, gemini, router, local]
const configOf = (given: Given): Config => ({
  settings: { ...defaultSettings, ...given.settings },
  instances: given.instances ?? allInstances,
  routes: new Map((given.routes ?? routes).map((one) => [one.name, one])),
})
const planFor = (model: string, given: Given = {}) =>
  planOf({
    model,
    config: configOf(given),
    lists,
    catalogue,
    view: { latency: given.latency ?? (() => 0), price },
    random: given.random === undefined ? () => 0.5 : given.random,
  })
/** The plan as text: how the name was resolved, and the candidates. */
const inShort = (model: string, given: Given = {}): string => {
  const made = planFor(model, given)
  if (!made.ok) return made.failure.kind
  const places = made.value.candidates.map((one) => `${one.instance.id}:${one.model}`)
  return `${made.value.by} ${places.join(' ')}`
}

const cases: readonly [name: string, model: string, given: Given, expected: string][] = [
  ['a route', 'fast', {}, 'route openai:gpt-5-mini my-llm:qwen-local gemini:gemini-pro openrouter:openrouter/best'],
  [
    'a route in another case',
    ' FAST',
    { settings: { fallback: 'same-model' } },
    'route openai:gpt-5-mini my-llm:qwen-local gemini:gemini-pro',
  ],
  [
    'a provider in another case, with blanks',
    ' OpenAI/ GPT-5-Mini ',
    { settings: { fallback: 'none' } },
    'provider openai:GPT-5-Mini',
  ],
  [
    'a listed model in another case: the listed name is sent',
    'Shared-1',
    { settings: { fallback: 'same-model' } },
    'listed openrouter:shared-1 my-llm:shared-1',
  ],
  [
    'a route whose name looks like a provider’s model',
    'openai/mine',
    {},
    'route gemini:gemini-pro openai:gpt-5-mini openrouter:openrouter/best my-llm:qwen-local',
  ],
  [
    'a route that lists a target twice',
    'twice',
    { settings: { fallback: 'same-model' } },
    'route openai:a openai:b gemini:gemini-flash',
  ],
  ['a route, no fallback: one provider', 'twice', { settings: { fallback: 'none' } }, 'route openai:a openai:b'],
  [
    'a route with a provider that is not configured',
    'lost',
    { settings: { fallback: 'same-model' } },
    'route gemini:gemini-flash',
  ],
  ['a route to a provider’s alias', 'aliased', { settings: { fallback: 'same-model' } }, 'route gemini:gemini-pro'],
  ['a route without a configured target, with fallback', 'nowhere', { instances: [openai] }, 'route openai:gpt-5-mini'],
  [
    'a route without a configured target or fallback',
    'nowhere',
    { instances: [openai], settings: { fallback: 'none' } },
    'unknown_model',
  ],

  [
    'provider and model: then others that have it, then the rest',
    'openai/gpt-5',
    {},
    'provider openai:gpt-5 openrouter:openai/gpt-5 gemini:gemini-flash my-llm:qwen-local',
  ],
  [
    'provider and a model it does not list',
    'openai/brand-new',
    { settings: { unknownModel: 'reject', fallback: 'none' } },
    'provider openai:brand-new',
  ],
  [
    'split at the first slash',
    'openrouter/qwen/qwen-3',
    { settings: { fallback: 'none' } },
    'provider openrouter:qwen/qwen-3',
  ],
  ['an alias of the provider', 'google/gemini-pro', { settings: { fallback: 'none' } }, 'provider gemini:gemini-pro'],
  [
    'an instance’s id before the provider’s name',
    'openai/gpt-5',
    { instances: [east, openai], settings: { fallback: 'none' } },
    'provider openai:gpt-5',
  ],
  [
    'a provider’s name that is no instance’s id: all its instances',
    'openai/x',
    { instances: [{ ...openai, id: 'openai-west' }, east], settings: { fallback: 'same-model' } },
    'provider openai-west:x openai-east:x',
  ],
  ['a provider without a model', 'openai/', { settings: { fallback: 'none' } }, 'provider openai:gpt-5-mini'],
  [
    'the name of a generic provider is not a prefix',
    'openai-compatible/x',
    { settings: { unknownModel: 'reject' } },
    'unknown_model',
  ],
  [
    'a prefix that is not configured, in a listed name',
    'qwen/qwen-3',
    { settings: { fallback: 'same-model' } },
    'listed openrouter:qwen/qwen-3',
  ],

  ['listed by one', 'qwen-local', { settings: { fallback: 'same-model' } }, 'listed my-llm:qwen-local'],
  [
    'listed by two, in order',
    'shared-1',
    { settings: { fallback: 'same-model' } },
    'listed openrouter:shared-1 my-llm:shared-1',
  ],
  [
    'listed, then all others',
    'shared-1',
    {},
    'listed openrouter:shared-1 my-llm:shared-1 openai:gpt-5-mini gemini:gemini-flash',
  ],
  ['listed, one provider only', 'shared-1', { settings: { fallback: 'none' } }, 'listed openrouter:shared-1'],
  ['known to the catalogue', 'gpt-5', { settings: { fallback: 'same-model' } }, 'listed openai:gpt-5'],
  [
    'configured',
    'gpt-east',
    { instances: [openai, east], settings: { fallback: 'same-model' } },
    'listed openai-east:gpt-east',
  ],
  [
    'built into the provider',
    'sonar',
    {
      instances: [openai, instance('px', [], provider('px', { knownModels: ['sonar'] }))],
      settings: { fallback: 'same-model' },
    },
    'listed px:sonar',
  ],

  [
    'unknown: all instances in order, with their default models',
    'gpt-99',
    {},
    'default openai:gpt-5-mini gemini:gemini-flash openrouter:openrouter/best my-llm:qwen-local',
  ],
  ['unknown, one provider only', 'gpt-99', { settings: { fallback: 'none' } }, 'default openai:gpt-5-mini'],
  ['unknown, rejected', 'gpt-99', { settings: { unknownModel: 'reject' } }, 'unknown_model'],
  [
    'auto is never rejected',
    'auto',
    { settings: { unknownModel: 'reject', fallback: 'none' } },
    'default openai:gpt-5-mini',
  ],
  [
    'auto is never looked up',
    'auto',
    { instances: [gemini, instance('x', ['auto', 'b'])] },
    'default gemini:gemini-flash x:auto',
  ],
  [
    'auto is a route’s name first',
    'auto',
    { routes: [route('auto', [target('gemini')])], settings: { fallback: 'same-model' } },
    'route gemini:gemini-flash',
  ],
  ['a configured model is the default', 'what', { instances: [east] }, 'default openai-east:gpt-east'],
  [
    'an instance without known models: the client’s model name',
    'what',
    { instances: [instance('bare')] },
    'default bare:what',
  ],
  ['an instance without known models, auto', 'auto', { instances: [instance('bare')] }, 'default bare:auto'],

  ['only the demo provider', 'gpt-5', { instances: [demo], routes: [] }, 'default demo:echo'],
  ['the demo provider by name', 'demo/flaky', { instances: [demo], routes: [] }, 'provider demo:flaky'],
  [
    'a route of the demo provider',
    'demo/chain',
    { instances: [demo], routes: [route('demo/chain', [target('demo/flaky'), target('demo/echo')])] },
    'route demo:flaky demo:echo',
  ],
  ['the demo provider is not used with a real one', 'what', { instances: [demo, openai] }, 'default openai:gpt-5-mini'],
  ['nor by its name', 'demo/echo', { instances: [demo, openai] }, 'default openai:gpt-5-mini'],
  ['nor by its model', 'echo', { instances: [demo, openai] }, 'default openai:gpt-5-mini'],
  ['no provider configured', 'gpt-5', { instances: [] }, 'unconfigured'],

  ['constructor', 'constructor', { settings: { unknownModel: 'reject' } }, 'unknown_model'],
  ['__proto__', '__proto__', { settings: { unknownModel: 'reject' } }, 'unknown_model'],
  ['__proto__/__proto__', '__proto__/__proto__', { settings: { unknownModel: 'reject' } }, 'unknown_model'],
  ['a slash', '/', { settings: { unknownModel: 'reject' } }, 'unknown_model'],
  ['a slash first', '/openai/gpt-5', { settings: { unknownModel: 'reject' } }, 'unknown_model'],
]
for (const [name, model, given, expected] of cases)
  test(`plan: ${name}`, () => assert.equal(inShort(model, given), expected))

test('plan: strategies order candidates of equal rank, and fallbacks follow them', () => {
  const settings = (strategy: Settings['strategy']) => ({ settings: { strategy } })
  assert.equal(
    inShort('what', settings('cost')),
    'default gemini:gemini-flash openai:gpt-5-mini openrouter:openrouter/best my-llm:qwen-local',
  )
  const latency = ({ instance: { id } }: Candidate) => ({ openrouter: 900, 'my-llm': 20 })[id] ?? 500
  assert.equal(
    inShort('shared-1', { settings: { strategy: 'latency', fallback: 'same-model' }, latency }),
    'listed my-llm:shared-1 openrouter:shared-1',
  )
  const fixed: Route = { ...route('fixed', [target('openai/x'), target('gemini/y')]), strategy: 'priority' }
  assert.equal(
    inShort('fixed', { routes: [fixed], instances: [openai, gemini], settings: { strategy: 'cost' } }),
    'route openai:x gemini:y',
    'a route’s own strategy wins',
  )
})

test('plan: a weighted route orders its targets by weight and keeps its fallback last', () => {
  const weighted: Route = {
    ...route('w', [target('openai/x', 1), target('gemini/y', 0)], [target('my-llm/z', 9)]),
    strategy: 'weighted',
  }
  for (const random of [() => 0, () => 0.5, () => 0.999])
    assert.equal(
      inShort('w', { routes: [weighted], random, settings: { fallback: 'same-model' } }),
      'route openai:x gemini:y my-llm:z',
    )
})

test('plan: states the reason for each candidate and for each skipped one', () => {
  const made = planFor('openai/gpt-5', { settings: { fallback: 'same-model' } })
  assert.ok(made.ok)
  assert.deepEqual(
    made.value.candidates.map(({ because }) => because),
    ['the model\'s name begins with "openai/"', 'openrouter has the same model'],
  )
  assert.deepEqual(made.value.skipped, [
    { provider: 'gemini', model: 'gemini-flash', why: 'fallback is "same-model"' },
    { provider: 'my-llm', model: 'qwen-local', why: 'fallback is "same-model"' },
  ])
  const alone = planFor('fast', { settings: { fallback: 'none' }, instances: [openai, gemini, local] })
  assert.ok(alone.ok)
  assert.deepEqual(alone.value.skipped, [
    { provider: 'my-llm', model: 'qwen-local', why: 'fallback is "none"' },
    { provider: 'gemini', model: 'gemini-pro', why: 'fallback is "none"' },
  ])
  const lost = planFor('lost')
  assert.ok(lost.ok)
  assert.deepEqual(lost.value.skipped, [
    { provider: 'unconfigured', model: 'x', why: 'this provider is not configured' },
  ])
})

test('plan: the expected order of a weighted route is the same each time, with the share of each target', () => {
  const weighted: Route = {
    ...route('w', [target('gemini/a', 1), target('my-llm/b', 3)], [target('openai/c')]),
    strategy: 'weighted',
  }
  const made = planFor('w', { routes: [weighted], random: null, settings: { fallback: 'none' } })
  assert.ok(made.ok)
  const { strategy, drawn, targets } = JSON.parse(JSON.stringify(explainPlan('w', made.value)))
  assert.equal(strategy, 'weighted')
  assert.equal(drawn, true)
  assert.deepEqual(
    targets.map((one: { model: string; share?: number }) => [one.model, one.share ?? null]),
    [
      ['b', 0.75],
      ['a', 0.25],
    ],
  )
  const all = planFor('w', { routes: [weighted], random: null })
  assert.ok(all.ok)
  const shown = JSON.parse(JSON.stringify(explainPlan('w', all.value))).targets.slice(0, 3)
  assert.deepEqual(
    shown.map((one: { model: string; share?: number }) => [one.model, one.share ?? null]),
    [
      ['b', 0.75],
      ['a', 0.25],
      ['c', null],
    ],
  )
})

test('plan: the order of a route by latency is drawn among three targets, not among two', () => {
  const rows = (targets: readonly string[]) => {
    const byLatency: Route = {
      ...route(
        'l',
        targets.map((one) => target(one)),
      ),
      strategy: 'latency',
    }
    const slow = { 'gemini:a': 300, 'my-llm:b': 200, 'openai:c': 100 }
    const latency = ({ instance, model }: Candidate) =>
      Object.entries(slow).find(([id]) => id === `${instance.id}:${model}`)?.[1] ?? 0
    const made = planFor('l', { routes: [byLatency], random: null, settings: { fallback: 'none' }, latency })
    assert.ok(made.ok)
    const { drawn, targets: shown } = JSON.parse(JSON.stringify(explainPlan('l', made.value)))
    return { drawn, shares: shown.map((one: { model: string; share?: number }) => [one.model, one.share ?? null]) }
  }
  assert.deepEqual(rows(['gemini/a', 'my-llm/b', 'openai/c']), {
    drawn: true,
    shares: [
      ['c', 2 / 3],
      ['b', 1 / 3],
    ],
  })
  assert.deepEqual(rows(['gemini/a', 'my-llm/b']), { drawn: false, shares: [['b', null]] })
})

test('plan: explainPlan returns JSON with the current state of each target', () => {
  const made = planFor('openai/gpt-5', { settings: { fallback: 'none' } })
  assert.ok(made.ok)
  const explained = explainPlan('openai/gpt-5', made.value, ({ instance: { id } }) => ({ circuit: `${id} closed` }))
  assert.deepEqual(JSON.parse(JSON.stringify(explained)), {
    object: 'route',
    model: 'openai/gpt-5',
    by: 'provider',
    targets: [
      {
        provider: 'openai',
        model: 'gpt-5',
        because: 'the model\'s name begins with "openai/"',
        weight: 1,
        circuit: 'openai closed',
      },
    ],
    skipped: [
      { provider: 'openrouter', model: 'openai/gpt-5', why: 'fallback is "none"' },
      { provider: 'gemini', model: 'gemini-flash', why: 'fallback is "none"' },
      { provider: 'my-llm', model: 'qwen-local', why: 'fallback is "none"' },
    ],
  })
})

test('plan: the error of an unknown name contains similar names, and truncates a long name', () => {
  const reject = { settings: { unknownModel: 'reject' as const } }
  const near = planFor('qwen-locl', reject)
  assert.ok(!near.ok)
  assert.equal(near.failure.param, 'model')
  assert.match(near.failure.message, /"qwen-locl" is not known here\. Did you mean "qwen-local"/)
  const far = planFor('x'.repeat(10_000), reject)
  assert.ok(!far.ok)
  assert.ok(far.failure.message.length < 300)
  assert.match(far.failure.message, /\/v1\/models/)
})

test('plan: without a provider the error names the variables to set', () => {
  const made = planFor('gpt-5', { instances: [] })
  assert.ok(!made.ok)
  assert.match(made.failure.message, /OPENAI_API_KEY/)
})

/** Texts that several clients take as a reason to retry. */
const ALARMING =
  /429|500|502|503|504|524|rate.?limit|too many requests|overloaded|service.?unavailable|internal.?error|server.?error|provider.?returned.?error|fetch failed|network.?error|terminated/i

test('plan: no error text reads like a reason to retry', () => {
  const refusals = [
    planFor('gpt-5', { instances: [] }),
    planFor('zzz', { settings: { unknownModel: 'reject' } }),
    planFor('qwen-locl', { settings: { unknownModel: 'reject' } }),
    planFor('nowhere', { settings: { fallback: 'none' } }),
  ]
  for (const made of refusals) {
    assert.ok(!made.ok)
    assert.doesNotMatch(made.failure.message, ALARMING)
  }
})

test('plan: any name gives a plan without duplicates, with a reason for each candidate, or an error', () => {
  const word = fc.oneof(
    fc.string({ size: 'medium' }),
    fc.constantFrom('constructor', '__proto__', 'toString', 'auto', 'hasOwnProperty', 'fast', 'shared-1'),
    fc
      .tuple(fc.constantFrom('openai', 'google', '__proto__', '', 'my-llm'), fc.string())
      .map((parts) => parts.join('/')),
    fc.constant('é'.repeat(10_000)),
  )
  const settingsOf = fc.record({
    fallback: fc.constantFrom('any' as const, 'same-model' as const, 'none' as const),
    unknownModel: fc.constantFrom('route' as const, 'reject' as const),
    strategy: fc.constantFrom('priority' as const, 'weighted' as const, 'latency' as const, 'cost' as const),
  })
  fc.assert(
    fc.property(word, settingsOf, fc.subarray([...allInstances, east, demo]), (model, settings, instances) => {
      const made = planFor(model, { settings, instances })
      if (!made.ok) {
        assert.ok(made.failure.kind === 'unconfigured' ? instances.length === 0 : made.failure.kind === 'unknown_model')
        return
      }
      const { candidates } = made.value
      assert.ok(candidates.length > 0)
      assert.equal(new Set(candidates.map((one) => `${one.instance.id} ${one.model}`)).size, candidates.length)
      for (const one of candidates) {
        assert.notEqual(one.because, '')
        assert.ok(instances.includes(one.instance))
        if (instances.some(({ provider: kind }) => !kind.builtin)) assert.notEqual(one.instance, demo)
      }
      const reached = new Set(candidates.map((one) => one.instance))
      if (settings.fallback === 'none') assert.equal(reached.size, 1)
      if (settings.fallback === 'any')
        for (const one of instances) assert.ok(reached.has(one) || one === demo, `${one.id} is left out`)
    }),
    { numRuns: 1_000, seed: 5 },
  )
})

test('models: lists routes, then prefixed names, then bare names, each once with its owner', () => {
  const config = configOf({ instances: [openai, router, local, demo], routes: [route('fast', [target('openai')])] })
  const listed = listModels(config, lists, catalogue)
  assert.deepEqual(
    listed.map(({ id, owner }) => `${id} (${owner})`),
    [
      'fast (headgate)',
      'openai/gpt-5-mini (openai)',
      'openrouter/openrouter/best (openrouter)',
      'openrouter/openai/gpt-5 (openrouter)',
      'openrouter/google/gemini-flash (openrouter)',
      'openrouter/qwen/qwen-3 (openrouter)',
      'openrouter/shared-1 (openrouter)',
      'my-llm/qwen-local (my-llm)',
      'my-llm/shared-1 (my-llm)',
      'gpt-5-mini (openai)',
      'google/gemini-flash (openrouter)',
      'qwen/qwen-3 (openrouter)',
      'shared-1 (openrouter)',
      'qwen-local (my-llm)',
    ],
  )
  assert.deepEqual(listed.find(({ id }) => id === 'gpt-5-mini')?.facts, prices['openai gpt-5-mini'])
})

test('models: the first candidate of a listed name is its owner', () => {
  const config = configOf({ instances: [openai, east, gemini, router, local] })
  for (const { id, owner } of listModels(config, lists, catalogue)) {
    const made = planOf({ model: id, config, lists, catalogue, view: { latency: () => 0, price }, random: () => 0.5 })
    assert.ok(made.ok)
    if (owner === 'headgate') assert.equal(made.value.by, 'route')
    else assert.equal(made.value.candidates[0]?.instance.id, owner, id)
    assert.notEqual(made.value.by, 'default', id)
  }
})

test('plan: providers that generate no text are in no plan', () => {
  const given = { instances: [vectors, openai, gemini] }
  for (const model of ['auto', 'embed-1', 'gpt-5']) assert.doesNotMatch(inShort(model, given), /vectors/)
  assert.equal(inShort('vectors/embed-1', given), 'unsupported')
  assert.equal(inShort('auto', { instances: [vectors] }), 'unsupported')
  const made = planFor('mixed', {
    ...given,
    routes: [route('mixed', [target('vectors/embed-1'), target('openai/gpt-5')])],
  })
  assert.deepEqual(made.ok && made.value.skipped[0], {
    provider: 'vectors',
    model: 'embed-1',
    why: 'it generates no text',
  })
})
