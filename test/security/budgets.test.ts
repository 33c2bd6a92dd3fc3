import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CATALOGUE_FILE, openCatalogue } from '../../src/config/catalogue/catalogue.ts'
import { loadProviders } from '../../src/config/catalogue/load-providers.ts'
import type { Access, PriceRule } from '../../src/core/accounts.ts'
import { FULL_ACCESS } from '../../src/core/accounts.ts'
import type { Catalogue } from '../../src/core/config.ts'
import { type Failure, fail } from '../../src/core/failure.ts'
import type { Instance } from '../../src/core/provider.ts'
import { serveChat } from '../../src/gateway/chat/serve-chat.ts'
import { budgetScope } from '../../src/policy/accounts/budget-scope.ts'
import { allowsTarget, countsTarget, keyAccessRules } from '../../src/policy/accounts/key-access.ts'
import { priceBook } from '../../src/policy/accounts/price-book.ts'
import { protocols } from '../../src/protocols/index.ts'
import { testAccounts, testBudget, testClient } from '../support/accounts.ts'
import { CapturedReply, gatewayHarness, instance as testInstance } from '../support/gateway.ts'

const catalogue = openCatalogue((problem) => assert.fail(problem), CATALOGUE_FILE)
const providers = await loadProviders()

const instance = (name: string, variables: Instance['variables'] = {}, baseUrl = 'http://a.test'): Instance => {
  const provider = providers.get(name)
  assert.ok(provider, name)
  return { id: name, provider, baseUrl, keys: [], models: [], speaks: provider.speaks, variables }
}
const TOKENS = { input: 1_000, output: 1_000 }
const AT = Date.parse('2026-11-27')
const book = priceBook(catalogue, [])

const costs = (name: string, model: string, variables?: Instance['variables'], baseUrl?: string) => {
  const of = { instance: instance(name, variables, baseUrl), model, at: AT, unknownPrice: 'dearest' } as const
  return {
    reserved: book.reservation({ ...of, ...TOKENS }),
    charged: book.costOfAttempt({ ...of, usage: TOKENS }),
  }
}

/** A model, and other names under which a provider serves it or one that is not cheaper. */
const SPELLINGS: readonly (readonly [provider: string, model: string, names: readonly string[]])[] = [
  ['openai', 'gpt-5', ['GPT-5', ' gpt-5 ', 'gpt-5\u00a0', 'gpt-5-latest', 'Gpt-5-2025-08-07', 'models/gpt-5']],
  ['openai', 'gpt-5', ['ft:gpt-5:org::id', 'FT:GPT-5-2025-08-07:o:n:i', 'gpt-5-never-heard-of', 'gpt-5:x']],
  ['azure-openai', 'gpt-5', ['GPT-5', 'gpt-5.ft-0123456789abcdef', 'my-deployment']],
  ['vertex', 'gemini-2.5-flash', ['google/gemini-2.5-flash', 'Google/Gemini-2.5-Flash', 'gemini-2.5-flash@default']],
  ['vertex', 'gemini-2.5-flash', ['publishers/google/models/gemini-2.5-flash', 'models/gemini-2.5-flash']],
  [
    'vertex',
    'claude-opus-4-5',
    ['claude-opus-4-5@20251101', 'anthropic/claude-opus-4-5@20251101', 'claude-opus-4-5@default'],
  ],
  ['gemini', 'gemini-2.5-pro', ['models/gemini-2.5-pro', 'MODELS/gemini-2.5-pro', 'tunedModels/mine']],
  ['anthropic', 'claude-opus-5', ['CLAUDE-OPUS-5', 'claude-opus-5-20260501', 'claude-opus-5-latest']],
  [
    'bedrock',
    'anthropic.claude-3-opus-20240229-v1:0',
    [
      'us.anthropic.claude-3-opus-20240229-v1:0',
      'eu.anthropic.claude-3-opus-20240229-v1:0',
      'us-gov.anthropic.claude-3-opus-20240229-v1:0',
      'GLOBAL.anthropic.claude-3-opus-20240229-v1:0',
      'anthropic.claude-3-opus-20240229-v1:0:200k',
      'arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-3-opus-20240229-v1:0',
      'arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-3-opus-20240229-v1:0',
      'arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3',
      'arn:aws:bedrock:us-east-1:123456789012:provisioned-model/a1b2c3',
    ],
  ],
  [
    'openai',
    'gpt-5',
    ['\tgpt-5\t', 'ｇｐｔ－５', 'ＧＰＴ-5', 'gpt\u200b-5', '\ufeffgpt-5', 'gpt\u00ad-5', 'gpt-5\u0000'],
  ],
  ['openai', 'gpt-5', ['gpt-5/', 'OpenAI/gpt-5', 'openai/gpt-5//', './gpt-5', 'gpt-5:latest', 'gpt-5@2025-08-07']],
  [
    'openai',
    'gpt-5',
    ['gpt-5@latest', 'gpt-5:free', 'GPT-5:Nitro', 'gpt-5-2025-08-07:online', 'openai/gpt-5:thinking'],
  ],
  [
    'gemini',
    'gemini-2.5-pro',
    ['models/gemini-2.5-pro/', 'models/models/gemini-2.5-pro', 'Publishers/Google/Models/Gemini-2.5-Pro'],
  ],
  [
    'vertex',
    'gemini-2.5-flash',
    ['projects/p/locations/eu/publishers/google/models/gemini-2.5-flash@001', 'gemini-2.5-flash:latest'],
  ],
  [
    'bedrock',
    'anthropic.claude-opus-4-7',
    [
      'Anthropic.Claude-Opus-4-7',
      'US.ANTHROPIC.CLAUDE-OPUS-4-7',
      'us.anthropic.claude-opus-4-7/',
      'ARN:AWS:BEDROCK:us-east-1:1:inference-profile/us.anthropic.claude-opus-4-7-v1:0',
      'eu.anthropic.claude-opus-4-7:latest',
    ],
  ],
  [
    'bedrock',
    'anthropic.claude-opus-4-6-v1',
    ['us.anthropic.claude-opus-4-6-v1:0', 'anthropic.claude-opus-4-6-v1:0:1m'],
  ],
  ['groq', 'openai/gpt-oss-120b', ['OpenAI/GPT-OSS-120B', 'openai/gpt-oss-120b ', 'unheard/of']],
]

