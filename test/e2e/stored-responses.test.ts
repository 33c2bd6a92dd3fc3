/**
 * Stored responses: continued, retrieved, listed, cancelled, deleted, answered in the background, and still there after
 * the process was killed. The client is the official OpenAI SDK.
 */
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import OpenAI, { APIError } from 'openai'
import { styleNames } from '../../src/config/definition.ts'
import type { UpstreamProtocolName } from '../../src/core/chat.ts'
import { type JsonObject, list, text } from '../../src/core/json.ts'
import { upstreamProtocols } from '../../src/protocols/index.ts'
import { type AnswerContent, answerWith, type Delivery, failWith } from '../support/answers.ts'
import {
  type Act,
  type Script,
  startUpstream,
  type Upstream,
  type UpstreamRequest,
  until,
} from '../support/upstream.ts'
import { BELOW, type Started, start } from './support/process.ts'
import { skipPython, testPython } from './support/python.ts'
import { callsOf, eventsIn, rawClient, sleep } from './support/stage.ts'

// The keys of the table are exactly the formats.
const FORMATS = Object.keys(upstreamProtocols) as UpstreamProtocolName[]

const BASE: { readonly [format in UpstreamProtocolName]?: string } = {
  gemini: '/v1beta',
  cohere: '/v2',
  ollama: '',
  'bedrock-converse': '',
}

const CALL = { id: 'call_bern', name: 'get_weather', arguments: '{"city":"Bern"}' }
const RESULT = /"function_call_output"|"tool_result"|"role":"tool"|"functionResponse"|"toolResult"/
const TOOLS: OpenAI.Responses.FunctionTool[] = [
  {
    type: 'function',
    name: 'get_weather',
    description: 'The weather.',
    strict: false,
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
]

/** An upstream that stores its responses if its format supports that, and can be made to lose them. */
type StoringUpstream = {
  readonly script: Script
  readonly kept: Set<string>
  /** Its answer to a plain question. */
  reply: AnswerContent
  delivery: Delivery
  /** Replaces its answer. */
  instead: ((request: UpstreamRequest) => Act | undefined) | undefined
}

const storingUpstream = (name: string): StoringUpstream => {
  let number = 0
  const made: StoringUpstream = {
    kept: new Set(),
    reply: { text: `Words of ${name}.` },
    delivery: {},
    instead: undefined,
    script(request) {
      if (request.method === 'GET') return { do: 'answer', status: 404, body: { error: { message: 'no list' } } }
      const other = made.instead?.(request)
      if (other) return other
      const previous = text(request.json.previous_response_id)
      if (previous !== undefined && !made.kept.has(previous))
        return failWith(request, 400, {
          type: 'invalid_request_error',
          message: `Previous response with id '${previous}' not found.`,
          code: 'previous_response_not_found',
        })
      const tools = request.json.tools ?? request.json.toolConfig
      const reply = tools !== undefined && !RESULT.test(request.body) ? { tools: [CALL] } : made.reply
      const act = answerWith(request, reply, made.delivery)
      if (!request.path.endsWith('/responses')) return act
      const id = `resp_${name}${number++}`
      if (request.json.store !== false) made.kept.add(id)
      // A response with its own id that echoes the request's settings.
      const own = (source: string) =>
        source
          .replaceAll('resp_test', id)
          .replaceAll('"metadata":{}', `"metadata":${JSON.stringify(request.json.metadata ?? {})}`)
      if (act.do === 'stream') return { ...act, pieces: [...act.pieces].map((piece) => own(String(piece))) }
      return act.do === 'answer' ? { ...act, body: own(JSON.stringify(act.body)) } : act
    },
  }
  return made
}

const closers: (() => Promise<unknown>)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

type Place = StoringUpstream & {
  readonly name: string
  readonly upstream: Upstream
  readonly env: Record<string, string>
}

/** A provider of this format with this many `keys`. Server-side storage is only known of known vendors. */
const place = async (label: string, format: UpstreamProtocolName, keys = 1): Promise<Place> => {
  const name = format === 'openai-responses' ? `openai-${label}` : label
  const made = storingUpstream(label)
  const upstream = await startUpstream((request) => made.script(request))
  closers.push(() => upstream.close())
  const prefix = name.toUpperCase().replaceAll('-', '_')
  return Object.assign(made, {
    name,
    upstream,
    env: {
      [`${prefix}_API_KEY`]: Array.from({ length: keys }, (_, at) => `sk-${name}-${at}-0123456789`).join(','),
      [`${prefix}_BASE_URL`]: upstream.url + (BASE[format] ?? '/v1'),
      [`${prefix}_STYLES`]: styleNames[format],
      [`${prefix}_MODELS`]: 'm',
    },
  })
}

const begin = async (places: readonly Place[], env: Record<string, string> = {}): Promise<Started> => {
  const all = Object.assign({ PROVIDERS: places.map(({ name }) => name).join(',') }, ...places.map((one) => one.env))
  const gateway = await start({ env: { ...all, ...env } })
  closers.push(() => gateway.stop())
  return gateway
}

const sdk = (gateway: Started, apiKey = 'any') =>
  new OpenAI({ baseURL: gateway.base, apiKey, maxRetries: 0, timeout: 20_000 })

const dataDir = (): string => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-data-'))
  closers.push(async () => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'data')
}

