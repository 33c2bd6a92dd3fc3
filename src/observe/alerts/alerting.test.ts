import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { testBudget } from '../../../test/support/accounts.ts'
import type { Alerts } from '../../core/config.ts'
import { Secret } from '../../core/secret.ts'
import type { AlertView } from '../../policy/alerts/conditions.ts'
import { dialer } from '../../transport/client/dial.ts'
import { signatureOf } from '../../transport/net/webhook-signature.ts'
import { type AlertStorage, stateFile } from './alert-storage.ts'
import { Alerting, type AlertingEvent, type AlertingOptions } from './alerting.ts'
import { RequestCounts } from './request-counts.ts'
import { joinViews, type ProcessView } from './view.ts'

const SECRET = `whsec_${Buffer.from('a secret of 24 bytes or so').toString('base64')}`

type Received = {
  readonly headers: IncomingMessage['headers']
  readonly text: string
  readonly body: Record<string, unknown>
}

/** A receiver of alerts. `status`: of each answer, in order; 0: the connection is closed. `held`: answers wait for it. */
const receiver = async (
  context: TestContext,
  statuses: readonly number[] = [],
  held: Promise<void> = Promise.resolve(),
) => {
  const received: Received[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer) // A request without encoding yields buffers.
    const text = Buffer.concat(chunks).toString()
    received.push({ headers: request.headers, text, body: JSON.parse(text) })
    const status = statuses[received.length - 1] ?? 204
    await held
    if (status === 0) request.socket.destroy()
    else response.writeHead(status, status === 302 ? { location: '/elsewhere' } : {}).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  context.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo // A server on a port has an address object.
  return { url: `http://127.0.0.1:${port}/hook`, received }
}

const alertsFor = (url: string, more: Partial<Alerts> = {}): Alerts => ({
  url: new Secret(url),
  fingerprint: 'f',
  secret: new Secret(SECRET),
  format: 'generic',
  rules: {
    budget: [80],
    circuitOpen: 0,
    failedShare: 0,
    failedWindow: 300_000,
    failedLeast: 20,
    keyDead: true,
    policyBreach: true,
    guardErrors: 5,
    loop: true,
    breakGlass: true,
    storeDown: 0,
    ledgerLag: 0,
    estimatedShare: 50,
    keyExpiry: [],
    canaryStopped: true,
    modelRetires: [],
    drillLost: 0,
    certExpiry: [],
  },
  ...more,
})
const quiet: Awaited<ReturnType<AlertingOptions['view']>> = {
  budgets: [],
  openCircuits: [],
  closedRoutes: [],
  deadKeys: [],
  brokenStores: [],
  answers: { all: 0, estimated: 0 },
  requests: { all: 0, failed: 0 },
  ledgerLag: 0,
  keys: [],
}
const dead: AlertView['deadKeys'][number] = { provider: 'openai', key: 'a1f3', why: 'suspended' }

/** Those that a test has started. */
const running = new WeakMap<TestContext, (() => Promise<void>)[]>()

/** Alerting in a folder of its own, or of an earlier one, stopped at the end of the test before the folder is removed. */
const start = (
  context: TestContext,
  alerts: Alerts,
  view: () => typeof quiet,
  { folder, ...more }: { folder?: string } & Partial<AlertingOptions> = {},
) => {
  const dir = folder ?? mkdtempSync(join(tmpdir(), 'headgate-alerts-'))
  const events: AlertingEvent[] = []
  const opened = dialer()
  const alerting = new Alerting({
    storage: stateFile(dir, 'alerts.json'),
    alerts: () => alerts,
    dial: opened.dial,
    view: async () => view(),
    interval: 5,
    delays: [0, 5, 5, 5, 5],
    resolveAfter: 50,
    report: (event) => events.push(event),
    ...more,
  })
  const stops = running.get(context) ?? []
  running.set(context, stops)
  stops.push(async () => {
    await alerting.stop()
    await opened.close()
  })
  if (!folder)
    context.after(async () => {
      for (const stop of stops) await stop()
      rmSync(dir, { recursive: true, force: true })
    })
  return { alerting, events, folder: dir }
}

