/** Bounds of limits and budgets that several gateways share, when one of them or the store is away. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { budget, done, type Fleet, fleetOf, type Reserved } from '../../test/support/fleet.ts'

const lose = ({ all }: Fleet, isLost: boolean): void => {
  for (const { state } of all) state.isLost = isLost
}

describe('the rest of a budget', () => {
  for (const pause of [0, 5, 60, 250, 490, 700, 1_400, 3_000])
    test(`what one gateway has reserved and not spent is another's, ${pause} ms later`, async () => {
      const fleet = fleetOf({ gateways: 2, budgets: [budget(10_100)] })
      const [a, b] = fleet.all
      const first = await done(fleet, a?.reserve(5_080))
      assert.equal(first?.refusal, null)
      await fleet.world.advance(pause)
      first?.end(5_000)
      const second = await done(fleet, b?.reserve(5_080))
      assert.equal(second?.refusal, null)
    })

  test('what two gateways hold is given to one of them, if both need all of it', async () => {
    const fleet = fleetOf({ gateways: 2, budgets: [budget(10_000)] })
    for (const one of fleet.all) (await done(fleet, one.reserve(1_000)))?.end()
    await fleet.world.advance(1_000)
    const both = Promise.all(fleet.all.map((one) => one.reserve(7_000)))
    const results = await done(fleet, both)
    assert.equal(results?.filter(({ refusal }) => refusal === null).length, 1)
  })
})

test('a slot that another gateway uses is refused at once', async () => {
  const fleet = fleetOf({ gateways: 2, limits: { concurrent: 2 } })
  const [a, b] = fleet.all
  for (let at = 0; at < 2; at++) assert.equal((await done(fleet, a?.reserve()))?.refusal, null)
  const since = fleet.world.now()
  assert.notEqual((await done(fleet, b?.reserve()))?.refusal, null)
  assert.ok(fleet.world.now() - since <= 100, `${fleet.world.now() - since} ms`)
})

describe('a gateway that loses the store again and again', () => {
  test('exceeds a budget by one overdraft in all', async () => {
    const fleet = fleetOf({ gateways: 2, budgets: [budget(100_000)] })
    const [a, b] = fleet.all
    // The second one holds much of the rest, and cannot be asked for it.
    const held = await done(fleet, b?.reserve(40_000))
    held?.end(0)
    if (b) b.state.isLost = true
    let spent = 0
    const drain = async (gateway: typeof a) => {
      for (;;) {
        const one = await done(fleet, gateway?.reserve(100))
        one?.end()
        if (one?.refusal !== null) return
        spent += 100
      }
    }
    for (let outage = 0; outage < 10; outage++) {
      await drain(a)
      if (a) a.state.isLost = true
      await fleet.world.advance(1_500)
      await drain(a)
      if (a) a.state.isLost = false
      ;(await done(fleet, b?.reserve(100)))?.end(0)
      await fleet.world.advance(3_000)
    }
    await drain(b)
    assert.ok(spent <= 101_000, `${spent}`)
    assert.ok(spent >= 80_000, `${spent}`)
  })
})

describe('a gateway that begins without the store', () => {
  test('uses its overdraft of a budget whose spending the ledger knows, also of one that it has not used before', async () => {
    const fleet = fleetOf({ gateways: 1, budgets: [budget(1_000_000)] })
    const [a] = fleet.all
    lose(fleet, true)
    // The store is found to be lost.
    await fleet.world.advance(5_000)
    const one = await done(fleet, a?.reserve(500))
    assert.equal(one?.refusal, null)
  })

  test('and nine others with it leave all together within the overdraft', async () => {
    const fleet = fleetOf({ gateways: 3, budgets: [budget(1_000_000)] })
    let spent = 0
    const serve = async (gateway: Fleet['all'][number]) => {
      for (;;) {
        const one = await done(fleet, gateway.reserve(500))
        one?.end()
        if (one?.refusal !== null) return
        spent += 500
      }
    }
    // They hold all of it.
    const held = []
    for (const one of fleet.all) held.push(await done(fleet, one.reserve(333_000)))
    lose(fleet, true)
    const started = Array.from({ length: 10 }, (_, at) => fleet.start(`new${at}`))
    for (const { state } of started) state.isLost = true
    await fleet.world.advance(5_000)
    for (const one of held) one?.end(0)
    for (const one of [...started, ...fleet.all]) await serve(one)
    assert.ok(spent > 1_000_000 && spent <= 1_010_000, `${spent}`)
  })

  test('refuses a budget that others have used up, as used up', async () => {
    const fleet = fleetOf({ gateways: 2, budgets: [budget(1_000)] })
    const [a, b] = fleet.all
    const one = await done(fleet, b?.reserve(1_000))
    one?.end()
    lose(fleet, true)
    await fleet.world.advance(5_000)
    const refused = await done(fleet, a?.reserve(10))
    assert.deepEqual(refused?.refusal, { why: 'budget', id: 'bud_test', degraded: true })
  })
})

describe('a gateway that starts again', () => {
  test('does not count what another has spent and not stated yet', async () => {
    const fleet = fleetOf({ gateways: 2, budgets: [budget(100_000)] })
    const [a, b] = fleet.all
    const open = []
    for (const one of [a, b]) open.push(await done(fleet, one?.reserve(1_000)))
    await fleet.world.advance(3_000)
    for (const one of open) one?.end()
    // It is killed.
    if (a) a.state.isLost = true
    const again = fleet.start('g0', 2)
    ;(await done(fleet, again.reserve(1)))?.end()
    await fleet.world.advance(3_000)
    const figures = await done(fleet, b?.figures())
    assert.deepEqual(figures, [[2_001, 0]])
  })
})

describe('a gateway that is cut off for longer than the store waits for it', () => {
  for (const isLedgerAway of [false, true])
    test(`stops to use its lease${isLedgerAway ? ', also while the ledger is away' : ''}`, async () => {
      const fleet = fleetOf({ gateways: 2, budgets: [budget(100_000, { enforcement: 'strict' })] })
      const [a, b] = fleet.all
      const serve = async (gateway: typeof a) => {
        const one = await done(fleet, gateway?.reserve(1_000))
        one?.end()
        return one?.refusal ?? null
      }
      for (const one of [a, b, a, b]) assert.equal(await serve(one), null)
      await fleet.world.advance(3_000)
      if (a) a.state.isLost = true
      if (isLedgerAway) fleet.ledger.problem = 'away'
      // Its lease is its own for so long.
      for (let minute = 0; minute < 9; minute++) {
        assert.equal(await serve(a), null, `${minute}`)
        assert.equal(await serve(b), null)
        await fleet.world.advance(60_000)
      }
      await fleet.world.advance(61_000)
      assert.deepEqual(await serve(a), { why: 'budget', id: 'bud_test', unavailable: true })
      assert.equal(await serve(b), null)
      if (a) a.state.isLost = false
      await fleet.world.advance(6_000)
      assert.equal(await serve(a), null)
      await fleet.world.advance(3_000)
      assert.deepEqual(await done(fleet, b?.figures()), [[24_000, 0]])
    })
})

describe('a gateway that is cut off until its lease is taken back', () => {
  /** Two gateways; the first one is cut off for an hour, and both spend all that they can. Returns what they have spent in all. */
  const played = async (fleet: Fleet) => {
    const [a, b] = fleet.all
    let spent = 0
    const drain = async (gateway: typeof a) => {
      for (;;) {
        const one = await done(fleet, gateway?.reserve(500))
        one?.end()
        if (one?.refusal !== null) return
        spent += 500
      }
    }
    for (const one of [a, b]) (await done(fleet, one?.reserve(1_000)))?.end()
    spent += 2_000
    await fleet.world.advance(3_000)
    if (a) a.state.isLost = true
    await fleet.world.advance(3_000)
    // It does not use all of its lease.
    for (let at = 0; at < 10; at++) {
      ;(await done(fleet, a?.reserve(500)))?.end()
      spent += 500
    }
    const before = spent
    await drain(b)
    const taken = spent
    for (let minute = 0; minute < 65; minute++) {
      await fleet.world.advance(60_000)
      ;(await done(fleet, b?.reserve(100)))?.end(0)
    }
    await drain(b)
    const given = spent
    if (a) a.state.isLost = false
    await fleet.world.advance(6_000)
    await drain(a)
    await fleet.world.advance(3_000)
    return { spent, lease: before - 2_000, taken, given: given - taken, figures: await done(fleet, b?.figures()) }
  }

  test('exceeds nothing, if the ledger has what it has spent', async () => {
    const { spent, given, figures } = await played(fleetOf({ gateways: 2, budgets: [budget(100_000)] }))
    assert.ok(given > 0, `${given}`)
    assert.ok(spent >= 99_000 && spent <= 101_000, `${spent}`)
    assert.deepEqual(figures, [[spent, 0]])
  })

  test('exceeds a budget by its lease at most, if each gateway has its own ledger', async () => {
    const fleet = fleetOf({ gateways: 2, budgets: [budget(100_000)], isPart: true })
    const { spent, lease, taken, figures } = await played(fleet)
    assert.ok(taken <= 101_000, `${taken}`)
    assert.ok(spent <= 101_000 + lease, `${spent}, ${lease}`)
    assert.deepEqual(figures, [[spent, 0]])
  })
})

