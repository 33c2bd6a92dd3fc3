import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { fail } from '../../core/failure.ts'
import type { ResponseWriter } from '../../core/http-exchange.ts'
import type { GatewayEvent, Trace } from '../../core/trace.ts'
import type { LiveBatch } from './event-batch.ts'
import { LiveHub } from './hub.ts'
import { LIVE_TOPICS, type LiveTopic, liveEventOf } from './live-event.ts'

const circuit = (name: string): GatewayEvent => ({
  event: 'circuit',
  what: 'deployment',
  name,
  from: 'closed',
  to: 'open',
  why: 'failures',
})

const requestOf = (client: string | undefined): Extract<GatewayEvent, { event: 'request' }> => ({
  event: 'request',
  trace: [
    {
      type: 'received',
      at: 100,
      date: START - 5_000,
      family: 'codex',
      id: `req_${client}`,
      style: 'chat',
      model: 'm',
      stream: false,
      ...(client && { client }),
    },
    { type: 'attempt', at: 101, provider: 'openai', model: 'm', key: 'a1f3' },
    { type: 'failed', at: 111, attempt: 0, failure: fail('rate_limited', 'the text of the provider', { status: 429 }) },
    { type: 'attempt', at: 112, provider: 'groq', model: 'n', key: '09be' },
    { type: 'committed', at: 120, attempt: 1, status: 200 },
    { type: 'ended', at: 130, how: 'answered', status: 200, cost: 1_500 },
  ] as Trace,
})

/** A request that the first attempt answered. */
const usual = (client: string): GatewayEvent => ({
  event: 'request',
  trace: [
    {
      type: 'received',
      at: 100,
      date: START,
      family: 'codex',
      id: `req_${client}`,
      style: 'chat',
      model: 'm',
      stream: false,
      client,
    },
    { type: 'attempt', at: 101, provider: 'openai', model: 'm', key: 'a1f3' },
    { type: 'committed', at: 120, attempt: 0, status: 200 },
    { type: 'ended', at: 130, how: 'answered', status: 200, cost: 1_500 },
  ] as Trace,
})

const requestsIn = ({ text }: StreamClient): number => text.match(/^event: request$/gm)?.length ?? 0
const moreIn = ({ text }: StreamClient): readonly number[] =>
  [...text.matchAll(/^event: more\ndata: \{"requests":(\d+)\}$/gm)].map(([, number]) => Number(number))

/** A client of the stream that reads, or does not. */
class StreamClient implements ResponseWriter {
  text = ''
  writes = 0
  status = 0
  isSlow = false
  isOver = false
  #drain = () => {}
  #leave = () => {}

  writeHead(status: number): void {
    this.status = status
  }
  write(piece: string | { readonly length: number }): boolean {
    this.text += String(piece)
    this.writes++
    return !this.isSlow
  }
  end(): void {
    this.isOver = true
  }
  abort(): void {
    this.isOver = true
  }
  onDrain(run: () => void): void {
    this.#drain = run
  }
  onDisconnect(run: () => void): void {
    this.#leave = run
  }
  read(): void {
    this.isSlow = false
    this.#drain()
  }
  leave(): void {
    this.#leave()
  }
  get ids(): readonly string[] {
    return [...this.text.matchAll(/^id: (.+)$/gm)].map(([, id = '']) => id)
  }
  get names(): readonly string[] {
    return [...this.text.matchAll(/"name":"(\w+)"/g)].map(([, name = '']) => name)
  }
}

const START = 1_800_000_000_000

