/**
 * The Open Responses compliance suite, with all its requests and assertions, over real sockets against a gateway process,
 * with an upstream of every format.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { styleNames } from '../../../src/config/definition.ts'
import type { UpstreamProtocolName } from '../../../src/core/chat.ts'
import { isObject, type JsonObject, list, text } from '../../../src/core/json.ts'
import { upstreamProtocols } from '../../../src/protocols/index.ts'
import { type Started, start } from '../../e2e/support/process.ts'
import { answerWith } from '../../support/answers.ts'
import { readWire, requireRecordings, skipWithoutRecordings } from '../../support/recordings.ts'
import { type Act, startUpstream, type Upstream, type UpstreamRequest } from '../../support/upstream.ts'
import {
  type Answer,
  assertAll,
  assertStreamed,
  converse,
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

/** Answers in the format of the request: calls a tool if it has tools and no result yet, otherwise returns text. */
const upstreamScript = () => {
  /** Ids of stored responses, for the format that has them. */
  const stored = new Set<string>()
  let number = 0
  return (request: UpstreamRequest): Act => {
    if (request.method === 'GET') return { do: 'answer', status: 404, body: { error: { message: 'no list' } } }
    const previous = text(request.json.previous_response_id)
    if (previous !== undefined && !stored.has(previous))
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
    const tools = request.json.tools ?? request.json.toolConfig
    const content =
      tools !== undefined && !RESULT.test(request.body) ? { tools: [CALL] } : { text: 'Hello there, friend.' }
    const act = answerWith(request, content)
    if (!request.path.endsWith('/responses')) return act
    const id = `resp_up${number++}`
    if (request.json.store !== false) stored.add(id)
    // An act is data, so its id can be replaced in the JSON.
    return JSON.parse(JSON.stringify(act).replaceAll('resp_test', id))
  }
}

/** Matches a tool result in any format. */
const RESULT = /"function_call_output"|"tool_result"|"role":"tool"|"functionResponse"|"toolResult"/

// A vendor that is known to store responses, where the format has them.
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

/** The base path of formats whose vendor does not use `/v1`. */
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

/** Steps of the tests that the file describes in prose. The first request is in the file. */
const WEB_SOCKET: { readonly [id: string]: (first: Step, target: Target) => Promise<void> } = {
  'websocket-response': async (first, target) => {
    const [answer] = await converse(target, [first])
    assert.ok(answer)
    assertStreamed(answer)
  },
  'websocket-sequential-responses': async (first, target) => {
    const answers = await converse(target, [first, create(target, { input: 'Reply with exactly: second' })])
    assert.equal(answers.length, 2)
    for (const answer of answers) assertStreamed(answer)
  },
  'websocket-continuation': async (first, target) => {
    const [one, two] = await converse(target, [
      first,
      ([answer]) => create(target, { previous_response_id: idOf(answer), input: 'What is the code word?' })([]),
    ])
    assert.ok(one && two)
    assertStreamed(one)
    assertStreamed(two)
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
    assertStreamed(recovered)
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
    assertStreamed(one)
    assert.equal(failed.status, 400)
    assert.deepEqual([again.status, again.code], [400, NOT_FOUND])
  },
  'websocket-compact-new-chain': async (_first, target) => {
    const compacted = await post(target, '/responses/compact', {
      model: target.model,
      input: [message('user', 'Remember the compaction code word: slate.'), message('assistant', 'I will.')],
    })
    assert.equal(compacted.status, 200)
    assertAll(['body matches CompactResource'], compacted)
    const [answer] = await converse(target, [
      create(target, { input: [...itemsOf(compacted), message('user', 'What is the code word?')] }),
    ])
    assert.ok(answer)
    assertStreamed(answer)
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
    assert.ok(steps, `the file has an unknown test: ${one.id}`)
    return steps(() => request, target)
  }
  const answer = await post(target, one.endpoint, request, one.streaming)
  assert.ok(one.expectedStatuses.includes(answer.status), `${answer.status} ${JSON.stringify(answer.body)}`)
  assertAll(one.assertions, answer)
}

// ── Tests of other versions of the suite ─────────────────────────────────────────────────────────────────────────

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

const assertFileRefused = async (target: Target): Promise<void> => {
  const { status, code, body } = await post(target, '/responses', fileRequest(target))
  assert.deepEqual([status, code], [400, 'unsupported_parameter'])
  assert.partialDeepStrictEqual(body, { error: { param: 'input[0].content[1]' } })
}

const OTHER_VERSIONS: { readonly [id: string]: (target: Target, assertions: readonly string[]) => Promise<void> } = {
  'tool-calling-streaming': async (target, assertions) =>
    assertAll(assertions, await post(target, '/responses', toolRequest(target), true)),
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
    assertAll(assertions, second)
  },
  'file-input': async (target, assertions) => {
    assertAll(assertions, await post(target, '/responses', fileRequest(target)))
  },
  'previous-response-id': async (target, assertions) => {
    const first = await post(target, '/responses', { model: target.model, input: 'My name is Alice.' })
    const second = await post(target, '/responses', {
      model: target.model,
      previous_response_id: idOf(first),
      input: 'What is my name?',
    })
    assertAll(assertions, second)
  },
}

/** Formats without files: the request is rejected with the member named. */
const WITHOUT_FILES: ReadonlySet<UpstreamProtocolName> = new Set(['cohere', 'ollama'])

/** Tests of hosted tools, which the test upstream does not have. */
const EXCLUDED: ReadonlySet<string> = new Set(['file-search', 'offline-web-search'])

for (const format of formats)
  describe(`open responses: ${format}`, { skip: skipWithoutRecordings, concurrency: true }, () => {
    const target = (): Target => ({ base: gateway.base, model: `${name(format)}/m` })
    for (const one of tests.filter(({ local }) => !local)) test(one.id, () => run(one, target()))
    for (const other of list(file.seen_in_other_stored_commits).filter(isObject)) {
      const id = text(other.id) ?? ''
      const title = `${id} (another version of the suite)`
      if (id === 'file-input' && WITHOUT_FILES.has(format)) {
        test(`${title}: rejected with the member named`, () => assertFileRefused(target()))
        continue
      }
      if (EXCLUDED.has(id)) continue
      test(title, async () => {
        const runTest = OTHER_VERSIONS[id]
        assert.ok(runTest, `the file has an unknown test: ${id}`)
        await runTest(
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
      return OTHER_VERSIONS[id]?.(target(), assertions)
    })
})