const refused = async (call: Promise<unknown>, status: number, code: string, param?: string): Promise<void> => {
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof APIError, String(error))
    assert.deepEqual([error.status, error.code], [status, code], error.message)
    if (param !== undefined) assert.equal(error.param, param)
    return true
  })
}

const lastOf = ({ upstream }: Place): UpstreamRequest => {
  const request = callsOf(upstream).at(-1)
  assert.ok(request, 'the upstream received no request')
  return request
}

/** Checks that the words occur in the text, in this order. */
const inOrder = (source: string, words: readonly string[]): void => {
  let at = -1
  for (const word of words) {
    const found = source.indexOf(word, at + 1)
    assert.notEqual(found, -1, `${word} is missing, or not in its place, in ${source}`)
    at = found
  }
}

/** Polls until the response has ended, at most 10 s. */
const polled = async (client: OpenAI, id: string): Promise<OpenAI.Responses.Response[]> => {
  const seen: OpenAI.Responses.Response[] = []
  for (const end = performance.now() + 120_000; performance.now() < end; await sleep(15)) {
    const now = await client.responses.retrieve(id)
    if (seen.at(-1)?.status !== now.status) seen.push(now)
    if (now.status !== 'queued' && now.status !== 'in_progress') return seen
  }
  throw new Error(`${id} did not end; it was ${seen.map(({ status }) => status).join(', ')}`)
}

describe('a conversation continues, whichever provider answered', () => {
  for (const [at, format] of FORMATS.entries())
    for (const streamed of [false, true])
      test(`three turns with a tool, the last by another provider: ${format}${streamed ? ', streamed' : ''}`, async () => {
        const other = FORMATS[(at + 1) % FORMATS.length] ?? format
        const one = await place('one', format)
        const two = await place('two', other)
        const gateway = await begin([one, two])
        const client = sdk(gateway)
        const ask = async (body: OpenAI.Responses.ResponseCreateParamsNonStreaming) => {
          if (!streamed) return client.responses.create(body)
          let last: OpenAI.Responses.Response | undefined
          for await (const event of await client.responses.create({ ...body, stream: true }))
            if (event.type === 'response.completed') last = event.response
          assert.ok(last, 'it was not completed')
          return last
        }
        const first = await ask({ model: 'one/m', input: 'What is the weather in Bern?', tools: TOOLS })
        const [call] = first.output
        assert.ok(call?.type === 'function_call', JSON.stringify(first.output))
        assert.partialDeepStrictEqual(first, { store: true })

        const second = await ask({
          model: 'one/m',
          previous_response_id: first.id,
          input: [{ type: 'function_call_output', call_id: call.call_id, output: 'eighteen degrees' }],
          tools: TOOLS,
        })
        assert.ok(JSON.stringify(second.output).includes('Words of one.'))
        assert.equal(second.previous_response_id, first.id)
        if (format !== 'openai-responses')
          inOrder(lastOf(one).body, ['What is the weather in Bern?', 'get_weather', 'eighteen degrees'])

        await one.upstream.close()
        const third = await ask({
          model: 'one/m',
          previous_response_id: second.id,
          input: 'And tomorrow?',
          tools: TOOLS,
        })
        assert.ok(JSON.stringify(third.output).includes('Words of two.'))
        const { body } = lastOf(two)
        inOrder(body, [
          'What is the weather in Bern?',
          'get_weather',
          'eighteen degrees',
          'Words of one.',
          'And tomorrow?',
        ])
        // Item ids of one provider must not reach another.
        for (const { id, output } of [first, second])
          for (const foreign of [id, ...output.map((item) => ('id' in item ? item.id : undefined))])
            if (foreign) assert.ok(!body.includes(foreign), `${foreign} in ${body}`)
        assert.ok(!/resp_|"previous_response_id"/.test(body), body)

        // All three are stored, and each names the response it continues.
        for (const made of [first, second, third]) {
          const shown = await client.responses.retrieve(made.id)
          assert.deepEqual(shown.output, made.output)
          assert.equal(shown.status, 'completed')
        }
        const items = await client.responses.inputItems.list(third.id, { order: 'asc' })
        inOrder(JSON.stringify(items.data), ['What is the weather in Bern?', 'eighteen degrees', 'And tomorrow?'])
        await gateway.stop()
      })
})

