/** The drill with a real gateway: what it says on an ordinary day, and what an outage then does. */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { answerWith, failWith } from '../support/answers.ts'
import { seeded } from '../support/drill-faults.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const ADMIN = 'admin-token-0123456789'
const CANARY = 'canary4f7a1c'
const SENTENCE = 'route `fast` would lose 12 % of its requests if OpenAI failed: tools are refused by house/m1'
/** Routes of the comparison with an outage, and requests of each. */
const [ROUTES, REQUESTS] = [50, 40]
const authorization = { authorization: `Bearer ${ADMIN}` }

const yamlOf = (openai: string, others: string): string => `fallback: same-model
drill: { shapes: true }
auth: { required: false }
providers:
  openai: { baseUrl: "${openai}/v1", keys: [sk-test-0123456789], models: [gpt-5-mini], styles: [chat] }
  house: { kind: perplexity, baseUrl: "${others}", keys: [house-key-0123456789], models: [m1], styles: [chat] }
  deep: { kind: deepseek, baseUrl: "${others}", keys: [deep-key-0123456789], models: [m2], styles: [chat] }
routes:
  fast: { targets: [openai/gpt-5-mini, house/m1] }
${Array.from({ length: ROUTES }, (_, at) => `  r${at}: { targets: [openai/gpt-5-mini, ${at % 2 ? 'house/m1' : 'deep/m2'}] }\n`).join('')}`

type Kind = 'plain' | 'tools' | 'picture'

