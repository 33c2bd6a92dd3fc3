/**
 * Clients that search the text of an error for a reason to retry find none in a refusal for a key, its access or its
 * budgets, whatever teams, keys, models and budgets are called, and whatever is left of them when.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Client, FULL_ACCESS, NO_ACCOUNTS, NO_LIMITS } from '../../src/core/accounts.ts'
import { NO_REQUIRE } from '../../src/core/data-policy.ts'
import type { IncomingRequest } from '../../src/core/http-exchange.ts'
import { MAX_NANO } from '../../src/core/money.ts'
import { RETRY_TRIGGERS } from '../../src/core/retry-triggers.ts'
import { settingsSchema } from '../../src/core/settings.ts'
import { accountNameProblem } from '../../src/policy/accounts/account-name.ts'
import { budgetScope } from '../../src/policy/accounts/budget-scope.ts'
import { buildDirectory } from '../../src/policy/accounts/directory.ts'
import { namesCredential } from '../../src/policy/accounts/named-credentials.ts'
import { priceBook } from '../../src/policy/accounts/price-book.ts'
import { AccessRules } from '../../src/server/access-rules.ts'
import { errorResponse } from '../../src/server/error-response.ts'
import { handlersFor } from '../../src/server/handlers.ts'
import { ROUTES, type RouteName } from '../../src/server/routes.ts'
import { errorEvent } from '../../src/server/web-socket-reply.ts'
import { testAccounts, testBudget, testClient } from '../support/accounts.ts'
import { CapturedReply, gatewayHarness, instance } from '../support/gateway.ts'

const CASES = 10_000
/** Cases of one configuration. */
const GROUP = 100

// ── What operators and clients write ─────────────────────────────────────────────────────────────────────────────────

const TRIGGERS = [
  ...['429', '500', '502', '503', '504', '524', 'rate limit', 'Rate_Limit', 'too many requests', 'overloaded'],
  ...['service unavailable', 'internal-error', 'ServerError', 'provider returned error', 'fetch failed'],
  ...['networkerror', 'terminated'],
]
const letters = fc.string({
  unit: fc.constantFrom(...'abcdefghijklmnopqrstuvwxyzABCXYZ0123456789._-@+ '),
  maxLength: 30,
})
/** Texts in which a trigger is likely. */
const texts = fc.tuple(letters, fc.constantFrom('', ...TRIGGERS), letters).map((parts) => parts.join(''))
const modelNames = texts.map((text) => `m${text.replace(/[@+ ]/g, '-')}z`)
const accountNames = texts.map((text) => `n${text}z`).filter((name) => accountNameProblem(name) === null)
const accountIds = (prefix: string) =>
  fc
    .string({ unit: fc.constantFrom(...'abcdefghijklmnopqrstuvwxyz'), minLength: 12, maxLength: 12 })
    .map((text) => `${prefix}_${text}`)
const budgets = fc.record({
  id: accountIds('bud'),
  name: accountNames,
  amount: fc.integer({ min: 0, max: MAX_NANO }),
  isSpent: fc.boolean(),
  period: fc.constantFrom('hour', 'day', 'week', 'month', 'quarter', 'year', 'total'),
  timezone: fc.constantFrom('UTC', 'Europe/Berlin', 'America/St_Johns', 'Australia/Lord_Howe', 'Pacific/Apia'),
  per: fc.constantFrom('all', 'team', 'key', 'user', 'end_user'),
} as const)
const cases = fc.record({
  budget: budgets,
  key: fc.record({ id: accountIds('key'), name: accountNames, user: accountNames }),
  team: fc.record({ id: accountIds('team'), name: accountNames }),
  /** What the client asks for. */
  model: fc.oneof(
    modelNames,
    texts.filter((text) => text.trim() !== ''),
  ),
  requestId: texts.map((text) => `r${text.replace(/[@+ ]/g, '-')}`),
  /** From 2024 to 2100. */
  at: fc.integer({ min: 1_704_067_200_000, max: 4_102_444_800_000 }),
})
type Case = typeof cases extends fc.Arbitrary<infer T> ? T : never

// ── The gateway ──────────────────────────────────────────────────────────────────────────────────────────────────────

const BODIES = {
  chat: (model: string) => ({ model, messages: [{ role: 'user', content: 'x' }] }),
  responses: (model: string) => ({ model, input: 'x' }),
  messages: (model: string) => ({ model, max_tokens: 1, messages: [{ role: 'user', content: 'x' }] }),
  embeddings: (model: string) => ({ model, input: 'x' }),
} as const satisfies { readonly [route in RouteName]?: (model: string) => object }
// These are the members of the object.
const PATHS = Object.keys(BODIES) as (keyof typeof BODIES)[]

