/**
 * Answers with one defect. In recorded answers of every upstream format, whole and streamed, one JSON value at a time is
 * missing, null, of another type, an impossible count, too long or too deep. In each case nothing throws, the answer ends
 * once, a failure has a known kind, counts are valid in every client format, and all other values arrive or the answer
 * fails: content is never lost without a failure. Streams that end early or have a wrong byte come from own exchanges too.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type ChatEvent, fold } from '../../src/core/chat.ts'
import { isList, isObject, type Json } from '../../src/core/json.ts'
import type { UpstreamProtocol } from '../../src/core/protocol.ts'
import { run } from '../../src/core/stage.ts'
import { sse } from '../../src/protocols/framing/sse.ts'
import { protocols, upstreamProtocols } from '../../src/protocols/index.ts'
import { answerContext, chatRequest } from '../support/builders.ts'
import { assertEventOrder } from '../support/event-order.ts'
import { evidenceOf, FORMATS } from '../support/exchanges.ts'
import {
  messagesOf,
  type Recording,
  recordingsOf,
  requireRecordings,
  skipWithoutRecordings,
} from '../support/recordings.ts'

// ── Mutations ────────────────────────────────────────────────────────────────────────────────────────────────────

type Path = readonly (string | number)[]

const deep = (levels: number): Json => (levels === 0 ? 'x' : [deep(levels - 1)])

/** Replacements of a value. `valid`: a provider could mean it, so the replaced value may be lost. */
const MUTATIONS: readonly { readonly name: string; readonly value: Json | undefined; readonly valid: boolean }[] = [
  { name: 'missing', value: undefined, valid: true },
  { name: 'null', value: null, valid: true },
  { name: 'a number', value: 7, valid: false },
  { name: 'a negative number', value: -3, valid: false },
  { name: 'a huge number', value: 1e300, valid: false },
  { name: 'true', value: true, valid: false },
  { name: 'a text', value: 'x'.repeat(3_000), valid: false },
  { name: 'an empty list', value: [], valid: false },
  { name: 'a list', value: ['x', 7], valid: false },
  { name: 'an object', value: { x: 7 }, valid: false },
  { name: 'a deep list', value: deep(200), valid: false },
]

function* pathsIn(value: Json | undefined, at: Path = []): Generator<Path> {
  yield at
  if (isList(value)) for (const [index, inner] of value.entries()) yield* pathsIn(inner, [...at, index])
  else if (isObject(value)) for (const [name, inner] of Object.entries(value)) yield* pathsIn(inner, [...at, name])
}

const get = (value: Json | undefined, at: Path): Json | undefined =>
  at.reduce<Json | undefined>((inner, step) => {
    if (isList(inner)) return inner[Number(step)]
    return isObject(inner) ? inner[step] : undefined
  }, value)

const put = (value: Json | undefined, at: Path, instead: Json | undefined): Json | undefined => {
  const [first, ...rest] = at
  if (first === undefined) return instead
  if (isList(value)) {
    if (rest.length === 0 && instead === undefined) return value.toSpliced(Number(first), 1)
    // A list has no missing elements, so undefined becomes null.
    return value.with(Number(first), put(value[Number(first)], rest, instead) ?? null)
  }
  if (!isObject(value)) return value
  const { [first]: inner, ...others } = value
  const next = put(inner, rest, instead)
  return next === undefined ? others : { ...value, [first]: next }
}

const kindOf = (value: Json | undefined): string => (isList(value) ? 'list' : value === null ? 'null' : typeof value)

/** Members with a call's arguments, which can hold any value. */
const ARGUMENTS: readonly string[] = ['args', 'arguments', 'input']
/** Members that may be lost: the explanation of a refusal, and the index of a choice. */
const OPTIONAL_MEMBERS: readonly string[] = ['stop_details', 'choices.[].index']
const isFree = (at: Path): boolean =>
  at.slice(0, -1).some((step) => ARGUMENTS.includes(String(step))) ||
  OPTIONAL_MEMBERS.some((place) => placeOf(at).includes(place))

/** Whether both types are valid here: arguments as an object or as JSON text, content as text or as a list of parts. */
const sameMeaning = (at: Path, one: string, other: string): boolean => {
  const pair = [one, other].toSorted().join(' ')
  const last = String(at.at(-1))
  if (ARGUMENTS.includes(last)) return pair === 'object string'
  if (last === 'reasoning') return pair === 'object string'
  return /^(?:content|thinking)$/.test(last) && (pair === 'list string' || pair === 'list object')
}

/** The path without its list indices. */
const placeOf = (at: Path): string => at.map((step) => (typeof step === 'number' ? '[]' : step)).join('.')

// ── Invariants ───────────────────────────────────────────────────────────────────────────────────────────────────