const bodyOf = (model: string, kind: Kind) => ({
  model,
  user: `${CANARY}-user`,
  messages: [
    {
      role: 'user',
      content:
        kind === 'picture'
          ? [
              { type: 'text', text: `${CANARY}-text` },
              { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
            ]
          : `${CANARY}-text`,
    },
  ],
  ...(kind === 'tools' && {
    tools: [
      {
        type: 'function',
        function: {
          name: `${CANARY}_tool`,
          parameters: { type: 'object', properties: { [`${CANARY}_property`]: { type: 'string', pattern: CANARY } } },
        },
      },
    ],
  }),
})

describe('drill', { concurrency: false }, () => {
  let gateway: Started | null = null
  let [openai, others]: (Upstream | null)[] = [null, null]
  before(async () => {
    openai = await startUpstream((request) => answerWith(request, { text: 'yes', input: 5, output: 5 }))
    others = await startUpstream((request) => answerWith(request, { text: 'yes', input: 5, output: 5 }))
    const files = { 'headgate.yaml': yamlOf(openai.url, others.url) }
    gateway = await start({ env: { AUTH_ADMIN: ADMIN }, files })
  })
  after(async () => {
    await gateway?.[Symbol.asyncDispose]()
    await openai?.close()
    await others?.close()
  })

  const url = () => gateway?.url ?? assert.fail()
  const ask = async (model: string, kind: Kind, headers: Readonly<Record<string, string>> = {}): Promise<number> =>
    (await post(`${url()}/v1/chat/completions`, bodyOf(model, kind), headers)).status
  const admin = async (path: string, body?: object) => {
    const response = await fetch(`${url()}/admin/api/v1${path}`, {
      headers: { ...authorization, 'content-type': 'application/json' },
      ...(body && { method: 'POST', body: JSON.stringify(body) }),
    })
    return { status: response.status, body: Object(await response.json()) }
  }
  /** All requests in turn: each failure is one of its kind. */
  const askAll = async (requests: readonly (readonly [string, Kind])[]): Promise<readonly boolean[]> => {
    const answered: boolean[] = []
    for (const [model, kind] of requests) answered.push((await ask(model, kind)) === 200)
    return answered
  }

  /** The report once it has so many requests: a run that began before them may not have seen all. */
  const drilled = async (count: number) => {
    for (const end = performance.now() + 30_000; ; await sleep(100)) {
      const run = await admin('/drill/run', {})
      assert.equal(run.status, 200, JSON.stringify(run.body))
      const known = run.body.data.reduce((sum: number, one: { requests: number }) => sum + one.requests, 0)
      if (known >= count || performance.now() > end) return run.body
    }
  }

  test('drill: API, command line and metrics state the same loss on an ordinary day', async () => {
    const kinds: readonly Kind[] = Array.from({ length: 100 }, (_, at) => (at % 25 < 3 ? 'tools' : 'plain'))
    const answered = await askAll(kinds.map((kind) => ['fast', kind]))
    assert.equal(answered.filter(Boolean).length, 100)
    // They are not counted.
    for (let count = 0; count < 20; count++) await ask('fast', 'tools', { 'x-headgate-no-log': '1' })
    await drilled(100)
    const { body: route } = await admin('/drill/fast')
    assert.equal(route.requests, 100)
    const unit = route.units.find((one: { unit: string }) => one.unit === 'openai')
    assert.equal(unit.sentence, SENTENCE)
    assert.deepEqual([unit.lost, unit.unknown, unit.causes[0].requests], [0.12, 0, 12])
    assert.equal(route.units.find((one: { unit: string }) => one.unit === 'house').lost, 0)

    const env = { HEADGATE_ADMIN_TOKEN: ADMIN }
    const shown = await verb(['drill', 'fast', '--fail', 'openai', '--url', url()], { env })
    assert.equal(shown.code, 7, shown.stderr)
    assert.match(shown.stdout, /fast {2}without OpenAI: loses 12 % \(12 of 100 requests\)/)
    assert.ok(shown.stdout.includes(SENTENCE), shown.stdout)
    assert.equal((await verb(['drill', 'fast', '--fail', 'openai', '--allow', '12', '--url', url()], { env })).code, 0)
    const wrong = await verb(['drill', 'fsat', '--url', url()], { env })
    assert.deepEqual([wrong.code, /Did you mean fast\?/.test(wrong.stderr)], [6, true])
    const unknown = await verb(['drill', 'fast', '--fail', 'opena', '--url', url()], { env })
    assert.deepEqual([unknown.code, /Did you mean openai\?/.test(unknown.stderr)], [6, true])

    const page = await (await fetch(`${url()}/metrics`, { headers: authorization })).text()
    assert.match(page, /headgate_drill_lost_ratio\{route="fast",unit="openai"\} 0\.12\n/)
  })

  test('drill: the shapes are planned again without a gateway, and have nothing of the requests', async () => {
    const env = { HEADGATE_ADMIN_TOKEN: ADMIN }
    const { stdout: shapes, code } = await verb(['drill', 'export', '--url', url()], { env })
    assert.equal(code, 0)
    assert.equal(shapes.trim().split('\n').length, 2)
    const folder = await mkdtemp(join(tmpdir(), 'headgate-drill-'))
    await writeFile(join(folder, 'shapes.jsonl'), shapes)
    await writeFile(join(folder, 'other.yaml'), yamlOf('http://127.0.0.1:9', 'http://127.0.0.1:9'))
    const words = ['drill', 'fast', '--fail', 'openai', '--shapes', 'shapes.jsonl', '--config', 'other.yaml']
    const planned = await verb(words, { cwd: folder })
    assert.equal(planned.code, 7, planned.stderr)
    assert.ok(planned.stdout.includes(SENTENCE), planned.stdout)
    const allowing = yamlOf('http://127.0.0.1:9', 'http://127.0.0.1:9').replace(
      'house/m1] }',
      'house/m1], drill: { allow: 12 } }',
    )
    await writeFile(join(folder, 'other.yaml'), allowing)
    assert.equal((await verb(words, { cwd: folder })).code, 0, 'the route states what it may lose')
    await writeFile(join(folder, 'shapes.jsonl'), `${shapes}{"route":1}\n`)
    assert.equal((await verb(words, { cwd: folder })).code, 2)

    const { body } = await admin('/drill/shapes')
    const { body: report } = await admin('/drill')
    for (const text of [shapes, JSON.stringify(body), JSON.stringify(report)]) assert.ok(!text.includes(CANARY))
    const stored = await readFile(join(gateway?.folder ?? '', '.headgate', 'usage.db'), 'latin1')
    assert.ok(stored.includes('shape_day'))
    assert.ok(!stored.includes(`${CANARY}_tool`) && !stored.includes(`${CANARY}_property`))
  })

  test('drill: of 50 routes the figure is within a point of what an outage loses', { timeout: 300_000 }, async () => {
    const requests = Array.from({ length: ROUTES }, (_, at) => {
      const random = seeded(at)
      const [tools, picture] = [random() * 0.4, random() * 0.4]
      return Array.from({ length: REQUESTS }, (): readonly [string, Kind] => {
        const drawn = random()
        return [`r${at}`, drawn < tools ? 'tools' : drawn < tools + picture ? 'picture' : 'plain']
      })
    })
    for (const all of await Promise.all(requests.map(askAll))) assert.ok(all.every(Boolean))
    const report = await drilled(100 + ROUTES * REQUESTS)
    openai?.play((request) => failWith(request, 503, { type: 'server_error', message: 'Down.' }))
    const outage = await Promise.all(requests.map(askAll))
    for (const [at, answered] of outage.entries()) {
      const { units, requests: count } = report.data.find((one: { route: string }) => one.route === `r${at}`)
      const { lost } = units.find((one: { unit: string }) => one.unit === 'openai')
      const real = answered.filter((ok) => !ok).length / REQUESTS
      assert.equal(count, REQUESTS)
      assert.ok(Math.abs(lost - real) <= 0.01, `r${at}: the drill says ${lost}, the outage lost ${real}`)
    }
  })
})
