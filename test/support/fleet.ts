/** Several gateways that share limits and budgets, in one process: the clock, the network and the ledger are the test's. */
import assert from 'node:assert/strict'
import type { AccountLimits, Budget } from '../../src/core/accounts.ts'
import { budgetCharge } from '../../src/core/journal.ts'
import { BudgetCounters } from '../../src/gateway/accounts/budget-counters.ts'
import type { CounterStore, LeaseReply } from '../../src/gateway/accounts/counter-store.ts'
import { LimitCounters } from '../../src/gateway/accounts/limit-counters.ts'
import { Reservations } from '../../src/gateway/accounts/reservations.ts'
import type { CommonCounters } from '../../src/limits/common-counters.ts'
import { CounterMemory } from '../../src/limits/counter-memory.ts'
import { budgetScope } from '../../src/policy/accounts/budget-scope.ts'
import { periodAt } from '../../src/policy/accounts/period.ts'
import { testBudget, testClient } from './accounts.ts'
import { recordIn, runOf, seededStore, type TestLedger, testLedger } from './counter-stores.ts'
import { type StillWorld, stillWorld } from './still-world.ts'

const RULES = { interval: 500, overdraft: 1, wait: 2_500, hurry: 50, starting: () => 10 }
const TIMEOUT = 1_000
export const RTT = 1

type Given = {
  readonly gateways?: number
  readonly limits?: Partial<AccountLimits>
  readonly budgets?: readonly Budget[]
  /** Each gateway has a ledger of its own. */
  readonly isPart?: boolean
}

/** The store of a fleet; it is empty at first. */
export type FleetStore = Omit<CommonCounters, 'close'> & {
  flush(): void
  /** What it does now; null: nothing. */
  working(): Promise<unknown> | null
}

/** `now`: ms of the fleet's clock. */
export const inMemory = (now: () => number): FleetStore => {
  let memory = new CounterMemory(now)
  return {
    lease: (holder, asks) => memory.lease(holder, asks),
    read: (counters) => memory.read(counters),
    flush: () => {
      memory = new CounterMemory(now)
    },
    working: () => null,
  }
}

export const fleetOf = ({ gateways = 3, limits = {}, budgets = [], isPart = false }: Given, storeIn = inMemory) => {
  const world = stillWorld(undefined, undefined, () => common.working())
  const common = storeIn(() => world.now())
  const ledger = testLedger()
  const store: CommonCounters = { ...common, close: async () => {} }
  const client = testClient(limits)
  const shared = { world, store, client, budgets, isPart }
  const start = (name: string, boot?: number) =>
    gatewayOf({ ...shared, ledger: isPart ? testLedger() : ledger }, name, boot)
  const all = Array.from({ length: gateways }, (_, at) => start(`g${at}`))
  return {
    world,
    ledger,
    all,
    start,
    flush: () => common.flush(),
    asks: () => all.reduce((sum, one) => sum + one.state.asks, 0),
  }
}

type Shared = {
  readonly world: StillWorld
  readonly store: CommonCounters
  readonly ledger: TestLedger
  readonly client: ReturnType<typeof testClient>
  readonly budgets: readonly Budget[]
  readonly isPart: boolean
}

const gatewayOf = ({ world, store, ledger, client, budgets, isPart }: Shared, name: string, boot = 1) => {
  const state = { isLost: false, asks: 0, spent: 0 }
  const lost: LeaseReply = { problem: 'lost', peers: 0, epoch: '', answers: [] }
  const delay = (ms: number) => new Promise<void>((resolve) => void world.later(ms, resolve))
  const network: CommonCounters = {
    ...store,
    async lease(holder, asks) {
      state.asks += asks.length
      await delay(state.isLost ? TIMEOUT : RTT)
      if (state.isLost) return lost
      const reply = await store.lease(holder, asks)
      await delay(RTT)
      return state.isLost ? lost : reply
    },
  }
  const run = runOf(name, boot)
  const counters: CounterStore = seededStore(network, name, { ledger, budgets, boot, isPart, now: world.now })
  const scopes = budgets.map(budgetScope)
  const cells = new BudgetCounters(() => scopes, { servesUnknown: () => false })
  const limits = new LimitCounters()
  const reservations = new Reservations({ world, store: counters, rules: () => RULES })
  const start = budgets[0] ? periodAt(budgets[0], world.date()).start : 0
  /** Asks for one request; null: refused. The ledger has what it costs at once. */
  const reserve = async (cost = 0, tokens = 0) => {
    const found = cells.cellsFor(client, { endUser: null, session: null }, null, world.date())
    assert.ok(!('id' in found))
    const all = { ...limits.cellsFor(client, world.now()), budgets: found }
    const result = await reservations.reserve(all, { first: true, cost, tokens })
    if ('refusal' in result) return { refusal: result.refusal, end: () => {} }
    const end = (charge = cost, counted = tokens) => {
      reservations.settle(result.reservation, { cost: charge, tokens: counted })
      reservations.release(result.reservation)
      state.spent += charge
      for (const { id } of budgets) recordIn(ledger, budgetCharge(`${id}:`, start), { run, spent: charge })
    }
    return { refusal: null, end }
  }
  const figures = async () => {
    await reservations.refresh(cells.current(world.date()))
    return cells.current(world.date()).map(({ used, held }) => [used, held])
  }
  /** A correction: the ledger has it before this process knows that it is stored. */
  const correct = async (amount: number) => {
    for (const cell of cells.current(world.date())) {
      recordIn(ledger, cell.charge, { run, spent: amount })
      await delay(5 * RTT)
      await reservations.adjust(cell, amount)
    }
  }
  return { state, reserve, figures, correct }
}

export type Fleet = ReturnType<typeof fleetOf>
export type Reserved = Awaited<ReturnType<Fleet['all'][number]['reserve']>>

/** Runs requests, one gateway after the other, at once. */
export const atOnce = async (fleet: Fleet, count: number, cost = 0, ms = 5_000): Promise<readonly Reserved[]> => {
  const asked = Promise.all(Array.from({ length: count }, (_, at) => fleet.all[at % fleet.all.length]?.reserve(cost)))
  await fleet.world.advance(ms)
  return ((await done(fleet, asked)) ?? []).filter((one) => one !== undefined)
}
/** The value of a promise, as soon as the clock has come so far. */
export const done = async <T>({ world }: Fleet, promise: Promise<T> | undefined): Promise<T | undefined> => {
  let isDone = false
  void promise?.then(() => {
    isDone = true
  })
  while (promise && !isDone) await world.advance(10)
  return promise
}
export const admitted = (all: readonly Reserved[]) => all.filter(({ refusal }) => refusal === null)
export const budget = (amount: number, more: Partial<Budget> = {}) => testBudget(amount, { period: 'total', ...more })
