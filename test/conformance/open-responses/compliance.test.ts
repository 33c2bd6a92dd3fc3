/**
 * The Open Responses compliance suite, every request and every assertion of it, over real sockets against the gateway
 * as a process of its own, in front of an upstream of every format there is.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { UpstreamProtocolName } from '../../../src/core/chat.ts'
import { isObject, type JsonObject, list, text } from '../../../src/core/json.ts'
import { styleNames } from '../../../src/edge/config/definition.ts'
import { upstreamProtocols } from '../../../src/protocols/index.ts'
import { type Started, start } from '../../e2e/support/process.ts'
import { answerWith } from '../../support/answers.ts'
import { readWire, requireRecordings, skipWithoutRecordings } from '../../support/recordings.ts'
import { type Act, startUpstream, type Upstream, type UpstreamRequest } from '../../support/upstream.ts'
import {
  type Answer,
  converse,
  holds,
  isStreamed,
  itemsOf,
  post,
  requestOf,
  type Step,
  type Target,
  type Test,
  testsOf,
} from './runner.ts'

requireRecordings()

const file = readWire('openresponses.compliance.json') ?? {}
const tests = testsOf(file)
// The keys of the table are exactly the formats.
const formats = Object.keys(upstreamProtocols) as UpstreamProtocolName[]

// ── The upstream ─────────────────────────────────────────────────────────────────────────────────────────────────

const CALL = { id: 'call_weather', name: 'get_weather', arguments: '{"location":"San Francisco, CA"}' }

/** Answers plausibly in the format it is asked in: calls a tool if it is given one and has no result yet, else speaks. */
const upstreamScript = () => {
  /** Answers it keeps; it speaks the format that has such. */
  const kept = new Set<string>()
  let number = 0
  return (asked: UpstreamRequest): Act => {
    if (asked.method === 'GET') return { do: 'answer', status: 404, body: { error: { message: 'no list' } } }
    const previous = text(asked.json.previous_response_id)
    if (previous !== undefined && !kept.has(previous))
      return {
        do: 'answer',
        status: 400,
        body: {
          error: {
            message: `Previous response with id '${previous}' not found.`,
            type: 'invalid_request_error',
            param: 'previous_response_id',
            code: 'previous_response_not_found',
          },
        },
      }
    const tools = asked.json.tools ?? asked.json.toolConfig
    const said = tools !== undefined && !RESULT.test(asked.body) ? { tools: [CALL] } : { text: 'Hello there, friend.' }
    const act = answerWith(asked, said)
    if (!asked.path.endsWith('/responses')) return act
    const id = `resp_up${number++}`
    if (asked.json.store !== false) kept.add(id)
    // An act is data: an answer of its own id.
    return JSON.parse(JSON.stringify(act).replaceAll('resp_test', id))
  }
}

/** A tool's result, in any format. */
const RESULT = /"function_call_output"|"tool_result"|"role":"tool"|"functionResponse"|"toolResult"/

// Of a vendor that is known to remember answers, where the format has such.
const name = (format: UpstreamProtocolName) =>
  `${format === 'openai-responses' ? 'openai' : 'up'}-${styleNames[format]}`
const variable = (format: UpstreamProtocolName) => name(format).toUpperCase().replaceAll('-', '_')

let gateway: Started
const upstreams: Upstream[] = []
before(async () => {
  if (skipWithoutRecordings) return
  const env: Record<string, string> = { FALLBACK: 'none' }
  for (const format of formats) {
    const upstream = await startUpstream(upstreamScript())
    upstreams.push(upstream)
    env[`${variable(format)}_API_KEY`] = `sk-${name(format)}-0123456789`
    env[`${variable(format)}_BASE_URL`] = upstream.url + (BASE[format] ?? '/v1')
    env[`${variable(format)}_STYLES`] = styleNames[format]
    env[`${variable(format)}_MODELS`] = 'm'
  }
  gateway = await start({ env })
})
after(async () => {
  await gateway?.stop()
  for (const upstream of upstreams) await upstream.close()
})

/** What stands behind the host where a format's own vendor has it otherwise than `/v1`. */
const BASE: { readonly [format in UpstreamProtocolName]?: string } = {
  gemini: '/v1beta',
  cohere: '/v2',
  ollama: '',
  'bedrock-converse': '',
}

