import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stillWorld } from '../../../test/support/still-world.ts'
import { loadProviders } from '../../config/catalogue/load-providers.ts'
import { configure } from '../../config/configure.ts'
import { fileReader } from '../../config/file-reader.ts'
import type { Config } from '../../core/config.ts'
import { good, type Outcome } from '../../core/failure.ts'
import { priceBook } from '../../policy/accounts/price-book.ts'
import { UpstreamHealth } from '../health/upstream-health.ts'
import { DrillRuns } from './drill-runs.ts'
import type { ShapeCount } from './dry-drill.ts'

const HOUR = 3_600_000
const providers = await loadProviders()
const SHAPE: ShapeCount = { route: 'fast', access: '', shape: '1:chat:0:0:0:0:1024:0:1', weight: 10 }

const configOf = (url: string): Config => {
  const text = `drill: { shapes: true }\nproviders:\n  house: { kind: openai-compatible, baseUrl: "${url}", keys: [k] }\nroutes:\n  fast: { targets: [house/m1] }\n`
  const loaded = configure({ env: {}, file: { name: 'headgate.yaml', text, reader: fileReader }, providers })
  assert.ok(loaded.ok, JSON.stringify(loaded))
  return loaded.config
}

const given = () => {
  const world = stillWorld(() => {})
  const planner = {
    ...{ world, health: new UpstreamHealth(world, () => {}), catalogue: () => undefined },
    ...{ prices: () => priceBook(() => undefined, []), lists: () => new Map() },
  }
  const state = { config: configOf('http://127.0.0.1:9/v1'), reads: 0 }
  const read: (() => Promise<Outcome<readonly ShapeCount[]>>)[] = []
  const shapes = () => {
    state.reads++
    return read.shift()?.() ?? Promise.resolve(good([SHAPE]))
  }
  const runs = new DrillRuns({ live: () => undefined, planner, config: () => state.config, shapes })
  /** Runs to the end: pieces of the work are turns of the world. */
  const run = async () => {
    const [report] = await Promise.all([runs.run(), world.advance(0)])
    return report
  }
  return { world, state, read, runs, run }
}

test('drill runs: a report is current for an hour, and of the configuration that it was made with', async () => {
  const { world, state, runs, run } = given()
  assert.equal(runs.current, null)
  assert.ok((await run()).ok)
  assert.notEqual(runs.current, null)
  await world.advance(HOUR - 1)
  assert.notEqual(runs.current, null)
  await world.advance(1)
  assert.equal(runs.current, null)
  assert.ok((await run()).ok)
  state.config = configOf('http://127.0.0.1:10/v1')
  assert.equal(runs.current, null)
})

test('drill runs: a configuration that changes during a run is drilled after it', async () => {
  const { world, state, read, runs } = given()
  let answer = () => {}
  read.push(() => new Promise((resolve) => (answer = () => resolve(good([SHAPE])))))
  const first = runs.run()
  state.config = configOf('http://127.0.0.1:10/v1')
  const later = [runs.run(), runs.run()]
  answer()
  await Promise.all([first, ...later, world.advance(0)])
  assert.equal(state.reads, 2, 'once for each configuration')
  assert.notEqual(runs.current, null)
})
