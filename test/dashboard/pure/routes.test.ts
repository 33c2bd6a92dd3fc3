/** Bodies of requests to explain, and what plans state. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { NEEDS } from '../../../dashboard/src/example-body.ts'
import { bodyOf, MOST_TOKENS, pastedBody } from '../../../dashboard/src/pages/routes/ask.ts'
import { entriesIn, linesOf } from '../../../dashboard/src/pages/routes/own-text.ts'
import {
  answerShare,
  changesTarget,
  effectOf,
  lossOf,
  type NameEffect,
  type PlannedTarget,
  plannedAt,
  type ShownRoute,
  stateOf,
  type TargetOfRoute,
} from '../../../dashboard/src/plans.ts'
import { REQUEST_STYLES } from '../../../src/core/request-styles.ts'

describe('a request to explain', () => {
  for (const style of REQUEST_STYLES)
    test(`${style}: has its model, and members for the needs that the style has`, () => {
      const plain = bodyOf({ model: 'm', style, needs: [], tokens: 1 })
      const full = bodyOf({ model: 'm', style, needs: NEEDS, tokens: 1 })
      assert.equal(full.model, 'm')
      const canMore = style !== 'completions' && style !== 'embeddings'
      assert.equal('tools' in full, canMore)
      assert.equal(JSON.stringify(full).includes('image'), canMore)
      assert.equal(/json_?schema/i.test(JSON.stringify(full)), canMore)
      assert.doesNotMatch(JSON.stringify(plain), /tools|image|json_?schema/i)
    })

  test('has about as many tokens as stated, between one word and what the API takes', () => {
    const length = (tokens: number) =>
      String(bodyOf({ model: 'm', style: 'completions', needs: [], tokens }).prompt).length
    assert.deepEqual([length(0), length(10), length(MOST_TOKENS * 2)], [4, 40, MOST_TOKENS * 4])
  })

  test('may be pasted, if it is a JSON object', () => {
    assert.deepEqual(pastedBody('{"model":"m"}'), { model: 'm' })
    for (const text of ['', '[1]', 'null', '"x"', '{"model":']) assert.equal(pastedBody(text), null)
  })
})

describe('the text of own routes', () => {
  test('has a line for each target, and reads it again', () => {
    const entries = [
      'openai/gpt-5',
      { provider: 'groq', weight: 2 },
      { provider: 'openai', model: 'gpt-5-mini', weight: 1 },
      { provider: 'openai', model: 'gpt-5', weight: 1, when: { tools: false } },
    ]
    const text = linesOf(entries)
    assert.equal(text.split('\n')[2], 'openai/gpt-5-mini')
    const read = entriesIn(`\n ${text}\n`)
    assert.deepEqual(read, { entries: [entries[0], entries[1], 'openai/gpt-5-mini', entries[3]] })
    assert.equal(linesOf([]), '')
    assert.deepEqual(entriesIn(' \n'), { entries: [] })
    assert.deepEqual(entriesIn('a/b\n{"provider": '), { wrong: '{"provider":' })
  })
})

describe('what an assumption means for names', () => {
  const one = (members: Partial<NameEffect>): NameEffect => ({
    ...{ object: 'what_if_name', name: 'm', direct: false, team: null, style: 'chat', requests: 3, before: null },
    ...{ answers: { provider: 'q', model: 'm' }, loses_target: false, loses: [], affected: 2, cost_per_hour: null },
    ...{ substitute_per_hour: null, extra_per_hour: null },
    ...members,
  })

  test('sums what is known, and counts what is not', () => {
    const [more, less] = [one({ extra_per_hour: '1.500000000' }), one({ extra_per_hour: '-0.250000000' })]
    assert.deepEqual(lossOf([more, less, one({}), one({ affected: 0 })]), {
      direct: [],
      extra: '1.250000000',
      unknown: 1,
    })
    const lost = one({ direct: true, loses_target: true, answers: null })
    assert.deepEqual(lossOf([lost, one({ loses_target: true, answers: null }), { ...lost, requests: 0 }]), {
      direct: [lost],
      extra: null,
      unknown: 0,
    })
  })
})

describe('a plan', () => {
  const target = (members: Partial<PlannedTarget>): PlannedTarget => ({
    provider: 'p',
    model: 'm',
    because: 'listed',
    fit: true,
    keys: [],
    ...members,
  })
  const until = '2026-11-23T10:00:00.000Z'

  test('has targets that are ready, unfit or at rest', () => {
    const rests = { id: 'a', may_be_tried: false, because: 'open', until }
    assert.deepEqual(stateOf(target({ keys: [rests, { id: 'b', may_be_tried: true }] })), { is: 'ready', key: 'b' })
    assert.deepEqual(stateOf(target({ fit: false, keys: [{ id: 'b', may_be_tried: true }] })), { is: 'unfit' })
    assert.deepEqual(stateOf(target({ keys: [rests] })), { is: 'resting', because: 'open', until })
    assert.deepEqual(stateOf(target({})), { is: 'resting', because: 'no_key', until: null })
  })

  const route = (model: string, members: Partial<ShownRoute>): ShownRoute => ({
    model,
    targets: [],
    answers: null,
    before: null,
    loses: [],
    error: null,
    ...members,
  })
  const [one, other] = [
    { provider: 'p', model: 'm' },
    { provider: 'q', model: 'm' },
  ]

  test('has the target at a place, or none', () => {
    const plan = route('r', { targets: [target({}), target({ model: 'n' })] })
    assert.equal(plannedAt(plan, { provider: 'p', model: 'n' }), plan.targets[1])
    assert.equal(plannedAt(plan, { provider: 'q', model: 'n' }), undefined)
    assert.equal(plannedAt(undefined, { provider: 'p', model: 'n' }), undefined)
  })

  test('has the share of each target in the answers, and none without answers', () => {
    const targets = [3, 1, 0].map((answered) => ({ answered }) as TargetOfRoute)
    assert.deepEqual(
      targets.map((one) => answerShare({ targets }, one)),
      [0.75, 0.25, 0],
    )
    const [, , none = assert.fail()] = targets
    assert.equal(answerShare({ targets: [none] }, none), null)
  })

  test('changes its target if another answers', () => {
    assert.ok(changesTarget(route('r', { answers: one, before: other })))
    assert.ok(changesTarget(route('r', { answers: null, before: other })))
    assert.ok(!changesTarget(route('r', { answers: one, before: { ...one } })))
    assert.ok(!changesTarget(route('r', {})))
  })

  test('of all routes states what an assumption does', () => {
    assert.deepEqual(
      effectOf([
        route('same', { answers: one, before: one }),
        route('moved', { answers: other, before: one, loses: ['tools'] }),
        route('moved-too', { answers: other, before: one, loses: ['tools'] }),
        route('poorer', { answers: one, before: one, loses: ['tools', 'vision'] }),
        route('gone', { before: one }),
      ]),
      {
        all: 5,
        left: 4,
        changed: 2,
        loses: [
          [['moved', 'moved-too'], ['tools']],
          [['poorer'], ['tools', 'vision']],
        ],
        noTarget: ['gone'],
      },
    )
  })
})
