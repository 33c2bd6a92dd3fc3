import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { defaultSettings } from '../../../test/support/settings.ts'
import { type Access, FULL_ACCESS } from '../../core/accounts.ts'
import type { Config } from '../../core/config.ts'
import { NO_REQUIRE, type Require } from '../../core/data-policy.ts'
import { good, type Outcome } from '../../core/failure.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import type { Instance, Provider } from '../../core/provider.ts'
import type { Route } from '../../core/route.ts'
import type { Candidate, Plan } from '../../core/target.ts'
import { lackOf } from '../accounts/data-policy.ts'
import { restrictionsOf } from '../accounts/key-access.ts'
import { permittedDraft } from './permitted-draft.ts'
import { draftPlan, orderedPlan } from './plan.ts'
import { statedPreferences } from './preferences.ts'
import { preferredDraft } from './preferred-plan.ts'

const instance = (id: string, more: Partial<Provider> = {}, rest: Partial<Instance> = {}): Instance => ({
  id,
  provider: { name: id, title: id, order: 0, speaks: [{ protocol: 'openai-chat' }], auth: 'none', ...more },
  baseUrl: `http://${id}.example`,
  keys: [],
  models: [],
  speaks: [{ protocol: 'openai-chat' }],
  variables: {},
  ...rest,
})
const ALL = [
  instance('openai', {}, { models: ['gpt-5', 'gpt-5-mini'], facts: { retention: 30, training: false } }),
  instance(
    'azure-east',
    { name: 'azure-openai', slug: 'azure' },
    { models: ['gpt-5'], facts: { retention: 0, training: false } },
  ),
  instance('bedrock', { slug: 'amazon-bedrock' }, { models: ['claude-5'], facts: { retention: 0, training: false } }),
  instance('anthropic', { readsPreferences: ['fallbacks'] }, { models: ['claude-5', 'claude-4'] }),
]
const ROUTER = instance('openrouter', { readsPreferences: ['provider', 'models'] }, { models: ['qwen-3', 'gpt-5'] })
const route = (name: string, targets: readonly string[], more: Partial<Route> = {}): Route => ({
  name,
  targets: targets.map((one) => {
    const [provider = '', model = ''] = one.split('/')
    return { provider, model, weight: 1 }
  }),
  fallback: [],
  ...more,
})
const RETAINS_NOTHING: Require = { ...NO_REQUIRE, retention: 0 }
const ROUTES = [
  route('fast', ['openai/gpt-5-mini', 'anthropic/claude-4']),
  route('private', ['azure-east/gpt-5', 'bedrock/claude-5', 'openai/gpt-5'], { require: RETAINS_NOTHING }),
]

type Given = {
  readonly instances?: readonly Instance[]
  readonly access?: Access
  readonly require?: Require | null
  readonly settings?: Partial<Config['settings']>
}

const PRICES: Record<string, number> = { 'gpt-5': 1_000, 'gpt-5-mini': 100, 'claude-4': 2_000 }
const prices = ({ model }: Pick<Candidate, 'model'>) => {
  const input = PRICES[model]
  return input === undefined ? undefined : { input, output: 4 * input }
}

const planner = ({ instances = ALL, access = FULL_ACCESS, require = null, settings = {} }: Given) => {
  const config: Config = {
    settings: { ...defaultSettings, ...settings },
    instances,
    routes: new Map(ROUTES.map((one) => [one.name, one])),
  }
  const sources = { config, lists: new Map(), catalogue: () => undefined }
  const client = { access: [access], defaultRoute: null }
  const permitted = (model: string) =>
    permittedDraft(sources, { client, require, style: 'chat', model, isChat: true, ruled: null }, (name) =>
      draftPlan({ ...sources, model: name }),
    )
  const view = { latency: () => 0, price: (one: Candidate) => prices(one)?.input }
  /** All that the client may use by a name: with `fallback: none` a plan has one provider of them. */
  const without = (model: string): readonly Candidate[] => {
    const own = permitted(model)
    return own.ok ? own.value.draft.groups.flatMap(({ candidates }) => candidates) : []
  }
  const plan = (body: JsonObject): Outcome<Plan> => {
    const model = String(body.model)
    const own = permitted(model)
    if (!own.ok) return own
    const stated = statedPreferences(body, [])
    if (!stated) return good(orderedPlan(own.value.draft, { view, random: null }))
    const made = preferredDraft({
      ...{ stated, model, own: own.value, further: permitted, pricesOf: prices },
      isRestricted: restrictionsOf(client) !== null,
    })
    if (!made.ok) return made
    const { draft, require: needed } = made.value
    return good({ ...orderedPlan(draft, { view, random: () => 0.4 }), ...(needed && { require: needed }) })
  }
  return { plan, without }
}

const names = (candidates: readonly Candidate[]) => candidates.map(({ instance: { id }, model }) => `${id}/${model}`)
const named = ({ candidates }: Plan) => names(candidates)
const targets = (body: JsonObject, given: Given = {}) => {
  const made = planner(given).plan(body)
  return made.ok ? named(made.value) : made.failure.message
}
const SAME = { settings: { fallback: 'same-model' } } as const