describe('turns of a conversation', () => {
  test('a conversation can fork', async () => {
    const one = await place('one', 'openai-chat')
    const client = sdk(await begin([one]))
    const root = await client.responses.create({ model: 'm', input: 'root' })
    for (const branch of ['left', 'right']) {
      await client.responses.create({ model: 'm', previous_response_id: root.id, input: branch })
      assert.deepEqual(
        list(lastOf(one).json.messages).map((message) => (message as JsonObject).content),
        ['root', 'Words of one.', branch],
      )
    }
  })

  test('instructions apply to one turn only', async () => {
    const one = await place('one', 'openai-chat')
    const client = sdk(await begin([one]))
    const first = await client.responses.create({ model: 'm', instructions: 'Be brief.', input: 'a' })
    await client.responses.create({ model: 'm', previous_response_id: first.id, instructions: 'Be long.', input: 'b' })
    assert.ok(!lastOf(one).body.includes('Be brief.'))
    assert.ok(lastOf(one).body.includes('Be long.'))
  })

  test('neither a deleted response nor its successors can be continued', async () => {
    const one = await place('one', 'openai-chat')
    const client = sdk(await begin([one]))
    const first = await client.responses.create({ model: 'm', input: 'a' })
    const second = await client.responses.create({ model: 'm', previous_response_id: first.id, input: 'b' })
    await client.responses.delete(first.id)
    for (const id of [first.id, second.id])
      await refused(
        client.responses.create({ model: 'm', previous_response_id: id, input: 'c' }),
        400,
        'previous_response_not_found',
      )
    assert.equal(callsOf(one.upstream).length, 2)
  })

  test('a result of an unknown call is rejected with its path in the request', async () => {
    const one = await place('one', 'openai-chat')
    const client = sdk(await begin([one]))
    const first = await client.responses.create({ model: 'm', input: 'a' })
    await refused(
      client.responses.create({
        model: 'm',
        previous_response_id: first.id,
        input: [
          { role: 'user', content: 'x' },
          { type: 'function_call_output', call_id: 'call_none', output: 'y' },
        ],
      }),
      400,
      'invalid_request',
      'input[1].call_id',
    )
  })
})

const reasoning = (sealed: string) => ({
  type: 'reasoning',
  id: 'rs_theirs',
  summary: [],
  encrypted_content: sealed,
})

describe('an upstream that stores its responses: continuation', () => {
  test('continues from its own record while it has it, and gets the whole conversation otherwise', async () => {
    for (const status of [400, 404]) {
      const one = await place('one', 'openai-responses')
      const client = sdk(await begin([one]))
      const first = await client.responses.create({ model: 'm', input: 'first question' })
      assert.match(first.id, /^resp_hg/)
      const second = await client.responses.create({
        model: 'm',
        previous_response_id: first.id,
        input: 'second question',
      })
      assert.equal(lastOf(one).json.previous_response_id, 'resp_one0')
      assert.ok(!lastOf(one).body.includes('first question'))
      assert.equal(second.previous_response_id, first.id)

      const third = await client.responses.create({
        model: 'm',
        previous_response_id: second.id,
        input: 'third question',
      })
      assert.equal(lastOf(one).json.previous_response_id, 'resp_one1')

      one.kept.clear()
      if (status === 404)
        one.instead = (request) =>
          request.json.previous_response_id === undefined
            ? undefined
            : failWith(request, 404, { type: 'invalid_request_error', message: 'No such response.' })
      const calls = callsOf(one.upstream).length
      const fourth = await client.responses.create({
        model: 'm',
        previous_response_id: third.id,
        input: 'fourth question',
      })
      assert.equal(fourth.status, 'completed')
      assert.equal(callsOf(one.upstream).length, calls + 2)
      const { json, body } = lastOf(one)
      assert.equal(json.previous_response_id, undefined)
      inOrder(body, ['first question', 'Words of one.', 'second question', 'third question', 'fourth question'])
    }
  })

  test('the key that stored it is preferred; another key of the provider gets the whole conversation', async () => {
    const one = await place('one', 'openai-responses', 2)
    const client = sdk(await begin([one]))
    const first = await client.responses.create({ model: 'm', input: 'first question' })
    const { key } = lastOf(one)
    for (let turn = 0; turn < 6; turn++) {
      await client.responses.create({ model: 'm', previous_response_id: first.id, input: 'next' })
      assert.equal(lastOf(one).key, key)
      assert.equal(lastOf(one).json.previous_response_id, 'resp_one0')
    }
    one.instead = (request) =>
      request.key === key
        ? failWith(request, 429, { type: 'rate_limit_error', message: 'Slower.' }, { 'retry-after': '30' })
        : undefined
    const next = await client.responses.create({ model: 'm', previous_response_id: first.id, input: 'other key' })
    assert.equal(next.status, 'completed')
    assert.notEqual(lastOf(one).key, key)
    assert.equal(lastOf(one).json.previous_response_id, undefined)
    inOrder(lastOf(one).body, ['first question', 'Words of one.', 'other key'])
  })

  test('a response that is not stored upstream is sent in whole', async () => {
    const one = await place('one', 'openai-responses')
    const gateway = await begin([one])
    const client = sdk(gateway)
    const first = await client.responses.create({ model: 'm', input: 'first question', store: false })
    assert.partialDeepStrictEqual(first, { store: false })
    await refused(
      client.responses.create({ model: 'm', previous_response_id: first.id, input: 'x' }),
      400,
      'previous_response_not_found',
      'previous_response_id',
    )
  })
})

