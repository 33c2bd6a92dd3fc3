/**
 * Client requests, translated to every upstream format: valid by the vendor's published schema, or unfit with the members
 * named. No member disappears: without it, either the request to the provider or the reported losses change. On the
 * project's own exchanges, and on recordings where they are present.
 */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { Failure } from '../../src/core/failure.ts'
import { isList, isObject, type JsonObject, object } from '../../src/core/json.ts'
import type { ClientProtocol, Encoded, UpstreamProtocol } from '../../src/core/protocol.ts'
import { clientProtocolByStyle, sharedProtocols, upstreamProtocols } from '../../src/protocols/index.ts'
import { ACCEPTS_ALL } from '../support/accepts-all.ts'
import { exchanges } from '../support/exchanges.ts'
import {
  allRecordings,
  clientRequests,
  type Recording,
  requireRecordings,
  skipWithoutRecordings,
} from '../support/recordings.ts'
import { problemsIfPresent, requireSchemas } from '../support/schemas.ts'
import { isRedundant, isReported, membersOf, pathExists, withoutIndices } from './request-members.ts'
import { Tally } from './tally.ts'

/** The APIs with recorded requests of each client format, including token counting, compaction and InvokeModel. */
const APIS: { readonly [style: string]: readonly string[] } = {
  chat: ['chat'],
  responses: ['responses', 'responses-compact', 'responses-input-tokens'],
  messages: ['messages', 'bedrock-invoke'],
  completions: ['completions'],
}

const PUBLISHED = {
  'openai-chat': ['openai', 'CreateChatCompletionRequest'],
  'openai-responses': ['openai', 'CreateResponse'],
  'anthropic-messages': ['anthropic', 'BetaCreateMessageParams'],
  gemini: ['gemini', 'GenerateContentRequest'],
  'bedrock-converse': ['bedrock', 'ConverseRequest'],
  cohere: ['cohere', 'Request'],
  mistral: ['mistral', 'ChatCompletionRequest'],
  ollama: ['ollama', 'ChatRequest'],
} as const

const TARGET = { model: 'target-model', outputLimit: 8_192, ...ACCEPTS_ALL }

type SampleRequest = { readonly name: string; readonly status: number; readonly body: JsonObject }

const recordings = allRecordings()

/** Whether a recording has a request of this format. InvokeModel has bodies of every model family; Claude's have a version. */
const isOfStyle = (style: string, { api, request }: Recording): boolean =>
  APIS[style]?.includes(api) === true && (api !== 'bedrock-invoke' || object(request)?.anthropic_version !== undefined)

/** Recorded requests of one client format. Azure, Vertex and Bedrock have the model in the path, so it is added. */
const recordedRequests = (style: string): SampleRequest[] => [
  ...recordings.flatMap((recording) => {
    const { id, status, request } = recording
    if (!isObject(request) || !isOfStyle(style, recording)) return []
    return [{ name: id, status: status ?? 200, body: { model: 'm', ...request } }]
  }),
  ...clientRequests().flatMap(({ name, path, body }) =>
    path === `/v1${clientProtocolByStyle.get(style)?.path}` ? [{ name, status: 200, body }] : [],
  ),
]

const translate = (from: ClientProtocol, to: UpstreamProtocol, body: JsonObject): Encoded | string => {
  const request = from.decodeRequest(body)
  return request.ok ? to.encodeRequest(request.value, TARGET) : rejectionReason(request.failure, body)
}

/** The member that makes a request invalid or unsupported, and its type. */
const rejectionReason = ({ kind, param, message }: Failure, body: JsonObject): string => {
  const value = body[param ?? '']
  const shape = isList(value) ? `a list of ${typeof value[0]}s` : typeof value
  return kind === 'unsupported' ? `unsupported: ${param}, ${shape}` : (param ?? message)
}

/** Requests of the project's own exchanges in one client format. */
const ownRequests = (style: string): SampleRequest[] =>
  exchanges()
    .filter(({ protocol }) => upstreamProtocols[protocol].style === style)
    .map(({ feature, request }) => ({ name: feature, status: 200, body: request }))