const given = (t: TestContext, { worker = 1, isShared = false } = {}) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval', 'Date'], now: START })
  const sent: LiveBatch[] = []
  const follows: boolean[] = []
  const hub = new LiveHub({
    date: () => Date.now(),
    keyOf: (id) => ({ key_a: { name: 'ci', team: 'team_a' }, key_b: { name: 'dev', team: 'team_b' } })[id],
    process: undefined,
    instance: 'a',
    worker,
    others: isShared ? { follow: (on) => void follows.push(on), send: (batch) => void sent.push(batch) } : null,
  })
  const state = { teams: null as readonly string[] | null | 'ended', budget: '1' }
  const listen = ({
    topics = LIVE_TOPICS as readonly LiveTopic[],
    after = null as string | null,
    sample = false,
    teams = null as readonly string[] | null,
    actor = 'adm_a',
  } = {}) => {
    const client = new StreamClient()
    const problem = hub.listen(
      {
        topics,
        after,
        sample,
        actor,
        reply: client,
        teams: async () => (state.teams === 'ended' ? 'ended' : teams),
        budgets: async () =>
          state.budget === '' ? [] : [{ id: 'bud', teams: ['team_a'], data: `{"name":"b${state.budget}"}` }],
      },
      teams,
    )
    return Object.assign(client, { problem })
  }
  /** Lets pending promises settle. */
  const tick = async (ms: number) => {
    t.mock.timers.tick(ms)
    for (let n = 0; n < 10; n++) await Promise.resolve()
  }
  return { hub, listen, state, sent, follows, tick }
}

