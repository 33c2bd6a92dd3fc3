import assert from 'node:assert/strict'
import { test } from 'node:test'
import { instance } from '../../../test/support/gateway.ts'
import { defaultSettings } from '../../../test/support/settings.ts'
import type { Catalogue, Config } from '../../core/config.ts'
import type { DeclaredRetirement } from '../../core/retirement.ts'
import type { Route } from '../../core/route.ts'
import { draftPlan, type PlanInput } from './plan.ts'
import { type KnownEnds, retiringModels, servingModels } from './retirement.ts'

const catalogue: Catalogue = () => undefined
const END = 5_000
const models = (stated: Readonly<Record<string, DeclaredRetirement>>) => ({
  ...instance('a'),
  models: ['old'],
  retirements: new Map(Object.entries(stated)),
})
const CHAIN = models({
  old: { at: END, successor: 'new' },
  new: { at: 2 * END, successor: 'newest' },
  alone: { at: END },
})
const LOOP = models({ one: { at: 0, successor: 'two' }, two: { at: 0, successor: 'one' } })
/** Only what the file states. */
const ends = (now: number): KnownEnds => ({
  now,
  of({ instance: { retirements }, model }) {
    const stated = retirements?.get(model)
    return stated?.at === undefined ? null : { ...stated, at: stated.at, known: 0, source: 'file' }
  },
})

const cases: readonly (readonly [string, string, KnownEnds | null, readonly string[], number])[] = [
  ['serves until its end', 'old', ends(END - 1), ['old'], END],
  ['is replaced from its end on', 'old', ends(END), ['new'], 2 * END],
  ['is replaced by the successor of its successor', 'old', ends(2 * END), ['newest'], Number.POSITIVE_INFINITY],
  ['without a successor is tried after its end', 'alone', ends(END), ['alone'], Number.POSITIVE_INFINITY],
  ['without an end serves', 'other', ends(END), ['other'], Number.POSITIVE_INFINITY],
  ['is any of them without a time', 'old', null, ['old', 'new', 'newest'], Number.POSITIVE_INFINITY],
]
for (const [name, model, at, served, until] of cases)
  test(`retirement: a model ${name}`, () =>
    assert.deepEqual(servingModels({ instance: CHAIN, model }, at), { models: served, until }))

test('retirement: successors in a circle end', () => {
  assert.deepEqual(servingModels({ instance: LOOP, model: 'one' }, ends(1)).models, ['two'])
  assert.deepEqual(servingModels({ instance: LOOP, model: 'one' }, null).models, ['one', 'two'])
})

const route = (more: Partial<Route> = {}): Route => ({
  name: 'r',
  targets: [{ provider: 'a', model: 'old', weight: 3 }],
  fallback: [{ provider: 'a', model: 'alone', weight: 1 }],
  ...more,
})
const configOf = (one: Route): Config => ({
  settings: defaultSettings,
  instances: [CHAIN],
  routes: new Map([[one.name, one]]),
})
const drafted = (one: Route, more: Partial<PlanInput> = {}) => {
  const draft = draftPlan({ config: configOf(one), lists: new Map(), catalogue, model: 'r', ...more })
  assert.ok(draft.ok)
  const { groups, until } = draft.value
  return [groups.flatMap(({ candidates }) => candidates.map((each) => [each.model, each.weight, each.because])), until]
}

test('retirement: a route replaces a target only if it says so, and until a time', () => {
  const [target, fallback] = ['the route "r"', 'the fallback of the route "r"']
  assert.deepEqual(drafted(route(), { ends: ends(END) }), [
    [
      ['old', 3, target],
      ['alone', 1, fallback],
    ],
    undefined,
  ])
  const asked = route({ onRetired: 'successor' })
  assert.deepEqual(drafted(asked, { ends: ends(END - 1) })[1], END)
  assert.deepEqual(drafted(asked, { ends: ends(END) }), [
    [
      ['new', 3, `${target}, in place of old`],
      ['alone', 1, fallback],
    ],
    2 * END,
  ])
})

test('retirement: without a time a plan has the successors too, as a proof needs it', () => {
  const [candidates] = drafted(route({ onRetired: 'successor' }))
  assert.deepEqual(Array.isArray(candidates) && candidates.map(([model]) => model), ['old', 'new', 'newest', 'alone'])
})

test('retirement: models in use are those of the configuration, of routes and of requests', () => {
  const sources = { config: configOf(route()), lists: new Map(), catalogue }
  const found = (until: number, used: readonly string[] = []) =>
    retiringModels(sources, ends(0), { until, used: () => used }).map(({ model, routes }) => [model, routes])
  assert.deepEqual(found(END - 1), [])
  assert.deepEqual(found(END), [
    ['old', ['r']],
    ['alone', ['r']],
  ])
  assert.deepEqual(found(3 * END, ['new', 'unknown']).at(-1), ['new', []])
})
