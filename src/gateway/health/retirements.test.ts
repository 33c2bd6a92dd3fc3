import assert from 'node:assert/strict'
import { test } from 'node:test'
import { instance } from '../../../test/support/gateway.ts'
import type { Catalogue } from '../../core/config.ts'
import { Retirements } from './retirements.ts'

const day = (text: string): number => Date.parse(`${text}T00:00:00Z`)
const catalogue: Catalogue = Object.assign(
  (provider: string, model: string) => (provider === 'a' && model === 'm' ? { retires: day('2027-04-04') } : undefined),
  { date: () => '2026-11-26' },
)
const candidate = (model: string, stated?: { readonly at?: number; readonly successor?: string }) => ({
  instance: { ...instance('a'), ...(stated && { retirements: new Map([[model, stated]]) }) },
  model,
  because: '',
  weight: 1,
})

test('retirements: an end comes from the file, the provider’s list, an answer or the catalogue, in this order', () => {
  let date = day('2026-11-27')
  const ends = new Retirements({ date: () => date })
  const of = (stated?: Parameters<typeof candidate>[1]) => {
    const end = ends.of(catalogue, candidate('m', stated))
    return end && [new Date(end.at).toISOString().slice(0, 10), end.source, end.successor, end.known]
  }
  assert.deepEqual(of(), ['2027-04-04', 'catalogue', undefined, day('2026-11-26')])
  date = day('2026-11-28')
  ends.answered(candidate('m'), day('2027-03-03'))
  assert.deepEqual(of(), ['2027-03-03', 'answer', undefined, date])
  ends.list('a', new Map([['m', day('2027-02-02')]]))
  assert.deepEqual(of(), ['2027-02-02', 'list', undefined, date])
  // The successor of the file goes with any date.
  assert.deepEqual(of({ successor: 'n' }), ['2027-02-02', 'list', 'n', date])
  assert.deepEqual(of({ at: day('2027-01-01') }), ['2027-01-01', 'file', undefined, day('2026-11-27')])
})

test('retirements: a date that is stated again was known before, another one is new', () => {
  let date = 1_000
  const ends = new Retirements({ date: () => date })
  const known = () => ends.of(catalogue, candidate('x'))?.known
  ends.list('a', new Map([['x', 9_000]]))
  date = 2_000
  ends.list('a', new Map([['x', 9_000]]))
  assert.equal(known(), 1_000)
  ends.list('a', new Map([['x', 8_000]]))
  assert.equal(known(), 2_000)
  // The provider has withdrawn it.
  ends.list('a', new Map())
  assert.equal(ends.of(catalogue, candidate('x')), null)
  ends.answered(candidate('x'), 7_000)
  date = 3_000
  ends.answered(candidate('x'), 7_000)
  assert.equal(known(), 2_000)
})
