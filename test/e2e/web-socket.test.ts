/**
 * Turns over a WebSocket against the real process, with OpenAI's own client and in the way Codex uses them: complete,
 * failed and aborted ones.
 */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import OpenAI from 'openai'
import { ResponsesWS } from 'openai/resources/responses/ws'
import { WebSocket } from 'ws'
import { isObject, type JsonObject, list, object, text } from '../../src/core/json.ts'
import { answerWith, failWith } from '../support/answers.ts'
import { type Script, startUpstream, type Upstream, until } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'
import { callsOf } from './support/stage.ts'

const closers: (() => unknown)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

const upstream = async (script: Script): Promise<Upstream> => {
  const made = await startUpstream((request) =>
    request.method === 'GET' ? { do: 'answer', status: 404, body: { error: { message: 'no list' } } } : script(request),
  )
  closers.push(() => made.close())
  return made
}

const envOf = (name: string, { url }: Upstream, style: string) => ({
  [`${name}_API_KEY`]: `sk-${name.toLowerCase()}-0123456789`,
  [`${name}_BASE_URL`]: `${url}/v1`,
  [`${name}_STYLES`]: style,
  [`${name}_MODELS`]: 'm',
})

const begin = async (env: Record<string, string>): Promise<Started> => {
  const gateway = await start({ env })
  closers.push(() => gateway.stop())
  return gateway
}

type Client = {
  readonly socket: WebSocket
  readonly events: JsonObject[]
  pings: number
  closed: number | null
  /** Sends a turn and returns its events up to the last one. */
  ask(body: JsonObject): Promise<readonly JsonObject[]>
}

const LAST: ReadonlySet<unknown> = new Set(['response.completed', 'response.incomplete', 'response.failed', 'error'])

const open = async (gateway: Started, headers: Record<string, string> = {}): Promise<Client> => {
  const socket = new WebSocket(`${gateway.base.replace('http', 'ws')}/responses`, { headers })
  closers.push(() => socket.terminate())
  const events: JsonObject[] = []
  const client: Client = {
    socket,
    events,
    pings: 0,
    closed: null,
    async ask(body) {
      const from = events.length
      socket.send(JSON.stringify({ type: 'response.create', model: 'm', ...body }))
      await until('its end', () => events.slice(from).some(({ type }) => LAST.has(type)))
      return events.slice(from)
    },
  }
  socket.on('message', (data) => {
    const event: unknown = JSON.parse(String(data))
    assert.ok(isObject(event))
    events.push(event)
  })
  socket.on('ping', () => client.pings++)
  socket.on('close', (code) => {
    client.closed = code
  })
  await new Promise((resolve, reject) => {
    socket.once('open', resolve)
    socket.once('error', reject)
  })
  return client
}

const idOf = (events: readonly JsonObject[]): string => {
  const id = text(object(events.at(-1)?.response)?.id)
  assert.ok(id, JSON.stringify(events.at(-1)))
  return id
}

const hello: Script = (request) => answerWith(request, { text: 'Hello there.' })

for (const style of ['chat', 'responses', 'messages'])
  test(`turns with OpenAI's own client: ${style}`, async () => {
    const place = await upstream(hello)
    const gateway = await begin({ ...envOf('PLACE', place, style), AUTH_KEYS: 'key-a' })
    const client = new OpenAI({ baseURL: gateway.base, apiKey: 'key-a' })
    const socket = new ResponsesWS(client)
    closers.push(() => socket.close())
    let receivedText = ''
    let previous: string | undefined
    let turns = 0
    const errors: unknown[] = []
    socket.on('error', (error) => errors.push(error))
    socket.on('response.output_text.delta', ({ delta }) => {
      receivedText += delta
    })
    const turn = () =>
      socket.send({
        type: 'response.create',
        model: 'm',
        store: false,
        input: `turn ${turns}`,
        ...(previous && { previous_response_id: previous }),
      })
    socket.on('response.completed', ({ response }) => {
      previous = response.id
      if (++turns < 3) turn()
    })
    turn()
    await until('three turns', () => turns === 3 || errors.length > 0)
    assert.deepEqual(errors, [])
    assert.equal(receivedText, 'Hello there.'.repeat(3))
    const { body } = callsOf(place).at(-1) ?? { body: '' }
    let at = -1
    for (const words of ['turn 0', 'Hello there.', 'turn 1', 'Hello there.', 'turn 2']) {
      const found = body.indexOf(words, at + 1)
      assert.ok(found > at, `${words} in ${body}`)
      at = found
    }
    await gateway.stop()
  })