describe('requests in progress without the store', () => {
  test('gateways that know the limit begin none above it for a minute, and then their part', async () => {
    const fleet = fleetOf({ gateways: 3, limits: { concurrent: 6 } })
    const [a, b, c] = fleet.all
    const begin = async (gateway: typeof a, most: number): Promise<readonly Reserved[]> => {
      const begun = []
      for (let at = 0; at < most; at++) {
        const one = await done(fleet, gateway?.reserve())
        if (one?.refusal === null) begun.push(one)
      }
      return begun
    }
    const before = [...(await begin(a, 4)), ...(await begin(b, 2)), ...(await begin(c, 1))]
    assert.equal(before.length, 6)
    // Each has an answer that has all of them.
    await fleet.world.advance(2_000)
    lose(fleet, true)
    await fleet.world.advance(3_000)
    for (const gateway of fleet.all) assert.equal((await begin(gateway, 2)).length, 0)
    // Without the store no other gateway knows that these have ended.
    for (const one of before) one.end()
    assert.deepEqual([(await begin(a, 3)).length, (await begin(b, 3)).length, (await begin(c, 3)).length], [2, 2, 0])
    await fleet.world.advance(60_000)
    assert.equal((await begin(c, 3)).length, 2)
  })

  test('all that gateways begin is within the limit, and earlier ones end as they would', async () => {
    const fleet = fleetOf({ gateways: 3, limits: { concurrent: 6 } })
    const [a, b, c] = fleet.all
    const open = await Promise.all(Array.from({ length: 5 }, () => done(fleet, a?.reserve())))
    await fleet.world.advance(3_000)
    lose(fleet, true)
    await fleet.world.advance(3_000)
    // It has more in progress than its part.
    assert.notEqual((await done(fleet, a?.reserve()))?.refusal, null)
    for (const one of open.slice(0, 4)) one?.end()
    const more = []
    for (const gateway of [a, b, c])
      for (let at = 0; at < 4; at++) {
        const one = await done(fleet, gateway?.reserve())
        if (one?.refusal === null) more.push(one)
      }
    assert.equal(more.length + 1, 6)
    for (const one of [...more, ...open.slice(4)]) one?.end()
    lose(fleet, false)
    await fleet.world.advance(20_000)
    const again = []
    for (let at = 0; at < 8; at++) {
      const one = await done(fleet, a?.reserve())
      if (one?.refusal === null) again.push(one)
    }
    assert.equal(again.length, 6)
  })
})