describe('live events', () => {
  test('reach listeners by topic', (t) => {
    const { hub, listen } = given(t)
    const [all, keys] = [listen(), listen({ topics: ['keys'] })]
    hub.observe(circuit('one'))
    assert.deepEqual(all.names, ['one'])
    assert.match(all.text, /^id: 1800000000000-1-1\nevent: circuit\ndata: \{.+\}\n\n$/m)
    assert.deepEqual(keys.names, [])
  })

  test('of a request are a row without any text, for viewers of its team', (t) => {
    const { hub, listen } = given(t)
    const [all, mine, other] = [listen(), listen({ teams: ['team_a'] }), listen({ teams: ['team_b'] })]
    hub.observe(requestOf('key_a'))
    const [, data = ''] = /^event: request\ndata: (.+)$/m.exec(mine.text) ?? []
    const { attempts, key, team, cost, total_ms, outcome, client, received_at, ended_at } = JSON.parse(data)
    assert.equal(client, 'codex')
    // The times of the ledger: a list knows the row by its time and ID, although the clocks differ.
    assert.deepEqual([received_at, ended_at].map(Date.parse), [START - 5_000, START - 4_970])
    assert.deepEqual(key, { id: 'key_a', name: 'ci' })
    assert.deepEqual([team.id, cost, total_ms, outcome], ['team_a', '0.000001500', 30, 'answered'])
    assert.deepEqual(
      attempts.map((one: Record<string, unknown>) => [
        one.provider,
        one.outcome,
        one.kind,
        one.started_ms,
        one.first_content_ms,
        one.ended_ms,
      ]),
      [
        ['openai', 'failed', 'rate_limited', 1, null, 11],
        ['groq', 'ok', null, 12, 8, null],
      ],
    )
    assert.ok(!data.includes('the text'))
    assert.equal(all.ids.length, 1)
    assert.equal(other.ids.length, 0)
  })

  test('of errors go to viewers of all teams only', (t) => {
    const { hub, listen } = given(t)
    const [all, mine] = [listen(), listen({ teams: ['team_a'] })]
    hub.observe({ event: 'error', error: new Error('secret detail') })
    assert.match(all.text, /event: log\ndata: .*"event":"error"/)
    assert.ok(!all.text.includes('secret detail'))
    assert.equal(mine.ids.length, 0)
  })

  test('are neither made nor kept without a listener, and kept for a minute after the last one', async (t) => {
    const { hub, listen, tick } = given(t)
    const trap: GatewayEvent = {
      get event(): never {
        return assert.fail('an event was read')
      },
    } as never
    hub.observe(trap)
    const first = listen()
    hub.observe(circuit('one'))
    first.leave()
    await tick(30_000)
    hub.observe(circuit('two'))
    const second = listen({ after: first.ids.at(-1) ?? '' })
    assert.deepEqual(second.names, ['two'])
    assert.ok(!second.text.includes('event: gap'))
    second.leave()
    await tick(60_001)
    hub.observe(trap)
    const third = listen({ after: second.ids.at(-1) ?? '' })
    assert.match(third.text, /event: gap\ndata: \{"lost":null\}/)
  })

  test('older than a minute are dropped, and the client receives a gap', async (t) => {
    const { hub, listen, tick } = given(t)
    const stays = listen()
    hub.observe(circuit('one'))
    await tick(50_000)
    hub.observe(circuit('two'))
    await tick(20_000)
    hub.observe(circuit('three'))
    const [first = '', second = ''] = stays.ids
    assert.match(listen({ after: first }).text, /event: gap/)
    assert.deepEqual(listen({ after: second }).names, ['three'])
    assert.match(listen({ after: 'no cursor' }).text, /event: gap/)
  })

  test('that follow each other are written together, the first one at once', async (t) => {
    const { hub, listen, tick } = given(t)
    const client = listen()
    const before = client.writes
    for (let n = 0; n < 50; n++) hub.observe(circuit(`c${n}`))
    assert.deepEqual(client.names, ['c0'])
    await tick(250)
    assert.deepEqual([client.names.length, client.names.at(-1), client.writes - before], [50, 'c49', 2])
    await tick(250)
    hub.observe(circuit('later'))
    assert.equal(client.names.at(-1), 'later')
    hub.observe(circuit('last'))
    hub.close()
    assert.equal(client.names.at(-1), 'last')
  })

  test('of a slow client are limited: it receives a gap, and delays no other', async (t) => {
    const { hub, listen, tick } = given(t)
    const [slow, quick] = [listen(), listen()]
    slow.isSlow = true
    for (let n = 0; n < 1_500; n++) hub.observe(circuit(`c${n}`))
    await tick(250)
    assert.equal(quick.ids.length, 1_500)
    assert.equal(slow.ids.length, 1)
    slow.read()
    const [, lost] = /event: gap\ndata: \{"lost":(\d+)\}/.exec(slow.text) ?? []
    assert.equal(slow.ids.length + Number(lost), 1_500)
    assert.equal(slow.ids.at(-1), quick.ids.at(-1))
  })

  test('of requests are a sample for those who want it, with the number of the others', async (t) => {
    const { hub, listen, tick } = given(t)
    const [all, some, mine] = [listen(), listen({ sample: true }), listen({ sample: true, teams: ['team_a'] })]
    const other = listen({ sample: true, topics: ['keys'] })
    for (let n = 0; n < 120; n++) hub.observe(usual('key_a'))
    hub.observe(requestOf('key_b'))
    await tick(250)
    // 120 usual ones and one that fell back, which is in every sample.
    assert.deepEqual([all, some, mine, other].map(requestsIn), [121, 51, 120, 0])
    assert.deepEqual([all, some, mine, other].map(moreIn), [[], [70], [], []])
    await tick(750)
    for (let n = 0; n < 120; n++) hub.observe(usual('key_a'))
    await tick(250)
    assert.deepEqual([requestsIn(some), moreIn(some)], [101, [70, 70]])
  })

  test('of requests that no listener needs are not made, which one that continues learns', async (t) => {
    const { hub, listen, tick } = given(t)
    const some = listen({ sample: true })
    hub.observe(usual('key_a'))
    const [first = ''] = some.ids
    for (let n = 0; n < 120; n++) hub.observe(usual('key_a'))
    await tick(250)
    assert.deepEqual([requestsIn(some), moreIn(some)], [50, [71]])
    const [whole, again] = [listen({ after: first }), listen({ after: first, sample: true })]
    assert.deepEqual([whole, again].map(requestsIn), [49, 49])
    assert.deepEqual(
      [whole, again].map(({ text }) => /^event: gap$/m.test(text)),
      [true, false],
    )
    // From now on one of them needs all.
    for (let n = 0; n < 120; n++) hub.observe(usual('key_a'))
    await tick(250)
    assert.equal(requestsIn(whole), 49 + 120)
  })

  test('of a client that reads nothing for a minute end', async (t) => {
    const { hub, listen, tick } = given(t)
    const client = listen()
    client.isSlow = true
    hub.observe(circuit('one'))
    for (let n = 0; n < 60; n++) await tick(1_000)
    assert.ok(client.isOver)
  })

  test('have a heartbeat at their beginning and every 10 s, and end with the session within a second', async (t) => {
    const { listen, state, tick } = given(t)
    const client = listen()
    for (let n = 0; n < 31; n++) await tick(1_000)
    assert.equal(client.text.split('event: beat\ndata: {"at":"').length - 1, 4)
    assert.match(
      client.text,
      /^retry: 1000\n\nevent: beat\ndata: \{"at":"2027-01-15T08:00:00.000Z","instance":"a"\}\n\n/,
    )
    state.teams = 'ended'
    await tick(1_000)
    assert.ok(client.isOver)
  })

  test('have at most 50 listeners, and none after the end', (t) => {
    const { hub, listen } = given(t)
    const clients = Array.from({ length: 50 }, (_, n) => listen({ actor: `adm_${n % 2}` }))
    assert.deepEqual([...new Set(clients.map(({ problem }) => problem))], [null])
    assert.equal(listen().problem, 'full')
    clients[0]?.leave()
    assert.equal(listen().problem, null)
    hub.close()
    assert.ok(clients.slice(1).every(({ isOver }) => isOver))
    assert.equal(listen().problem, 'closed')
  })

  test('one actor takes 40 places at most, and the others are left', (t) => {
    const { listen } = given(t)
    // Ten viewers with one token and four tabs each.
    const clients = Array.from({ length: 40 }, () => listen({ actor: 'adm_a' }))
    assert.deepEqual([...new Set(clients.map(({ problem }) => problem))], [null])
    assert.equal(listen({ actor: 'adm_a' }).problem, 'actor_full')
    assert.equal(listen({ actor: 'adm_b' }).problem, null)
    clients[0]?.leave()
    assert.equal(listen({ actor: 'adm_a' }).problem, null)
  })

  test('of budgets are sent when their state has changed', async (t) => {
    const { listen, state, tick } = given(t)
    const [client, other] = [listen(), listen({ teams: ['team_b'] })]
    await tick(1_000)
    await tick(1_000)
    assert.deepEqual(client.names, [])
    state.budget = '2'
    await tick(1_000)
    assert.deepEqual([client.names, other.names], [['b2'], []])
  })

  test('of the first budget are sent when it appears', async (t) => {
    const { listen, state, tick } = given(t)
    state.budget = ''
    const client = listen()
    await tick(1_000)
    state.budget = '1'
    await tick(1_000)
    assert.deepEqual(client.names, ['b1'])
  })
})

