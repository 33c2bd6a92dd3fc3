import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type DrillSetup, drillFaults, soundSetups } from '../../../test/support/drill-faults.ts'
import { stillWorld } from '../../../test/support/still-world.ts'
import { openCatalogue } from '../../config/catalogue/catalogue.ts'
import { loadProviders } from '../../config/catalogue/load-providers.ts'
import { configure } from '../../config/configure.ts'
import { fileReader } from '../../config/file-reader.ts'
import { problemLine } from '../../config/problem.ts'
import { FULL_ACCESS } from '../../core/accounts.ts'
import type { Config } from '../../core/config.ts'
import { fail, good } from '../../core/failure.ts'
import { priceBook } from '../../policy/accounts/price-book.ts'
import { classText } from '../../policy/drill/access-class.ts'
import { type DrillFinding, lossText, READY, type RouteReport } from '../../policy/drill/report.ts'
import { type Shape, shapeOf, shapeText, tokenStep } from '../../policy/drill/shape.ts'
import { clientProtocolByStyle } from '../../protocols/index.ts'
import { UpstreamHealth } from '../health/upstream-health.ts'
import { DrillRuns } from './drill-runs.ts'
import { dryDrill, type ShapeCount } from './dry-drill.ts'

const providers = await loadProviders()
const catalogue = openCatalogue(() => {}, new URL('../../../data/catalogue.json', import.meta.url))
const NOW = Date.parse('2026-11-28')

const configOf = (yaml: string): Config => {
  const loaded = configure({ env: {}, file: { name: 'headgate.yaml', text: yaml, reader: fileReader }, providers })
  assert.ok(loaded.ok, loaded.ok ? '' : `${loaded.problems.map(problemLine).join('\n')}\n${yaml}`)
  return loaded.config
}

const shapesOf = ({ requests, input, require = '', models }: DrillSetup): readonly ShapeCount[] =>
  requests.map(({ style, body, weight }, at) => {
    const decoded = clientProtocolByStyle.get(style)?.decodeRequest(body)
    assert.ok(decoded?.ok, JSON.stringify(decoded))
    const shape = shapeOf(decoded.value, style)
    const isLong = input !== undefined && at === requests.length - 1
    return {
      route: 'fast',
      access: classText({ access: models ? [{ ...FULL_ACCESS, models }] : [], require: require || null }),
      shape: shapeText(isLong ? { ...shape, input: tokenStep(input / 4) } : shape),
      weight,
    }
  })

const drill = async (setup: DrillSetup): Promise<RouteReport> => {
  const config = configOf(setup.yaml)
  const world = { ...stillWorld(), date: () => NOW }
  const health = new UpstreamHealth(world, () => {})
  const { refusedKey, lists = {} } = setup
  for (const instance of config.instances) {
    const [key] = instance.keys
    const model = instance.models[0] ?? ''
    if (instance.id !== refusedKey?.provider || !key) continue
    const candidate = { instance, model, because: '', weight: 1 }
    health.cooldowns.failed({ candidate, key }, fail(refusedKey.kind, 'refused'))
  }
  const planner = {
    ...{ world, health, catalogue, prices: () => priceBook(catalogue, []) },
    lists: () => new Map(Object.entries(lists)),
  }
  const [report] = await dryDrill({ planner, config, shapes: shapesOf(setup), turn: async () => {} })
  return report ?? assert.fail('There is no route.')
}

test('dry drill: of 200 faults of 20 kinds, each that needs no request is found, named and measured', async () => {
  const found = new Map<string, number>()
  for (const fault of drillFaults(200)) {
    const report = await drill(fault)
    const unit = report.units.find((one) => one.unit === fault.unit) ?? assert.fail(fault.kind)
    const [cause] = unit.causes
    const isNamed = cause !== undefined && (cause.targets[0]?.by ?? null) === fault.part
    if (isNamed) found.set(fault.kind, (found.get(fault.kind) ?? 0) + 1)
    if (!fault.isDry) continue
    assert.ok(isNamed, `${fault.kind}: ${JSON.stringify(unit)}`)
    assert.ok(Math.abs((unit.lost ?? 0) - fault.share) < 0.001, `${fault.kind}: ${unit.lost} instead of ${fault.share}`)
  }
  const count = [...found.values()].reduce((sum, one) => sum + one, 0)
  assert.ok(count >= 120, `${count} of 200: ${JSON.stringify([...found])}`)
})