const until = async (holds: () => boolean): Promise<void> => {
  for (let waited = 0; !holds(); waited += 5) {
    assert.ok(waited < 20_000, 'it did not happen within 20 s')
    await sleep(5)
  }
}

test('alerting: an alert has the headers of Standard Webhooks and a body', async (context) => {
  const { url, received } = await receiver(context)
  start(context, alertsFor(url), () => ({ ...quiet, deadKeys: [dead] }))
  await until(() => received.length === 1)
  const [{ headers, text, body } = assert.fail()] = received
  const id = String(headers['webhook-id'])
  const timestamp = Number(headers['webhook-timestamp'])
  assert.ok(Math.abs(timestamp - Date.now() / 1000) < 60)
  assert.equal(headers['webhook-signature'], signatureOf(SECRET, id, timestamp, text))
  assert.deepEqual(Object.keys(body), [
    ...['id', 'type', 'at', 'severity', 'object', 'threshold', 'value', 'limit', 'period_end', 'node', 'message'],
  ])
  assert.deepEqual([body.id, body.type, body.severity], [id, 'key.dead', 'critical'])
  assert.deepEqual(body.object, { kind: 'provider_key', id: 'openai#a1f3', name: 'openai#a1f3' })
})

test('alerting: the signature is that of the specification', () => {
  // The example of github.com/standard-webhooks/standard-webhooks.
  assert.equal(
    signatureOf(
      'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
      'msg_p5jXN8AQM9LWM0D4loKWxJek',
      1_614_265_330,
      '{"test": 2432232314}',
    ),
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  )
})

test('alerting: a condition that lasts is sent once, and its end once', async (context) => {
  const { url, received } = await receiver(context)
  let view = { ...quiet, deadKeys: [dead] }
  const { alerting, events } = start(context, alertsFor(url), () => view)
  await until(() => received.length === 1)
  await sleep(100)
  assert.equal(received.length, 1)
  view = { ...quiet, deadKeys: [] }
  await until(() => received.length === 2)
  await sleep(100)
  assert.deepEqual(
    received.map(({ body }) => [body.type, body.severity]),
    [
      ['key.dead', 'critical'],
      ['key.dead.resolved', 'info'],
    ],
  )
  await alerting.stop()
  assert.deepEqual(events, [
    { result: 'sent', rule: 'keyDead' },
    { result: 'sent', rule: 'keyDead' },
  ])
})

test('alerting: alerts that are over, and the last one of each rule, survive a restart', async (context) => {
  const { url, received } = await receiver(context)
  let view = { ...quiet, deadKeys: [dead] }
  const first = start(context, alertsFor(url), () => view)
  await until(() => received.length === 1)
  const [open] = first.alerting.state()?.alerts ?? []
  assert.deepEqual([open?.rule, open?.type, first.alerting.state()?.past], ['keyDead', 'key.dead', []])
  view = quiet as typeof view
  await until(() => received.length === 2)
  await first.alerting.stop()
  const { alerts, past, fired } = first.alerting.state() ?? assert.fail()
  assert.deepEqual(alerts, [])
  assert.deepEqual(fired, { keyDead: open?.sent_at })
  const [{ ended_at, ...over } = assert.fail()] = past
  assert.deepEqual(over, open)
  assert.ok(Date.parse(ended_at) >= Date.parse(over.sent_at) + 50)
  const second = start(context, alertsFor(url), () => quiet, { folder: first.folder })
  await until(() => (second.alerting.state()?.past.length ?? 0) > 0)
  assert.deepEqual([second.alerting.state()?.past, second.alerting.state()?.fired], [past, fired])
})