describe('an upstream that stores its responses: recovery', () => {
  test('an unknown id is looked up at an upstream that may have it', async () => {
    const one = await place('one', 'openai-responses')
    one.kept.add('resp_theirs')
    const client = sdk(await begin([one]))
    const answer = await client.responses.create({ model: 'm', previous_response_id: 'resp_theirs', input: 'go on' })
    assert.equal(answer.status, 'completed')
    assert.equal(answer.previous_response_id, 'resp_theirs')
    // From then on by the gateway's id; upstreams without the beginning are not used.
    const next = await client.responses.create({ model: 'm', previous_response_id: answer.id, input: 'and on' })
    assert.equal(next.status, 'completed')
    await refused(
      client.responses.create({ model: 'm', previous_response_id: 'resp_unknown', input: 'go on' }),
      400,
      'previous_response_not_found',
    )
  })

  test('encrypted reasoning is returned to its provider; others get the request without it', async () => {
    const one = await place('one', 'openai-responses')
    const two = await place('two', 'openai-responses')
    const three = await place('three', 'openai-chat')
    const client = sdk(await begin([one, two, three]))
    one.instead = (request) => {
      const act = answerWith(request, { text: 'I thought.' })
      assert.ok(act.do === 'answer' && typeof act.body === 'object')
      const body = act.body as JsonObject
      return {
        do: 'answer',
        body: { ...body, id: 'resp_thought', output: [reasoning('gAAAAA-SEALED-BY-ONE'), ...list(body.output)] },
      }
    }
    const first = await client.responses.create({
      model: 'one/m',
      input: 'think',
      include: ['reasoning.encrypted_content'],
    })
    assert.ok(JSON.stringify(first.output).includes('SEALED-BY-ONE'))
    one.instead = (request) =>
      request.json.previous_response_id === undefined
        ? undefined
        : failWith(request, 404, { type: 'invalid_request_error', message: 'No such response.' })
    await client.responses.create({ model: 'one/m', previous_response_id: first.id, input: 'again' })
    assert.ok(lastOf(one).body.includes('SEALED-BY-ONE'), lastOf(one).body)
    two.instead = (request) =>
      request.body.includes('SEALED-BY-ONE')
        ? failWith(request, 400, {
            type: 'invalid_request_error',
            message: 'The encrypted content could not be verified.',
            code: 'invalid_encrypted_content',
          })
        : undefined
    for (const stranger of [two, three]) {
      await client.responses.create({ model: `${stranger.name}/m`, previous_response_id: first.id, input: 'again' })
      assert.ok(!lastOf(stranger).body.includes('SEALED-BY-ONE'), lastOf(stranger).body)
      inOrder(lastOf(stranger).body, ['think', 'I thought.', 'again'])
    }
  })
})

// ── Access and retention ─────────────────────────────────────────────────────────────────────────────────────────