/** A gateway whose providers, models and routes have these names, and a client with an exhausted budget or no access. */
const setting = (names: readonly string[]) => {
  const [a = 'a', b = 'b', ...models] = names
  const providers = [a, b].map((name, at) => ({
    ...instance(`${name.toLowerCase().slice(0, 20)}${at}`, ['k'], {
      embeds: { protocol: 'openai-embeddings', models },
    }),
    models,
  }))
  const routes = Object.fromEntries(
    models.slice(0, 5).map((name) => [`${name}-route`, [`${providers[0]?.id}/${name}`]]),
  )
  const { gateway, world } = gatewayHarness(providers, () => {}, { routes, unknownModel: 'reject' })
  const state = { at: 0, scopes: [budgetScope(testBudget(0))] }
  const prices = priceBook(() => ({ prices: { input: 10, output: 40 } }), [])
  const accounts = testAccounts(
    { ...world, date: () => state.at },
    { budgets: () => state.scopes, prices: () => prices },
  )
  const handlers = handlersFor({
    gateway: { ...gateway, accounts },
    version: '0',
    started: 0,
    uptime: () => 0,
    keyed: () => true,
    draining: () => false,
    loading: () => false,
    problems: () => [],
    metrics: () => '',
    clientPages: () => Promise.reject(new Error('not used')),
  })
  const send = async (route: keyof typeof BODIES, { requestId }: Case, client: Client, model: string) => {
    const reply = new CapturedReply()
    const received: IncomingRequest = {
      id: requestId,
      method: 'POST',
      path: ROUTES[route].path,
      query: '',
      headers: () => undefined,
      body: { text: JSON.stringify(BODIES[route](model)) },
      client,
    }
    const done = handlers[route](received, reply, '')
    await world.advance(1)
    await done
    return reply
  }
  return { state, send, world }
}

const assertNeutral = ({ status, headers, text }: CapturedReply, allowed: readonly number[], about: string) => {
  assert.ok(status !== null && allowed.includes(status), `${status}: ${about}: ${text}`)
  assert.equal(headers['x-should-retry'], 'false', about)
  assert.doesNotMatch(text, RETRY_TRIGGERS, about)
  // Parsers read valid JSON.
  assert.equal(typeof JSON.parse(text), 'object')
  assert.doesNotMatch(errorEvent({ status, headers, body: text }, null), RETRY_TRIGGERS, about)
}

const sampleOf = <T>(arbitrary: fc.Arbitrary<T>, count: number): readonly T[] =>
  fc.sample(arbitrary, { numRuns: count, seed: 14 })

test(`refusals: ${CASES} names, amounts and dates leave no reason to retry in a 402 or 403`, async () => {
  const all = sampleOf(cases, CASES)
  const names = sampleOf(modelNames, (CASES / GROUP) * 12)
  const counts = { budgets: 0, access: 0 }
  for (let from = 0; from < CASES; from += GROUP) {
    const own = names.slice((from / GROUP) * 12, (from / GROUP + 1) * 12)
    const { state, send, world } = setting(own)
    const models = own.slice(2)
    for (const [at, one] of all.slice(from, from + GROUP).entries()) {
      const { budget, key, team } = one
      const { isSpent, ...rest } = budget
      state.at = one.at
      // Without anything left, or with less than a request needs.
      state.scopes = [budgetScope(testBudget(0, { ...rest, amount: isSpent ? 0 : Math.min(rest.amount, 5) }))]
      const route = PATHS[at % PATHS.length] ?? 'chat'
      const client: Client = { ...testClient({}, key.id), ...key, team }
      const about = JSON.stringify(one)
      assertNeutral(await send(route, one, client, models[at % models.length] ?? ''), [402], about)
      counts.budgets++
      // A name that is not allowed: of a model, of a route, and one that the client has invented.
      const access = [{ ...FULL_ACCESS, models: [models[(at + 1) % models.length] ?? '', `${models[0]}-route`] }]
      const asked = [models[at % models.length] ?? '', `${models[1]}-route`, one.model][at % 3] ?? ''
      assertNeutral(await send(route, one, { ...client, access }, asked), [402, 403, 404], about)
      const none = { ...client, access: [{ ...FULL_ACCESS, styles: [] }] }
      assertNeutral(await send(route, one, none, asked), [403, 404], about)
      counts.access += 2
    }
    assert.equal(world.calls.length, 0)
  }
  assert.deepEqual(counts, { budgets: CASES, access: 2 * CASES })
})

test(`refusals: ${CASES} wrong, blocked and foreign keys leave no reason to retry in a 401 or 403`, () => {
  const settings = settingsSchema.parse({ auth: { keys: ['a-configured-key-of-a-client'], admin: 'an-admin-token' } })
  for (const [at, { key, team, requestId, model }] of sampleOf(cases, CASES).entries()) {
    const status = at % 2 === 0 ? 'blocked' : 'active'
    const more = {
      access: FULL_ACCESS,
      limits: NO_LIMITS,
      require: NO_REQUIRE,
      cache: null,
      tags: {},
      managed: 'api',
    } as const
    const directory = buildDirectory(NO_ACCOUNTS, { ...NO_ACCOUNTS, teams: [{ ...team, status, ...more }] })
    const source = {
      directory: () => directory,
      tokens: () => [],
      isNamed: () => namesCredential(directory),
      isUnavailable: () => false,
      used() {},
    }
    const rules = new AccessRules(source, { now: () => 0 })
    const presented: readonly (readonly [
      route: 'chat' | 'messages' | 'responses' | 'metrics',
      key: string | undefined,
    ])[] = [
      ['chat', undefined],
      ['messages', `hgk_${model}`],
      ['responses', key.name],
      ['metrics', model],
    ]
    for (const [name, text] of presented) {
      const route = { name, ...ROUTES[name] }
      const request = {
        route,
        hosts: [],
        version: '1.1',
        address: '',
        headers: (header: string) => (header === 'authorization' && text !== undefined ? `Bearer ${text}` : undefined),
      }
      const result = rules.check(settings, request)
      assert.ok(!result.ok)
      const { headers, body, ...reply } = errorResponse(result.failure, requestId, route.path)
      assert.ok(reply.status === 401 || reply.status === 403, String(reply.status))
      assert.equal(headers['x-should-retry'], 'false')
      assert.doesNotMatch(body, RETRY_TRIGGERS, body)
    }
  }
})