test('preferences: without a member, nothing is read', () => {
  assert.equal(statedPreferences({ model: 'x', messages: [] }, []), null)
  assert.equal(
    statedPreferences({ model: 'x', logit: 1 }, [{ at: 'logit', name: 'logit', value: 1, essential: false }]),
    null,
  )
})

test('preferences: a body with very many ignored members is read in bounded time', () => {
  const many = Object.fromEntries(Array.from({ length: 100_000 }, (_, at) => [`mock_${at}`, at]))
  const body = { ...many, model: 'gpt-5', provider: many, models: ['claude-5'] }
  const stated = statedPreferences(body, [])
  assert(stated && stated.members.length <= 20, `${stated?.members.length} members`)
  assert.deepEqual(stated.members.slice(0, 2), ['provider', 'models'])
  const made = planner(SAME).plan(body)
  assert(made.ok)
  const [first] = made.value.candidates
  assert((first?.preference?.ignored.length ?? 0) <= 100)
})

const CASES: readonly (readonly [string, JsonObject, readonly string[] | string])[] = [
  ['order ranks, and the others follow', { order: ['azure'] }, ['azure-east/gpt-5', 'openai/gpt-5']],
  ['order knows instances by ID', { order: ['azure-east', 'openai'] }, ['azure-east/gpt-5', 'openai/gpt-5']],
  ['titles and variants are names too', { order: ['Azure/eastus'] }, ['azure-east/gpt-5', 'openai/gpt-5']],
  [
    'order without fallbacks has only what it names',
    { order: ['azure'], allow_fallbacks: false },
    ['azure-east/gpt-5'],
  ],
  [
    'order without fallbacks that names none',
    { order: ['groq'], allow_fallbacks: false },
    'No target of "gpt-5" is left by `provider.order`. Its providers are openai, azure-east.',
  ],
  ['empty lists state nothing', { order: [], only: [], allow_fallbacks: false }, ['openai/gpt-5', 'azure-east/gpt-5']],
  ['only keeps', { only: ['azure'] }, ['azure-east/gpt-5']],
  ['ignore removes', { ignore: ['openai'] }, ['azure-east/gpt-5']],
  [
    'nothing left names the member',
    { only: ['groq'] },
    'No target of "gpt-5" is left by `provider.only`. Its providers are openai, azure-east.',
  ],
  [
    'max_price in dollars for a million tokens',
    { max_price: { prompt: 1, completion: '4' } },
    ['openai/gpt-5', 'azure-east/gpt-5'],
  ],
  [
    'a dearer model is left out',
    { max_price: { prompt: 0.99 } },
    'No target of "gpt-5" is left by `provider.max_price`. Its providers are openai, azure-east.',
  ],
  [
    'an unknown price is not below a limit',
    { max_price: { request: 1 } },
    'No target of "gpt-5" is left by `provider.max_price`. Its providers are openai, azure-east.',
  ],
  ['sort by price keeps all', { sort: 'price' }, ['openai/gpt-5', 'azure-east/gpt-5']],
  [
    'an order of the wrong type',
    { order: 'azure' },
    '`provider.order` is not valid; it must be a list of at most 50 names of providers.',
  ],
  [
    'a sort that does not exist',
    { sort: 'beauty' },
    '`provider.sort` is not valid; it must be "price", "latency" or "throughput".',
  ],
]
for (const [name, provider, expected] of CASES)
  test(`preferences: ${name}`, () => {
    assert.deepEqual(targets({ model: 'gpt-5', provider }, SAME), expected)
  })

test('preferences: further models follow, each once, also those of a route', () => {
  const body = { model: 'gpt-5-mini', models: ['claude-5', 'fast'] }
  assert.deepEqual(targets(body, SAME), [
    'openai/gpt-5-mini',
    'bedrock/claude-5',
    'anthropic/claude-5',
    'anthropic/claude-4',
  ])
  const made = planner(SAME).plan(body)
  assert.deepEqual(made.ok && made.value.furtherRoutes, ['fast'])
})

test('preferences: fallbacks of LiteLLM are names, or objects with a model alone', () => {
  assert.deepEqual(targets({ model: 'gpt-5-mini', fallbacks: ['claude-5', { model: 'claude-4' }] }, SAME), [
    ...['openai/gpt-5-mini', 'bedrock/claude-5', 'anthropic/claude-5', 'anthropic/claude-4'],
  ])
  assert.match(
    String(targets({ model: 'gpt-5', fallbacks: [{ model: 'claude-5', max_tokens: 5 }] })),
    /`fallbacks\[0\]` is not valid/,
  )
  assert.match(
    String(targets({ model: 'gpt-5', models: Array.from({ length: 9 }, (_, at) => `m${at}`) })),
    /at most 8 models/,
  )
})

test('preferences: further models that the key may not use are left out', () => {
  const access = { ...FULL_ACCESS, models: ['gpt-*'] }
  assert.deepEqual(targets({ model: 'gpt-5', models: ['claude-5'] }, { ...SAME, access }), [
    'openai/gpt-5',
    'azure-east/gpt-5',
  ])
})

