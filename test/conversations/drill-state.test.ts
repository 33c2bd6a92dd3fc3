/** What live checks spend and save: over midnight, without the role, and while results are read. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DrillStorage } from '../../src/gateway/drill/live-store.ts'
import { openDrill, type Script, shapeWith } from './live-drill.ts'
import { VENDORS } from './vendors.ts'

const DAY = 86_400_000
/** Requests that stand for no other ones, so that each is sent. */
const CHOICES = ['choice.none', 'choice.required', 'choice.tool'] as const
const EFFORTS = ['effort.low', 'effort.medium', 'effort.high', 'effort.minimal'] as const
const SHAPES = CHOICES.flatMap((choice) => EFFORTS.map((effort) => shapeWith([choice, effort], { tools: 8, depth: 2 })))

const openai = VENDORS.find((one) => one.name === 'openai') ?? assert.fail()

/** A store that counts what is written. */
const counting = (more: Partial<DrillStorage> = {}) => {
  const texts: string[] = []
  const place: DrillStorage = {
    claim: async () => true,
    release: async () => {},
    load: async () => texts.at(-1) ?? null,
    save: async (text) => void texts.push(text),
    ...more,
  }
  return { texts, place }
}

type Drill = ReturnType<typeof openDrill>

const ended = async ({ live, world }: Drill) => {
  for (let waits = 0; live.state()?.ended === null && waits < 3_000; waits++) await world.advance(100)
  const state = live.state()
  return state?.ended ? state : assert.fail('the run has no end')
}

const opened = (
  places: { readonly spent: DrillStorage; readonly results: DrillStorage },
  broken: Script = () => false,
) => openDrill(openai, { shapes: SHAPES, storage: places, broken })

test('live checks: a run costs at most what it may, also over midnight', async () => {
  const run = async (script: (drill: Drill) => Script) => {
    const drill: Drill = opened({ spent: counting().place, results: counting().place }, (call) => script(drill)(call))
    const begun = await drill.live.begin(null, 5_800_000)
    assert.ok(begun.ok, JSON.stringify(begun))
    return ended(drill)
  }
  const within = await run(() => () => false)
  assert.ok(within.sent > 2 && within.sent < SHAPES.length, JSON.stringify(within))
  let calls = 0
  const over = await run(({ world }) => () => {
    const date = world.date()
    if (++calls === 2) Object.assign(world, { date: () => date + DAY })
    return false
  })
  assert.deepEqual([over.sent, over.spent], [within.sent, within.spent])
})

test('live checks: a gateway that has lost the role saves nothing more', async () => {
  let claims = 0
  const spent = counting({ claim: async () => ++claims <= 4 })
  const results = counting()
  const drill = opened({ spent: spent.place, results: results.place })
  assert.ok((await drill.live.begin(null, null)).ok)
  const { sent, left } = await ended(drill)
  assert.deepEqual([sent, left], [3, { other_gateway: 1 }])
  assert.deepEqual([spent.texts.length, results.texts.length], [3, 0])
})

test('live checks: what is read before a run does not replace what the run has found', async () => {
  const results = counting()
  let answer: (text: string) => void = () => {}
  const late = new Promise<string>((resolve) => (answer = resolve))
  const loads = [late]
  const place: DrillStorage = { ...results.place, load: () => loads.pop() ?? results.place.load() }
  let calls = 0
  const drill = opened({ spent: counting().place, results: place }, () => {
    if (++calls === 6) answer('[]')
    return false
  })
  const reading = drill.live.refresh()
  assert.ok((await drill.live.begin(null, null)).ok)
  await ended(drill)
  await reading
  const known = SHAPES.filter((shape) => drill.live.resultOf(shape, drill.candidate))
  assert.equal(known.length, SHAPES.length)
})

test('live checks: a result holds while the list of models is not known, and ends when the model leaves it', async () => {
  const drill = opened({ spent: counting().place, results: counting().place })
  const { live, lists, candidate } = drill
  const { id } = candidate.instance
  const isKnown = () => SHAPES.every((shape) => live.resultOf(shape, candidate))
  assert.ok((await live.begin(null, null)).ok)
  await ended(drill)
  assert.ok(isKnown())
  lists.set(id, [candidate.model])
  assert.ok(isKnown(), 'it was not known whether the model is listed')
  assert.ok((await live.begin(null, null)).ok)
  assert.equal((await ended(drill)).sent, 0)
  const listed = opened({ spent: counting().place, results: counting().place })
  listed.lists.set(id, [listed.candidate.model])
  assert.ok((await listed.live.begin(null, null)).ok)
  await ended(listed)
  const states = [[], null, [listed.candidate.model]].map((models) => {
    if (models) listed.lists.set(id, models)
    else listed.lists.delete(id)
    return SHAPES.every((shape) => listed.live.resultOf(shape, listed.candidate))
  })
  assert.deepEqual(states, [false, true, true])
})