test('a turn prepared with generate: false and then continued, as Codex does', async () => {
  const place = await upstream((request) =>
    answerWith(
      request,
      request.body.includes('"role":"tool"')
        ? { text: 'Done.' }
        : { tools: [{ id: 'call_1', name: 'shell', arguments: '{"command":"ls"}' }] },
    ),
  )
  const gateway = await begin(envOf('PLACE', place, 'chat'))
  const client = await open(gateway, { 'openai-beta': 'responses_websockets=2026-02-06', originator: 'codex_cli_rs' })
  const common: JsonObject = {
    instructions: 'You are an agent.',
    store: false,
    stream: true,
    include: ['reasoning.encrypted_content'],
    tools: [{ type: 'function', name: 'shell', parameters: { type: 'object', properties: {} }, strict: false }],
  }
  const warm = await client.ask({ ...common, generate: false, input: [] })
  assert.deepEqual(
    warm.map(({ type }) => type),
    ['response.created', 'response.in_progress', 'response.completed'],
  )
  assert.equal(callsOf(place).length, 0)
  const first = await client.ask({
    ...common,
    previous_response_id: idOf(warm),
    input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'List it.' }] }],
  })
  client.socket.send(JSON.stringify({ type: 'response.processed', response_id: idOf(first) }))
  const [call] = list(object(first.at(-1)?.response)?.output).filter(isObject)
  assert.equal(call?.call_id, 'call_1')
  const second = await client.ask({
    ...common,
    previous_response_id: idOf(first),
    input: [{ type: 'function_call_output', call_id: 'call_1', output: 'a.txt' }],
  })
  assert.equal(second.at(-1)?.type, 'response.completed')
  assert.deepEqual(
    list(callsOf(place).at(-1)?.json.messages)
      .filter(isObject)
      .map(({ role }) => role),
    ['system', 'user', 'assistant', 'tool'],
  )
})

test('a turn fails over to another provider, and is logged like any request', async () => {
  const one = await upstream((request) => failWith(request, 500, { type: 'api_error', message: 'It broke.' }))
  const two = await upstream(hello)
  const gateway = await begin({
    ...envOf('ONE', one, 'chat'),
    ...envOf('TWO', two, 'messages'),
    PROVIDERS: 'one,two',
  })
  const client = await open(gateway, { 'x-request-id': 'mine' })
  const events = await client.ask({ input: 'hi' })
  assert.equal(events.at(-1)?.type, 'response.completed')
  const line = await gateway.line(({ event, id }) => event === 'request' && id === 'mine.a')
  assert.partialDeepStrictEqual(line, { style: 'responses', provider: 'two', attempts: 2, status: 200 })
})

