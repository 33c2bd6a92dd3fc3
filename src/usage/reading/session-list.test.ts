/** Lists of sessions, one with its agents, and usage by session, in both databases. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEachEngine } from '../../../test/support/ledger-engines.ts'
import { closedRecord, endedRecord, NOON, openedRecord } from '../../../test/support/ledger-records.ts'
import { type UsageLedger, usageLedger } from '../../../test/support/usage-ledger.ts'
import type { Outcome } from '../../core/failure.ts'
import { decodeCursor } from './cursor.ts'
import type { SessionsQuery } from './queries.ts'

const DAY = 86_400_000
const HOUR = 3_600_000
const QUERY: SessionsQuery = { from: NOON - DAY, to: NOON + 1, filter: {}, sort: '-last_at', limit: 10, after: null }
const found = <T>(outcome: Outcome<T>): T => (outcome.ok ? outcome.value : assert.fail(outcome.failure.message))
const id = (letter: string) => `ses_${letter.repeat(12)}`

type Asked = { readonly at: number; readonly cost?: number; readonly agent?: string; readonly team?: string }

let calls = 0
const request = (session: string, { at, cost = 70, agent, team = 'team_a' }: Asked) => {
  const call = ++calls
  return [
    openedRecord(call, { at, team }),
    closedRecord(call, { at: at + 100, cost }),
    endedRecord(call, {
      received: at,
      at: at + 200,
      team,
      session,
      sessionName: `name ${session}`,
      agent: agent ?? null,
    }),
  ]
}

/** Three sessions: the first is the newest, the second has agents and is the most expensive, the third has ended. */
const filled = (ledger: UsageLedger) =>
  ledger.store([
    ...request(id('a'), { at: NOON - 1_000 }),
    ...request(id('b'), { at: NOON - 3 * HOUR }),
    ...request(id('b'), { at: NOON - 2 * HOUR, cost: 500, agent: 'x' }),
    ...request(id('b'), { at: NOON - HOUR, cost: 20, agent: 'x' }),
    ...request(id('b'), { at: NOON - HOUR, cost: 30, agent: 'y' }),
    ...request(id('c'), { at: NOON - 2 * DAY, team: 'team_b', cost: 900 }),
  ])

onEachEngine((engine) => {
  test('sessions: the newest first, in pages, with their agents', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    await filled(ledger)
    const list = async (query: Partial<SessionsQuery>) => found(await ledger.reader.sessions({ ...QUERY, ...query }))
    const all = await list({ from: NOON - 3 * DAY })
    assert.deepEqual(
      all.data.map(({ id, name, state, requests, agents, cost, team }) => [
        id,
        name,
        state,
        requests,
        agents,
        cost,
        team?.id,
      ]),
      [
        [id('a'), `name ${id('a')}`, 'active', 1, 1, '0.000000070', 'team_a'],
        [id('b'), `name ${id('b')}`, 'active', 4, 3, '0.000000620', 'team_a'],
        [id('c'), `name ${id('c')}`, 'ended', 1, 1, '0.000000900', 'team_b'],
      ],
    )
    assert.equal(all.searched_until, null)
    assert.deepEqual(
      (await list({})).data.map((one) => one.id),
      [id('a'), id('b')],
    )
    for (const [sort, order] of [
      ['-last_at', 'abc'],
      ['-cost', 'cba'],
      ['-requests', 'bca'],
    ] as const) {
      let seen = ''
      let after: SessionsQuery['after'] = null
      do {
        const page = await list({ from: NOON - 3 * DAY, sort, limit: 1, after })
        seen += page.data.map((one) => one.id.at(-1)).join('')
        after = page.next === null ? null : (decodeCursor(page.next) ?? null)
      } while (after !== null)
      assert.equal(seen, order, sort)
    }
  })

  test('sessions: filters, and one with what each agent has used', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    await filled(ledger)
    const list = async (filter: SessionsQuery['filter']) =>
      found(await ledger.reader.sessions({ ...QUERY, from: NOON - 3 * DAY, filter })).data.map((one) => one.id.at(-1))
    assert.deepEqual(await list({ team: ['team_b'] }), ['c'])
    assert.deepEqual(await list({ key: ['key_none'] }), [])
    assert.deepEqual(await list({ name: [`name ${id('b')}`] }), ['b'])
    const one = found(await ledger.reader.session({ id: id('b'), team: null }))
    assert.deepEqual(
      one?.by_agent.map(({ agent, requests, cost }) => [agent, requests, cost]),
      [
        ['x', 2, '0.000000520'],
        [null, 1, '0.000000070'],
        ['y', 1, '0.000000030'],
      ],
    )
    assert.equal(found(await ledger.reader.session({ id: id('b'), team: ['team_b'] })), null)
    assert.equal(found(await ledger.reader.session({ id: id('z'), team: null })), null)
  })

  test('sessions: usage by session adds up to the rows, in every bucket', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    await filled(ledger)
    await ledger.store([
      openedRecord(900, { at: NOON - HOUR }),
      closedRecord(900),
      endedRecord(900, { received: NOON - HOUR }),
    ])
    const query = { from: NOON - 3 * DAY, to: NOON + 1, by: ['session'], tz: null, limit: 100, after: null } as const
    for (const bucket of ['none', 'day', 'hour'] as const) {
      const report = found(await ledger.reader.usage({ ...query, bucket, filter: {} }))
      const costs = new Map<string | null, number>()
      for (const { session = null, cost } of report.data)
        costs.set(session, (costs.get(session) ?? 0) + Math.round(Number(cost) * 1e9))
      assert.deepEqual(
        [...costs].sort(([one], [other]) => (String(one) < String(other) ? -1 : 1)),
        [
          [null, 70],
          [id('a'), 70],
          [id('b'), 620],
          [id('c'), 900],
        ],
        bucket,
      )
      const own = found(await ledger.reader.usage({ ...query, by: ['model'], bucket, filter: { session: [id('b')] } }))
      assert.equal(own.total.cost, '0.000000620', bucket)
    }
  })
})