// ── Turns over a WebSocket ───────────────────────────────────────────────────────────────────────────────────────

const NOT_FOUND = 'previous_response_not_found'

const create =
  (target: Target, more: JsonObject): Step =>
  () => ({ type: 'response.create', model: target.model, store: false, ...more })

/** What the file tells of a test in words, as the turns it means. Its first request is in the file. */
const WEB_SOCKET: { readonly [id: string]: (first: Step, target: Target) => Promise<void> } = {
  'websocket-response': async (first, target) => {
    const [answer] = await converse(target, [first])
    assert.ok(answer)
    isStreamed(answer)
  },
  'websocket-sequential-responses': async (first, target) => {
    const answers = await converse(target, [first, create(target, { input: 'Reply with exactly: second' })])
    assert.equal(answers.length, 2)
    for (const answer of answers) isStreamed(answer)
  },
  'websocket-continuation': async (first, target) => {
    const [one, two] = await converse(target, [
      first,
      ([answer]) => create(target, { previous_response_id: idOf(answer), input: 'What is the code word?' })([]),
    ])
    assert.ok(one && two)
    isStreamed(one)
    isStreamed(two)
    assert.equal(two.body.previous_response_id, one.body.id)
  },
  'websocket-reconnect-store-false-recovery': async (first, target) => {
    const [one] = await converse(target, [first])
    const [lost, recovered] = await converse(target, [
      create(target, { previous_response_id: idOf(one), input: 'What is the code word?' }),
      create(target, { input: 'Start again. Reply with OK.' }),
    ])
    assert.ok(lost && recovered)
    assert.deepEqual([lost.status, lost.code], [400, NOT_FOUND])
    isStreamed(recovered)
  },
  'websocket-previous-response-not-found': async (first, target) => {
    const [answer] = await converse(target, [
      (answers) => ({ ...first(answers), previous_response_id: `resp_openresponses_missing_${Date.now()}` }),
    ])
    assert.ok(answer)
    assert.deepEqual([answer.status, answer.code], [400, NOT_FOUND])
  },
  'websocket-failed-continuation-evicts-cache': async (first, target) => {
    const output = { type: 'function_call_output', call_id: 'call_openresponses_missing', output: 'nothing' }
    const [one, failed, again] = await converse(target, [
      first,
      ([answer]) => create(target, { previous_response_id: idOf(answer), input: [output] })([]),
      ([answer]) => create(target, { previous_response_id: idOf(answer), input: 'Reply with exactly: stale' })([]),
    ])
    assert.ok(one && failed && again)
    isStreamed(one)
    assert.equal(failed.status, 400)
    assert.deepEqual([again.status, again.code], [400, NOT_FOUND])
  },
  'websocket-compact-new-chain': async (_first, target) => {
    const compacted = await post(target, '/responses/compact', {
      model: target.model,
      input: [message('user', 'Remember the compaction code word: slate.'), message('assistant', 'I will.')],
    })
    assert.equal(compacted.status, 200)
    holds(['body matches CompactResource'], compacted)
    const [answer] = await converse(target, [
      create(target, { input: [...itemsOf(compacted), message('user', 'What is the code word?')] }),
    ])
    assert.ok(answer)
    isStreamed(answer)
  },
}

const message = (role: 'user' | 'assistant', text: string): JsonObject => ({
  type: 'message',
  role,
  content: [{ type: role === 'user' ? 'input_text' : 'output_text', text }],
})

const idOf = (answer: Answer | undefined): string => {
  const id = text(answer?.body.id)
  assert.ok(id, 'the first turn has no id')
  return id
}

const run = async (one: Test, target: Target): Promise<void> => {
  const request = requestOf(one.request, target)
  if (one.transport === 'websocket') {
    const steps = WEB_SOCKET[one.id]
    assert.ok(steps, `the file has a test nobody here knows: ${one.id}`)
    return steps(() => request, target)
  }
  const answer = await post(target, one.endpoint, request, one.streaming)
  assert.ok(one.expectedStatuses.includes(answer.status), `${answer.status} ${JSON.stringify(answer.body)}`)
  holds(one.assertions, answer)
}

// ── Tests other versions of the suite have ───────────────────────────────────────────────────────────────────────