test('alerting: Slack receives a text, without a signature if there is no secret', async (context) => {
  const { url, received } = await receiver(context)
  start(context, alertsFor(url, { format: 'slack', secret: null }), () => ({ ...quiet, deadKeys: [dead] }))
  await until(() => received.length === 1)
  assert.match(
    String(received[0]?.body.text),
    /^\[critical\] The provider openai refuses the key a1f3 \(suspended\)\. \(.+\)$/,
  )
  assert.equal(received[0]?.headers['webhook-signature'], undefined)
})

test('alerting: a receiver that fails is tried five times with the same id', async (context) => {
  const { url, received } = await receiver(context, [500, 0, 302, 429, 500])
  const { events } = start(context, alertsFor(url), () => ({ ...quiet, deadKeys: [dead] }))
  await until(() => events.length === 1)
  assert.equal(received.length, 5)
  assert.equal(new Set(received.map(({ headers }) => headers['webhook-id'])).size, 1)
  assert.deepEqual(events, [{ rule: 'keyDead', result: 'failed', reason: 'the receiver responded with status 500' }])
})

test('alerting: neither address nor secret is in the file or in a reason', async (context) => {
  const { url } = await receiver(context, [500, 500, 500, 500, 500])
  const { events, folder } = start(context, alertsFor(url), () => ({ ...quiet, deadKeys: [dead] }))
  await until(() => events.length === 1)
  for (const text of [readFileSync(join(folder, 'alerts.json'), 'utf8'), JSON.stringify(events)])
    for (const secret of [url, SECRET]) assert.ok(!text.includes(secret))
})

test('alerting: after a restart, what was sent is not repeated, and what was not confirmed is sent with its id', async (context) => {
  const { url, received } = await receiver(context, [204, 500])
  const one = { ...quiet, deadKeys: [dead] }
  const both = { ...quiet, deadKeys: [dead, { ...dead, key: 'b2c4' }] }
  let view = one
  const first = start(context, alertsFor(url), () => view, { delays: [0, 60_000] })
  await until(() => first.events.length === 1)
  view = both
  // Until the try is stored: one that the stop cuts off is repeated at once.
  await until(() => readFileSync(join(first.folder, 'alerts.json'), 'utf8').includes('"tries":1'))
  await first.alerting.stop()
  const second = start(context, alertsFor(url), () => both, { folder: first.folder })
  await sleep(100)
  assert.equal(received.length, 2)
  await second.alerting.stop()

  // The time of the next try has come.
  const file = join(first.folder, 'alerts.json')
  const stored = JSON.parse(readFileSync(file, 'utf8'))
  assert.equal(stored.waiting.length, 1)
  writeFileSync(file, JSON.stringify({ ...stored, waiting: [{ ...stored.waiting[0], nextAt: 0 }] }))
  const third = start(context, alertsFor(url), () => both, { folder: first.folder })
  await until(() => third.events.length === 1)
  await sleep(100)
  assert.equal(received.length, 3)
  assert.equal(received[2]?.headers['webhook-id'], received[1]?.headers['webhook-id'])
})

test('alerting: a threshold is sent once in each period, over restarts and when it is reached again', async (context) => {
  const { url, received } = await receiver(context)
  const folder = mkdtempSync(join(tmpdir(), 'headgate-alerts-'))
  context.after(() => rmSync(folder, { recursive: true, force: true }))
  const [periodStart, periodEnd] = [Date.now() - 1_000, Date.now() + 3_600_000]
  const spending = (percent: number, periods = 0) => ({
    ...quiet,
    budgets: [
      {
        budget: testBudget(100, { alerts: [80] }),
        owner: '',
        spent: percent,
        periodStart: periodStart + periods * 3_601_000,
        periodEnd: periodEnd + periods * 3_601_000,
      },
    ],
  })
  let view: typeof quiet = spending(79)
  let looks = 0
  const types = () => received.map(({ body }) => body.type)
  const during = async (steps: readonly (readonly [next: typeof quiet, types: readonly string[]])[]) => {
    const look = () => {
      looks++
      return view
    }
    const { alerting } = start(context, alertsFor(url), look, { folder })
    for (const [next, expected] of steps) {
      view = next
      const before = looks
      await until(() => looks > before + 1 && received.length >= expected.length)
      assert.deepEqual(types(), expected)
    }
    await alerting.stop()
  }
  const [over, resolved] = ['budget.threshold', 'budget.threshold.resolved']
  await during([
    [spending(80), [over]],
    [spending(90), [over]],
  ])
  await during([
    [spending(95), [over]],
    [spending(50), [over, resolved]],
    [spending(85), [over, resolved]],
  ])
  await during([
    [spending(100), [over, resolved]],
    // Its alert is sent after everything that the steps before could have sent.
    [spending(81, 1), [over, resolved, over]],
  ])
})

