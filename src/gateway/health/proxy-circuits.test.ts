import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultSettings } from '../../../test/support/settings.ts'
import { stillWorld } from '../../../test/support/still-world.ts'
import { fail } from '../../core/failure.ts'
import { list, object } from '../../core/json.ts'
import type { Instance } from '../../core/provider.ts'
import type { Target } from '../../core/target.ts'
import type { GatewayEvent } from '../../core/trace.ts'
import { emptyHistory, recordFailure, remainingTargets } from '../../policy/routing/next-target.ts'
import { providersStatus } from '../handlers/status.ts'
import { UpstreamHealth } from './upstream-health.ts'

const key = { id: 'k', secret: null, weight: 1 }
const instance = (id: string, proxy?: string): Instance => ({
  id,
  provider: { name: id, title: id, order: 1, speaks: [{ protocol: 'openai-chat' }], auth: 'none' },
  baseUrl: `https://${id}.example/v1`,
  keys: [key],
  models: ['m'],
  speaks: [{ protocol: 'openai-chat' }],
  variables: {},
  ...(proxy !== undefined && { proxy }),
})
const PROXY = 'proxy.corp:3128'
const instances = [instance('a', PROXY), instance('b', PROXY), instance('other', 'dmz.corp:8080'), instance('direct')]
const targets = instances.map(
  (one): Target => ({
    candidate: { instance: one, model: 'm', because: '', weight: 1 },
    key,
  }),
)
const [a] = targets
assert.ok(a)

const broken = fail('proxy', 'The proxy cannot be reached.', { unsent: true })
const refused = fail('proxy', 'It opens no connection to a.', { unsent: true, endpointOnly: true })

/** The providers whose circuits are open after five failures at `a`. */
const openAfter = (failure: typeof broken) => {
  const events: GatewayEvent[] = []
  const health = new UpstreamHealth(stillWorld(), (event) => events.push(event))
  for (let failures = 0; failures < 5; failures++) {
    const permit = health.admit(a, defaultSettings, 'normal')
    assert.ok('failed' in permit)
    permit.failed(failure)
  }
  const isOpen = (target: Target) => health.refuses(target, defaultSettings, 'normal')?.why === 'circuit'
  const { data } = providersStatus(health, { instances, settings: defaultSettings, routes: new Map() }, () => ['m'])
  const states = list(data).map((one) => `${object(object(one)?.circuit)?.state}`)
  const open = targets.filter(isOpen).map(({ candidate }) => candidate.instance.id)
  return {
    open,
    states,
    events: events.map((event) => (event.event === 'circuit' ? `${event.what} ${event.name}` : '')),
  }
}

test('proxy circuits: a proxy that fails is not tried for the other providers that use it', () => {
  assert.deepEqual(openAfter(broken), {
    open: ['a', 'b'],
    states: ['open', 'open', 'closed', 'closed'],
    events: [`proxy proxy ${PROXY}`],
  })
})

test('proxy circuits: what a proxy refuses for one host affects that base URL only', () => {
  assert.deepEqual(openAfter(refused), {
    open: ['a'],
    states: ['open', 'closed', 'closed', 'closed'],
    events: ['endpoint https://a.example/v1'],
  })
})

for (const [failure, left] of [
  [broken, ['other', 'direct']],
  [refused, ['b', 'other', 'direct']],
] as const)
  test(`proxy circuits: the request goes on with ${left.join(', ')}`, () => {
    const plan = { by: 'listed', candidates: targets.map(({ candidate }) => candidate), skipped: [] } as const
    const history = recordFailure(emptyHistory, a, failure)
    const next = [...remainingTargets(plan, history, ({ instance: { keys } }) => keys)]
    assert.deepEqual(
      next.map(({ candidate }) => candidate.instance.id),
      left,
    )
  })
