import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { defaultSettings } from '../../../test/support/settings.ts'
import { ANONYMOUS, type Client } from '../../core/accounts.ts'
import type { IncomingRequest, ResponseWriter } from '../../core/http-exchange.ts'
import type { CallBodies } from '../../core/kept-bodies.ts'
import { Secret } from '../../core/secret.ts'
import type { Settings } from '../../core/settings.ts'
import type { UpstreamListener } from '../../core/world.ts'
import { RequestBodies } from './body-keeper.ts'
import { BODIES_FILE } from './file.ts'
import type { StoredBodies } from './recorded-calls.ts'

const closers: (() => unknown)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

const TEAM = ANONYMOUS.team.id
const CANARIES = ['sk-canary-0123456789', 'alice@canary.example', '4111 1111 1111 1111', 'unusual provider secret']
const SENT = { Authorization: 'Bearer sk-canary-0123456789', 'x-custom': 'sk-canary-0123456789', accept: 'a/b' }
const KEPT: Client = { ...ANONYMOUS, logBodies: true }

type Given = { readonly bodies?: Partial<Settings['bodies']>; readonly buffer?: number; readonly folder?: string }

const given = ({ bodies = {}, buffer, folder: known }: Given = {}) => {
  const folder = known ?? mkdtempSync(join(tmpdir(), 'headgate-bodies-'))
  if (known === undefined) closers.push(() => rmSync(folder, { recursive: true, force: true }))
  let settings = { ...defaultSettings.bodies, ...bodies }
  let date = Date.now()
  const keeper = new RequestBodies({ folder, settings: () => settings, date: () => date, ...(buffer && { buffer }) })
  closers.push(() => keeper.close())
  const open = (id: string, { client = KEPT, text = '{}', headers = {} }: Partial<Opened> = {}) =>
    keeper.open(requestOf(id, { client, text, headers }))
  const stored = async (id: string): Promise<StoredBodies | null> => {
    const result = await keeper.read({ id, team: TEAM })
    assert.ok('value' in result, JSON.stringify(result))
    return result.value
  }
  const set = (change: Partial<Settings['bodies']>) => {
    settings = { ...settings, ...change }
    keeper.settingsChanged()
  }
  const at = (time: number) => {
    date = time
  }
  return { folder, keeper, open, stored, set, at }
}

type Opened = {
  readonly client: Client
  readonly text: string
  readonly headers: Readonly<Record<string, string>>
}

const requestOf = (id: string, { client, text, headers }: Opened): IncomingRequest => ({
  id,
  client,
  method: 'POST',
  path: '/v1/chat/completions',
  query: '',
  body: { text },
  headers: (name) => headers[name],
})

const nothing: UpstreamListener = { onHeaders() {}, onBody: () => true, onEnd() {}, onFailure() {} }

/** An attempt whose answer arrives in pieces, in one buffer as a socket reads it. */
const attempt = (call: CallBodies | null, body: string, answer: readonly string[], secret = 'sk-x') => {
  const kept = {
    url: 'https://api.example/v1/x?key=sk-canary-0123456789',
    headers: SENT,
    body,
    secret: new Secret(secret),
  }
  const listener = call?.attempt(kept, nothing)
  listener?.onHeaders(200, () => undefined)
  const buffer = new Uint8Array(65_536)
  for (const piece of answer) {
    const { written } = new TextEncoder().encodeInto(piece, buffer)
    assert.equal(listener?.onBody(buffer.subarray(0, written)), true)
    buffer.fill(0)
  }
  listener?.onEnd()
}

const silentWriter = (): ResponseWriter => ({
  writeHead() {},
  write: () => true,
  end() {},
  abort() {},
  onDrain() {},
  onDisconnect() {},
})

const written = (folder: string): string =>
  readdirSync(folder)
    .filter((file) => file.startsWith(BODIES_FILE))
    .map((file) => readFileSync(join(folder, file), 'latin1'))
    .join()

test('bodies: request, and request and answer of each attempt, are kept and read again after a restart', async () => {
  const first = given()
  const call = first.open('req_1', { text: '{"model":"m"}' })
  attempt(call, '{"model":"a"}', ['{"error":', '"no"}'])
  attempt(call, '{"model":"b"}', ['{"ok":', 'true}'])
  call?.end()
  const expected = ['{"model":"m"}', ['{"model":"a"}', '{"error":"no"}'], ['{"model":"b"}', '{"ok":true}']]
  const texts = (bodies: StoredBodies | null) => [
    bodies?.request.text,
    ...(bodies?.attempts ?? []).map(({ request, answer }) => [request.text, answer.text]),
  ]
  const found = await first.stored('req_1')
  assert.deepEqual(texts(found), expected)
  assert.deepEqual(
    found?.attempts.map(({ url, status, complete }) => [url, status, complete]),
    [0, 1].map(() => ['https://api.example/v1/x', 200, true]),
  )
  assert.equal(first.keeper.bytes, 0)
  await first.keeper.close()
  assert.deepEqual(texts(await given({ folder: first.folder }).stored('req_1')), expected)
})

