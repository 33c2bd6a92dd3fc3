/**
 * Requests of clients, translated to every upstream format: valid by the vendor's published schema, or unfit with the
 * members named. No member disappears: without it, either the request to the provider or the reported losses change. On
 * the project's own exchanges, and on recordings where they are present.
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
import { isNamed, isSame, kindOf, membersOf, resolves } from './request-members.ts'
import { Tally } from './tally.ts'

/** Where requests of each style were recorded: those that are counted, compacted or sent through another door included. */
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

type Asked = { readonly name: string; readonly status: number; readonly body: JsonObject }

const recordings = allRecordings()

/** Bedrock's door takes the bodies of every maker. */
const isOf = (style: string, { api, request }: Recording): boolean =>
  APIS[style]?.includes(api) === true && (api !== 'bedrock-invoke' || object(request)?.anthropic_version !== undefined)

/** Recorded and client requests of one style. Azure, Vertex and Bedrock name the model in the path, so it is put back. */
const askedOf = (style: string): Asked[] => [
  ...recordings.flatMap((recording) => {
    const { id, status, request } = recording
    if (!isObject(request) || !isOf(style, recording)) return []
    return [{ name: id, status: status ?? 200, body: { model: 'm', ...request } }]
  }),
  ...clientRequests().flatMap(({ name, path, body }) =>
    path === `/v1${clientProtocolByStyle.get(style)?.path}` ? [{ name, status: 200, body }] : [],
  ),
]

const translate = (from: ClientProtocol, to: UpstreamProtocol, body: JsonObject): Encoded | string => {
  const request = from.decodeRequest(body)
  return request.ok ? to.encodeRequest(request.value, TARGET) : refused(request.failure, body)
}

/** Which member of a request nobody can be asked, and what it is. */
const refused = ({ kind, param, message }: Failure, body: JsonObject): string => {
  const value = body[param ?? '']
  const shape = isList(value) ? `a list of ${typeof value[0]}s` : typeof value
  return kind === 'unsupported' ? `unsupported: ${param}, ${shape}` : (param ?? message)
}

/** Requests of the project's own exchanges in one style. */
const ownOf = (style: string): Asked[] =>
  exchanges()
    .filter(({ protocol }) => upstreamProtocols[protocol].style === style)
    .map(({ feature, request }) => ({ name: feature, status: 200, body: request }))

/** Translates requests of a style to every format. */
const translations = (api: string, asked: readonly Asked[], board: Tally): void => {
  const from = clientProtocolByStyle.get(api)
  assert.ok(from)
  for (const to of Object.values(upstreamProtocols)) {
    test(`${api} requests to ${to.name}: valid, or unfit by name`, () => {
      const wrong = board.each(
        `${api} request → ${to.style}`,
        asked,
        ({ name }) => name,
        (one) => fits(from, to, one),
      )
      assert.equal(wrong.length, 0, wrong.join('\n'))
    })
    test(`${api} requests to ${to.name}: nothing disappears`, () => {
      const lost = vanishing(from, to, asked)
      assert.equal(lost.length, 0, lost.join('\n'))
    })
  }
}

requireRecordings()
requireSchemas()

describe('recorded requests, translated to every format', { skip: skipWithoutRecordings }, () => {
  const board = new Tally('requests')
  for (const api of Object.keys(APIS)) {
    const asked = askedOf(api)
    test(`${api} requests: enough of them`, () => assert.ok(asked.length >= 30, String(asked.length)))
    translations(api, asked, board)
  }
  after(() => board.print())
})

describe('own requests, translated to every format', () => {
  const board = new Tally()
  for (const api of ['chat', 'responses', 'messages']) {
    const asked = ownOf(api)
    test(`${api} requests: enough of them`, () => assert.ok(asked.length >= 25, String(asked.length)))
    translations(api, asked, board)
  }
  after(() => board.print())
})

const fits = (from: ClientProtocol, to: UpstreamProtocol, { body, status }: Asked): string | undefined => {
  const encoded = translate(from, to, body)
  if (typeof encoded === 'string') {
    if (status >= 400) return 'refused here as it was refused upstream'
    if (encoded.startsWith('unsupported')) return encoded
    assert.fail(`not read: ${encoded}`)
  }
  for (const { path: at } of encoded.losses) assert.ok(resolves(body, at), `a loss that is not in the request: ${at}`)
  const unfit = encoded.losses.filter((loss) => loss.essential)
  if (unfit.length > 0) return `unfit for ${[...new Set(unfit.map(({ path: at }) => kindOf(at)))].join(', ')}`
  const problem = problemIn(to, encoded.body)
  if (problem === undefined) return undefined
  const own = Object.values(sharedProtocols).find(({ name }) => name === from.name)
  if (own && problemIn(own, body) !== undefined) return 'not valid by its own schema either'
  assert.fail(problem)
}

const problemIn = ({ name }: Pick<UpstreamProtocol, 'name'>, body: JsonObject): string | undefined => {
  const [schema, definition] = PUBLISHED[name]
  return problemsIfPresent(schema, definition, body)
}

// ── Nothing disappears ───────────────────────────────────────────────────────────────────────────────────────────

/** Each kind of member with each short value is tried this often; thousands of recordings say the same. */
const TRIES = 2

const vanishing = (from: ClientProtocol, to: UpstreamProtocol, asked: readonly Asked[]): string[] => {
  const tried = new Map<string, number>()
  const lost: string[] = []
  const told = (body: JsonObject) =>
    JSON.stringify(translate(from, to, body), (key, value) => (key === 'from' ? undefined : value))
  for (const { name, body } of asked) {
    const encoded = translate(from, to, body)
    if (typeof encoded === 'string') continue
    const named = encoded.losses.map(({ path }) => path)
    const before = told(body)
    for (const { path, value, without } of membersOf(body)) {
      const kind = kindOf(path)
      const words = JSON.stringify(value)
      const key = words.length <= 24 ? `${kind} ${words}` : kind
      const times = tried.get(key) ?? 0
      if (times >= TRIES) continue
      tried.set(key, times + 1)
      if (told(without) === before && !isNamed(named, path) && !isSame(kind, words, to.name))
        lost.push(`${path} ${words.slice(0, 80)} (${name})`)
    }
  }
  return lost
}