const context = answerContext({ request: chatRequest({ stream: false }), created: 1_700_000_000 })

const assertEnd = (events: readonly ChatEvent[], lenient: boolean): void => {
  assertEventOrder(events, lenient)
  // No event follows a failure, not even a lifecycle event.
  if (!lenient && events.some(({ type }) => type === 'failure')) assert.equal(events.at(-1)?.type, 'failure')
}

/** Asserts that a client receives no negative or fractional count. */
const assertCounts = (value: Json | undefined): void => {
  if (typeof value === 'number')
    assert.ok(value >= 0 && Number.isSafeInteger(value), `a client receives the count ${value}`)
  else if (isList(value)) value.forEach(assertCounts)
  else if (isObject(value)) Object.values(value).forEach(assertCounts)
}

/** Every text that a client would receive, including the names and arguments of calls. */
const textsIn = (events: readonly ChatEvent[]): string[] =>
  fold(events).blocks.flatMap((block) => {
    switch (block.type) {
      case 'tool-call':
        return [block.name, block.text]
      case 'foreign':
        return []
      default:
        return [block.text]
    }
  })

type Fault = { readonly place: string; readonly mutation: string; readonly what: string; readonly id: string }

/** Decodes an answer and returns the violated invariant, if any. */
const faultIn = (
  read: () => readonly ChatEvent[],
  lenient: boolean,
  texts: readonly string[] | undefined,
): string | undefined => {
  try {
    const events = read()
    assertEnd(events, lenient)
    if (events.some(({ type }) => type === 'failure')) return undefined
    const answer = fold(events)
    for (const protocol of Object.values(protocols)) {
      const whole = protocol.encodeAnswer(answer, context)
      assertCounts(whole.usage)
    }
    if (!texts) return undefined
    const found = textsIn(events)
    // Numbers as text and reassembled objects are equal.
    const lost = texts.filter((word) => word !== '' && !found.includes(word))
    return lost.length === 0 ? undefined : `lost without a failure: ${JSON.stringify(lost).slice(0, 80)}`
  } catch (error) {
    return error instanceof Error ? (error.message.split('\n')[0] ?? '') : 'thrown'
  }
}

/** Recordings up to this length (characters of JSON) are mutated, each path in this many of them. */
const MAX_LENGTH = 6_000
const MAX_PER_PLACE = 2

type Sample = {
  readonly id: string
  readonly body: Json
  readonly read: (body: Json) => readonly ChatEvent[]
}

const readStream = (protocol: UpstreamProtocol, bytes: Uint8Array): readonly ChatEvent[] =>
  run(protocol.decodeStream(), run((protocol.framing ?? sse).frames(1_048_576), [bytes]))

const wholes = (protocol: UpstreamProtocol, recordings: readonly Recording[]): Sample[] =>
  recordings
    .filter(({ chunks, response, status }) => !chunks && isObject(response) && (status ?? 200) < 400)
    .map(({ id, response }) => ({ id, body: response, read: (body) => protocol.decodeAnswer(body) }))