const toolRequest = (target: Target): JsonObject =>
  requestOf(tests.find(({ id }) => id === 'tool-calling')?.request ?? {}, target)

/** A PDF of one empty page. */
const PDF = Buffer.from(
  '%PDF-1.1\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n',
).toString('base64')

const fileRequest = ({ model }: Target): JsonObject => ({
  model,
  input: [
    {
      type: 'message',
      role: 'user',
      content: [
        { type: 'input_text', text: 'What is in this file?' },
        { type: 'input_file', filename: 'a.pdf', file_data: `data:application/pdf;base64,${PDF}` },
      ],
    },
  ],
})

const refusesFile = async (target: Target): Promise<void> => {
  const { status, code, body } = await post(target, '/responses', fileRequest(target))
  assert.deepEqual([status, code], [400, 'unsupported_parameter'])
  assert.partialDeepStrictEqual(body, { error: { param: 'input[0].content[1]' } })
}

const OTHERS: { readonly [id: string]: (target: Target, assertions: readonly string[]) => Promise<void> } = {
  'tool-calling-streaming': async (target, assertions) =>
    holds(assertions, await post(target, '/responses', toolRequest(target), true)),
  'function-call-roundtrip': async (target, assertions) => {
    const request: JsonObject = { ...toolRequest(target), tool_choice: { type: 'function', name: 'get_weather' } }
    const first = await post(target, '/responses', request)
    const call = itemsOf(first).find(({ type }) => type === 'function_call')
    assert.ok(call, JSON.stringify(first.body))
    const result = { type: 'function_call_output', call_id: call.call_id ?? null, output: '{"celsius":18}' }
    const second = await post(target, '/responses', {
      ...toolRequest(target),
      input: [...list(request.input), ...itemsOf(first), result],
    })
    holds(assertions, second)
  },
  'file-input': async (target, assertions) => {
    holds(assertions, await post(target, '/responses', fileRequest(target)))
  },
  'previous-response-id': async (target, assertions) => {
    const first = await post(target, '/responses', { model: target.model, input: 'My name is Alice.' })
    const second = await post(target, '/responses', {
      model: target.model,
      previous_response_id: idOf(first),
      input: 'What is my name?',
    })
    holds(assertions, second)
  },
}

/** Formats that carry no file in any form: whoever asks has to be told, by name. */
const WITHOUT_FILES: ReadonlySet<UpstreamProtocolName> = new Set(['cohere', 'ollama'])

/** Tests of tools that the provider runs itself: an upstream of ours searches neither files nor the web. */
const EXCLUDED: ReadonlySet<string> = new Set(['file-search', 'offline-web-search'])

for (const format of formats)
  describe(`open responses: ${format}`, { skip: skipWithoutRecordings, concurrency: true }, () => {
    const target = (): Target => ({ base: gateway.base, model: `${name(format)}/m` })
    for (const one of tests.filter(({ local }) => !local)) test(one.id, () => run(one, target()))
    for (const other of list(file.seen_in_other_stored_commits).filter(isObject)) {
      const id = text(other.id) ?? ''
      const told = `${id} (another version of the suite)`
      if (id === 'file-input' && WITHOUT_FILES.has(format)) {
        test(`${told}: refused by name`, () => refusesFile(target()))
        continue
      }
      if (EXCLUDED.has(id)) continue
      test(told, async () => {
        const ask = OTHERS[id]
        assert.ok(ask, `the file has a test nobody here knows: ${id}`)
        await ask(
          target(),
          list(other.assertions).filter((sentence) => typeof sentence === 'string'),
        )
      })
    }
  })

describe('open responses: the built-in demo', { skip: skipWithoutRecordings }, () => {
  let demo: Started
  before(async () => {
    demo = await start()
  })
  after(() => demo?.stop())
  const target = (): Target => ({ base: demo.base, model: 'demo/tools' })
  for (const one of tests.filter(({ local }) => !local)) test(one.id, () => run(one, target()))
  for (const id of ['tool-calling-streaming', 'function-call-roundtrip'])
    test(id, () => {
      const other = list(file.seen_in_other_stored_commits).find((entry) => isObject(entry) && entry.id === id)
      const assertions = list(isObject(other) ? other.assertions : []).filter((one) => typeof one === 'string')
      return OTHERS[id]?.(target(), assertions)
    })
})