test('bodies: no secret reaches the disk, neither in the file nor in its log', async () => {
  const { folder, open, stored } = given()
  const text = JSON.stringify({ messages: [{ content: CANARIES.join(' and ') }] })
  const call = open('req_1', { text })
  attempt(call, text, [text], 'unusual provider secret')
  // The client's request contains the first three only: the provider's secret is unknown to clients.
  call?.end()
  const clean = open('req_2', { text: JSON.stringify({ text: CANARIES.slice(0, 3).join(' ') }) })
  attempt(clean, '{}', [...`data: {"t":"${CANARIES[1]}"}\n\n`])
  clean?.end()
  const [one, two] = [await stored('req_1'), await stored('req_2')]
  for (const canary of CANARIES) assert.ok(!JSON.stringify([one?.attempts, two]).includes(canary), canary)
  assert.match(two?.attempts[0]?.answer.text ?? '', /\[email\]/)
  const disk = written(folder)
  assert.ok(disk.includes('req_2'))
  for (const canary of CANARIES) assert.ok(!disk.includes(canary), canary)
})

test('bodies: headers are kept by name, and only well-known values that contain no credential', async () => {
  const { folder, open, stored } = given()
  const headers = {
    authorization: 'Bearer client-canary-9',
    'x-api-key': 'client-canary-9',
    cookie: 'a=client-canary-9',
    'user-agent': 'agent/1 (alice@canary.example)',
    'x-own-secret': 'client-canary-9',
  }
  const call = open('req_1', { headers })
  const kept = { url: 'https://api.example/', headers: SENT, body: '{}', secret: new Secret('unusual provider secret') }
  const listener = call?.attempt(kept, nothing)
  const received = new Map([
    ['content-type', 'application/json'],
    ['set-cookie', 'a=client-canary-9'],
    ['request-id', 'for unusual provider secret'],
  ])
  listener?.onHeaders(200, (name) => received.get(name))
  listener?.onEnd()
  const writer = call?.response(silentWriter())
  writer?.writeHead(200, { 'content-type': 'application/json', 'x-unknown': 'client-canary-9' })
  writer?.end('{}')
  call?.end()
  const found = await stored('req_1')
  const masked = '[masked]'
  assert.deepEqual(found?.headers, {
    authorization: masked,
    'x-api-key': masked,
    cookie: masked,
    'user-agent': 'agent/1 ([email])',
  })
  const [attempted] = found?.attempts ?? []
  assert.deepEqual(attempted?.sent, { authorization: masked, 'x-custom': masked, accept: 'a/b' })
  assert.deepEqual(attempted?.received, {
    'content-type': 'application/json',
    'set-cookie': masked,
    'request-id': 'for [apiKey]',
  })
  assert.deepEqual(found?.response, {
    status: 200,
    headers: { 'content-type': 'application/json', 'x-unknown': masked },
    events: null,
  })
  for (const canary of [...CANARIES, 'client-canary-9']) assert.ok(!written(folder).includes(canary), canary)
})

test('bodies: time, size and type of events are kept, and those beyond the limit are counted', async () => {
  const { keeper, open, stored } = given()
  const call = open('req_1')
  const writer = call?.response(silentWriter())
  writer?.writeHead(200, { 'content-type': 'text/event-stream' })
  writer?.write('event: message_start\ndata: {}\n\n: ping\n\ndata: {"object":"chat.')
  await sleep(20)
  writer?.write(new TextEncoder().encode('completion.chunk","t":"ü"}\r\n\r\ndata: [DONE]\n\n'))
  for (let n = 0; n < 2_000; n++) writer?.write('data: 1\n\n')
  writer?.end()
  call?.end()
  const events = (await stored('req_1'))?.response?.events
  assert.deepEqual(events?.types, ['message_start', 'comment', 'chat.completion.chunk', '[DONE]', 'data'])
  const first = events?.list.slice(0, 5) ?? []
  assert.deepEqual(
    first.map(([, bytes, type]) => [bytes, type]),
    [
      [31, 0],
      [8, 1],
      [53, 2],
      [14, 3],
      [9, 4],
    ],
  )
  const [one = 0, , three = 0] = first.map(([ms]) => ms)
  assert.ok(one >= 0 && three - one >= 15, `${one} ${three}`)
  assert.deepEqual([events?.list.length, events?.omitted], [2_000, 4])
  assert.equal(keeper.bytes, 0)
})

test('bodies: without a sample and a key that requires it nothing is kept, and no file is made', async () => {
  const { folder, open, stored } = given()
  assert.equal(open('req_1', { client: ANONYMOUS }), null)
  assert.equal(await stored('req_1'), null)
  assert.equal(existsSync(join(folder, BODIES_FILE)), false)
})

test('bodies: x-headgate-no-log excludes a request', () => {
  const { open } = given({ bodies: { sample: 1 } })
  assert.equal(open('req_1', { headers: { 'x-headgate-no-log': '1' } }), null)
  assert.ok(open('req_1', { headers: { 'x-headgate-no-log': '0' } }))
})

