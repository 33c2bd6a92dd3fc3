/** Lists of keys with what they have spent, and of budgets with a counter for each owner; with a real process. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'
import { fileOf } from './support/stage.ts'

const ADMIN = 'operator-token-0123456789'

describe('lists of keys and budgets with what is spent', { concurrency: false }, () => {
  let upstream: Upstream
  let gateway: Started
  const ids = new Map<string, string>()
  let looker = ''
  before(async () => {
    // 100 tokens of input at $1000 and 100 of output at $4000 per million: 50 cents.
    upstream = await startUpstream((request) => answerWith(request, { text: 'x', input: 100, output: 100 }))
    gateway = await start({
      env: { AUTH_ADMIN: ADMIN },
      files: {
        'headgate.yaml': fileOf({
          providers: { alpha: { kind: 'openai', baseUrl: `${upstream.url}/v1`, models: ['small'] } },
          prices: [{ provider: 'alpha', model: '*', perMillion: { input: 1_000, output: 4_000 } }],
        }),
      },
    })
    for (const name of ['search', 'ads']) ids.set(name, (await admin('POST', '/teams', { name })).id)
    await admin('POST', '/budgets', { name: 'each', amount: '1.20', period: 'month', per: 'key' })
    await admin('POST', '/budgets', {
      name: 'teams',
      amount: '1.40',
      period: 'month',
      per: 'team',
      mode: 'soft',
      appliesTo: { teams: [ids.get('search'), ids.get('ads')] },
    })
    for (const [name, team, times] of [
      ['a', 'search', 1],
      ['b', 'search', 2],
      ['c', 'ads', 0],
    ] as const) {
      const made = await admin('POST', '/keys', { name, team: ids.get(team) })
      ids.set(name, made.id)
      for (let n = 0; n < times; n++) assert.equal(await ask(made.secret), 200)
    }
    const bindings = [{ role: 'viewer', team: ids.get('ads') }]
    looker = (await admin('POST', '/tokens', { name: 'looker', bindings })).secret
  })
  after(async () => {
    await gateway?.stop()
    await upstream?.close()
  })

  const admin = async (method: string, path: string, body?: unknown, token = ADMIN) => {
    const response = await fetch(`${gateway.url}/admin/api/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    assert.ok(response.ok, text)
    // biome-ignore lint/suspicious/noExplicitAny: the tests read bodies of every shape
    return JSON.parse(text) as any
  }
  const ask = async (secret: string): Promise<number> => {
    const body = { model: 'alpha/small', messages: [{ role: 'user', content: 'hello' }], max_tokens: 100 }
    return (await post(`${gateway.base}/chat/completions`, body, { authorization: `Bearer ${secret}` })).status
  }

  test('keys are sorted by what they spent in the range, page by page, and the sums are those of the usage', async () => {
    const { data } = await admin('GET', '/usage?by=key&bucket=none')
    const costs = new Map(data.map(({ key, cost }: { key: string; cost: string }) => [key, cost]))
    assert.deepEqual([costs.get(ids.get('a')), costs.get(ids.get('b'))], ['0.500000000', '1.000000000'])
    const found: unknown[] = []
    for (let after: string | null = ''; after !== null; ) {
      const page = await admin('GET', `/keys?spend=true&sort=-spend&limit=1${after && `&after=${after}`}`)
      found.push(...page.data.map(({ name, spend }: { name: string; spend: string }) => [name, spend]))
      after = page.next
    }
    assert.deepEqual(found, [
      ['b', '1.000000000'],
      ['a', '0.500000000'],
      ['c', '0.000000000'],
    ])
    const names = async (query: string) =>
      (await admin('GET', `/keys?${query}`)).data.map(({ name }: { name: string }) => name)
    assert.deepEqual(await names('sort=spend&q=a'), ['a'])
    assert.deepEqual(await names('sort=spend'), ['c', 'a', 'b'])
    // Nothing was spent in another range.
    const before = await admin('GET', '/keys?spend=true&from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z')
    assert.deepEqual(new Set(before.data.map(({ spend }: { spend: string }) => spend)), new Set(['0.000000000']))
    assert.equal((await admin('GET', '/keys')).data[0].spend, undefined)
  })

  test('each key has its counters and those of its team', async () => {
    const { data: budgets } = await admin('GET', '/budgets?sort=name')
    const [each, teams] = budgets.map(({ id }: { id: string }) => id)
    const { data } = await admin('GET', '/keys?counters=true&sort=name')
    assert.deepEqual(
      data.map(({ counters }: { counters: unknown }) => counters),
      [
        [
          { budget: each, spent: '0.500000000' },
          { budget: teams, spent: '1.500000000' },
        ],
        [
          { budget: each, spent: '1.000000000' },
          { budget: teams, spent: '1.500000000' },
        ],
        [],
      ],
    )
  })

  test('a budget for each owner states how many have spent it, the fullest one, and names', async () => {
    const { data, names } = await admin('GET', '/budgets?sort=name')
    const owners = data.map(({ owners: one }: { owners: { fullest: { of: string; spent: string } } }) => ({
      ...one,
      fullest: [one.fullest.of, one.fullest.spent],
    }))
    assert.deepEqual(owners, [
      { count: 2, spent: 0, near: 1, fullest: [ids.get('b'), '1.000000000'] },
      { count: 1, spent: 1, near: 0, fullest: [ids.get('search'), '1.500000000'] },
    ])
    assert.deepEqual(names, {
      [ids.get('b') ?? '']: 'b',
      [ids.get('search') ?? '']: 'search',
      [ids.get('ads') ?? '']: 'ads',
    })
    const counters = await admin('GET', `/budgets/${data[0].id}/counters`)
    assert.deepEqual(counters.names, { [ids.get('a') ?? '']: 'a', [ids.get('b') ?? '']: 'b' })
  })

  test('what ends first is a question of time, not of fullness', async () => {
    const body = {
      name: 'slow',
      amount: '10.00',
      period: 'total',
      mode: 'soft',
      appliesTo: { teams: [ids.get('ads')] },
    }
    const { id } = await admin('POST', '/budgets', body)
    await admin('POST', `/budgets/${id}/adjust`, { amount: '9.90', reason: 'test' })
    const first = async (query: string) => {
      const { data, names, left_out } = await admin('GET', `/budget-ends${query}`)
      assert.equal(left_out, 0)
      return data.map((one: { name: string; of: string; spent: string }) => [
        one.name,
        names[one.of] ?? one.of,
        one.spent,
      ])
    }
    const teams = ['teams', 'search', '1.500000000']
    const slow = ['slow', '', '9.900000000']
    // The key has spent 83 % within minutes, the team 99 % since ever.
    assert.deepEqual(await first(''), [teams, ['each', 'b', '1.000000000'], slow])
    assert.deepEqual(await first('?by=team'), [teams, slow])
    assert.deepEqual(await first('?limit=1'), [teams])
    const { data } = await admin('GET', '/budget-ends')
    const ends = data.map(({ forecast }: { forecast: { exhausted_at: string | null } }) => forecast.exhausted_at)
    assert.equal(ends[0], null)
    assert.ok(ends[1] < ends[2], ends.join())
    const own = await admin('GET', '/budget-ends', undefined, looker)
    assert.deepEqual(
      own.data.map(({ name, of }: { name: string; of: string }) => [name, of]),
      [['slow', '']],
    )
    await admin('DELETE', `/budgets/${id}?force=true`)
  })

  test('a viewer of a team reads nothing of others', async () => {
    const { data, names } = await admin('GET', '/budgets?sort=name', undefined, looker)
    for (const { owners } of data) assert.deepEqual(owners, { count: 0, spent: 0, near: 0, fullest: null })
    assert.deepEqual(names, { [ids.get('ads') ?? '']: 'ads' })
    const keys = await admin('GET', '/keys?spend=true&counters=true&sort=-spend', undefined, looker)
    assert.deepEqual(
      keys.data.map(({ name, spend, counters }: Record<string, unknown>) => [name, spend, counters]),
      [['c', '0.000000000', []]],
    )
  })
})
