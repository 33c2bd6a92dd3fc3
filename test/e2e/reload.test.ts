/**
 * The configuration of a running gateway: changes, mistakes and SIGHUP; routes, strategies, keys and provider order.
 */
import assert from 'node:assert/strict'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream, until } from '../support/upstream.ts'
import { type LogLine, post, type Started, start } from './support/process.ts'

const MESSAGES = [{ role: 'user', content: 'hello' }]
/** Answers with its own name. */
const named = (name: string, first = 0) =>
  startUpstream((request) =>
    request.method === 'GET'
      ? { do: 'answer', status: 404, body: {} }
      : answerWith(request, { text: name }, request.stream && first > 0 ? { first } : {}),
  )

/** Closed also after a failure: an open server keeps the process of the test file alive. */
const disposable = (upstream: Upstream) => Object.assign(upstream, { [Symbol.asyncDispose]: () => upstream.close() })

const ask = async (gateway: Started, model = 'any', more: object = {}) => {
  const answer = await post(`${gateway.base}/chat/completions`, { model, messages: MESSAGES, ...more })
  assert.equal(answer.status, 200, answer.text)
  return answer
}
const provider = (url: string, more: object = {}) => ({
  kind: 'openai-compatible',
  baseUrl: `${url}/v1`,
  keys: ['sk-one-0000000000000'],
  models: ['m'],
  ...more,
})
/** Replaces the file as editors do. JSON is YAML. */
const write = async (gateway: Started, config: object | string): Promise<void> => {
  const file = join(gateway.folder, 'headgate.yaml')
  await writeFile(`${file}.new`, typeof config === 'string' ? config : JSON.stringify(config))
  await rename(`${file}.new`, file)
}
/** The log lines of this event so far. */
const linesOf = (gateway: Started, event: string): readonly LogLine[] =>
  gateway.lines().filter((line) => line.event === event)
const next = async (gateway: Started, event: string, act: () => unknown): Promise<LogLine> => {
  const count = linesOf(gateway, event).length
  await act()
  await until(`another line ${event}`, () => linesOf(gateway, event).length > count)
  return linesOf(gateway, event)[count] as LogLine
}

const health = async (gateway: Started) =>
  (await (await fetch(`${gateway.url}/health`)).json()) as {
    readonly status: string
    readonly problems?: readonly { readonly component: string; readonly reason: string }[]
  }
const reloadOk = async (gateway: Started): Promise<number> =>
  Number(/^headgate_config_reload_ok (\d)$/m.exec(await (await fetch(`${gateway.url}/metrics`)).text())?.[1])

let a: Upstream
let b: Upstream
before(async () => {
  ;[a, b] = await Promise.all([named('A'), named('B', 600)])
})
after(() => Promise.all([a.close(), b.close()]))

