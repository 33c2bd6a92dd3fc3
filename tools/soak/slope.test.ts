import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ClientView, faultOf, judge, textOf } from './oracle.ts'
import { isFlat, trendOf } from './slope.ts'

const line = (slope: number, noise: (at: number) => number) =>
  Array.from({ length: 60 }, (_, at) => ({ at, value: 100 + slope * at + noise(at) }))
/** Alternates up and down. */
const alternating = (by: number) => (at: number) => (at % 2 === 0 ? by : -by)

const trends = [
  ['a level line', line(0, () => 0), true],
  ['a level line with noise', line(0, alternating(20)), true],
  ['a leak of two a minute', line(2, () => 0), false],
  ['a leak of two a minute with noise', line(2, alternating(10)), false],
  ['growth below the limit', line(0.4, () => 0), true],
  ['a leak smaller than the noise', line(0.6, alternating(60)), true],
  ['falling', line(-3, alternating(5)), true],
] as const

for (const [name, samples, flat] of trends)
  test(`soak: ${name} is ${flat ? 'flat' : 'growth'}`, () => {
    assert.equal(isFlat(trendOf(samples), 60, { rate: 0.5, noise: 10 }), flat)
  })

test('soak: the slope is exact without noise', () => {
  const { slope, error, first, last } = trendOf(line(2, () => 0))
  assert.ok(Math.abs(slope - 2) < 1e-9 && error < 1e-6)
  assert.deepEqual([first, last], [100, 218])
})

/** The first ID with this fault at provider `a`. */
const idWith = (fault: string | null): string => {
  for (let at = 0; ; at++) if (faultOf(`r${at}`, 'a', 5) === fault) return `r${at}`
}
const good = idWith(null)
const text = textOf(good, 'a')
const view = (more: Partial<ClientView>): ClientView => ({
  id: good,
  text,
  status: 200,
  finished: true,
  error: null,
  whole: true,
  left: false,
  ...more,
})

const endings = [
  ['the complete text', view({}), 'complete'],
  ['the text without its last character', view({ text: text.slice(0, -1) }), 'silent'],
  ['an unexpected empty text', view({ text: '' }), 'silent'],
  ['an expected empty text', view({ id: idWith('empty'), text: '' }), 'empty'],
  ['the complete text without an end marker', view({ finished: false }), 'silent'],
  [
    'half of the text and an error',
    view({ text: text.slice(0, 30), finished: false, error: 'stream_interrupted' }),
    'interrupted',
  ],
  ['an error and then an end marker', view({ text: text.slice(0, 30), error: 'stream_interrupted' }), 'silent'],
  [
    'half of the text and a broken connection',
    view({ text: text.slice(0, 30), finished: false, whole: false }),
    'broken',
  ],
  ['the second half of another provider', view({ text: text.slice(0, 30) + textOf(good, 'b').slice(30) }), 'wrong'],
  ['additional text', view({ text: `${text} .` }), 'wrong'],
  ['the answer to another request', view({ text: textOf('r1x', 'a') }), 'wrong'],
  ['an error body', view({ status: 502, text: '', finished: false, error: 'status' }), 'refused'],
  ['an error status without an error', view({ status: 502, text: '', finished: false }), 'wrong'],
  ['a client that disconnected', view({ text: text.slice(0, 3), finished: false, left: true }), 'left'],
  ['no response', view({ status: 0, text: '', finished: false, whole: false }), 'broken'],
] as const

for (const [name, what, ending] of endings)
  test(`soak: ${name} is ${ending}`, () => {
    assert.equal(judge(what, ['a', 'b'], 5), ending)
  })

test('soak: each fault occurs with its configured share', () => {
  const counts = new Map<string | null, number>()
  for (let at = 0; at < 20_000; at++) {
    const fault = faultOf(`r${at}`, 'a', 5)
    counts.set(fault, (counts.get(fault) ?? 0) + 1)
  }
  assert.equal(counts.size, 13)
  for (const [fault, count] of counts)
    if (fault !== null) assert.ok(Math.abs(count - 1_000) < 150, `${fault}: ${count}`)
})
