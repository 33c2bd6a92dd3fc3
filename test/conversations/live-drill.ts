/** Live checks of one vendor in this process: a still clock, a strict fake vendor, and a store of its own unless it is given one. */
import assert from 'node:assert/strict'
import { FULL_ACCESS, NO_LIMITS, type Team } from '../../src/core/accounts.ts'
import { NO_REQUIRE } from '../../src/core/data-policy.ts'
import { LiveDrill } from '../../src/gateway/drill/live-drill.ts'
import type { DrillStorage } from '../../src/gateway/drill/live-store.ts'
import { FEATURES, type Feature } from '../../src/policy/drill/features.ts'
import type { Shape } from '../../src/policy/drill/shape.ts'
import { testAccounts } from '../support/accounts.ts'
import { type ScriptedCall, stillWorld } from '../support/still-world.ts'
import { FakeVendors } from './fake-vendors.ts'
import { answer, gatewayFor, prices } from './in-process.ts'
import type { Vendor } from './vendors.ts'

const TEAM: Team = {
  ...{ id: 'team_drill', name: 'drill', status: 'active', managed: 'file', tags: {}, cache: null },
  ...{ access: FULL_ACCESS, limits: NO_LIMITS, require: NO_REQUIRE },
}

const inMemory = (): DrillStorage => {
  let text: string | null = null
  return {
    claim: async () => true,
    release: async () => {},
    load: async () => text,
    save: async (body) => {
      text = body
    },
  }
}

export type Script = (call: ScriptedCall) => boolean

type Opened = {
  readonly shapes: readonly Shape[]
  readonly broken?: Script | undefined
  readonly storage?: { readonly spent: DrillStorage; readonly results: DrillStorage }
  readonly budget?: string
}

export const openDrill = (vendor: Vendor, { shapes, broken = () => false, storage, budget = '0.50' }: Opened) => {
  const fakes = new FakeVendors({ first: vendor, second: vendor, outage: 'down' })
  fakes.begin({ thought: '' }, false)
  const world = stillWorld((call) => {
    if (!broken(call)) answer(fakes, call)
  })
  const base = gatewayFor(fakes, world)
  const config = base.config()
  const drill = { ...config.settings.drill, live: true, at: 'never', budget }
  /** The models that the vendor lists; empty: not known yet. */
  const lists = new Map<string, readonly string[]>()
  const gateway = {
    ...base,
    accounts: testAccounts(world, { prices: () => prices }),
    config: () => ({ ...config, settings: { ...config.settings, drill } }),
    lists: () => lists,
  }
  const instance = config.instances.find(({ id }) => id === vendor.name)
  assert.ok(instance)
  const candidate = { instance, model: vendor.model, because: 'the route "fast"', weight: 1 }
  const live = new LiveDrill({
    gateway: () => gateway,
    version: 'test',
    isSender: true,
    team: () => TEAM,
    storage: storage ?? { spent: inMemory(), results: inMemory() },
    work: async () => [{ route: 'fast', candidate, others: [candidate], shapes }],
    weekSpend: async () => 7e12,
    hours: async () => [],
    pause: 0,
  })
  return { live, world, candidate, lists }
}

export const shapeWith = (features: readonly Feature[], amounts: Partial<Shape> = {}): Shape => ({
  ...{ style: 'chat', tools: 0, depth: 0, media: 0, others: 0, input: 1_024, output: 0 },
  features: FEATURES.filter((one) => features.includes(one)),
  ...amounts,
})