test('bodies: the sample is a share of the request IDs, the same in every process', () => {
  const ids = Array.from({ length: 4_000 }, (_, at) => `req_${at}`)
  const sampled = (sample: number) => {
    const { open } = given({ bodies: { sample } })
    return ids.filter((id) => open(id, { client: ANONYMOUS }) !== null)
  }
  const tenth = sampled(0.1)
  assert.ok(tenth.length > 300 && tenth.length < 500, `${tenth.length}`)
  assert.deepEqual(sampled(0.1), tenth)
  assert.equal(sampled(1).length, ids.length)
})

test('bodies: another team reads nothing, although it sends the same request ID', async () => {
  const { keeper, open, stored } = given()
  open('same', { text: '"mine"' })?.end()
  open('same', { text: '"theirs"', client: { ...KEPT, team: { id: 'team_b', name: 'b' } } })?.end()
  assert.equal((await stored('same'))?.request.text, '"mine"')
  const other = await keeper.read({ id: 'same', team: 'team_c' })
  assert.ok('value' in other && other.value === null)
})

test('bodies: a long body is cut, and its length remains', async () => {
  const { open, stored } = given({ bodies: { maxBytes: 1_000 } })
  const call = open('req_1', { text: `"${'ü'.repeat(5_000)}"` })
  attempt(
    call,
    '{}',
    Array.from({ length: 100 }, () => 'x'.repeat(100)),
  )
  call?.end()
  const found = await stored('req_1')
  assert.deepEqual([found?.request.truncated, found?.request.bytes], [true, 10_002])
  assert.deepEqual([found?.attempts[0]?.answer.truncated, found?.attempts[0]?.answer.bytes], [true, 10_000])
  assert.ok((found?.request.text?.length ?? 0) < 1_000)
})

test('bodies: a full buffer loses bodies, counts them, and is free afterwards', async () => {
  const { keeper, open, stored } = given({ buffer: 10_000 })
  const text = JSON.stringify('x'.repeat(4_000))
  const calls = Array.from({ length: 5 }, (_, at) => open(`req_${at}`, { text }))
  for (const call of calls) call?.end()
  assert.equal(keeper.lost, 3)
  assert.deepEqual(await Promise.all(calls.map(async (_, at) => (await stored(`req_${at}`)) !== null)), [
    true,
    true,
    false,
    false,
    false,
  ])
  assert.equal(keeper.bytes, 0)
  open('req_9', { text })?.end()
  assert.ok(await stored('req_9'))
})

test('bodies: a folder that cannot be written loses bodies, and counts them', async () => {
  const { keeper, open } = given({ folder: '/dev/null/nowhere' })
  open('req_1')?.end()
  for (const end = performance.now() + 120_000; keeper.lost === 0 && performance.now() < end; ) await sleep(20)
  assert.deepEqual([keeper.lost, keeper.bytes], [1, 0])
})

test('bodies: those older than keepDays are deleted, also when none are kept any more', async () => {
  const { at, keeper, folder, open, set, stored } = given()
  at(Date.now() - 3 * 86_400_000)
  open('old', { text: '"old"' })?.end()
  at(Date.now())
  open('new', { text: '"new"' })?.end()
  assert.ok(await stored('old'))
  set({ keepDays: 2 })
  for (const end = performance.now() + 120_000; (await stored('old')) && performance.now() < end; ) await sleep(20)
  assert.equal(await stored('old'), null)
  assert.ok(await stored('new'))
  await keeper.close()
  const database = new DatabaseSync(join(folder, BODIES_FILE), { readOnly: true })
  assert.equal(database.prepare('SELECT count(*) count FROM body').get()?.count, 1)
  database.close()
})

test('bodies: the oldest are deleted beyond maxMegabytes', async () => {
  const { keeper, open, stored } = given({ bodies: { maxMegabytes: 1, maxBytes: 65_536 } })
  let seed = 1
  const random = () => {
    seed = (seed * 48_271) % 2_147_483_647
    return (seed % 36).toString(36)
  }
  const noise = () => Array.from({ length: 20_000 }, random)
  for (let at = 0; at < 250; at++) {
    open(`req_${at}`, { text: JSON.stringify(noise().join(' ')) })?.end()
    if (at % 20 === 19) await stored('req_0')
  }
  for (const end = performance.now() + 120_000; (await stored('req_0')) && performance.now() < end; ) await sleep(20)
  assert.equal(await stored('req_0'), null)
  assert.ok(await stored('req_249'))
  assert.equal(keeper.lost, 0)
})

test('bodies: two processes write one file', async () => {
  const one = given()
  const two = given({ folder: one.folder })
  for (let at = 0; at < 50; at++) for (const { open } of [one, two]) open(`req_${at}`, { text: `"${at}"` })?.end()
  for (const { stored } of [one, two]) assert.equal((await stored('req_49'))?.request.text, '"49"')
  assert.deepEqual([one.keeper.lost, two.keeper.lost], [0, 0])
})