for (const [name, model, names] of SPELLINGS)
  for (const spelling of names)
    test(`spelling of a model: ${name}/${spelling} costs a hard budget at least what ${model} costs`, () => {
      const known = costs(name, model)
      const other = costs(name, spelling)
      assert.ok(known.reserved && known.charged.nano, 'the model has a price')
      assert.ok(other.reserved !== null && other.reserved >= known.reserved, `reserved ${other.reserved}`)
      assert.ok(
        other.charged.nano !== null && other.charged.nano >= known.charged.nano,
        `charged ${other.charged.nano}`,
      )
    })

for (const [name, model, names] of SPELLINGS)
  for (const spelling of names.filter((one) => !/my-|a1b2c3|mine|unheard|never|:x$/.test(one)))
    test(`spelling of a model: ${name}/${spelling} passes no denial of ${model}, and no budget of it`, () => {
      const target = { requested: spelling, provider: name, model: spelling }
      for (const denied of [`!${model}`, `!${name}/${model}`, `!${model}*`]) {
        const models: Access['models'] = ['*', denied]
        assert.equal(allowsTarget(keyAccessRules([{ ...FULL_ACCESS, models }]), target), false, denied)
      }
      const appliesTo = { ...testBudget(1).appliesTo, models: [`${name}/${model}`] }
      assert.equal(countsTarget(budgetScope(testBudget(1, { appliesTo })), target), true)
    })

/** Percent of the price of another name. */
const percentOf = (one: ReturnType<typeof costs>, other: ReturnType<typeof costs>) => [
  Math.round((100 * (one.charged.nano ?? 0)) / (other.charged.nano ?? 1)),
  Math.round((100 * (one.reserved ?? 0)) / (other.reserved ?? 1)),
]

test('spelling of a model: Claude in a region costs more than at the global endpoint', () => {
  const claude = 'anthropic.claude-sonnet-4-6'
  const global = costs('bedrock', `global.${claude}`)
  const arn = 'arn:aws:bedrock:us-east-1:1:'
  const places = ['us.', 'eu.', 'jp.', 'au.', 'apac.', 'ca.', 'uk.', 'emea.', 'US-GOV.', `${arn}inference-profile/us.`]
  for (const place of ['', ...places, `${arn}:foundation-model/`])
    for (const version of ['', '-v1:0', '-v1:0:200k', '-20260217', ' '])
      assert.deepEqual(percentOf(costs('bedrock', `${place}${claude}${version}`), global), [110, 110], place)
  for (const place of ['Global.', `${arn}inference-profile/global.`])
    for (const version of ['', '-v1', '-v1:0'])
      assert.deepEqual(percentOf(costs('bedrock', `${place}${claude}${version}`), global), [100, 100], place)
  assert.deepEqual(
    percentOf(costs('bedrock', 'us.anthropic.claude-opus-9'), costs('bedrock', 'global.anthropic.claude-opus-9')),
    [110, 110],
    'also at the dearest price',
  )
  const older = 'anthropic.claude-sonnet-4-20250514-v1:0'
  assert.deepEqual(percentOf(costs('bedrock', `us.${older}`), costs('bedrock', older)), [100, 100])
})