describe('live events of several workers', () => {
  test('are requested while there is a listener, and sent in batches', async (t) => {
    const { hub, follows, sent, listen, tick } = given(t, { isShared: true })
    hub.observe(circuit('unseen'))
    hub.follow(true)
    for (let n = 0; n < 600; n++) hub.observe(circuit(`c${n}`))
    await tick(100)
    assert.deepEqual(
      sent.map(({ events, lost }) => [events.length, lost]),
      [[500, 100]],
    )
    assert.deepEqual(follows, [])
    const client = listen()
    assert.deepEqual(follows, [true])
    client.leave()
    await tick(60_000)
    assert.deepEqual(follows, [true, false])
  })

  test('continue at any worker', async (t) => {
    const { hub, listen, tick } = given(t, { isShared: true, worker: 2 })
    const client = listen()
    const one = { topic: 'circuits', name: 'circuit', teams: null, data: '{"name":"far"}' } as const
    hub.receive({ events: [{ ...one, id: `${START}-1-7` }], lost: 0 })
    hub.observe(circuit('near'))
    await tick(250)
    assert.deepEqual(client.names, ['far', 'near'])
    assert.deepEqual(listen({ after: `${START}-1-7` }).names, ['near'])
    hub.receive({ events: [], lost: 3 })
    assert.match(client.text, /event: gap\ndata: \{"lost":3\}/)
  })
})

test('live events have the node where several processes serve the port', () => {
  const view = { date: () => START, keyOf: () => undefined, process: '1/2' }
  assert.equal(JSON.parse(liveEventOf(requestOf(undefined), view).data).node, '1/2')
})