test('alerting: an invalid file is replaced', async (context) => {
  const { url, received } = await receiver(context)
  const folder = mkdtempSync(join(tmpdir(), 'headgate-alerts-'))
  context.after(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'alerts.json'), '{"version":2}')
  const { events, alerting } = start(context, alertsFor(url), () => ({ ...quiet, deadKeys: [dead] }), { folder })
  await until(() => received.length === 1)
  await alerting.stop()
  assert.equal(events[0]?.result, 'unstored')
  assert.equal(JSON.parse(readFileSync(join(folder, 'alerts.json'), 'utf8')).entries.length, 1)
})

test('alerting: a data folder that cannot be written delays no alert and is reported once', async (context) => {
  const { url, received } = await receiver(context)
  const folder = mkdtempSync(join(tmpdir(), 'headgate-alerts-'))
  context.after(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'file'), '')
  const { events } = start(context, alertsFor(url), () => ({ ...quiet, deadKeys: [dead] }), {
    folder: join(folder, 'file'),
  })
  await until(() => received.length === 1)
  await sleep(50)
  assert.equal(events.filter(({ result }) => result === 'unstored').length, 1)
})

test('alerting: more than 100 alerts that wait lose the oldest, counted in one event and in the next alert', async (context) => {
  const { url, received } = await receiver(context, [])
  const many = Array.from({ length: 105 }, (_, at) => ({ ...dead, key: String(at) }))
  const { events } = start(context, alertsFor(url), () => ({ ...quiet, deadKeys: many }))
  await until(() => events.length === 101)
  assert.deepEqual(
    events.filter(({ result }) => result !== 'sent'),
    [{ result: 'dropped', count: 5, rules: new Map([['keyDead', 5]]) }],
  )
  assert.deepEqual(
    received.flatMap(({ body }) => body.undelivered ?? []),
    [5],
  )
})

test('alerting: an alert of the gateway is sent before one that clients caused, and kept when too many wait', async (context) => {
  const { promise: held, resolve: release } = Promise.withResolvers<void>()
  const { url, received } = await receiver(context, [500], held)
  const budgets = Array.from({ length: 150 }, (_, index) => ({
    budget: testBudget(100, { id: `bud_${index}`, per: 'end_user', alerts: [80] }),
    owner: '<!channel>',
    spent: 90,
    periodStart: 0,
    periodEnd: Date.now() + 3_600_000,
  }))
  const view = { ...quiet, budgets }
  let deadKeys: typeof quiet.deadKeys = []
  const { events } = start(context, alertsFor(url), () => ({ ...view, deadKeys }), { delays: [5, 5, 5, 5, 5] })
  const dropped = () => events.filter(({ result }) => result === 'dropped')
  await until(() => dropped().length === 1)
  // As long as the first alert has no answer, too many wait.
  deadKeys = [dead]
  await until(() => dropped().length === 2)
  release()
  await until(() => received.some(({ body }) => body.type === 'key.dead'))
  assert.deepEqual(
    dropped().map((event) => 'rules' in event && [...event.rules]),
    [[['budget', 50]], [['budget', 1]]],
  )
})

