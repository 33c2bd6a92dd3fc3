/** Runs conversations through a gateway in this process, with the fake vendors as upstreams and a manual clock. */

import assert from 'node:assert/strict'
import { CATALOGUE_FILE, openCatalogue } from '../../src/config/catalogue/catalogue.ts'
import { loadProviders } from '../../src/config/catalogue/load-providers.ts'
import { configure } from '../../src/config/configure.ts'
import { ANONYMOUS } from '../../src/core/accounts.ts'
import type { Config } from '../../src/core/config.ts'
import type { IncomingRequest } from '../../src/core/http-exchange.ts'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import { settingsSchema } from '../../src/core/settings.ts'
import { ActiveCalls } from '../../src/gateway/call/cancellation.ts'
import { serveChat } from '../../src/gateway/chat/serve-chat.ts'
import type { Gateway } from '../../src/gateway/gateway.ts'
import { UpstreamHealth } from '../../src/gateway/health/upstream-health.ts'
import { createResponse } from '../../src/gateway/responses/create-response.ts'
import { ResponseCache } from '../../src/gateway/sharing/response-cache.ts'
import type { Tape } from '../../src/gateway/upstream/tape.ts'
import { priceBook } from '../../src/policy/accounts/price-book.ts'
import { protocols } from '../../src/protocols/index.ts'
import { testAccounts } from '../support/accounts.ts'
import { CapturedReply, respondWith } from '../support/gateway.ts'
import { type ScriptedCall, type StillWorld, stillWorld } from '../support/still-world.ts'
import { testStore } from '../support/stores.ts'
import { type Ask, type Conversation, converse, type Reply, type Turn } from './conversation.ts'
import { FakeVendors } from './fake-vendors.ts'
import { LENIENT, VENDORS, type Vendor, variable } from './vendors.ts'

const configured = async (): Promise<Config> => {
  const all = [...VENDORS, LENIENT]
  const env = Object.assign(
    {},
    ...all.map(({ name, env }) => ({ [`${variable(name)}_API_KEY`]: `sk-${name}-0123456789`, ...env })),
  )
  const loaded = configure({ env, providers: await loadProviders() })
  assert.ok(loaded.ok, 'the configuration of the fakes is refused')
  // Thousands of conversations share the settings, so no shared limit may apply.
  const settings = settingsSchema.parse({ retry: { budgetPercent: 100, budgetFloor: 100 } })
  return { ...loaded.config, settings }
}

const config = await configured()
const catalogue = openCatalogue((problem) => assert.fail(problem), CATALOGUE_FILE)
export const prices = priceBook(catalogue, [])

const routed = (
  name: string,
  vendors: readonly Vendor[],
): readonly [string, NonNullable<ReturnType<Config['routes']['get']>>] => {
  const targets = vendors.map(({ name: provider, model }) => ({ provider, model, weight: 1 }))
  return [name, { name, targets: targets.slice(0, 1), fallback: targets.slice(1) }]
}

const hostOf = (name: string): string => {
  const instance = config.instances.find(({ id }) => id === name)
  assert.ok(instance, `${name} is not configured`)
  return new URL(instance.baseUrl).host
}
const HOSTS = new Map([...VENDORS, LENIENT].map(({ name }) => [hostOf(name), name]))

/** ms between turns; longer than every cooldown of a rate limit. */
const BETWEEN_TURNS = 300_000
/** Maximum wait for an answer, in steps of one second. */
const MOST_WAITS = 600

/** Answers an upstream call of the gateway with the fake vendor's response. */
export const answer = (fakeVendors: FakeVendors, call: ScriptedCall): void => {
  const { host, pathname } = new URL(call.url)
  const body: unknown = JSON.parse(call.body ?? '')
  assert.ok(isObject(body))
  const sent = fakeVendors.receive(HOSTS.get(host) ?? host, decodeURIComponent(pathname), body)
  if ('status' in sent) return respondWith.json(call, sent.status, JSON.stringify(sent.body))
  call.head(200, { 'content-type': sent.mediaType })
  for (const piece of sent.pieces) if (!call.aborted) call.listener.onBody(Buffer.from(piece))
  call.end()
}

/** A gateway whose routes contain only the vendors of this conversation. */
export const gatewayFor = ({ vendors }: FakeVendors, world: StillWorld, tape?: Tape): Gateway => {
  const own: Config = {
    ...config,
    instances: config.instances.filter(({ id }) => vendors.some(({ name }) => name === id)),
    routes: new Map([routed('first', vendors), routed('second', vendors.slice(1))]),
  }
  const ignore = () => {}
  return {
    world,
    emit: ignore,
    health: new UpstreamHealth(world, ignore),
    catalogue,
    prices: () => prices,
    config: () => own,
    lists: () => new Map(),
    activeCalls: new ActiveCalls(),
    responses: testStore(1_000_000),
    accounts: testAccounts(world),
    cache: new ResponseCache({ world, fingerprint: (text) => text, limit: () => 67_108_864 }),
    jobs: new Map(),
    ...(tape && { tape }),
  }
}

/** Runs one conversation through a gateway of its own. */
export const converseInProcess = (conversation: Conversation): Promise<readonly Turn[]> => {
  const fakeVendors = new FakeVendors(conversation)
  const world = worldOf(fakeVendors)
  return converse(conversation, fakeVendors, clientOf({ conversation, fakeVendors, world }))
}

/** The world of a gateway whose upstreams are these vendors. */
export const worldOf = (fakeVendors: FakeVendors): StillWorld => stillWorld((call) => answer(fakeVendors, call))

type Stage = {
  readonly conversation: Conversation
  readonly fakeVendors: FakeVendors
  readonly world: StillWorld
  readonly tape?: Tape
}

/** Sends the requests of a conversation to a gateway of its own. */
export const clientOf = ({ conversation, fakeVendors, world, tape }: Stage): Ask => {
  const gateway = gatewayFor(fakeVendors, world, tape)
  const { style } = conversation.client
  const protocol = protocols[style]
  return async (body: JsonObject): Promise<Reply> => {
    const reply = new CapturedReply()
    const received: IncomingRequest = {
      id: 'req_conversation',
      method: 'POST',
      path: protocol.path,
      query: '',
      headers: () => undefined,
      body: { text: JSON.stringify(body) },
      client: ANONYMOUS,
    }
    let settled = false
    const serve =
      style === 'openai-responses'
        ? createResponse(gateway, received, reply)
        : serveChat(gateway, { protocol, received, responseWriter: reply })
    const done = serve.then(() => {
      settled = true
    })
    await world.settle()
    for (let waits = 0; !settled && waits < MOST_WAITS; waits++) await world.advance(1_000)
    assert.ok(settled, 'the gateway gave no answer')
    await done
    await world.advance(BETWEEN_TURNS)
    return { status: reply.status ?? 0, text: reply.text, dropped: reply.headers['x-headgate-dropped'] ?? '' }
  }
}
