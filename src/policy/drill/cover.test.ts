import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { cover, type LiveVerdict, type ProbeOutcome, partsOf, type ShapePart } from './cover.ts'
import { FEATURES, type Feature } from './features.ts'
import type { Shape } from './shape.ts'
import { drilledPart } from './smallest.ts'

const shape = (features: readonly Feature[], amounts: Partial<Shape> = {}): Shape => ({
  ...{ style: 'chat', tools: 0, depth: 0, media: 0, others: 0, input: 1_024, output: 0 },
  features: FEATURES.filter((one) => features.includes(one)),
  ...amounts,
})

const READY = { verdict: 'ready' } as const
const REFUSED = { verdict: 'refused', kind: 'invalid_request' } as const
const UNSETTLED = { verdict: 'unsettled', kind: 'rate_limited' } as const

const run = (shapes: readonly Shape[], target: (sent: Shape) => ProbeOutcome) => {
  const verdicts = new Map<Shape, LiveVerdict>()
  const sent: Shape[] = []
  const steps = cover(shapes, (one, verdict) => {
    assert.ok(!verdicts.has(one), 'a shape is settled once')
    verdicts.set(one, verdict)
  })
  for (let step = steps.next(); !step.done; ) {
    sent.push(step.value)
    step = steps.next(target(step.value))
  }
  assert.equal(verdicts.size, shapes.length)
  return { of: (one: Shape) => verdicts.get(one), sent }
}

const refusing =
  (...refused: readonly ShapePart[]) =>
  (sent: Shape): ProbeOutcome =>
    partsOf(sent).some((part) => refused.includes(part)) ? REFUSED : READY

test('cover: an accepted shape stands for all within it', () => {
  const large = shape(['stream', 'tool.pattern', 'set.temperature'], { tools: 32, depth: 3 })
  const within = [shape([]), shape(['stream']), shape(['tool.pattern'], { tools: 8, depth: 2 })]
  const { of, sent } = run([...within, large], refusing())
  assert.deepEqual(sent, [drilledPart(large)])
  for (const one of [...within, large]) assert.deepEqual(of(one), READY)
})

test('cover: a choice, a prefill and an effort imply nothing about requests without them', () => {
  const chosen = shape(['choice.required', 'stream'], { tools: 8 })
  const { sent } = run([chosen, shape(['stream'], { tools: 8 })], refusing())
  assert.equal(sent.length, 2)
})

test('cover: the refused keyword is named in at most eight requests, and stands for all shapes with it', () => {
  const keywords = FEATURES.filter((one) => one.startsWith('schema.'))
  const large = shape(['stream', 'format.schema', 'format.strict', ...keywords], { tools: 8, depth: 5 })
  const small = shape(['format.schema', 'schema.pattern'], { depth: 2 })
  const without = shape(['format.schema', 'schema.enum'], { depth: 2 })
  const { of, sent } = run([small, large, without], refusing('schema.pattern'))
  assert.deepEqual(of(large), { ...REFUSED, by: 'schema.pattern' })
  assert.deepEqual(of(small), { ...REFUSED, by: 'schema.pattern' })
  assert.deepEqual(of(without), READY)
  assert.ok(sent.length <= 10, `${sent.length} requests`)
})

test('cover: an amount is named by its step, and in doubt if the limit is inside the step', () => {
  const upTo = (most: number) => (sent: Shape) => (Math.max(sent.tools, sent.media) > most ? REFUSED : READY)
  const many = shape(['stream'], { tools: 128, depth: 2 })
  const larger = shape([], { tools: 129, depth: 2 })
  const fewer = shape([], { tools: 32, depth: 2 })
  const at = (most: number) => run([fewer, many, larger], upTo(most))
  assert.deepEqual(at(32).of(many), { ...REFUSED, by: 'tools.128' })
  assert.deepEqual(at(64).of(many), { ...REFUSED, verdict: 'doubt', by: 'tools.128' })
  // More than 128 are more than 64.
  assert.deepEqual(at(64).of(larger), { ...REFUSED, by: 'tools.128' })
  assert.deepEqual(at(64).of(fewer), READY)
  const pictures = shape(['image.data', 'image.png'], { media: 8 })
  assert.equal(run([pictures], upTo(5)).of(pictures)?.verdict, 'doubt')
  assert.deepEqual(run([pictures], upTo(1)).of(pictures), { ...REFUSED, by: 'media.8' })
})