/** The messages of a stream as one value; the lines before the data of a message are kept. */
const streams = (protocol: UpstreamProtocol, recordings: readonly Recording[]): Sample[] =>
  recordings.flatMap(({ id, chunks, framing, status }) => {
    if (!chunks || chunks.length === 0 || (status ?? 200) >= 400) return []
    const parts = chunks.map((chunk) => {
      const start = framing === 'sse' ? chunk.search(/^data: ?[{[]/m) : 0
      const data = start === -1 ? '' : chunk.slice(start).replace(/^data: ?/, '')
      try {
        return { front: chunk.slice(0, Math.max(0, start)), value: JSON.parse(data) as Json }
      } catch {
        // A comment, `[DONE]`, or data in several lines stays unchanged.
        return { front: chunk, value: undefined }
      }
    })
    const read = (body: Json) => {
      const changed = isList(body) ? body : []
      const again = parts.map(({ front, value }, index) => {
        if (value === undefined) return front
        const text = JSON.stringify(changed[index])
        return framing === 'sse' ? `${front}data: ${text}` : text
      })
      return readStream(protocol, Buffer.concat(messagesOf({ framing, chunks: again })))
    }
    return [{ id, body: parts.map(({ value }) => value ?? null), read }]
  })

/** `least`: the smallest depth of a mutated path; values above it only hold the messages of a stream. */
const findFaults = (
  samples: readonly Sample[],
  lenient: boolean,
  least: number,
): { tried: number; faults: Fault[] } => {
  const faults: Fault[] = []
  const seen = new Map<string, number>()
  let tried = 0
  for (const { id, body, read } of samples) {
    if (JSON.stringify(body).length > MAX_LENGTH) continue
    const sound = read(body)
    if (sound.some(({ type }) => type === 'failure')) continue
    const texts = textsIn(sound)
    for (const at of pathsIn(body)) {
      if (at.length < least) continue
      const kind = kindOf(get(body, at))
      const place = `${placeOf(at)} (${kind})`
      const free = isFree(at)
      const count = seen.get(place) ?? 0
      if (count >= MAX_PER_PLACE) continue
      seen.set(place, count + 1)
      for (const { name, value, valid } of MUTATIONS) {
        if (kindOf(value) === kind && kind !== 'number') continue
        const mayDiffer = valid || free || kind === 'null' || sameMeaning(at, kind, kindOf(value))
        tried++
        const changed = put(body, at, value)
        if (changed === undefined) continue
        const what = faultIn(() => read(changed), lenient, mayDiffer ? undefined : texts)
        if (what !== undefined) faults.push({ place, mutation: name, what, id })
      }
    }
  }
  return { tried, faults }
}

requireRecordings()

// Recordings only: the own exchanges have streams of two deltas, which are too short to compare after a mutation.
describe('an answer with one defect', { skip: skipWithoutRecordings }, () => {
  for (const protocol of Object.values(upstreamProtocols)) {
    const recordings = recordingsOf(FORMATS[protocol.name].api)
    const table = [
      ['whole', wholes(protocol, recordings), false, 0],
      [
        'streamed',
        streams(protocol, recordings),
        protocol.lenientEvents === true,
        protocol.name === 'bedrock-converse' ? 2 : 1,
      ],
    ] as const
    for (const [name, samples, lenient, least] of table)
      test(`${protocol.name}, ${name}`, (t) => {
        const { tried, faults } = findFaults(samples, lenient, least)
        t.diagnostic(`${tried} answers with one defect`)
        const lines = new Map<string, Fault[]>()
        for (const fault of faults) {
          const key = `${fault.place}: ${fault.what}`
          lines.set(key, [...(lines.get(key) ?? []), fault])
        }
        const messages = [...lines].map(
          ([key, all]) => `${key} | ${all.map(({ mutation }) => mutation).join(', ')} | ${all[0]?.id}`,
        )
        assert.equal(faults.length, 0, `${faults.length} of ${tried}\n${messages.slice(0, 60).join('\n')}`)
      })
  }
})

// ── Truncation and wrong bytes ───────────────────────────────────────────────────────────────────────────────────

/** Asserts that the answer failed or that it has all its text. */
const wholeOrFailed = (
  events: readonly ChatEvent[],
  sound: readonly string[],
  lenient: boolean,
  what: string,
): void => {
  assertEnd(events, lenient)
  if (!events.some(({ type }) => type === 'failure')) assert.deepEqual(textsIn(events), sound, what)
}

const streamsOf = (protocol: UpstreamProtocol, most: number) =>
  evidenceOf(protocol.name)
    .filter(({ chunks, status }) => (chunks?.length ?? 0) > 1 && (status ?? 200) < 400)
    .map((recording) => ({ id: recording.id, bytes: Buffer.concat(messagesOf(recording)) }))
    .filter(({ bytes }) => bytes.length < 8_000)
    .filter(({ bytes }) => readStream(protocol, bytes).every(({ type }) => type !== 'failure'))
    .slice(0, most)

describe('a truncated stream', () => {
  for (const protocol of Object.values(upstreamProtocols))
    test(protocol.name, (t) => {
      const streams = streamsOf(protocol, 20)
      assert.ok(streams.length > 2)
      let tried = 0
      for (const { id, bytes } of streams) {
        const sound = textsIn(readStream(protocol, bytes))
        // A step of 13 cuts lines, characters and length fields at changing positions.
        for (let end = 0; end < bytes.length; end += 13, tried++) {
          const events = readStream(protocol, bytes.subarray(0, end))
          wholeOrFailed(events, sound, protocol.lenientEvents === true, `${id}, ${end} of ${bytes.length} bytes`)
        }
      }
      t.diagnostic(`${tried} cuts`)
    })
})

test('a binary stream with a wrong byte', (t) => {
  const protocol = upstreamProtocols['bedrock-converse']
  let tried = 0
  for (const { id, bytes } of streamsOf(protocol, 6)) {
    const sound = textsIn(readStream(protocol, bytes))
    for (let at = 0; at < bytes.length; at += 3, tried++) {
      const wrong = Uint8Array.from(bytes)
      wrong[at] = (wrong[at] ?? 0) ^ 0x15
      wholeOrFailed(readStream(protocol, wrong), sound, false, `${id}, byte ${at}`)
    }
  }
  t.diagnostic(`${tried} wrong bytes`)
})