describe('stored responses', () => {
  test('does not exist with store: false, nor for unknown ids', async () => {
    const one = await place('one', 'openai-chat')
    const client = sdk(await begin([one]))
    const { id } = await client.responses.create({ model: 'm', input: 'a', store: false })
    for (const name of [id, 'resp_hgnobody', 'nonsense']) {
      await refused(client.responses.retrieve(name), 404, 'response_not_found')
      await refused(client.responses.delete(name), 404, 'response_not_found')
      await refused(client.responses.cancel(name), 404, 'response_not_found')
      await refused(client.responses.inputItems.list(name).then(), 404, 'response_not_found')
      await refused(
        client.responses.create({ model: 'm', previous_response_id: name, input: 'b' }),
        400,
        'previous_response_not_found',
        'previous_response_id',
      )
    }
  })

  test('are visible only to the client that created them', async () => {
    const one = await place('one', 'openai-chat')
    const gateway = await begin([one], { AUTH_KEYS: 'key-a,key-b' })
    const [mine, theirs] = [sdk(gateway, 'key-a'), sdk(gateway, 'key-b')]
    const kept = await mine.responses.create({ model: 'm', input: 'a secret' })
    one.delivery = { gap: 50 }
    const running = await mine.responses.create({ model: 'm', input: 'a secret', background: true })
    for (const { id } of [kept, running]) {
      await refused(theirs.responses.retrieve(id), 404, 'response_not_found')
      await refused(theirs.responses.delete(id), 404, 'response_not_found')
      await refused(theirs.responses.cancel(id), 404, 'response_not_found')
      await refused(theirs.responses.inputItems.list(id).then(), 404, 'response_not_found')
      await refused(
        theirs.responses.create({ model: 'm', previous_response_id: id, input: 'b' }),
        400,
        'previous_response_not_found',
      )
    }
    await refused(sdk(gateway, 'key-c').responses.retrieve(kept.id), 401, 'invalid_api_key')
    assert.equal((await mine.responses.retrieve(kept.id)).id, kept.id)
    assert.equal((await polled(mine, running.id)).at(-1)?.status, 'completed')
  })

  test('are listed in pages', async () => {
    const one = await place('one', 'openai-chat')
    const client = sdk(await begin([one]))
    const input = Array.from({ length: 45 }, (_, at) => ({ role: 'user' as const, content: `item ${at}` }))
    const { id } = await client.responses.create({ model: 'm', input })
    for (const order of ['asc', 'desc'] as const) {
      const found: string[] = []
      for await (const item of client.responses.inputItems.list(id, { order, limit: 20 }))
        found.push(JSON.stringify(item))
      const expected = input.map(({ content }) => content)
      assert.equal(found.length, 45)
      for (const [at, content] of (order === 'asc' ? expected : expected.toReversed()).entries())
        assert.ok(found[at]?.includes(`"${content}"`), `${found[at]} is not ${content}`)
    }
    for (const query of ['limit=0', 'limit=101', 'limit=x', 'order=up', 'after=unknown']) {
      const answer = await fetch(`${client.baseURL}/responses/${id}/input_items?${query}`)
      assert.equal(answer.status, 400, query)
    }
  })

  test('are gone once deleted', async () => {
    const one = await place('one', 'openai-chat')
    const client = sdk(await begin([one]))
    const { id } = await client.responses.create({ model: 'm', input: 'a' })
    await client.responses.delete(id)
    await refused(client.responses.retrieve(id), 404, 'response_not_found')
    await refused(client.responses.delete(id), 404, 'response_not_found')
  })

  test('are in one file that only its owner can read, created on the first write', async () => {
    const folder = dataDir()
    const one = await place('one', 'openai-chat')
    const client = sdk(await begin([one], { DATA_DIR: folder }))
    await client.responses.create({ model: 'm', input: 'a', store: false })
    assert.equal(existsSync(join(folder, 'responses.db')), false)
    await client.responses.create({ model: 'm', input: 'a' })
    assert.equal(statSync(folder).mode & 0o777, 0o700)
    for (const file of ['responses.db', 'responses.db-wal', 'responses.db-shm'])
      assert.equal(statSync(join(folder, file)).mode & 0o777, 0o600, file)
  })

  test('are off if configured so, and the response states it', async () => {
    const folder = dataDir()
    const one = await place('one', 'openai-chat')
    const client = sdk(await begin([one], { DATA_DIR: folder, RESPONSES_KEEP_DAYS: '0' }))
    const answer = await client.responses.create({ model: 'm', input: 'a', store: true })
    assert.partialDeepStrictEqual(answer, { store: false })
    await refused(client.responses.retrieve(answer.id), 404, 'response_not_found')
    await refused(
      client.responses.create({ model: 'm', input: 'a', background: true }),
      400,
      'unsupported_parameter',
      'background',
    )
    assert.equal(existsSync(join(folder, 'responses.db')), false)
  })

  test('are off if the folder is not writable: the responses and one log line of each store state it', async () => {
    const file = join(dataDir(), '..', 'a-file')
    writeFileSync(file, '')
    const one = await place('one', 'openai-chat')
    const gateway = await begin([one], { DATA_DIR: join(file, 'data'), AUTH_REQUIRED: 'false' })
    const client = sdk(gateway)
    for (let turn = 0; turn < 2; turn++) {
      const answer = await client.responses.create({ model: 'm', input: 'a' })
      assert.partialDeepStrictEqual(answer, { status: 'completed', store: false })
    }
    const errors = (await gateway.logged()).filter(({ level }) => level === 'error')
    assert.deepEqual(errors.map(({ event }) => event).sort(), ['control', 'ledger', 'store'])
    assert.match(String(errors.find(({ event }) => event === 'store')?.message), /DATA_DIR/)
  })
})

// ── Replay as a stream ───────────────────────────────────────────────────────────────────────────────────────────

const numbersOf = (events: readonly { sequence_number: number }[]) =>
  events.map(({ sequence_number }) => sequence_number)

const collected = async <T>(stream: AsyncIterable<T>): Promise<T[]> => {
  const all: T[] = []
  for await (const one of stream) all.push(one)
  return all
}

