/** The faults that no plan shows, found by live checks of a fake provider that refuses as a real one does. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testAccounts } from '../../../test/support/accounts.ts'
import { type DrillFault, drillFaults } from '../../../test/support/drill-faults.ts'
import { respondWith } from '../../../test/support/gateway.ts'
import { type ScriptedCall, stillWorld } from '../../../test/support/still-world.ts'
import { testStore } from '../../../test/support/stores.ts'
import { openCatalogue } from '../../config/catalogue/catalogue.ts'
import { loadProviders } from '../../config/catalogue/load-providers.ts'
import { configure } from '../../config/configure.ts'
import { fileReader } from '../../config/file-reader.ts'
import { FULL_ACCESS, NO_LIMITS, type Team } from '../../core/accounts.ts'
import { NO_REQUIRE } from '../../core/data-policy.ts'
import { isObject, type JsonObject, list } from '../../core/json.ts'
import { priceBook } from '../../policy/accounts/price-book.ts'
import { shapeOf, shapeText } from '../../policy/drill/shape.ts'
import { clientProtocolByStyle } from '../../protocols/index.ts'
import { ActiveCalls } from '../call/cancellation.ts'
import type { ChatDeps } from '../chat/plan-call.ts'
import { UpstreamHealth } from '../health/upstream-health.ts'
import { ResponseCache } from '../sharing/response-cache.ts'
import { type DrillWork, LiveDrill } from './live-drill.ts'
import { liveWork } from './live-work.ts'

const providers = await loadProviders()
const catalogue = openCatalogue(() => {}, new URL('../../../data/catalogue.json', import.meta.url))
const PRICES = 'prices: [ { provider: "*", model: "*", perMillion: { input: 1, output: 10 } } ]\n'
const TEAM: Team = {
  ...{ id: 'team_drill', name: 'drill', status: 'active', managed: 'file', tags: {}, cache: null },
  ...{ access: FULL_ACCESS, limits: NO_LIMITS, require: NO_REQUIRE },
}

const REFUSED = {
  error: { message: 'This request is refused.', type: 'invalid_request_error', param: null, code: null },
}
const ANSWER = {
  ...{ id: 'c1', object: 'chat.completion', created: 1, model: 'm1' },
  choices: [{ index: 0, message: { role: 'assistant', content: 'OK' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 20, completion_tokens: 2, total_tokens: 22 },
}

/** Whether the provider refuses a request, by the kind of fault. */
const REFUSES: { readonly [kind: string]: (body: JsonObject, text: string) => boolean } = {
  'schema keyword': (_, text) => text.includes('"pattern"'),
  'many tools': ({ tools }) => list(tools).length > 32,
  prefill: ({ messages }) =>
    isObject(list(messages).at(-1)) && JSON.stringify(list(messages).at(-1)).includes('"assistant"'),
  'unknown pictures': (_, text) => text.includes('image_url'),
}

const answer = (call: ScriptedCall, { kind }: DrillFault): void => {
  const body: unknown = JSON.parse(call.body ?? '{}')
  if (kind === 'certificate') return call.fail({ kind: 'tls', message: 'certificate has expired', unsent: true })
  if (kind === 'wrong format') return respondWith.json(call, 404, '{"detail":"Not Found"}')
  if (kind === 'no model access')
    return respondWith.json(
      call,
      403,
      '{"error":{"message":"No access to this model.","type":"permission_error","code":null}}',
    )
  const isRefused = isObject(body) && REFUSES[kind]?.(body, call.body ?? '') === true
  respondWith.json(call, isRefused ? 400 : 200, JSON.stringify(isRefused ? REFUSED : ANSWER))
}

const check = async (fault: DrillFault) => {
  const yaml = fault.yaml.replace('drill: { shapes: true }', 'drill: { shapes: true, live: true, at: never }')
  const loaded = configure({
    env: {},
    file: { name: 'headgate.yaml', text: yaml + PRICES, reader: fileReader },
    providers,
  })
  assert.ok(loaded.ok, JSON.stringify(loaded))
  const { config } = loaded
  const prices = priceBook(catalogue, config.accounts.prices)
  const world = stillWorld((call) => answer(call, fault))
  const gateway: ChatDeps = {
    ...{ world, catalogue, emit: () => {}, health: new UpstreamHealth(world, () => {}), prices: () => prices },
    ...{ config: () => config, lists: () => new Map(), activeCalls: new ActiveCalls(), responses: testStore(1_000) },
    accounts: testAccounts(world, { prices: () => prices }),
    cache: new ResponseCache({ world, fingerprint: (text) => text, limit: () => 1_000 }),
  }
  const shapes = fault.requests.map(({ style, body }) => {
    const decoded = clientProtocolByStyle.get(style)?.decodeRequest(body)
    assert.ok(decoded?.ok)
    return { route: 'fast', access: '', shape: shapeText(shapeOf(decoded.value, style)) }
  })
  const storage = { claim: async () => true, release: async () => {}, load: async () => null, save: async () => {} }
  let work: readonly DrillWork[] = []
  const live = new LiveDrill({
    ...{ gateway: () => gateway, version: 'test', team: () => TEAM, isSender: true, pause: 0 },
    storage: { spent: storage, results: storage },
    work: async (routes) => (work = liveWork(gateway, shapes, routes)),
    weekSpend: async () => 7e12,
    hours: async () => [],
  })
  const begun = await live.begin(null, null)
  assert.ok(begun.ok, JSON.stringify(begun))
  for (let waits = 0; live.state()?.ended === null && waits < 500; waits++) await world.advance(1_000)
  assert.ok(
    world.calls.every(({ url }) => url.startsWith('http://127.0.0.1:9/')),
    'only the fallback is tried',
  )
  return work.flatMap((one) => one.shapes.map((shape) => live.resultOf(shape, one.candidate)))
}

test('live checks: the faults that need a request are found and named', async () => {
  const faults = drillFaults(200).filter(({ isDry }) => !isDry)
  const missed: string[] = []
  for (const fault of faults) {
    const part = fault.part === 'tools.64' ? 'tools.128' : fault.part
    const refused = (await check(fault)).filter((one) => one?.verdict === 'refused')
    if (refused.length === 0 || refused.some((one) => one?.by !== part))
      missed.push(`${fault.kind}: ${JSON.stringify(refused)}`)
  }
  // With the 130 that plans show (dry-drill.test.ts): all 200.
  assert.equal(faults.length, 70)
  assert.deepEqual(missed, [])
})
