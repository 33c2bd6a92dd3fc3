/** Every codec with any input: nothing throws, an answer has one end, and all output can be parsed again. */
import assert from 'node:assert/strict'
import type fc from 'fast-check'
import { loadProviders } from '../../../src/config/catalogue/load-providers.ts'
import { type ChatEvent, fold, type UpstreamProtocolName } from '../../../src/core/chat.ts'
import { KINDS } from '../../../src/core/failure.ts'
import { isList, isObject, type Json, object, parseJson } from '../../../src/core/json.ts'
import type { Frame, SameFormat, StreamStep, UpstreamProtocol } from '../../../src/core/protocol.ts'
import { chain, run, type Stage } from '../../../src/core/stage.ts'
import { wireOf } from '../../../src/gateway/chat/client-stream.ts'
import { readerFor } from '../../../src/gateway/upstream/body-reader.ts'
import { applyErrorTable } from '../../../src/protocols/errors/classify.ts'
import { maskSecrets } from '../../../src/protocols/errors/mask-secrets.ts'
import { sse, sseFrames } from '../../../src/protocols/framing/sse.ts'
import { protocols, sharedProtocols, upstreamProtocols } from '../../../src/protocols/index.ts'
import { answerContext, chatRequest } from '../../../test/support/builders.ts'
import { assertEventOrder } from '../../../test/support/event-order.ts'
import { changedJson, changedStream, slicings, type Target } from '../engine.ts'
import {
  answersOf,
  CONVERSE_STREAMS,
  type ConverseMessage,
  converseBytes,
  ERRORS,
  REQUESTS,
  streamsOf,
} from '../seeds.ts'

const context = answerContext({ request: chatRequest({ stream: false }), created: 1_700_000_000, requestId: 'req_x' })

const NO_HEADERS = () => undefined
const NAMES = Object.keys(upstreamProtocols) as UpstreamProtocolName[]

/** The text as JSON; undefined if it is invalid, which codecs never receive. */
const jsonIn = (input: Buffer): Json | undefined => {
  try {
    // parseJson returns JSON.
    return parseJson(input.toString('utf8')) as Json
  } catch {
    // Invalid.
    return undefined
  }
}

const negative = (value: unknown): boolean => {
  if (typeof value === 'number') return value < 0 || !Number.isSafeInteger(value)
  if (isList(value)) return value.some(negative)
  return isObject(value) && Object.values(value).some(negative)
}

/** Checks a client's stream: every event is JSON or `[DONE]` and within the size limit. */
const checkStream = (wire: string): void => {
  for (const { data, oversized } of run(sseFrames(), [wire])) {
    assert.notEqual(oversized, true)
    if (data !== '' && data !== '[DONE]') JSON.parse(data)
  }
}

/** Checks that every client format can encode the answer, whole and as a stream. */
const checkEncodable = (events: readonly ChatEvent[]): void => {
  const steps: readonly StreamStep[] = events.map((event) => ({ events: [event] }))
  for (const protocol of Object.values(protocols)) checkStream(run(protocol.encodeStream(context), steps).join(''))
  if (events.some(({ type }) => type === 'failure')) {
    for (const event of events)
      if (event.type === 'failure')
        for (const protocol of Object.values(protocols)) {
          const { kind } = event.failure
          const body = protocol.encodeFailure(event.failure, { requestId: 'req_x' })
          assert.ok(isObject(JSON.parse(JSON.stringify(body))), kind)
        }
    return
  }
  const answer = fold(events)
  for (const protocol of Object.values(protocols)) {
    const whole = protocol.encodeAnswer(answer, context)
    assert.ok(isObject(JSON.parse(JSON.stringify(whole))))
    assert.equal(negative(whole.usage), false, `a client receives the usage ${JSON.stringify(whole.usage)}`)
  }
}

// ── Whole answers ────────────────────────────────────────────────────────────────────────────────────────────────

const answers = NAMES.map((name): Target => {
  const { decodeAnswer, lenientEvents = false } = upstreamProtocols[name]
  return {
    name: `answer-${name}`,
    property: 'any JSON gives an answer with one end, and every client format can encode it',
    seeds: answersOf(name).map((body) => JSON.stringify(body)),
    generated: changedJson(answersOf(name)),
    check(input) {
      const body = jsonIn(input)
      if (body === undefined) return
      const events = decodeAnswer(body)
      assertEventOrder(events, lenientEvents)
      checkEncodable(events)
    },
  }
})

