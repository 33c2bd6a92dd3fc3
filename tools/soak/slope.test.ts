import assert from 'node:assert/strict'
import { test } from 'node:test'
import { faultOf, type Heard, judge, textOf } from './oracle.ts'
import { isFlat, trendOf } from './slope.ts'

const line = (slope: number, noise: (at: number) => number) =>
  Array.from({ length: 60 }, (_, at) => ({ at, value: 100 + slope * at + noise(at) }))
/** Up and down in turn. */
const shaky = (by: number) => (at: number) => (at % 2 === 0 ? by : -by)

const growing = [
  ['a level line', line(0, () => 0), true],
  ['a level line that shakes', line(0, shaky(20)), true],
  ['a leak of two a minute', line(2, () => 0), false],
  ['a leak of two a minute under shaking', line(2, shaky(10)), false],
  ['less than is allowed', line(0.4, () => 0), true],
  ['a leak that drowns in shaking', line(0.6, shaky(60)), true],
  ['falling', line(-3, shaky(5)), true],
] as const

for (const [name, samples, flat] of growing)
  test(`soak: ${name} is ${flat ? 'flat' : 'growth'}`, () => {
    assert.equal(isFlat(trendOf(samples), 60, { rate: 0.5, noise: 10 }), flat)
  })

test('soak: a slope is found exactly where there is no noise', () => {
  const { slope, error, first, last } = trendOf(line(2, () => 0))
  assert.ok(Math.abs(slope - 2) < 1e-9 && error < 1e-6)
  assert.deepEqual([first, last], [100, 218])
})

/** The first id whose fault at `a` is this. */
const idWith = (fault: string | null): string => {
  for (let at = 0; ; at++) if (faultOf(`r${at}`, 'a', 5) === fault) return `r${at}`
}
const good = idWith(null)
const text = textOf(good, 'a')
const heard = (more: Partial<Heard>): Heard => ({
  id: good,
  text,
  status: 200,
  finished: true,
  error: null,
  whole: true,
  left: false,
  ...more,
})

const judged = [
  ['all of it', heard({}), 'complete'],
  ['all but a character', heard({ text: text.slice(0, -1) }), 'silent'],
  ['nothing', heard({ text: '' }), 'silent'],
  ['nothing, as was said', heard({ id: idWith('empty'), text: '' }), 'empty'],
  ['all of it, without its end', heard({ finished: false }), 'silent'],
  [
    'half of it and an error',
    heard({ text: text.slice(0, 30), finished: false, error: 'stream_interrupted' }),
    'interrupted',
  ],
  ['an error, and then a good end', heard({ text: text.slice(0, 30), error: 'stream_interrupted' }), 'silent'],
  ['half of it and a broken connection', heard({ text: text.slice(0, 30), finished: false, whole: false }), 'broken'],
  ['another provider’s second half', heard({ text: text.slice(0, 30) + textOf(good, 'b').slice(30) }), 'wrong'],
  ['a word twice', heard({ text: `${text} .` }), 'wrong'],
  ['somebody else’s answer', heard({ text: textOf('r1x', 'a') }), 'wrong'],
  ['a refusal', heard({ status: 502, text: '', finished: false, error: 'status' }), 'refused'],
  ['a refusal without a word', heard({ status: 502, text: '', finished: false }), 'wrong'],
  ['a client that left', heard({ text: text.slice(0, 3), finished: false, left: true }), 'left'],
  ['no answer', heard({ status: 0, text: '', finished: false, whole: false }), 'broken'],
] as const

for (const [name, what, ending] of judged)
  test(`soak: ${name} is ${ending}`, () => {
    assert.equal(judge(what, ['a', 'b'], 5), ending)
  })

test('soak: each fault has the share it is given', () => {
  const counts = new Map<string | null, number>()
  for (let at = 0; at < 20_000; at++) {
    const fault = faultOf(`r${at}`, 'a', 5)
    counts.set(fault, (counts.get(fault) ?? 0) + 1)
  }
  assert.equal(counts.size, 13)
  for (const [fault, count] of counts)
    if (fault !== null) assert.ok(Math.abs(count - 1_000) < 150, `${fault}: ${count}`)
})