test('all providers fail: an error with status ends the turn, not the connection', async () => {
  let broken = true
  const one = await upstream((request) =>
    broken ? failWith(request, 500, { type: 'api_error', message: 'It broke.' }) : hello(request),
  )
  const gateway = await begin({ ...envOf('ONE', one, 'chat'), CIRCUIT_CONSECUTIVE_FAILURES: '0' })
  const client = await open(gateway)
  const [error, ...rest] = await client.ask({ input: 'hi' })
  assert.equal(rest.length, 0)
  assert.partialDeepStrictEqual(error, { type: 'error', status: 502, error: { code: 'status' } })
  assert.match(String(object(error?.headers)?.['x-headgate-trail']), /^one#\w+:500/)
  broken = false
  assert.equal((await client.ask({ input: 'hi' })).at(-1)?.type, 'response.completed')
})

test('a stream that breaks off fails the turn exactly once', async () => {
  const one = await upstream((request) => {
    const act = answerWith(request, { text: 'It goes on and on.' })
    return act.do === 'stream' ? { ...act, pieces: [...act.pieces].slice(0, 4), ending: 'close' } : act
  })
  const client = await open(await begin(envOf('ONE', one, 'chat')))
  const events = await client.ask({ input: 'hi' })
  assert.equal(events.at(-1)?.type, 'response.failed')
  assert.ok(!events.some(({ type }) => type === 'error'))
})

for (const [name, leave] of [
  ['closes', (socket: WebSocket) => socket.close()],
  ['vanishes', (socket: WebSocket) => socket.terminate()],
] as const)
  test(`a client that ${name} aborts its upstream call`, async () => {
    const place = await upstream((request) => answerWith(request, { text: 'word '.repeat(500) }, { gap: 10 }))
    const gateway = await begin(envOf('PLACE', place, 'chat'))
    const client = await open(gateway)
    client.socket.send(JSON.stringify({ type: 'response.create', model: 'm', input: 'hi' }))
    await until('the turn has started', () => client.events.length > 5)
    const begun = performance.now()
    leave(client.socket)
    await until('released', () => callsOf(place)[0]?.ended === 'aborted')
    assert.ok((callsOf(place)[0]?.endedAt ?? Number.POSITIVE_INFINITY) - begun < 500)
    const line = await gateway.line(({ event }) => event === 'request')
    assert.equal(line.outcome, 'client_gone')
  })

test('a connection that waits for the first content is kept alive by pings and events', async () => {
  const place = await upstream((request) => answerWith(request, { text: 'Hello.' }, { after: 400 }))
  const client = await open(await begin({ ...envOf('PLACE', place, 'chat'), KEEP_ALIVE_INTERVAL: '50' }))
  const events = await client.ask({ input: 'hi' })
  assert.equal(events.at(-1)?.type, 'response.completed')
  const alive = events.filter(({ type }) => type === 'response.in_progress').length + client.pings
  assert.ok(alive >= 3, JSON.stringify(events.map(({ type }) => type)))
})

test('a client that does not read is disconnected, and its upstream call aborted', async () => {
  const place = await upstream((request) => answerWith(request, { text: 'word '.repeat(400_000) }))
  const gateway = await begin({ ...envOf('PLACE', place, 'chat'), TIMEOUT_CLIENT_WRITE: '500' })
  const client = await open(gateway)
  client.socket.send(JSON.stringify({ type: 'response.create', model: 'm', input: 'hi' }))
  client.socket.pause()
  const line = await gateway.line(({ event }) => event === 'request')
  assert.equal(line.outcome, 'client_gone')
  await until('released', () => callsOf(place)[0]?.ended === 'aborted')
})

test('responses stored over it are visible over HTTP and vice versa, to the same client only', async () => {
  const place = await upstream(hello)
  const gateway = await begin({ ...envOf('PLACE', place, 'chat'), AUTH_KEYS: 'key-a,key-b' })
  const client = await open(gateway, { authorization: 'Bearer key-a' })
  const over = (apiKey: string) => new OpenAI({ baseURL: gateway.base, apiKey, maxRetries: 0 })
  const stored = idOf(await client.ask({ input: 'one' }))
  const unstored = idOf(await client.ask({ input: 'two', store: false, previous_response_id: stored }))
  assert.equal((await over('key-a').responses.retrieve(stored)).id, stored)
  await assert.rejects(over('key-b').responses.retrieve(stored), { status: 404 })
  await assert.rejects(over('key-a').responses.retrieve(unstored), { status: 404 })

  const posted = await over('key-a').responses.create({ model: 'm', input: 'three' })
  assert.equal(
    (await client.ask({ input: 'four', previous_response_id: posted.id })).at(-1)?.type,
    'response.completed',
  )
  const stranger = await open(gateway, { authorization: 'Bearer key-b' })
  for (const id of [stored, unstored, posted.id])
    assert.partialDeepStrictEqual(await stranger.ask({ input: 'five', previous_response_id: id }), [
      { type: 'error', status: 400, error: { code: 'previous_response_not_found' } },
    ])
})

test('shutdown: idle connections are closed with 1001, a turn in progress finishes first, and new turns are rejected', async () => {
  const place = await upstream((request) => answerWith(request, { text: 'word '.repeat(20) }, { gap: 20 }))
  const gateway = await begin({ ...envOf('PLACE', place, 'chat'), DRAIN_DELAY: '300' })
  const idle = await open(gateway)
  const busy = await open(gateway)
  const turn = busy.ask({ input: 'hi' })
  await until('the turn has started', () => busy.events.length > 3)
  const ended = gateway.stop()
  await until('the idle connection is closed', () => idle.closed !== null)
  assert.equal(idle.closed, 1001)
  await assert.rejects(open(gateway))
  assert.equal((await turn).at(-1)?.type, 'response.completed')
  await until('the busy connection is closed', () => busy.closed !== null)
  assert.equal(busy.closed, 1001)
  assert.equal(await ended, 0)
})

test('shutdown without enough time: the turn fails in its stream', async () => {
  const place = await upstream((request) => answerWith(request, { text: 'word '.repeat(2_000) }, { gap: 20 }))
  const gateway = await begin({ ...envOf('PLACE', place, 'chat'), DRAIN_TIMEOUT: '200' })
  const client = await open(gateway)
  const turn = client.ask({ input: 'hi' })
  await until('the turn has started', () => client.events.length > 3)
  const ended = gateway.stop()
  const last = (await turn).at(-1)
  assert.equal(last?.type, 'response.failed')
  assert.match(JSON.stringify(last?.response), /shutting down/)
  assert.equal(await ended, 0)
})

test('many connections run many turns concurrently, and each gets its own answers', async () => {
  const place = await upstream((request) => {
    const messages = list(request.json.messages).filter(isObject)
    return answerWith(request, { text: `about ${String(messages.at(-1)?.content)}` }, { gap: 1 })
  })
  const gateway = await begin(envOf('PLACE', place, 'chat'))
  await Promise.all(
    Array.from({ length: 20 }, async (_, at) => {
      const client = await open(gateway)
      let previous: string | undefined
      for (let turn = 0; turn < 5; turn++) {
        const events = await client.ask({
          input: `${at}.${turn}`,
          store: false,
          ...(previous !== undefined && { previous_response_id: previous }),
        })
        previous = idOf(events)
        assert.ok(JSON.stringify(events.at(-1)).includes(`about ${at}.${turn}`))
      }
      client.socket.close()
    }),
  )
  const long = callsOf(place).filter(({ body }) => body.includes('.4"'))
  assert.equal(long.length, 20)
  for (const { json } of long) assert.equal(list(json.messages).length, 9)
})