describe('replay as a stream', () => {
  for (const format of FORMATS)
    test(`a finished response, from any event on: ${format}`, async () => {
      const one = await place('one', format)
      const gateway = await begin([one])
      const client = sdk(gateway)
      one.reply = { text: 'One two three four five six seven.' }
      const made = await client.responses.create({ model: 'm', input: 'a' })
      const whole = await collected(await client.responses.retrieve(made.id, { stream: true }))
      assert.deepEqual(
        numbersOf(whole),
        whole.map((_, at) => at),
      )
      const last = whole.at(-1)
      assert.ok(last?.type === 'response.completed')
      assert.deepEqual(last.response.output, made.output)
      for (let after = 0; after < whole.length; after++) {
        const rest = await collected(await client.responses.retrieve(made.id, { stream: true, starting_after: after }))
        assert.equal(rest.length, whole.length - after - 1)
        assert.deepEqual(numbersOf(rest), numbersOf(whole).slice(after + 1))
      }
      const raw = await (await fetch(`${gateway.base}/responses/${made.id}?stream=true&starting_after=99`)).text()
      assert.equal(raw, 'data: [DONE]\n\n')
      for (const after of ['-1', 'x', '1.5'])
        assert.equal(
          (await fetch(`${gateway.base}/responses/${made.id}?stream=true&starting_after=${after}`)).status,
          400,
        )
      await gateway.stop()
    })

  test('a response in progress: past events, then new ones', async () => {
    const one = await place('one', 'openai-chat')
    const client = sdk(await begin([one]))
    one.reply = { text: 'word '.repeat(40) }
    one.delivery = { gap: 15 }
    const queued = await client.responses.create({ model: 'm', input: 'a', background: true, stream: true })
    const seen: OpenAI.Responses.ResponseStreamEvent[] = []
    for await (const event of queued) {
      seen.push(event)
      if (seen.length === 8) break
    }
    const [created] = seen
    assert.ok(created?.type === 'response.created')
    const from = seen.at(-1)?.sequence_number ?? 0
    const rest = await collected(
      await client.responses.retrieve(created.response.id, { stream: true, starting_after: from }),
    )
    assert.deepEqual(
      numbersOf([...seen, ...rest]),
      [...seen, ...rest].map((_, at) => at),
    )
    const last = rest.at(-1)
    assert.ok(last?.type === 'response.completed')
    assert.equal(last.response.output_text ?? last.response.output.length, 1)
    assert.equal(callsOf(one.upstream).length, 1)
    // Replays the same events after its end.
    const again = await collected(await client.responses.retrieve(created.response.id, { stream: true }))
    assert.deepEqual(again.slice(from + 1), rest)
  })

  test('a slow reader gets every event', async () => {
    const one = await place('one', 'openai-chat')
    const gateway = await begin([one])
    const client = sdk(gateway)
    one.reply = { text: 'x'.repeat(400_000) }
    const made = await client.responses.create({ model: 'm', input: 'a', background: true })
    await polled(client, made.id)
    const path = `/v1/responses/${made.id}?stream=true`
    const slow = await rawClient(
      gateway.url,
      `GET ${BELOW}${path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`,
    )
    slow.socket.pause()
    await sleep(300)
    slow.socket.resume()
    await until('the end', () => slow.closed())
    const events = eventsIn(slow.text().replaceAll(/\r\n[0-9a-f]+\r\n/g, ''))
    assert.deepEqual(
      events.map(({ sequence_number }) => sequence_number),
      events.map((_, at) => at),
    )
    assert.equal(events.at(-1)?.type, 'response.completed')
    assert.ok(events.length > 80_000, String(events.length))
  })
})

describe('background responses: progress and cancellation', () => {
  for (const format of FORMATS)
    test(`are queued, in progress and completed: ${format}`, async () => {
      const one = await place('one', format)
      const gateway = await begin([one])
      const client = sdk(gateway)
      one.delivery = { first: 60, gap: 100 }
      const queued = await client.responses.create({ model: 'm', input: 'a', background: true })
      assert.deepEqual([queued.status, queued.background, queued.output], ['queued', true, []])
      const listed = await client.responses.inputItems.list(queued.id)
      const seen = await polled(client, queued.id)
      const states = seen.map(({ status }) => status)
      assert.equal(states.at(-1), 'completed')
      assert.ok(states.includes('in_progress'), states.join())
      assert.equal(seen.at(-1)?.output_text ?? 'Words of one.', 'Words of one.')
      assert.equal(seen.at(-1)?.background, true)
      const items = await client.responses.inputItems.list(queued.id)
      assert.equal(items.data.length, 1)
      assert.deepEqual(items.data, listed.data)
      // It can be continued.
      const next = await client.responses.create({ model: 'm', previous_response_id: queued.id, input: 'b' })
      assert.equal(next.status, 'completed')
      await gateway.stop()
    })

  test('cannot be continued while in progress', async () => {
    const one = await place('one', 'openai-chat')
    const client = sdk(await begin([one]))
    one.delivery = { first: 500 }
    const { id } = await client.responses.create({ model: 'm', input: 'a', background: true })
    await refused(
      client.responses.create({ model: 'm', previous_response_id: id, input: 'b' }),
      400,
      'previous_response_not_found',
      'previous_response_id',
    )
  })

  for (const streamed of [false, true])
    test(`cancelling in the middle aborts the upstream call${streamed ? ' and ends the stream' : ''}`, async () => {
      const one = await place('one', 'openai-chat')
      const client = sdk(await begin([one]))
      one.reply = { text: 'word '.repeat(400) }
      one.delivery = { gap: 10 }
      let id = ''
      let reading: Promise<OpenAI.Responses.ResponseStreamEvent[]> | undefined
      if (streamed) {
        const stream = await client.responses.create({ model: 'm', input: 'a', background: true, stream: true })
        reading = (async () => {
          const all: OpenAI.Responses.ResponseStreamEvent[] = []
          for await (const event of stream) {
            all.push(event)
            if (event.type === 'response.created') id = event.response.id
          }
          return all
        })()
        await until('it has begun', () => id !== '')
      } else id = (await client.responses.create({ model: 'm', input: 'a', background: true })).id
      await until('the upstream has received the call', () => (callsOf(one.upstream)[0]?.sent ?? 0) > 500)
      const begun = performance.now()
      const cancelled = await client.responses.cancel(id)
      assert.equal(cancelled.status, 'cancelled')
      await until('let go', () => callsOf(one.upstream)[0]?.ended === 'aborted')
      assert.ok((callsOf(one.upstream)[0]?.endedAt ?? Number.POSITIVE_INFINITY) - begun < 500)
      assert.equal((await client.responses.retrieve(id)).status, 'cancelled')
      // A second time has the same result.
      assert.equal((await client.responses.cancel(id)).status, 'cancelled')
      if (reading) assert.ok((await reading).length > 0)
    })

  test('only background responses can be cancelled', async () => {
    const one = await place('one', 'openai-chat')
    const client = sdk(await begin([one]))
    const { id } = await client.responses.create({ model: 'm', input: 'a' })
    await refused(client.responses.cancel(id), 400, 'invalid_request')
    const done = await client.responses.create({ model: 'm', input: 'a', background: true })
    await polled(client, done.id)
    assert.equal((await client.responses.cancel(done.id)).status, 'completed')
  })
})