test('spelling of a model: the region of Vertex AI costs more, for models that have a price there', () => {
  const at = (LOCATION: string, model: string) => costs('vertex', model, { LOCATION })
  for (const [model, percent] of [
    ['claude-sonnet-4-6', 110],
    ['Anthropic/Claude-Sonnet-4-6@default', 110],
    ['publishers/anthropic/models/claude-sonnet-4-6', 110],
    ['gemini-3.5-flash', 110],
    ['google/gemini-3.5-flash', 110],
    ['gemini-2.5-flash', 100],
  ] as const)
    for (const location of ['us-east5', 'eu'])
      assert.deepEqual(percentOf(at(location, model), at('global', model)), [percent, percent], model)
})

test('spelling of a model: a regional host of OpenAI costs more, for models that have a price there', () => {
  const at = (host: string, model: string) => costs('openai', model, {}, `https://${host}/v1`)
  for (const [model, percent] of [
    ['gpt-5.4', 110],
    ['GPT-5.4-mini-2026-03-17', 110],
    ['gpt-5.1', 100],
  ] as const)
    for (const host of ['eu.api.openai.com', 'us.api.openai.com'])
      assert.deepEqual(percentOf(at(host, model), at('api.openai.com', model)), [percent, percent], `${host} ${model}`)
})

test('model without a price: a provider without any is not free for a hard budget, unless a rule says so', () => {
  for (const name of ['ollama', 'vllm', 'openai-compatible']) assert.equal(costs(name, 'llama3').reserved, null)
  const free: PriceRule = {
    ...{ id: 'prc_local', provider: 'ollama', model: '*', prices: { input: 0, output: 0 }, effectiveFrom: 0 },
    managed: 'file',
  }
  const of = { instance: instance('ollama'), model: 'llama3', at: AT, unknownPrice: 'dearest' } as const
  assert.equal(priceBook(catalogue, [free]).reservation({ ...of, ...TOKENS }), 0)
})

/** Generates 1,000 tokens of output for each call, and answers only after its client has left. */
const GENERATED = 1_000
const PRICE = { input: 10, output: 40 }

const spentBy = async (
  style: 'openai-chat' | 'openai-responses' | 'anthropic-messages',
  stream: boolean,
  leave: (reply: CapturedReply, cancel: (reason: Failure) => void) => void,
): Promise<readonly [spent: number, calls: number, statuses: ReadonlySet<number | null>]> => {
  const prices: Catalogue = () => ({ prices: PRICE })
  const slow = testInstance('a')
  const { world, gateway } = gatewayHarness([slow], () => {}, { circuit: { timeout: 60_000 } }, prices)
  const scopes = [budgetScope(testBudget(10 * GENERATED * PRICE.output))]
  const priced = priceBook(prices, [])
  const accounts = testAccounts(world, { budgets: () => scopes, prices: () => priced })
  const limit = style === 'openai-responses' ? 'max_output_tokens' : 'max_tokens'
  const asked = style === 'openai-responses' ? { input: 'hello' } : { messages: [{ role: 'user', content: 'hello' }] }
  const body = JSON.stringify({ model: 'm', stream, [limit]: GENERATED, ...asked })
  const statuses = new Set<number | null>()
  for (let n = 0; n < 12; n++) {
    const reply = new CapturedReply()
    const protocol = protocols[style]
    const received = {
      ...{ id: `req_${n}`, method: 'POST', path: protocol.path, query: '', headers: () => undefined, local: true },
      ...{ body: { text: body }, client: testClient() },
    }
    reply.done = serveChat({ ...gateway, accounts }, { protocol, received, responseWriter: reply })
    await world.advance(500)
    leave(reply, (reason) => gateway.activeCalls.cancelOf(testClient().id, reason))
    await world.advance(31_000)
    await reply.done
    statuses.add(reply.status)
  }
  return [accounts.budgetStates()[0]?.spent ?? 0, world.calls.length, statuses]
}

for (const style of ['openai-chat', 'openai-responses', 'anthropic-messages'] as const)
  for (const stream of [false, true])
    for (const [how, leave] of [
      ['its client', (reply) => reply.disconnect()],
      ['an operator', (_, cancel) => cancel(fail('unauthenticated', 'The key was revoked.'))],
      ['its deadline', (_, cancel) => cancel(fail('deadline', 'The answer was not complete in time.'))],
    ] as const satisfies readonly (readonly [string, Parameters<typeof spentBy>[2]])[])
      test(`answer given up by ${how}: it counts in a hard budget (${style}${stream ? ', streamed' : ''})`, async () => {
        const [spent, calls, statuses] = await spentBy(style, stream, leave)
        assert.ok(spent >= calls * GENERATED * PRICE.output, `${spent} for ${calls} calls`)
        assert.ok(calls < 10 && statuses.has(402), 'the budget ends')
      })