describe('reload', () => {
  test('a valid change is applied automatically and logged; requests in flight finish with the old configuration', async () => {
    await using gateway = await start({
      files: { 'headgate.yaml': JSON.stringify({ providers: { east: provider(b.url) } }) },
    })
    // Its first content arrives after the change.
    const underWay = ask(gateway, 'any', { stream: true })
    await until('the request is in flight', () => b.requests.length > 0)
    const line = await next(gateway, 'config_changed', () =>
      write(gateway, {
        providers: { west: provider(a.url, { keys: ['sk-one-0000000000000', 'sk-two-0000000000000'] }) },
        routes: { fast: { targets: ['west/quick'] } },
        circuit: { resetTimeout: 60_000 },
      }),
    )
    assert.deepEqual(line.changes, [
      'circuit.resetTimeout: 300000 → 60000',
      'providers.east: removed',
      'providers.west: added, 2 keys',
      'routes.fast: added, west/quick',
    ])
    const answer = await ask(gateway)
    assert.equal(answer.headers.get('x-headgate-provider'), 'west')
    const routed = await ask(gateway, 'fast')
    assert.equal(routed.headers.get('x-headgate-model'), 'quick')
    const old = await underWay
    assert.equal(old.headers.get('x-headgate-provider'), 'east')
    assert.match(old.text, /"content":"B"/)
    assert.ok(old.text.endsWith('data: [DONE]\n\n'))
    await gateway.logged()
    assert.doesNotMatch(gateway.output(), /sk-one|sk-two/)
  })

  test('an invalid change is rejected with its line and the old configuration stays; once fixed, it is applied', async () => {
    const good = `providers:\n  west:\n    kind: openai-compatible\n    baseUrl: ${a.url}/v1\n    models: [m]\n`
    await using gateway = await start({ files: { 'headgate.yaml': good } })
    const mistakes = [
      [`${good}circuit:\n  resetTimeout: 30s\n`, /headgate\.yaml:7:\d+: .*30s/],
      [`${good}routes:\n  fast:\n    targts: [west/m]\n`, /headgate\.yaml:8:\d+: .*targets/],
      [
        `${good}routes: { fast: { targets: [{ provider: west, weight: 0 }] } }\n`,
        /headgate\.yaml:6:\d+: .*0.*a number above 0/,
      ],
      [`${good}circuit: [\n`, /headgate\.yaml:[67]:\d+: /],
      ['providers: {}\nprovidres: {}\n', /headgate\.yaml:2:\d+: .*providers/],
    ] as const
    for (const [text, wanted] of mistakes) {
      const line = await next(gateway, 'config_refused', () => write(gateway, text))
      assert.match(String(line.message), wanted)
      assert.equal(line.level, 'error')
      assert.equal((await ask(gateway)).headers.get('x-headgate-provider'), 'west')
    }
    const { problems, ...page } = await health(gateway)
    assert.equal(page.status, 'degraded')
    assert.equal(problems?.length, 1)
    assert.match(String(problems?.[0]?.reason), /headgate\.yaml:2:\d+/)
    assert.deepEqual([problems?.[0]?.component, await reloadOk(gateway)], ['config', 0])
    await next(gateway, 'config_unchanged', () => write(gateway, good))
    assert.deepEqual([(await health(gateway)).status, await reloadOk(gateway)], ['ok', 1])
    const line = await next(gateway, 'config_changed', () => write(gateway, `${good}strategy: cost\n`))
    assert.deepEqual(line.changes, ['strategy: priority → cost'])
  })

  test('SIGHUP reloads the file, and the environment still takes precedence', async () => {
    const config = { providers: { west: provider(a.url) }, circuit: { window: 30_000, minRequests: 7 } }
    await using gateway = await start({
      env: { CIRCUIT_WINDOW: '20000' },
      files: { 'headgate.yaml': JSON.stringify(config) },
    })
    await next(gateway, 'config_unchanged', () => gateway.child.kill('SIGHUP'))
    const line = await next(gateway, 'config_changed', async () => {
      await write(gateway, { ...config, circuit: { window: 40_000, minRequests: 9 } })
      gateway.child.kill('SIGHUP')
    })
    assert.deepEqual(line.changes, ['circuit.minRequests: 7 → 9'])
    assert.equal(gateway.child.exitCode, null)
  })
})

// ── Routing ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** How many of these requests each target answered, at this concurrency. */
const shares = async (
  gateway: Started,
  model: string,
  requests: number,
  stream = false,
): Promise<Map<string, number>> => {
  const counts = new Map<string, number>()
  let left = requests
  const worker = async () => {
    while (left-- > 0) {
      const answer = await ask(gateway, model, { stream })
      const who = `${answer.headers.get('x-headgate-provider')}/${answer.headers.get('x-headgate-model')}`
      counts.set(who, (counts.get(who) ?? 0) + 1)
    }
  }
  await Promise.all(Array.from({ length: 4 }, worker))
  return counts
}

describe('routing: selection', () => {
  test('routes: targets in order, their fallback, and any model name', async () => {
    await using broken = disposable(
      await startUpstream(() => ({ do: 'answer', status: 500, body: { error: { message: 'no' } } })),
    )
    await using gateway = await start({
      files: {
        'headgate.yaml': JSON.stringify({
          providers: { out: provider(broken.url), west: provider(a.url), east: provider(b.url) },
          routes: {
            fast: { targets: ['out/x', 'west/y'], fallback: ['east/z'] },
            last: { targets: ['out/x'], fallback: ['east/z'] },
          },
        }),
      },
    })
    const where = async (model: string) => {
      const { headers } = await ask(gateway, model)
      return [headers.get('x-headgate-provider'), headers.get('x-headgate-model'), headers.get('x-headgate-attempts')]
    }
    // A 500 is retried once before another model.
    assert.deepEqual(await where('fast'), ['west', 'y', '3'])
    assert.deepEqual(await where('last'), ['east', 'z', '3'])
    assert.deepEqual(await where('west/some/model'), ['west', 'some/model', '1'])
    assert.deepEqual((await where('an-unknown-name')).slice(0, 2), ['west', 'm'])
    const plan = await post(`${gateway.base}/route`, { model: 'fast', messages: MESSAGES })
    assert.deepEqual(
      plan
        .json()
        .targets.map((target: { provider: string; model: string }) => `${target.provider}/${target.model}`)
        .slice(0, 3),
      ['out/x', 'west/y', 'east/z'],
    )
  })

  test('PROVIDERS: selects and orders providers', async () => {
    const names = { EAST: b.url, NORTH: a.url, WEST: a.url }
    const env = Object.fromEntries(
      Object.entries(names).flatMap(([name, url]) => [
        [`${name}_API_KEY`, `sk-${name}-0000000000`],
        [`${name}_BASE_URL`, `${url}/v1`],
        [`${name}_MODELS`, 'm'],
      ]),
    )
    await using gateway = await start({ env: { ...env, PROVIDERS: 'west, east' } })
    const plan = await post(`${gateway.base}/route`, { model: 'any', messages: MESSAGES })
    assert.deepEqual(
      plan.json().targets.map(({ provider }: { provider: string }) => provider),
      ['west', 'east'],
    )
    assert.equal((await ask(gateway)).headers.get('x-headgate-provider'), 'west')
  })
})