test('alerting: 3,000 owners of a budget are one alert, without a mention in Slack', async (context) => {
  const { url, received } = await receiver(context)
  const budgets = Array.from({ length: 3_000 }, (_, index) => ({
    budget: testBudget(100, { per: 'end_user', alerts: [80] }),
    owner: `<!channel> <https://evil.example|Sign in again> ${index}`,
    spent: 90,
    periodStart: 0,
    periodEnd: Date.now() + 3_600_000,
  }))
  let view: typeof quiet = { ...quiet, budgets: budgets.slice(0, 10) }
  const alerts = alertsFor(url, { format: 'slack' })
  const { alerting, folder } = start(context, alerts, () => view)
  await until(() => received.length === 1)
  // Owners that come later change the list of alerts, and send nothing.
  view = { ...quiet, budgets }
  await until(() => alerting.state()?.alerts[0]?.message.includes('3000 owners') === true)
  view = { ...view, deadKeys: [dead] }
  await until(() => received.length === 2)
  for (const { body } of received) assert.doesNotMatch(String(body.text), /[<>]/)
  assert.match(String(received[0]?.body.text), /for 10 owners, the most by `&lt;!channel&gt; &lt;https:/)
  assert.match(String(received[1]?.body.text), /refuses the key/)
  assert.ok(readFileSync(join(folder, 'alerts.json')).length < 5_000)
})

test('alerting: alerts that were given up are counted in the next one, also after a restart', async (context) => {
  const { url, received } = await receiver(context, [500, 500])
  let view = { ...quiet, deadKeys: [dead] }
  const first = start(context, alertsFor(url), () => view, { delays: [0, 5] })
  await until(() => first.events.length === 1)
  await until(() => readFileSync(join(first.folder, 'alerts.json'), 'utf8').includes('"undelivered":1'))
  await first.alerting.stop()
  view = { ...quiet, deadKeys: [dead, { ...dead, key: 'b2c4' }] }
  const second = start(context, alertsFor(url), () => view, { folder: first.folder })
  await until(() => second.events.length === 1)
  assert.equal(received[2]?.body.undelivered, 1)
  assert.equal(second.alerting.state()?.undelivered, 0)
})

/** What several gateways share. `holder`: the one that sends; `isAway`: it cannot be reached. */
const sharedStorage = () => {
  const shared: { holder: string | null; text: string | null; isAway: boolean } = {
    holder: null,
    text: null,
    isAway: false,
  }
  const reach = () => {
    if (shared.isAway) throw new Error('away')
  }
  const of = (name: string): AlertStorage => ({
    isShared: true,
    async claim() {
      reach()
      shared.holder ??= name
      return shared.holder === name
    },
    async release() {
      reach()
      if (shared.holder === name) shared.holder = null
    },
    async load() {
      reach()
      return shared.text
    },
    async save(text) {
      reach()
      shared.text = text
    },
  })
  return { shared, of }
}

test('alerting: of three gateways one sends, and another one continues without repeating what was sent', async (context) => {
  const { url, received } = await receiver(context)
  const { of } = sharedStorage()
  let view: typeof quiet = { ...quiet, deadKeys: [dead] }
  const gateways = ['a', 'b', 'c'].map((name) => start(context, alertsFor(url), () => view, { storage: of(name) }))
  await until(() => received.length === 1)
  const states = () => gateways.map(({ alerting }) => alerting.state()?.alerts.length ?? null)
  await until(() => states().filter((one) => one === 1).length === 1)
  assert.deepEqual(states().toSorted(), [1, null, null])
  const sender = gateways.find(({ alerting }) => alerting.state() !== null)
  await sender?.alerting.stop()
  await until(() => states().filter((one) => one === 1).length === 2)
  view = { ...view, deadKeys: [dead, { ...dead, key: 'b2c4' }] }
  // One that was not confirmed when its sender ended is repeated with its ID.
  const sent = () => new Set(received.map(({ body }) => body.id)).size
  await until(() => sent() === 2)
  await sleep(50)
  assert.equal(sent(), 2, 'each alert was sent once')
})

test('alerting: while the shared storage is away, the gateway that has sent the alerts continues alone', async (context) => {
  const { url, received } = await receiver(context)
  const { shared, of } = sharedStorage()
  let view: typeof quiet = { ...quiet, deadKeys: [dead] }
  for (const name of ['a', 'b']) start(context, alertsFor(url), () => view, { storage: of(name) })
  await until(() => received.length === 1)
  shared.isAway = true
  view = { ...view, deadKeys: [dead, { ...dead, key: 'b2c4' }] }
  await until(() => received.length === 2)
  await sleep(50)
  shared.isAway = false
  // What was sent meanwhile is stored then.
  await until(() => shared.text?.includes('b2c4') === true)
  assert.equal(received.length, 2)
})

test('alerting: the alert of a budget has an ID that follows from its threshold and period', async (context) => {
  const { url, received } = await receiver(context)
  const periodEnd = Date.now() + 3_600_000
  const budget = testBudget(100, { alerts: [80] })
  const view = { ...quiet, budgets: [{ budget, owner: '', spent: 90, periodStart: 0, periodEnd }] }
  for (let n = 0; n < 2; n++) start(context, alertsFor(url), () => view)
  await until(() => received.length === 2)
  assert.equal(received[0]?.body.id, received[1]?.body.id)
})

test('alerting: estimated answers are counted from events', async (context) => {
  const { url, received } = await receiver(context)
  const counts = new RequestCounts()
  const usage = { type: 'usage', usage: { input: 1, output: 1 } } as const
  start(context, alertsFor(url), () => ({ ...quiet, ...counts.sums(1_000) }))
  for (let answer = 0; answer < 30; answer++)
    counts.observe({ event: 'request', trace: [answer % 3 === 0 ? usage : { ...usage, estimated: true }] })
  await until(() => received.length === 1)
  assert.deepEqual(
    [received[0]?.body.type, received[0]?.body.value, received[0]?.body.limit],
    ['usage.estimated', 67, 50],
  )
})

test('alerting: the views of several processes become one', () => {
  const one: ProcessView = {
    answers: { all: 3, estimated: 1 },
    requests: { all: 10, failed: 2 },
    openCircuits: [],
    closedRoutes: [],
    deadKeys: [],
    breaches: [],
    retiring: [],
    stoppedCanaries: [],
    drillLosses: [],
    certificates: [{ file: 'a.pem', notAfter: 8 }],
    breakGlass: [],
    guardErrors: [],
    loops: [],
    brokenStores: [],
    ledgerLag: 5,
  }
  const dead = { provider: 'openai', key: '1a2b', why: 'suspended' }
  const other: ProcessView = {
    ...one,
    openCircuits: ['openai'],
    closedRoutes: ['fast'],
    deadKeys: [dead],
    breaches: [{ provider: 'openai', model: 'm', lack: 'region us' }],
    retiring: [{ provider: 'openai', model: 'gpt-5', at: 9, successor: null }],
    stoppedCanaries: [{ route: 'fast', since: 9, reason: 'it fails' }],
    drillLosses: [{ route: 'fast', unit: 'openai', lost: 0.12, requests: 200, message: 'It would lose 12 %.' }],
    certificates: [{ file: 'a.pem', notAfter: 7 }],
    breakGlass: [{ address: '203.0.113.7' }],
    guardErrors: [{ guard: 'shield', count: 3 }],
    loops: [{ session: 'ses_a', team: 'search', detector: 'repeat', tool: 'bash', times: 5 }],
    brokenStores: [{ store: 'usage', reason: 'disk_full' }],
    ledgerLag: 7,
  }
  const both = { answers: { all: 6, estimated: 2 }, requests: { all: 20, failed: 4 } }
  assert.deepEqual(joinViews([one, other]), { ...other, ...both })
  const worse = { ...other, deadKeys: [{ ...dead, why: 'quota_exhausted' }], guardErrors: [] }
  assert.deepEqual(joinViews([other, worse]), {
    ...other,
    ...both,
  })
  assert.deepEqual(joinViews([other]), other)
  assert.deepEqual(joinViews([other, other]).guardErrors, [{ guard: 'shield', count: 6 }])
})