describe('background responses: deletion and failure', () => {
  test('deleting one aborts the upstream call', async () => {
    const one = await place('one', 'openai-chat')
    const client = sdk(await begin([one]))
    one.reply = { text: 'word '.repeat(400) }
    one.delivery = { gap: 10 }
    const { id } = await client.responses.create({ model: 'm', input: 'a', background: true })
    await until('the upstream has received the call', () => (callsOf(one.upstream)[0]?.sent ?? 0) > 500)
    await client.responses.delete(id)
    await until('let go', () => callsOf(one.upstream)[0]?.ended === 'aborted')
    await refused(client.responses.retrieve(id), 404, 'response_not_found')
  })

  test('fail with the reason if no provider answers', async () => {
    const one = await place('one', 'openai-chat')
    const two = await place('two', 'anthropic-messages')
    const gateway = await begin([one, two])
    const client = sdk(gateway)
    for (const place of [one, two])
      place.instead = (request) => failWith(request, 500, { type: 'api_error', message: 'It broke.' })
    const { id } = await client.responses.create({ model: 'm', input: 'a', background: true })
    const last = (await polled(client, id)).at(-1)
    assert.equal(last?.status, 'failed')
    assert.match(last?.error?.message ?? '', /It broke/)
    const events = await collected(await client.responses.retrieve(id, { stream: true })).catch((error) => error)
    // The SDK throws the message of an error event.
    assert.ok(events instanceof Error)
    const raw = eventsIn(await (await fetch(`${gateway.base}/responses/${id}?stream=true`)).text())
    assert.deepEqual(
      raw.map(({ type }) => type),
      ['response.created', 'error', 'response.failed'],
    )
    await refused(
      client.responses.create({ model: 'm', background: true, input: 'a', store: false }),
      400,
      'invalid_value',
      'background',
    )
  })

  test('fail if the upstream breaks off, and keep the text received so far', async () => {
    const one = await place('one', 'openai-chat')
    const client = sdk(await begin([one], { FALLBACK: 'none' }))
    one.instead = (request) => {
      const act = answerWith(request, { text: 'It goes on and on and on' })
      return act.do === 'stream' ? { ...act, pieces: [...act.pieces].slice(0, 4), ending: 'close' } : act
    }
    const { id } = await client.responses.create({ model: 'm', input: 'a', background: true })
    const last = (await polled(client, id)).at(-1)
    assert.equal(last?.status, 'failed')
    assert.ok(JSON.stringify(last?.output).includes('It goes on'), JSON.stringify(last))
  })
})

// ── Shutdown and crashes ─────────────────────────────────────────────────────────────────────────────────────────

/** If the disk is slower than an answer may wait, the answer states `store: false`. */
const isStored = (response: OpenAI.Responses.Response): boolean => !('store' in response && response.store === false)

const killed = async (gateway: Started): Promise<void> => {
  gateway.child.kill('SIGKILL')
  await gateway.stop()
}