test('dry drill: of 1,000 sound set-ups none is accused', async () => {
  for (const setup of soundSetups(1_000)) {
    const { units } = await drill(setup)
    assert.ok(units.length >= 4)
    const accused = units.filter(({ lost }) => lost !== 0)
    assert.deepEqual(accused, [], setup.yaml)
  }
})

test('dry drill: the loss is a sentence', async () => {
  const [fault] = drillFaults(1)
  const report = await drill({
    ...(fault ?? assert.fail()),
    requests: (fault?.requests ?? []).map((one, at) => ({ ...one, weight: at === 0 ? 88 : 12 })),
  })
  const unit = report.units.find((one) => one.unit === 'openai') ?? assert.fail()
  assert.equal(
    lossText('fast', unit),
    'route `fast` would lose 12 % of its requests if OpenAI failed: tools are refused by house/m1',
  )
  assert.equal(unit.causes[0]?.requests, 12)
})

/** What the route loses without OpenAI. `known`: what live checks say of every shape at the other targets. */
const lossOf = async (
  fallbacks: readonly string[],
  shape: Partial<Shape>,
  known?: (model: string) => Partial<DrillFinding>,
) => {
  const names = ['openai/gpt-5-mini', ...fallbacks]
  const config = configOf(
    `fallback: same-model\ndrill: { shapes: true }\nproviders:\n  openai: { keys: [sk-openai-0123456789], models: [gpt-5-mini] }\n  deepseek: { keys: [sk-deepseek-0123456789], models: [deepseek-chat] }\n  house: { kind: openai-compatible, baseUrl: "http://127.0.0.1:9/v1", keys: [house-key-0123456789], models: [m1, m2] }\nroutes:\n  fast: { targets: [${names.map((name) => `"${name}"`).join(', ')}] }\n`,
  )
  const world = { ...stillWorld(), date: () => NOW }
  const planner = {
    ...{ world, health: new UpstreamHealth(world, () => {}), catalogue, prices: () => priceBook(catalogue, []) },
    lists: () => new Map(),
  }
  const whole: Shape = {
    ...{ style: 'chat', features: [], tools: 0, depth: 0, media: 0, others: 0, input: 1_024, output: 0 },
    ...shape,
  }
  const [report] = await dryDrill({
    ...{ planner, config, turn: async () => {} },
    shapes: [{ route: 'fast', access: classText({ access: [], require: null }), shape: shapeText(whole), weight: 10 }],
    ...(known && { known: (_, { model }) => ({ ...READY, source: 'live', at: NOW, ...known(model) }) }),
  })
  const unit = report?.units.find((one) => one.unit === 'openai') ?? assert.fail()
  return { lost: unit.lost, unknown: unit.unknown, by: unit.causes[0]?.targets.map(({ by }) => by) }
}
const UNKNOWN = { lost: 0, unknown: 1, by: undefined }
const SERVED = { lost: 0, unknown: 0, by: undefined }

test('dry drill: what is not encoded is unknown, whatever live checks say, and lost where the format cannot carry it', async () => {
  const ready = () => ({})
  for (const shape of [
    { others: 1 },
    { features: ['image.url'], media: 1 },
    { features: ['file.id'], media: 1 },
    { features: ['extra.mcp_servers'] },
    { features: ['hosted.web_search', 'extra.background'], tools: 1 },
    { features: ['part.foreign'] },
  ] as const) {
    assert.deepEqual(await lossOf(['house/m1'], shape), UNKNOWN, JSON.stringify(shape))
    assert.deepEqual(await lossOf(['house/m1'], shape, ready), UNKNOWN, JSON.stringify(shape))
  }
  const pictures = { features: ['image.url'], media: 1 } as const
  assert.deepEqual(await lossOf(['deepseek/deepseek-chat'], pictures), { lost: 1, unknown: 0, by: ['pictures'] })
  assert.deepEqual(await lossOf(['house/m1'], { features: ['set.seed'] }), SERVED)
})