describe('routing: strategies', () => {
  test('weighted: shares roughly follow the weights', async () => {
    await using gateway = await start({
      files: {
        'headgate.yaml': JSON.stringify({
          providers: { west: provider(a.url), east: provider(b.url) },
          routes: {
            shared: {
              strategy: 'weighted',
              targets: [
                { provider: 'west', model: 'm', weight: 3 },
                { provider: 'east', model: 'm', weight: 1 },
              ],
            },
          },
        }),
      },
    })
    const counts = await shares(gateway, 'shared', 400)
    // 300 expected, standard deviation 8.7: five standard deviations either way.
    const west = counts.get('west/m') ?? 0
    assert.ok(west > 256 && west < 344, `${west} of 400`)
    assert.equal(west + (counts.get('east/m') ?? 0), 400)
  })

  test('latency: a slow target gets few requests once measured', async () => {
    // Far apart, so that a busy machine does not measure the quick one as the slower.
    await using quick = disposable(await named('quick', 5))
    await using slow = disposable(await named('slow', 1_000))
    await using gateway = await start({
      env: { STRATEGY: 'latency' },
      files: {
        'headgate.yaml': JSON.stringify({ providers: { slow: provider(slow.url), quick: provider(quick.url) } }),
      },
    })
    const counts = await shares(gateway, 'm', 100, true)
    assert.ok((counts.get('quick/m') ?? 0) > 80, JSON.stringify([...counts]))
  })

  test('cost: the cheapest first, unknown prices last', async () => {
    const file = {
      strategy: 'cost',
      providers: {
        other: provider(a.url),
        openai: { baseUrl: `${a.url}/v1`, keys: ['sk-openai-000000000'] },
      },
      routes: { any: { targets: ['other/m', 'openai/gpt-5.4', 'openai/gpt-5.4-mini'] } },
    }
    await using gateway = await start({ files: { 'headgate.yaml': JSON.stringify(file) } })
    assert.deepEqual([...(await shares(gateway, 'any', 8))], [['openai/gpt-5.4-mini', 8]])
    const plan = await post(`${gateway.base}/route`, { model: 'any', messages: MESSAGES })
    assert.deepEqual(
      plan.json().targets.map(({ model }: { model: string }) => model),
      ['gpt-5.4-mini', 'gpt-5.4', 'm'],
    )
  })

  for (const [keyStrategy, least, most] of [
    ['spread', 25, 55],
    ['round-robin', 39, 41],
  ] as const)
    test(`keys: ${keyStrategy} shares the load among three keys`, async () => {
      await using upstream = disposable(await named('K'))
      await using gateway = await start({
        env: {
          WEST_API_KEY: 'sk-one-000000000000,sk-two-000000000000',
          WEST_API_KEY_2: 'sk-three-0000000000',
          WEST_BASE_URL: `${upstream.url}/v1`,
          WEST_MODELS: 'm',
          KEY_STRATEGY: keyStrategy,
        },
      })
      await shares(gateway, 'm', 120)
      const calls = upstream.requests.filter(({ method }) => method === 'POST')
      const byKey = Object.groupBy(calls, ({ key }) => key ?? 'none')
      assert.deepEqual(Object.keys(byKey).sort(), ['sk-one-000000000000', 'sk-three-0000000000', 'sk-two-000000000000'])
      for (const [key, used] of Object.entries(byKey))
        assert.ok(used && used.length >= least && used.length <= most, `${key}: ${used?.length} of 120`)
    })
})