test('cover: whether the least of a step is accepted is tried once', () => {
  const shapes = (['stream', 'set.seed', 'set.topK'] as const).map((one) => shape([one], { tools: 32, depth: 2 }))
  for (const [most, verdict] of [
    [8, 'refused'],
    [20, 'doubt'],
  ] as const) {
    const { of, sent } = run(shapes, ({ tools }) => (tools > most ? REFUSED : READY))
    for (const one of shapes) assert.equal(of(one)?.verdict, verdict)
    assert.equal(sent.filter(({ tools }) => tools === 9).length, 1)
  }
})

test('cover: a target that refuses the plain request is named as a whole, with two requests', () => {
  const shapes = [shape(['stream']), shape(['image.data', 'image.png'], { media: 1 }), shape([])]
  const { of, sent } = run(shapes, () => ({ verdict: 'refused', kind: 'permission' }))
  for (const one of shapes) assert.deepEqual(of(one), { verdict: 'refused', kind: 'permission', by: 'target' })
  assert.equal(sent.length, 2)
})

test('cover: a rate limit is no refusal, wherever it occurs', () => {
  const large = shape(['stream', 'format.schema', 'schema.pattern'], { depth: 2 })
  for (let at = 0; at < 5; at++) {
    let count = 0
    const { of } = run([large], (sent) => (count++ === at ? UNSETTLED : refusing('schema.pattern')(sent)))
    const verdict = of(large)
    if (verdict?.verdict === 'refused') assert.ok(verdict.by === null || verdict.by === 'schema.pattern')
    else assert.deepEqual(verdict, UNSETTLED)
    assert.deepEqual(run([large], () => UNSETTLED).of(large), UNSETTLED)
  }
})

const DRILLED = FEATURES.filter((one) => drilledPart(shape([one])).features.length > 0)
const anyShape = fc
  .record({
    features: fc.subarray([...DRILLED], { maxLength: 12 }),
    tools: fc.constantFrom(0, 1, 8, 32, 128, 129),
    depth: fc.integer({ min: 0, max: 6 }),
    media: fc.constantFrom(0, 1, 8),
    style: fc.constantFrom('chat' as const, 'messages' as const),
  })
  .map(({ features, ...amounts }) => shape(features, amounts))

test('cover: the verdicts are those of each shape alone', () => {
  const anyRefusals = fc.array(fc.array(fc.constantFrom(...DRILLED), { minLength: 1, maxLength: 2 }), { maxLength: 3 })
  fc.assert(
    fc.property(fc.array(anyShape, { minLength: 1, maxLength: 12 }), anyRefusals, (shapes, refusals) => {
      const target = ({ features }: Shape): ProbeOutcome =>
        refusals.some((together) => together.every((one) => features.includes(one))) ? REFUSED : READY
      const { of, sent } = run(shapes, target)
      for (const one of shapes) {
        const verdict = of(one)
        assert.equal(verdict?.verdict, target(drilledPart(one)).verdict, JSON.stringify({ one, refusals }))
        // The named part belongs to a refusal that the shape meets.
        if (verdict?.verdict === 'refused' && verdict.by !== null)
          assert.ok(
            refusals.some(
              (all) => all.some((part) => part === verdict.by) && all.every((f) => one.features.includes(f)),
            ),
            `${verdict.by} of ${JSON.stringify(refusals)}`,
          )
      }
      assert.ok(sent.length <= shapes.length * 12 + 2)
    }),
    { numRuns: 1_000 },
  )
})