test('preferences: what the route of one model requires holds for all', () => {
  assert.deepEqual(targets({ model: 'gpt-5-mini', models: ['private'] }, SAME), [
    'azure-east/gpt-5',
    'bedrock/claude-5',
  ])
})

test('preferences: members that all targets read themselves are theirs', () => {
  const instances = [...ALL, ROUTER]
  const made = planner({ instances }).plan({ model: 'qwen-3', models: ['gpt-5'], provider: { only: ['deepinfra'] } })
  assert(made.ok)
  assert.deepEqual(named(made.value), ['openrouter/qwen-3'])
  assert.deepEqual(made.value.candidates[0]?.preference, { without: [], ignored: [], isStrict: false })
  const unread = planner({ instances }).plan({ model: 'qwen-3', provider: { only: 7 } })
  assert.deepEqual(unread.ok && named(unread.value), ['openrouter/qwen-3'])
})

test('preferences: a provider chooses no model for a client whose access is limited', () => {
  const access = { ...FULL_ACCESS, models: ['qwen-3'] }
  const made = planner({ instances: [ROUTER], access }).plan({
    model: 'qwen-3',
    models: ['gpt-5'],
    provider: { sort: 'price' },
  })
  assert.deepEqual(made.ok && made.value.candidates[0]?.preference?.without, ['models'])
  const claude = planner({ access: { ...FULL_ACCESS, models: ['claude-4'] } })
  const asked = claude.plan({ model: 'claude-4', fallbacks: [{ model: 'claude-5' }] })
  assert.deepEqual(asked.ok && named(asked.value), ['anthropic/claude-4'])
  assert.deepEqual(asked.ok && asked.value.candidates[0]?.preference?.without, ['fallbacks'])
})

test('preferences: they never widen what a client may use (100,000 random requests)', () => {
  const provider = fc.constantFrom(
    'openai',
    'azure',
    'azure-east',
    'amazon-bedrock',
    'bedrock',
    'anthropic',
    'openrouter',
    'groq',
  )
  const some = fc.array(provider, { maxLength: 3 })
  const model = fc.constantFrom(
    'gpt-5',
    'gpt-5-mini',
    'claude-5',
    'claude-4',
    'qwen-3',
    'fast',
    'private',
    'auto',
    'other',
    'openai/gpt-5',
    'openrouter/gpt-5',
  )
  const value: fc.Arbitrary<Json> = fc.record(
    {
      ...{ order: some, only: some, ignore: some, allow_fallbacks: fc.boolean(), require_parameters: fc.boolean() },
      sort: fc.constantFrom('price', 'latency', 'throughput'),
      max_price: fc.record(
        { prompt: fc.constantFrom(0, 0.1, 1, 5), completion: fc.constantFrom(0, 4, 10) },
        { requiredKeys: [] },
      ),
    },
    { requiredKeys: [] },
  )
  const members: fc.Arbitrary<JsonObject> = fc.record(
    { model, models: fc.array(model, { maxLength: 3 }), fallbacks: fc.array(model, { maxLength: 3 }), provider: value },
    { requiredKeys: ['model'] },
  )
  const access = fc.constantFrom<Access>(
    FULL_ACCESS,
    { ...FULL_ACCESS, models: ['gpt-*'] },
    { ...FULL_ACCESS, providers: ['openai', 'anthropic'] },
    { ...FULL_ACCESS, routes: ['fast'] },
    { ...FULL_ACCESS, models: ['!claude-5', 'claude-*', 'fast'] },
  )
  const require = fc.constantFrom<Require | null>(null, null, RETAINS_NOTHING, { ...NO_REQUIRE, training: false })
  const fallback = fc.constantFrom('any', 'same-model', 'none')
  const instances = fc.constantFrom(ALL, [...ALL, ROUTER], [ROUTER])
  const given = fc.record({ instances, access, require, settings: fc.record({ fallback }) })
  let kept = 0
  fc.assert(
    fc.property(members, given, (body, may) => {
      const { plan, without } = planner(may)
      const made = plan(body)
      if (!made.ok) return
      kept++
      const models = [body.model, body.models ?? [], body.fallbacks ?? []].flat().map(String)
      const usable = new Set(names(models.flatMap(without)))
      const isLimited = may.access !== FULL_ACCESS || may.require !== null
      for (const candidate of made.value.candidates) {
        const [target = ''] = names([candidate])
        assert(usable.has(target), `${target} is new`)
        for (const needed of [made.value.require, may.require])
          if (needed) assert.equal(lackOf(needed, candidate), null)
        const passes = ['models', 'fallbacks'].some(
          (name) => name in body && candidate.preference?.without.includes(name) === false,
        )
        assert(!passes || !isLimited, 'a list passes for a client whose access is limited')
      }
      assert.equal(new Set(named(made.value)).size, made.value.candidates.length, 'a target is listed twice')
      if (may.settings.fallback === 'none')
        assert.equal(new Set(made.value.candidates.map(({ instance: { id } }) => id)).size, 1)
    }),
    { numRuns: 100_000 },
  )
  assert(kept > 10_000, `${kept} plans`)
})
