/**
 * A conversation that moves from each fake vendor to the next, over sockets: a real gateway process and a server for
 * each vendor. test/conversations tests all pairs in one process; this file repeats some with real connections and a
 * real store. The route changes between turns, because a failed vendor would enter a cooldown.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { protocols } from '../../src/protocols/index.ts'
import { CLIENTS } from '../conversations/clients.ts'
import { converse } from '../conversations/conversation.ts'
import { FakeVendors } from '../conversations/fake-vendors.ts'
import { SCENARIOS } from '../conversations/scenarios.ts'
import { LENIENT, VENDORS, type Vendor, variable } from '../conversations/vendors.ts'
import { type Act, startUpstream, type Upstream } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'

const ALL = [...VENDORS, LENIENT]
const upstreams: Upstream[] = []
let gateway: Started
let fakeVendors: FakeVendors | undefined

/** Vendors whose base URL does not end with a version. */
const BARE = new Set(['bedrock', 'cohere', 'ollama'])

const play = (vendor: Vendor, path: string, body: Parameters<FakeVendors['receive']>[2]): Act => {
  const sent = fakeVendors?.receive(vendor.name, decodeURIComponent(path.split('?')[0] ?? ''), body)
  assert.ok(sent, `${vendor.name} is called outside of a conversation`)
  return 'status' in sent
    ? { do: 'answer', status: sent.status, body: sent.body }
    : { do: 'stream', headers: { 'content-type': sent.mediaType }, pieces: sent.pieces }
}

/** The next vendor of the table, cyclically. */
const next = (at: number): Vendor => VENDORS[(at + 1) % VENDORS.length] ?? LENIENT
const target = ({ name, model }: Vendor): string => JSON.stringify(`${name}/${model}`)
const route = (name: string, [first, ...others]: readonly Vendor[]): string =>
  `  ${name}: { targets: [${first ? target(first) : ''}], fallback: [${others.map(target).join(', ')}] }`

before(async () => {
  const env: Record<string, string> = {}
  for (const vendor of ALL) {
    const upstream = await startUpstream(({ method, path, json }) =>
      method === 'POST' ? play(vendor, path, json) : { do: 'answer', status: 404, body: {} },
    )
    upstreams.push(upstream)
    const prefix = variable(vendor.name)
    Object.assign(env, vendor.env, {
      [`${prefix}_API_KEY`]: `sk-${vendor.name}-0123456789`,
      [`${prefix}_MODELS`]: vendor.model,
      [`${prefix}_BASE_URL`]: BARE.has(vendor.name) ? upstream.url : `${upstream.url}/v1`,
    })
  }
  const routes = VENDORS.flatMap((vendor, at) => [
    route(`first-${vendor.name}`, [vendor, next(at), LENIENT]),
    route(`second-${vendor.name}`, [next(at), LENIENT]),
  ])
  gateway = await start({ env, files: { 'headgate.yaml': `routes:\n${routes.join('\n')}\n` } })
})
after(async () => {
  await gateway?.stop()
  for (const upstream of upstreams) await upstream.close()
})

for (const [at, first] of VENDORS.entries())
  for (const stream of [false, true]) {
    const number = at * 2 + (stream ? 1 : 0)
    const client = CLIENTS[number % CLIENTS.length]
    const scenario = SCENARIOS[(number + Math.floor(number / CLIENTS.length)) % SCENARIOS.length]
    test(`conversations: ${first.name} → ${next(at).name}, ${client?.name}, ${scenario?.name}`, async () => {
      assert.ok(client && scenario)
      const conversation = {
        client,
        scenario,
        first,
        second: next(at),
        returns: stream,
        outage: 'route',
        stream,
      } as const
      fakeVendors = new FakeVendors(conversation)
      const turns = await converse(conversation, fakeVendors, async (body) => {
        const response = await fetch(gateway.url + protocols[client.style].path, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ ...body, model: `${body.model}-${first.name}` }),
        })
        const dropped = response.headers.get('x-headgate-dropped') ?? ''
        return { status: response.status, text: await response.text(), dropped }
      })
      // Known problems are listed in test/conversations/known.json and counted there.
      const held = turns.map(({ vendor, outcome }) => `${vendor.name}: ${outcome}`)
      assert.equal(held.length, 3, JSON.stringify(turns.at(-1)))
      assert.deepEqual(
        held.filter((turn) => /refused|not tried/.test(turn)),
        [],
        JSON.stringify(held),
      )
    })
  }
