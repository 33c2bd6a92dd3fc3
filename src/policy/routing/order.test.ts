import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Instance, ProviderKey } from '../../core/provider.ts'
import type { Candidate } from '../../core/target.ts'
import { type CandidateView, orderKeys as inOrder, type KeyView, orderCandidates } from './order.ts'

/** A seeded random generator (mulberry32), so that results are reproducible. */
const seeded = (seed: number) => {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

const instance = (id: string): Instance => ({
  id,
  provider: { name: id, title: id, order: 0, speaks: [], auth: 'none' },
  baseUrl: `http://${id}.example`,
  keys: [],
  models: [],
  speaks: [],
  variables: {},
})
const candidate = (id: string, weight = 1): Candidate => ({ instance: instance(id), model: 'm', because: '', weight })
const named = (weights: Record<string, number>) => Object.entries(weights).map(([id, weight]) => candidate(id, weight))
const ids = (candidates: readonly Candidate[]) => candidates.map((one) => one.instance.id).join('')
const view = (more: Partial<CandidateView> = {}): CandidateView => ({
  latency: () => 0,
  price: () => undefined,
  ...more,
})

const keyOf = (id: string, weight = 1): ProviderKey => ({ id, secret: null, weight })
const keyView = (more: Partial<KeyView> = {}): Omit<KeyView, 'totalInFlight'> => ({
  inFlight: () => 0,
  quotaLeft: () => undefined,
  requestNumber: 0,
  ...more,
})

/** The complete order, including keys that are ordered lazily. */
const orderKeys = (
  keys: readonly ProviderKey[],
  strategy: Parameters<typeof inOrder>[1],
  view: Omit<KeyView, 'totalInFlight'>,
  random: () => number,
): readonly ProviderKey[] => [...inOrder(keys, strategy, { ...view, totalInFlight: () => loadOf(keys, view) }, random)]
const loadOf = (keys: readonly ProviderKey[], { inFlight }: Pick<KeyView, 'inFlight'>): number =>
  keys.reduce((sum, key) => sum + inFlight(key), 0)

/** How often each id is first. */
const firsts = (times: number, draw: (n: number) => string | undefined): Record<string, number> => {
  const seen: Record<string, number> = {}
  for (let n = 0; n < times; n++) {
    const id = draw(n) ?? ''
    seen[id] = (seen[id] ?? 0) + 1
  }
  return seen
}

/** Asserts that each count is within three standard deviations of its expected share. */
const fair = (seen: Record<string, number>, shares: Record<string, number>, times: number) => {
  for (const [id, share] of Object.entries(shares)) {
    const [expected, spread] = [times * share, 3 * Math.sqrt(times * share * (1 - share))]
    assert.ok(Math.abs((seen[id] ?? 0) - expected) <= spread, `${id}: ${seen[id]} of ${times}, expected ${expected}`)
  }
}

const anyCandidates = fc
  .array(
    fc.record({ weight: fc.constantFrom(0, 0.5, 1, 3, 1e9), figure: fc.option(fc.double({ min: 0, noNaN: true })) }),
    {
      maxLength: 9,
    },
  )
  .map((rows) =>
    rows.map(({ weight, figure }, n) => ({ one: candidate(`c${n}`, weight), figure: figure ?? undefined })),
  )
const chance = fc.integer().map(seeded)

for (const strategy of ['priority', 'weighted', 'latency', 'cost'] as const)
  test(`order: ${strategy} returns a permutation and does not change its input`, () => {
    fc.assert(
      fc.property(anyCandidates, chance, (rows, random) => {
        const given = rows.map(({ one }) => one)
        const before = [...given]
        const figure = (wanted: Candidate) => rows.find(({ one }) => one === wanted)?.figure
        const after = orderCandidates(given, strategy, { latency: (one) => figure(one) ?? 0, price: figure }, random)
        assert.deepEqual(given, before)
        assert.equal(after.length, given.length)
        assert.deepEqual(new Set(after), new Set(given))
      }),
    )
  })

test('order: priority keeps the given order', () => {
  const given = named({ b: 1, a: 9, c: 5 })
  assert.equal(ids(orderCandidates(given, 'priority', view(), seeded(1))), 'bac')
})

test('order: weighted chooses the first and the following candidates in proportion to weight', () => {
  const random = seeded(2)
  const given = named({ a: 1, b: 3, c: 6 })
  const times = 20_000
  const drawn = Array.from({ length: times }, () => ids(orderCandidates(given, 'weighted', view(), random)))
  fair(
    firsts(times, (n) => drawn[n]?.[0]),
    { a: 0.1, b: 0.3, c: 0.6 },
    times,
  )
  const afterC = drawn.filter((one) => one.startsWith('c'))
  fair(
    firsts(afterC.length, (n) => afterC[n]?.[1]),
    { a: 0.25, b: 0.75 },
    afterC.length,
  )
})

test('order: weight 0 is last', () => {
  const random = seeded(3)
  for (let n = 0; n < 200; n++)
    assert.match(ids(orderCandidates(named({ x: 0, a: 1, y: 0, b: 5 }), 'weighted', view(), random)), /^(ab|ba)xy$/)
  assert.equal(ids(orderCandidates(named({ x: 0, y: 0 }), 'weighted', view(), random)), 'xy')
})

test('order: latency takes the better of two random candidates: the best is first most often, the worst never', () => {
  const waits: Record<string, number> = { a: 300, b: 200, c: 900, d: 100 }
  const latency = ({ instance: { id } }: Candidate) => waits[id] ?? 0
  const random = seeded(4)
  const times = 20_000
  const seen = firsts(
    times,
    () => ids(orderCandidates(named({ a: 1, b: 1, c: 1, d: 1 }), 'latency', view({ latency }), random))[0],
  )
  // Of the six pairs d is the better in three, b in two, a in one, c in none.
  fair(seen, { d: 1 / 2, b: 1 / 3, a: 1 / 6 }, times)
  assert.equal(seen.c, undefined)
  for (let n = 0; n < 100; n++)
    assert.equal(ids(orderCandidates(named({ a: 1, b: 1, c: 1, d: 1 }), 'latency', view({ latency }), random))[3], 'c')
})

test('order: latency with two candidates puts the better first, or the configured first if equal', () => {
  const random = seeded(5)
  const latency = ({ instance: { id } }: Candidate) => (id === 'a' ? 300 : 200)
  for (let n = 0; n < 50; n++) {
    assert.equal(ids(orderCandidates(named({ a: 1, b: 1 }), 'latency', view({ latency }), random)), 'ba')
    assert.equal(ids(orderCandidates(named({ a: 1, b: 1 }), 'latency', view(), random)), 'ab')
  }
})

test('order: cost sorts by price, unknown prices last, ties in the given order', () => {
  const prices: Record<string, number | undefined> = { a: 5, b: undefined, c: 1, d: 5, e: undefined, f: 0 }
  const price = ({ instance: { id } }: Candidate) => prices[id]
  const given = named({ a: 1, b: 1, c: 1, d: 1, e: 1, f: 1 })
  assert.equal(ids(orderCandidates(given, 'cost', view({ price }), seeded(6))), 'fcadbe')
})

const anyKeys = fc
  .array(
    fc.record({
      weight: fc.constantFrom(0, 0.5, 1, 3),
      load: fc.nat(5),
      left: fc.option(fc.record({ share: fc.constantFrom(0, 0.001, 0.5, 1), until: fc.nat(5) })),
    }),
    {
      maxLength: 9,
    },
  )
  .map((rows) =>
    rows.map(({ weight, load, left }, n) => ({ key: keyOf(`k${n}`, weight), load, left: left ?? undefined })),
  )

for (const strategy of ['spread', 'round-robin', 'sticky'] as const)
  test(`order: ${strategy} returns a permutation of the keys`, () => {
    fc.assert(
      fc.property(
        anyKeys,
        chance,
        fc.nat(),
        fc.option(fc.string(), { nil: undefined }),
        (rows, random, turn, affinity) => {
          const given = rows.map(({ key }) => key)
          const row = (wanted: ProviderKey) => rows.find(({ key }) => key === wanted)
          const after = orderKeys(
            given,
            strategy,
            {
              inFlight: (key) => row(key)?.load ?? 0,
              quotaLeft: (key) => row(key)?.left,
              requestNumber: turn,
              ...(affinity !== undefined && { affinity }),
            },
            random,
          )
          assert.equal(after.length, given.length)
          assert.deepEqual(new Set(after), new Set(given))
          const unweighted = after.findIndex(({ weight }) => weight === 0)
          assert.ok(
            unweighted === -1 || after.slice(unweighted).every(({ weight }) => weight === 0),
            'weight 0 is last',
          )
        },
      ),
    )
  })

test('order: spread chooses idle keys in proportion to weight', () => {
  const random = seeded(7)
  const keys = [keyOf('a'), keyOf('b', 2), keyOf('c', 5)]
  const times = 20_000
  fair(
    firsts(times, () => orderKeys(keys, 'spread', keyView(), random)[0]?.id),
    { a: 1 / 8, b: 2 / 8, c: 5 / 8 },
    times,
  )
})

test('order: spread prefers the key with less load for its weight', () => {
  const random = seeded(8)
  const busy: Record<string, number> = { a: 1, b: 3 }
  const inFlight = ({ id }: ProviderKey) => busy[id] ?? 0
  for (let n = 0; n < 50; n++) {
    assert.equal(orderKeys([keyOf('a'), keyOf('b')], 'spread', keyView({ inFlight }), random)[0]?.id, 'a')
    assert.equal(orderKeys([keyOf('a'), keyOf('b', 4)], 'spread', keyView({ inFlight }), random)[0]?.id, 'b')
  }
})

test('order: spread chooses a key with a tenth of its quota a tenth as often', () => {
  const random = seeded(9)
  const quotaLeft = ({ id }: ProviderKey) => (id === 'a' ? { share: 0.1, until: 9 } : undefined)
  const times = 20_000
  fair(
    firsts(times, () => orderKeys([keyOf('a'), keyOf('b')], 'spread', keyView({ quotaLeft }), random)[0]?.id),
    { a: 1 / 11, b: 10 / 11 },
    times,
  )
})

test('order: spread distributes concurrent requests evenly', () => {
  const random = seeded(10)
  const keys = [keyOf('a'), keyOf('b'), keyOf('c'), keyOf('d')]
  const busy: Record<string, number> = {}
  for (let n = 0; n < 400; n++) {
    const id = orderKeys(keys, 'spread', keyView({ inFlight: (key) => busy[key.id] ?? 0 }), random)[0]?.id ?? ''
    busy[id] = (busy[id] ?? 0) + 1
  }
  for (const { id } of keys) assert.ok(Math.abs((busy[id] ?? 0) - 100) <= 3, `${id} has ${busy[id]} of 400`)
})

const rounds: readonly [string, Record<string, number>, string][] = [
  ['equal', { a: 1, b: 1, c: 1 }, 'abcabc'],
  ['a double weight', { a: 1, b: 2 }, 'abbabb'],
  ['fractions', { a: 0.5, b: 1 }, 'abbabb'],
  ['one weight 0', { a: 1, b: 0, c: 1 }, 'acacac'],
  ['all weights 0', { a: 0, b: 0 }, 'aaaaaa'],
]
for (const [name, weights, expected] of rounds)
  test(`order: round-robin, ${name}`, () => {
    const keys = Object.entries(weights).map(([id, weight]) => keyOf(id, weight))
    const turns = [0, 1, 2, 3, 4, 5].map(
      (turn) => orderKeys(keys, 'round-robin', keyView({ requestNumber: turn }), seeded(1))[0]?.id ?? '?',
    )
    assert.equal(turns.join(''), expected)
  })

test('order: round-robin, the other keys follow in their order', () => {
  const keys = [keyOf('a'), keyOf('b'), keyOf('c')]
  assert.deepEqual(
    orderKeys(keys, 'round-robin', keyView({ requestNumber: 1 }), seeded(1)).map(({ id }) => id),
    ['b', 'c', 'a'],
  )
})

/** A view with these remaining quotas by key: the share, and when it resets. */
const quotas = (limits: Record<string, readonly [share: number, until?: number]>) => ({
  quotaLeft: ({ id }: ProviderKey) => {
    const [share, until = 1] = limits[id] ?? []
    return share === undefined ? undefined : { share, until }
  },
})
const idsOf = (keys: readonly ProviderKey[]) => keys.map(({ id }) => id).join('')

for (const strategy of ['spread', 'sticky'] as const) {
  test(`order: ${strategy} puts keys without quota last, ordered by reset`, () => {
    const keys = [keyOf('a'), keyOf('b'), keyOf('c'), keyOf('d')]
    for (let n = 0; n < 100; n++) {
      const order = (view: Partial<KeyView>) =>
        idsOf(orderKeys(keys, strategy, keyView({ affinity: `prompt ${n}`, ...view }), seeded(n)))
      assert.match(order(quotas({ a: [0, 30], c: [0, 10] })), /^(bd|db)ca$/)
      assert.match(order(quotas({ a: [0, 30], b: [0.0001], c: [0, 10], d: [0, 20] })), /^bcda$/)
      assert.equal(order(quotas({ a: [0, 30], b: [0, 40], c: [0, 10], d: [0, 20] })), 'cdab')
    }
  })

  test(`order: ${strategy} puts a key of weight 0 after one without quota`, () => {
    const keys = [keyOf('x', 0), keyOf('a'), keyOf('b')]
    for (let n = 0; n < 20; n++)
      assert.equal(
        idsOf(orderKeys(keys, strategy, keyView({ affinity: `${n}`, ...quotas({ a: [0] }) }), seeded(n))),
        'bax',
      )
  })
}

test('order: round-robin ignores quotas', () => {
  const keys = [keyOf('a'), keyOf('b')]
  assert.equal(idsOf(orderKeys(keys, 'round-robin', keyView(quotas({ a: [0] })), seeded(1))), 'ab')
})

test('order: spread gives a nearly exhausted key a hundredth of its weight', () => {
  const random = seeded(13)
  const keys = [keyOf('a'), keyOf('b')]
  const times = 20_000
  fair(
    firsts(times, () => orderKeys(keys, 'spread', keyView(quotas({ a: [0.0000001] })), random)[0]?.id),
    { a: 1 / 101, b: 100 / 101 },
    times,
  )
})

test('order: sticky keeps the key of an affinity, shares by weight, and a removed key moves only its own affinities', () => {
  const keys = [keyOf('a1f3'), keyOf('09be'), keyOf('77c0', 2)]
  const first = (affinity: string, among = keys) =>
    orderKeys(among, 'sticky', keyView({ affinity }), seeded(Math.floor(affinity.length)))[0]?.id
  const times = 20_000
  const affinities = Array.from({ length: times }, (_, n) => `prompt ${n}`)
  fair(
    firsts(times, (n) => first(affinities[n] ?? '')),
    { a1f3: 0.25, '09be': 0.25, '77c0': 0.5 },
    times,
  )
  const without = keys.slice(1)
  for (const affinity of affinities.slice(0, 2_000)) {
    const was = first(affinity)
    assert.equal(first(affinity), was)
    if (was !== 'a1f3') assert.equal(first(affinity, without), was)
  }
})

test('order: sticky without an affinity equals spread', () => {
  const random = seeded(12)
  const keys = [keyOf('a'), keyOf('b')]
  const times = 5_000
  fair(
    firsts(times, () => orderKeys(keys, 'sticky', keyView(), random)[0]?.id),
    { a: 0.5, b: 0.5 },
    times,
  )
})

// ── Sticky: distribution ──────────────────────────────────────────────────────────────────────────────────────────

/** Keys with realistic ids: hex digits of a hash. */
const many = (count: number) => Array.from({ length: count }, (_, n) => keyOf((n * 2_654_435_761).toString(16)))
const conversations = Array.from({ length: 10_000 }, (_, n) => `tools\nYou are a helpful assistant.\nquestion ${n}`)
const favourite = (keys: readonly ProviderKey[], affinity: string, view: Partial<KeyView> = {}) =>
  orderKeys(keys, 'sticky', keyView({ affinity, ...view }), seeded(1))[0]?.id ?? ''

for (const count of [2, 3, 5, 10])
  test(`order: sticky gives ${count} keys equal shares of 10,000 conversations`, () => {
    const keys = many(count)
    const shares = Object.fromEntries(keys.map(({ id }) => [id, 1 / count]))
    fair(
      firsts(10_000, (n) => favourite(keys, conversations[n] ?? '')),
      shares,
      10_000,
    )
  })

for (const count of [2, 4, 9])
  test(`order: sticky, a key added to ${count} takes 1 of ${count + 1} conversations, and no others move`, () => {
    const [before, after] = [many(count), many(count + 1)]
    const added = after.at(-1)?.id ?? ''
    const moved = conversations.filter((one) => favourite(before, one) !== favourite(after, one))
    fair({ moved: moved.length }, { moved: 1 / (count + 1) }, 10_000)
    for (const one of moved) assert.equal(favourite(after, one), added)
  })

test('order: sticky shares the conversations of a removed key among the others', () => {
  const keys = many(5)
  const lost = keys[2]?.id
  const rest = keys.filter(({ id }) => id !== lost)
  const moved = conversations.filter((one) => favourite(keys, one) === lost)
  fair(
    firsts(moved.length, (n) => favourite(rest, moved[n] ?? '')),
    Object.fromEntries(rest.map(({ id }) => [id, 1 / 4])),
    moved.length,
  )
})

test('order: sticky uses the next key while the first is above its share of the load', () => {
  const keys = many(4)
  const order = (busy: Record<string, number>) =>
    orderKeys(keys, 'sticky', keyView({ affinity: 'a', inFlight: ({ id }) => busy[id] ?? 0 }), seeded(1))
  const [one, two, three, four] = order({}).map(({ id }) => id) as [string, string, string, string]
  // The limit is 4 + 1.25 × the mean: 15.25 with 36 in flight.
  const rest = (its: number) => ({ [one]: its, [two]: 36 - its })
  assert.deepEqual(
    order(rest(15)).map(({ id }) => id),
    [one, three, four, two],
  )
  assert.deepEqual(
    order(rest(16)).map(({ id }) => id),
    [three, four, one, two],
  )
  assert.deepEqual(
    order({ [one]: 5 }).map(({ id }) => id),
    [one, two, three, four],
  )
  assert.deepEqual(
    order({ [one]: 6 }).map(({ id }) => id),
    [two, three, four, one],
  )
  assert.deepEqual(
    order({}).map(({ id }) => id),
    [one, two, three, four],
  )
})

test('order: sticky allows a key of more weight more load', () => {
  const keys = [keyOf('a'), keyOf('b', 3)]
  const affinity = conversations.find((one) => favourite(keys, one) === 'b') ?? ''
  const busy = (b: number) => ({ inFlight: ({ id }: ProviderKey) => (id === 'b' ? b : 0) })
  // The limit is 4 + 1.25 × ¾ of all: a key with the whole load exceeds it above 64 in flight.
  assert.equal(favourite(keys, affinity, busy(64)), 'b')
  assert.equal(favourite(keys, affinity, busy(65)), 'a')
})

for (const count of [2, 4, 8])
  test(`order: sticky spreads 1,000 concurrent requests of one conversation over ${count} keys within their limits`, () => {
    const keys = many(count)
    const busy: Record<string, number> = {}
    const inFlight = ({ id }: ProviderKey) => busy[id] ?? 0
    for (let n = 0; n < 1_000; n++) {
      const id = favourite(keys, 'hot', { inFlight })
      busy[id] = (busy[id] ?? 0) + 1
    }
    for (const [id, load] of Object.entries(busy))
      assert.ok(load <= 5 + (1.25 * 1_000) / count, `${id} has ${load} of 1,000`)
    assert.equal(
      Object.values(busy).reduce((sum, one) => sum + one),
      1_000,
    )
    // It uses at least as many keys as the limit requires.
    assert.ok(Object.keys(busy).length >= Math.floor(count / 1.25), JSON.stringify(busy))
  })

test('order: round-robin, a key has at most 1,000 turns in a round', () => {
  const keys = [keyOf('a'), keyOf('b', 1e9)]
  const at = (turn: number) => orderKeys(keys, 'round-robin', keyView({ requestNumber: turn }), seeded(1))[0]?.id
  assert.deepEqual([0, 1, 1_000, 1_001, 1_002].map(at), ['a', 'b', 'b', 'a', 'b'])
})

// Gateways of different versions that run in parallel must send a conversation to the same key.
test('order: sticky orders do not change between versions', () => {
  const keys = ['a1f3', '09be', '77c0', 'e5d2'].map((id) => keyOf(id))
  const orders = ['', 'a', 'hello', 'tools\nYou are kind.', 'ключ'].map((affinity) =>
    orderKeys(keys, 'sticky', keyView({ affinity }), seeded(1))
      .map(({ id }) => id[0])
      .join(''),
  )
  assert.deepEqual(orders, ['7ae0', '07ea', 'a7e0', '7ea0', '7ea0'])
})

// ── Cost with many keys ───────────────────────────────────────────────────────────────────────────────────────

/** How many loads and quotas were read to find the first key. */
const readsFor = (
  strategy: Parameters<typeof inOrder>[1],
  keys: readonly ProviderKey[],
  view: Partial<KeyView> = {},
): { readonly reads: number; readonly first: ProviderKey | undefined } => {
  let reads = 0
  const counted = keyView({ affinity: 'a', ...view })
  const counting: KeyView = {
    ...counted,
    totalInFlight: () => loadOf(keys, counted),
    inFlight: (key) => {
      reads++
      return counted.inFlight(key)
    },
    quotaLeft: (key) => {
      reads++
      return counted.quotaLeft(key)
    },
  }
  const [first] = inOrder(keys, strategy, counting, seeded(keys.length))
  return { reads, first }
}

for (const strategy of ['spread', 'sticky', 'round-robin'] as const) {
  test(`order: ${strategy} finds the first of a thousand keys in a few reads`, () => {
    assert.ok(readsFor(strategy, many(1_000)).reads <= 8)
  })

  test(`order: ${strategy} needs few reads of a thousand keys even if one is loaded`, () => {
    const keys = many(1_000)
    const [hot] = orderKeys(keys, strategy, keyView({ affinity: 'a' }), seeded(1_000))
    assert.ok(readsFor(strategy, keys, { inFlight: (key) => (key === hot ? 32 : 0) }).reads <= 8)
  })

  test(`order: ${strategy}, repeated iteration returns the same order`, () => {
    const drawn = inOrder(
      many(20),
      strategy,
      { ...keyView({ affinity: 'a', requestNumber: 7 }), totalInFlight: () => 0 },
      seeded(3),
    )
    assert.equal(idsOf([...drawn]), idsOf([...drawn]))
    assert.equal(idsOf([...drawn].slice(0, 1)), idsOf([...drawn].slice(0, 1)))
  })
}

test('order: spread finds the only key with quota left of a thousand', () => {
  const keys = many(1_000)
  const only = keys[700]
  const { first } = readsFor('spread', keys, {
    quotaLeft: (key) => (key === only ? undefined : { share: 0, until: 9 }),
  })
  assert.equal(first, only)
})

test('order: spread chooses the second key by weight too', () => {
  const random = seeded(14)
  const keys = [keyOf('a'), keyOf('b', 3), keyOf('c', 6)]
  const drawn = Array.from({ length: 20_000 }, () => idsOf(orderKeys(keys, 'spread', keyView(), random)))
  const afterC = drawn.filter((one) => one.startsWith('c'))
  fair(
    firsts(afterC.length, (n) => afterC[n]?.[1]),
    { a: 0.25, b: 0.75 },
    afterC.length,
  )
})

test('order: latency reads each candidate’s latency once', () => {
  let reads = 0
  const latency = () => reads++
  orderCandidates(
    Array.from({ length: 200 }, (_, n) => candidate(`c${n}`)),
    'latency',
    view({ latency }),
    seeded(15),
  )
  assert.equal(reads, 200)
})

test('order: the expected order is the same each time: the heaviest or the fastest first', () => {
  const given = named({ a: 1, b: 9, c: 0, d: 3 })
  assert.equal(ids(orderCandidates(given, 'weighted', view(), null)), 'bdac')
  const latency = (one: Candidate) => ({ a: 30, b: 20, c: 10 })[one.instance.id] ?? 40
  assert.equal(ids(orderCandidates(given, 'latency', view({ latency }), null)), 'cbad')
  assert.equal(ids(orderCandidates(given, 'priority', view(), null)), 'abcd')
})