test('dry drill: a refusal of the request itself is the answer, and further targets are not tried', async () => {
  const refusing = (isFinal: boolean) => (model: string) =>
    model === 'm1' ? ({ verdict: 'refused', by: 'tool.pattern', isFinal } as const) : {}
  const targets = ['house/m1', 'house/m2']
  assert.deepEqual(await lossOf(targets, {}, refusing(true)), { lost: 1, unknown: 0, by: ['tool.pattern'] })
  assert.deepEqual(await lossOf(targets, {}, refusing(false)), SERVED)
  const doubt = () => ({ verdict: 'doubt', by: 'tools.128' }) as const
  assert.deepEqual(await lossOf(targets, {}, doubt), UNKNOWN)
})

test('drill runs: only a live refusal that blames the request is final', async () => {
  const config = configOf(
    'fallback: same-model\ndrill: { shapes: true }\nproviders:\n  openai: { keys: [sk-openai-0123456789], models: [gpt-5-mini] }\n  house: { kind: openai-compatible, baseUrl: "http://127.0.0.1:9/v1", keys: [house-key-0123456789], models: [m1, m2] }\nroutes:\n  fast: { targets: ["openai/gpt-5-mini", "house/m1", "house/m2"] }\n',
  )
  const world = { ...stillWorld(), date: () => NOW }
  const planner = {
    ...{ world, health: new UpstreamHealth(world, () => {}), catalogue, prices: () => priceBook(catalogue, []) },
    lists: () => new Map(),
  }
  const shape = shapeText({
    ...{ style: 'chat', features: [], tools: 0, depth: 0, media: 0, others: 0, input: 1_024, output: 0 },
  })
  const access = classText({ access: [], require: null })
  for (const [kind, lost] of [
    ['invalid_request', 1],
    ['invalid_value', 1],
    ['permission', 0],
    ['context_length', 0],
  ] as const) {
    const runs = new DrillRuns({
      ...{ planner, config: () => config, shapes: async () => good([{ route: 'fast', access, shape, weight: 10 }]) },
      live: (_, { model }) => ({
        ...{ at: NOW, source: 'live', target: '' },
        ...(model === 'm1' ? { verdict: 'refused', kind, by: 'target' } : { verdict: 'ready' }),
      }),
    })
    const [report] = await Promise.all([runs.run(), world.advance(0)])
    assert.ok(report.ok)
    const unit = report.value.routes[0]?.units.find((one) => one.unit === 'openai')
    assert.equal(unit?.lost, lost, kind)
  }
})

test('dry drill: shapes and classes that are not known are unknown, and never lost or ready', async () => {
  const [fault] = drillFaults(1)
  const config = configOf(fault?.yaml ?? '')
  const world = { ...stillWorld(), date: () => NOW }
  const planner = {
    ...{ world, health: new UpstreamHealth(world, () => {}), catalogue, prices: () => priceBook(catalogue, []) },
    lists: () => new Map(),
  }
  const shape = { route: 'fast', access: '', shape: 'other', weight: 10 }
  const [report] = await dryDrill({ planner, config, shapes: [shape], turn: async () => {} })
  const unit = report?.units.find((one) => one.unit === 'openai')
  assert.deepEqual([unit?.lost, unit?.unknown], [0, 1])
  const [ofClass] = await dryDrill({ planner, config, shapes: [{ ...shape, access: '?' }], turn: async () => {} })
  assert.equal(ofClass?.units.find((one) => one.unit === 'openai')?.unknown, 1)
  const [none] = await dryDrill({ planner, config, shapes: [], turn: async () => {} })
  assert.deepEqual([none?.requests, none?.units.map(({ lost }) => lost).filter((lost) => lost !== null)], [0, []])
})