describe('shutdown and crashes', () => {
  test('killed during a background response: that one has failed, and completed ones remain', async () => {
    const folder = dataDir()
    const one = await place('one', 'openai-chat')
    const first = await begin([one], { DATA_DIR: folder })
    const client = sdk(first)
    const done = await client.responses.create({ model: 'm', input: 'a' })
    const background = await client.responses.create({ model: 'm', input: 'b', background: true })
    await polled(client, background.id)
    one.reply = { text: 'word '.repeat(400) }
    one.delivery = { gap: 10 }
    const running = await client.responses.create({ model: 'm', input: 'c', background: true })
    await until('under way', () => (callsOf(one.upstream).at(-1)?.sent ?? 0) > 500)
    one.delivery = { first: 60_000 }
    const waiting = await client.responses.create({ model: 'm', input: 'd', background: true })
    await killed(first)

    const again = sdk(await begin([one], { DATA_DIR: folder }))
    for (const { id } of [running, waiting]) {
      const shown = await again.responses.retrieve(id)
      assert.equal(shown.status, 'failed')
      assert.match(shown.error?.message ?? '', /stopped/)
      assert.equal((await again.responses.cancel(id)).status, 'failed')
    }
    assert.deepEqual((await again.responses.retrieve(done.id)).output, done.output)
    assert.equal((await again.responses.retrieve(background.id)).status, 'completed')
    const events = await collected(await again.responses.retrieve(background.id, { stream: true }))
    assert.equal(events.at(-1)?.type, 'response.completed')
    one.delivery = {}
    const next = await again.responses.create({ model: 'm', previous_response_id: done.id, input: 'e' })
    assert.equal(next.status, 'completed')
  })

  test('killed at any moment: no response that a client received as complete is lost', {
    timeout: 240_000,
  }, async () => {
    const folder = dataDir()
    const one = await place('one', 'openai-chat')
    const two = await place('two', 'openai-responses')
    one.delivery = { gap: 1 }
    two.delivery = { gap: 1 }
    const completed: { id: string; text: string; round: number }[] = []
    /** The output of each process, for failure messages. */
    const logs: string[] = []
    let rounds = 0
    for (; rounds < 20 || completed.length < 200; rounds++) {
      assert.ok(rounds < 60, `${completed.length} answers in ${rounds} rounds`)
      const gateway = await begin([one, two], { DATA_DIR: folder })
      const client = sdk(gateway)
      const enough = 1 + Math.floor(Math.random() * 24)
      let seen = 0
      const kill = () => {
        if (++seen === enough) gateway.child.kill('SIGKILL')
      }
      const ask = async (at: number): Promise<void> => {
        const model = at % 2 === 0 ? 'one/m' : 'two/m'
        const input = `question ${rounds}.${at}`
        if (at % 3 === 0) {
          const answer = await client.responses.create({ model, input })
          if (isStored(answer)) completed.push({ id: answer.id, text: input, round: rounds })
          return kill()
        }
        for await (const event of await client.responses.create({ model, input, stream: true }))
          if (event.type === 'response.completed') {
            if (isStored(event.response)) completed.push({ id: event.response.id, text: input, round: rounds })
            kill()
          }
      }
      // Requests without an answer before the kill do not count.
      await Promise.allSettled(Array.from({ length: 24 }, (_, at) => ask(at)))
      await killed(gateway)
      logs.push(gateway.output())
    }
    const gateway = await begin([one, two], { DATA_DIR: folder })
    const client = sdk(gateway)
    for (const { id, text, round } of completed) {
      const shown = await client.responses.retrieve(id).catch((error) => {
        const mates = completed.filter((other) => other.round === round).map((other) => other.id)
        assert.fail(`${error}; in round ${round}: ${mates}; ${logs[round]}\n${gateway.output()}`)
      })
      assert.equal(shown.status, 'completed', `${id} of ${completed.length}`)
      const items = await client.responses.inputItems.list(id)
      assert.ok(JSON.stringify(items.data).includes(text))
    }
  })

  test('shutdown: background responses finish first', async () => {
    const folder = dataDir()
    const one = await place('one', 'openai-chat')
    const gateway = await begin([one], { DATA_DIR: folder, DRAIN_TIMEOUT: '10000' })
    one.reply = { text: 'word '.repeat(20) }
    one.delivery = { gap: 20 }
    const { id } = await sdk(gateway).responses.create({ model: 'm', input: 'a', background: true })
    await until('under way', () => (callsOf(one.upstream)[0]?.sent ?? 0) > 500)
    assert.equal(await gateway.stop(), 0)
    const shown = await sdk(await begin([one], { DATA_DIR: folder })).responses.retrieve(id)
    assert.equal(shown.status, 'completed')
    assert.ok(JSON.stringify(shown.output).includes('word word'))
  })

  test('shutdown without enough time: a background response fails, and states it', async () => {
    const folder = dataDir()
    const one = await place('one', 'openai-chat')
    const gateway = await begin([one], { DATA_DIR: folder, DRAIN_TIMEOUT: '200' })
    one.reply = { text: 'word '.repeat(400) }
    one.delivery = { gap: 20 }
    const { id } = await sdk(gateway).responses.create({ model: 'm', input: 'a', background: true })
    await until('under way', () => (callsOf(one.upstream)[0]?.sent ?? 0) > 500)
    assert.equal(await gateway.stop(), 0)
    const shown = await sdk(await begin([one], { DATA_DIR: folder })).responses.retrieve(id)
    assert.equal(shown.status, 'failed')
    assert.match(shown.error?.message ?? '', /shutting down/)
  })
})

// ── Python ───────────────────────────────────────────────────────────────────────────────────────────────────────

test('the SDK for Python: every call', { skip: skipPython() }, async (t) => {
  const places = await Promise.all(FORMATS.map((format) => place(`up-${styleNames[format]}`, format)))
  for (const one of places) one.delivery = { gap: 8 }
  for (const one of places) one.reply = { text: 'One two three four five six seven eight nine ten.' }
  const gateway = await begin(places, { FALLBACK: 'none' })
  const given = { base: gateway.base, providers: places.map(({ name }) => name), text: places[0]?.reply.text }
  await testPython(t, { script: 'stored.py', given, cases: 8 * FORMATS.length })
})
