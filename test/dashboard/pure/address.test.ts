import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  boundsOf,
  type Place,
  parsePlace,
  placePath,
  rangeAt,
  shared,
  toPage,
  withParam,
} from '../../../dashboard/src/address.ts'
import { PAGE_NAMES } from '../../../dashboard/src/page-table.ts'

const read = (path: string): Place | null => {
  const { pathname, search } = new URL(path, 'http://localhost')
  return parsePlace(pathname, search)
}
const given = (path: string): Place => {
  const place = read(path)
  assert.ok(place)
  return place
}

const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 20 }).filter((one) => one.isWellFormed())
const time = fc.constantFrom(null, 'now', '-15m', '-24h', '-30d', '2026-11-23T10:00:00.000Z')
const name = text.filter((one) => !['from', 'to', '__proto__'].includes(one))
const places = fc.record(
  {
    page: fc.constantFrom(...PAGE_NAMES),
    id: fc.option(text),
    from: time,
    to: time,
    params: fc
      .dictionary(name, fc.array(text, { minLength: 1, maxLength: 4 }), { maxKeys: 5, noNullPrototype: true })
      // Names that are whole numbers have an order of their own in an object.
      .filter((params) => Object.keys(params).every((key) => !/^\d+$/.test(key))),
  },
  { noNullPrototype: true },
)

test('an address is read as it was written, whatever is in it', () => {
  fc.assert(
    fc.property(places, (place) => {
      // An ID of dots is a relative path for every URL parser; no object has one.
      fc.pre(place.id === null || !/^\.{1,2}$/.test(place.id))
      // The overview has no objects: its address is the root.
      const one = place.page === 'overview' ? { ...place, id: null } : place
      assert.deepEqual(read(placePath(one)), one)
    }),
  )
})

test('slashes in the ID of an object stay slashes, unless the path would change its meaning', () => {
  const at = (id: string) => placePath({ page: 'routes', id, from: null, to: null, params: {} })
  assert.equal(at('openai/gpt-5 mini'), '/dashboard/routes/openai/gpt-5%20mini')
  assert.equal(at('a//b'), '/dashboard/routes/a%2F%2Fb')
  assert.equal(at('a/../b'), '/dashboard/routes/a%2F..%2Fb')
})

test('addresses are short and legible', () => {
  const place = given(
    '/dashboard/requests?status=failed,fellback&provider=groq&model=openai/gpt-5&tag=team:search&from=-15m',
  )
  assert.deepEqual(place.params.status, ['failed', 'fellback'])
  assert.equal(
    placePath(place),
    '/dashboard/requests?from=-15m&status=failed,fellback&provider=groq&model=openai/gpt-5&tag=team:search',
  )
  assert.equal(placePath(given('/dashboard')), '/dashboard/')
  assert.equal(given('/dashboard/requests/req_a').id, 'req_a')
})

test('other paths belong to no page', () => {
  for (const path of ['/', '/dashboards', '/dashboard/nowhere', '/admin/api/v1/session']) assert.equal(read(path), null)
})

test('an unknown parameter stays, and an invalid time is a parameter', () => {
  assert.deepEqual(given('/dashboard/?from=someday&colour=red').params, { from: ['someday'], colour: ['red'] })
})

test('range and filters go along to another page, other parameters do not', () => {
  const place = given('/dashboard/requests/req_a?from=-24h&provider=groq&sort=-total&cols=time')
  assert.equal(placePath(toPage(place, 'providers')), '/dashboard/providers?from=-24h&provider=groq')
})

test('a range is relative to now, and shared as absolute', () => {
  const now = Date.parse('2026-11-23T10:00:00.000Z')
  assert.deepEqual(rangeAt(given('/dashboard/'), now), { from: now - 900_000, to: now })
  assert.deepEqual(boundsOf(given('/dashboard/usage')), { from: '-30d', to: 'now' })
  assert.equal(
    placePath(shared(given('/dashboard/?from=-60m'), now)),
    '/dashboard/?from=2026-11-23T09:00:00.000Z&to=2026-11-23T10:00:00.000Z',
  )
  const reversed = rangeAt(given('/dashboard/?from=now&to=-60m'), now)
  assert.ok(reversed.from < reversed.to)
})

test('dates and days of the calendar are ranges in the time zone of the browser', () => {
  const now = new Date(2026, 10, 26, 18, 30).getTime()
  const at = (month: number, day: number) => new Date(2026, month - 1, day).getTime()
  for (const [query, from, to] of [
    ['from=today', at(11, 26), now],
    ['from=yesterday&to=today', at(11, 25), at(11, 26)],
    ['from=month', at(11, 1), now],
    ['from=last-month&to=month', at(10, 1), at(11, 1)],
    ['from=2026-11-25', at(11, 25), now],
    // The last date belongs to the range.
    ['from=2026-11-25&to=2026-11-25', at(11, 25), at(11, 26)],
  ] as const)
    assert.deepEqual(rangeAt(given(`/dashboard/usage?${query}`), now), { from, to }, query)
  assert.deepEqual(given('/dashboard/?from=2026-13-45').params, { from: ['2026-13-45'] })
})

test('a parameter without values is removed', () => {
  assert.equal(
    placePath(withParam(given('/dashboard/requests?provider=a&q=b'), 'provider', [])),
    '/dashboard/requests?q=b',
  )
})