// ── Streams ──────────────────────────────────────────────────────────────────────────────────────────────────────

const decoder = ({ framing, decodeStream }: UpstreamProtocol): Stage<Uint8Array, ChatEvent> =>
  chain((framing ?? sse).frames(1_048_576), decodeStream())

/** Changes the JSON in a message, if it has any. */
const changedText = (text: string, change: (value: Json) => Json): string => {
  const from = text.search(/[{[]/)
  const to = text.trimEnd().length
  if (from === -1) return text
  try {
    return text.slice(0, from) + JSON.stringify(change(JSON.parse(text.slice(from, to)))) + text.slice(to)
  } catch {
    // `data: [DONE]`.
    return text
  }
}

const changedMessages = (name: UpstreamProtocolName): fc.Arbitrary<Uint8Array> =>
  name === 'bedrock-converse'
    ? changedStream<ConverseMessage>(CONVERSE_STREAMS, {
        change: (one, change) => ({ ...one, payload: object(change(one.payload)) ?? {} }),
        join: (all) => Buffer.concat(all.map(converseBytes)),
      })
    : changedStream<string>(streamsOf(name), {
        change: changedText,
        join: (all) => Buffer.from(all.join('')),
      })

const wires = (name: UpstreamProtocolName): readonly Uint8Array[] =>
  name === 'bedrock-converse'
    ? CONVERSE_STREAMS.map((all) => Buffer.concat(all.map(converseBytes)))
    : streamsOf(name).map((all) => Buffer.from(all.join('')))

/** The frames with their events, as the gateway's reader returns them. */
const steps = ({ decodeStream }: UpstreamProtocol, frames: readonly Frame[]): readonly StreamStep[] => {
  const stage = decodeStream()
  return [...frames.map((frame) => ({ frame, events: stage.push(frame) })), { events: stage.end() }]
}

/** Passes a stream through: its events, and the bytes for a client of the same format. */
const passThrough = (protocol: UpstreamProtocol, passing: SameFormat, pieces: readonly Uint8Array[]) => {
  const headers = (name: string) => (name === 'content-type' ? 'text/event-stream' : undefined)
  const dialect = { protocol, quirks: undefined, translated: null, stream: true, date: 0 }
  const reader = readerFor({ status: 200, headers }, dialect)
  const writer = passing.passStream(context)
  const wire: Uint8Array[] = []
  const received: ChatEvent[] = []
  const write = (steps: readonly StreamStep[]) => {
    for (const { events } of steps) received.push(...events)
    for (const piece of wireOf(writer, steps)) wire.push(Buffer.from(piece))
  }
  for (const piece of pieces) write(reader.push(piece))
  write(reader.end())
  wire.push(Buffer.from(writer.end().join('')))
  return { events: received, wire: Buffer.concat(wire).toString() }
}

const streams = NAMES.map((name): Target => {
  const protocol = upstreamProtocols[name]
  const passing = Object.values(sharedProtocols).find((one) => one.name === name)?.passing
  return {
    name: `stream-${name}`,
    property: 'any bytes give a stream with one end, the same for divided input; every client format can encode it',
    seeds: wires(name),
    generated: changedMessages(name),
    check(input) {
      const events = run(decoder(protocol), [input])
      assertEventOrder(events, protocol.lenientEvents === true)
      for (const pieces of slicings(input).slice(0, 8)) assert.deepEqual(run(decoder(protocol), pieces), events)
      checkEncodable(events)
      if (!passing) return
      // Frames recognised by their bytes must have the same result as parsed ones. A plain Uint8Array disables recognition.
      const slow = passThrough(protocol, passing, [new Uint8Array(input)])
      assert.deepEqual(slow.events, events)
      for (const pieces of [[input], ...slicings(input).slice(0, 8)])
        assert.deepEqual(passThrough(protocol, passing, pieces), slow)
      const frames = run((protocol.framing ?? sse).frames(1_048_576), [input])
      const failed = events.some(({ type }) => type === 'failure')
      const passed = run(passing.passStream(context), steps(protocol, frames)).join('')
      // After a failure the output is upstream bytes and the gateway's error event: not parsed again.
      if (failed) return
      for (const { oversized } of run(sseFrames(), [passed])) assert.notEqual(oversized, true)
      const whole = passing.assembleAnswer(frames)
      if (whole !== null) JSON.parse(whole)
    },
  }
})

// ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────────

const requests = Object.values(protocols).map((protocol): Target => {
  const target = { model: 'their-model', outputLimit: 4_096 }
  return {
    name: `request-${protocol.style}`,
    property: 'any JSON object is a request or a failure; a request can be encoded in every format',
    seeds: REQUESTS[protocol.name].map((body) => JSON.stringify(body)),
    generated: changedJson(REQUESTS[protocol.name]),
    check(input) {
      const body = object(jsonIn(input))
      if (!body) return
      const decoded = protocol.decodeRequest(body)
      protocol.counting?.decodeRequest(body)
      protocol.passing?.adaptRequest(body, target)
      if (!decoded.ok) {
        assert.ok(Object.hasOwn(KINDS, decoded.failure.kind))
        assert.notEqual(decoded.failure.message, '')
        protocol.encodeFailure(decoded.failure, { requestId: 'req_x' })
        return
      }
      for (const upstream of Object.values(upstreamProtocols)) {
        const { body: sent, losses } = upstream.encodeRequest(decoded.value, target)
        assert.ok(isObject(JSON.parse(JSON.stringify(sent))), upstream.name)
        for (const { path: at } of losses) assert.equal(typeof at, 'string', upstream.name)
        upstream.restore?.(decoded.value)
      }
    },
  }
})

// ── Errors ───────────────────────────────────────────────────────────────────────────────────────────────────────

const tables = [...(await loadProviders()).values()].flatMap(({ quirks }) => (quirks?.errors ? [quirks.errors] : []))

const STATUSES = [200, 302, 400, 401, 403, 404, 408, 413, 422, 429, 498, 500, 503, 529, 599]

const errors: Target = {
  name: 'errors',
  property:
    'every status and body is a failure of a known kind with a message, in every format and dialect; no message contains a key',
  seeds: ERRORS.map((body) => JSON.stringify(body)),
  generated: changedJson(ERRORS),
  check(input) {
    const body = jsonIn(input)
    const headers = (name: string) => (name === 'x-amzn-errortype' ? input.toString('latin1', 0, 20) : undefined)
    for (const protocol of Object.values(upstreamProtocols))
      for (const status of STATUSES)
        for (const look of [NO_HEADERS, headers]) {
          const failure = protocol.decodeFailure(status, body, look)
          for (const one of [failure, ...tables.map((table) => applyErrorTable(failure, table, look))]) {
            assert.ok(Object.hasOwn(KINDS, one.kind), one.kind)
            assert.notEqual(one.message.trim(), '')
            // Masking is complete: masking again changes nothing.
            assert.equal(maskSecrets(one.message), one.message)
          }
        }
  },
}

// ── Usage ────────────────────────────────────────────────────────────────────────────────────────────────────────

const USAGE: readonly Json[] = NAMES.flatMap((name) =>
  answersOf(name).flatMap(({ usage, usageMetadata }) => usage ?? usageMetadata ?? []),
)

const usage: Target = {
  name: 'usage',
  property: 'for any values in place of the counts, clients receive only integers of zero or more',
  seeds: USAGE.map((one) => JSON.stringify(one)),
  generated: changedJson(USAGE),
  check(input) {
    const value = jsonIn(input)
    if (value === undefined) return
    for (const name of NAMES) {
      const [plain = {}] = answersOf(name)
      const events = upstreamProtocols[name].decodeAnswer({
        ...plain,
        usage: value,
        usageMetadata: value,
        ...object(value),
      })
      assertEventOrder(events, upstreamProtocols[name].lenientEvents === true)
      checkEncodable(events)
    }
  },
}

export const CODECS: readonly Target[] = [...answers, ...streams, ...requests, errors, usage]