/** Translates requests of a client format to every upstream format. */
const testTranslations = (api: string, requests: readonly SampleRequest[], tally: Tally): void => {
  const from = clientProtocolByStyle.get(api)
  assert.ok(from)
  for (const to of Object.values(upstreamProtocols)) {
    test(`${api} requests to ${to.name} are valid, or unfit with a named member`, () => {
      const wrong = tally.checkEach(
        `${api} request → ${to.style}`,
        requests,
        ({ name }) => name,
        (one) => checkFits(from, to, one),
      )
      assert.equal(wrong.length, 0, wrong.join('\n'))
    })
    test(`${api} requests to ${to.name} lose no member silently`, () => {
      const lost = lostMembers(from, to, requests)
      assert.equal(lost.length, 0, lost.join('\n'))
    })
  }
}

requireRecordings()
requireSchemas()

describe('recorded requests, translated to every format', { skip: skipWithoutRecordings }, () => {
  const tally = new Tally('requests')
  for (const api of Object.keys(APIS)) {
    const requests = recordedRequests(api)
    test(`${api}: enough requests`, () => assert.ok(requests.length >= 30, String(requests.length)))
    testTranslations(api, requests, tally)
  }
  after(() => tally.print())
})

describe('own requests, translated to every format', () => {
  const tally = new Tally()
  for (const api of ['chat', 'responses', 'messages']) {
    const requests = ownRequests(api)
    test(`${api}: enough requests`, () => assert.ok(requests.length >= 25, String(requests.length)))
    testTranslations(api, requests, tally)
  }
  after(() => tally.print())
})

const checkFits = (from: ClientProtocol, to: UpstreamProtocol, { body, status }: SampleRequest): string | undefined => {
  const encoded = translate(from, to, body)
  if (typeof encoded === 'string') {
    if (status >= 400) return 'invalid here and upstream'
    if (encoded.startsWith('unsupported')) return encoded
    assert.fail(`not decoded: ${encoded}`)
  }
  for (const { path: at } of encoded.losses)
    assert.ok(pathExists(body, at), `the reported loss is not in the request: ${at}`)
  const unfit = encoded.losses.filter((loss) => loss.essential)
  if (unfit.length > 0) return `unfit for ${[...new Set(unfit.map(({ path: at }) => withoutIndices(at)))].join(', ')}`
  const problem = problemIn(to, encoded.body)
  if (problem === undefined) return undefined
  const own = Object.values(sharedProtocols).find(({ name }) => name === from.name)
  if (own && problemIn(own, body) !== undefined) return 'invalid by its own schema'
  assert.fail(problem)
}

const problemIn = ({ name }: Pick<UpstreamProtocol, 'name'>, body: JsonObject): string | undefined => {
  const [schema, definition] = PUBLISHED[name]
  return problemsIfPresent(schema, definition, body)
}

// ── Silent losses ───────────────────────────────────────────────────────────────────────────────────────────────

/** Each member with each short value is removed this many times; thousands of recordings repeat the same members. */
const MAX_TRIES = 2

const lostMembers = (from: ClientProtocol, to: UpstreamProtocol, requests: readonly SampleRequest[]): string[] => {
  const tried = new Map<string, number>()
  const lost: string[] = []
  const outcome = (body: JsonObject) =>
    JSON.stringify(translate(from, to, body), (key, value) => (key === 'from' ? undefined : value))
  for (const { name, body } of requests) {
    const encoded = translate(from, to, body)
    if (typeof encoded === 'string') continue
    const named = encoded.losses.map(({ path }) => path)
    const before = outcome(body)
    for (const { path, value, without } of membersOf(body)) {
      const kind = withoutIndices(path)
      const valueText = JSON.stringify(value)
      const key = valueText.length <= 24 ? `${kind} ${valueText}` : kind
      const times = tried.get(key) ?? 0
      if (times >= MAX_TRIES) continue
      tried.set(key, times + 1)
      if (outcome(without) === before && !isReported(named, path) && !isRedundant(kind, valueText, to.name))
        lost.push(`${path} ${valueText.slice(0, 80)} (${name})`)
    }
  }
  return lost
}
