/**
 * Answers with one defect. In recorded answers of every upstream format, whole and streamed, one JSON value at a time is
 * missing, null, of another type, an impossible count, too long or too deep. In each case nothing throws, the answer ends
 * once, a failure is of a known kind, counts are counts in every client's format, and all other values arrive or the
 * answer fails: content is never lost without a failure. Streams that end early or have a wrong byte are own exchanges too.
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

// ── One thing wrong ──────────────────────────────────────────────────────────────────────────────────────────────

type Path = readonly (string | number)[]

const deep = (levels: number): Json => (levels === 0 ? 'x' : [deep(levels - 1)])

/** What a value may be instead; `says`: it could be meant, so what it replaced may be lost with it. */
const INSTEAD: readonly { readonly name: string; readonly value: Json | undefined; readonly says: boolean }[] = [
  { name: 'gone', value: undefined, says: true },
  { name: 'null', value: null, says: true },
  { name: 'a number', value: 7, says: false },
  { name: 'a negative number', value: -3, says: false },
  { name: 'a huge number', value: 1e300, says: false },
  { name: 'true', value: true, says: false },
  { name: 'a text', value: 'x'.repeat(3_000), says: false },
  { name: 'an empty list', value: [], says: false },
  { name: 'a list', value: ['x', 7], says: false },
  { name: 'an object', value: { x: 7 }, says: false },
  { name: 'a deep list', value: deep(200), says: false },
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
    // What was there is replaced by JSON, or by nothing, which a list has no place for.
    return value.with(Number(first), put(value[Number(first)], rest, instead) ?? null)
  }
  if (!isObject(value)) return value
  const { [first]: inner, ...others } = value
  const next = put(inner, rest, instead)
  return next === undefined ? others : { ...value, [first]: next }
}

const kindOf = (value: Json | undefined): string => (isList(value) ? 'list' : value === null ? 'null' : typeof value)

/** Inside a call's arguments anything may be said. */
const ARGUMENTS: readonly string[] = ['args', 'arguments', 'input']
/** Members that may be missed: why a model refused, and which of several answers it is. */
const SPARE: readonly string[] = ['stop_details', 'choices.[].index']
const isFree = (at: Path): boolean =>
  at.slice(0, -1).some((step) => ARGUMENTS.includes(String(step))) || SPARE.some((place) => placeOf(at).includes(place))

/** Two ways to say it: arguments as an object or as its text, content as a text or as a list of parts. */
const alike = (at: Path, one: string, other: string): boolean => {
  const pair = [one, other].toSorted().join(' ')
  const last = String(at.at(-1))
  if (ARGUMENTS.includes(last)) return pair === 'object string'
  if (last === 'reasoning') return pair === 'object string'
  return /^(?:content|thinking)$/.test(last) && (pair === 'list string' || pair === 'list object')
}

/** A name for the place whatever its numbers are. */
const placeOf = (at: Path): string => at.map((step) => (typeof step === 'number' ? '[]' : step)).join('.')

// ── What has to hold ─────────────────────────────────────────────────────────────────────────────────────────────

const context = answerContext({ request: chatRequest({ stream: false }), created: 1_700_000_000 })

const ends = (events: readonly ChatEvent[], loose: boolean): void => {
  assertEventOrder(events, loose)
  // Here nothing at all comes behind a failure, no sign of life either.
  if (!loose && events.some(({ type }) => type === 'failure')) assert.equal(events.at(-1)?.type, 'failure')
}

/** No count of an answer as a client is told it is below zero. */
const counts = (value: Json | undefined): void => {
  if (typeof value === 'number')
    assert.ok(value >= 0 && Number.isSafeInteger(value), `a client is told of ${value} tokens`)
  else if (isList(value)) value.forEach(counts)
  else if (isObject(value)) Object.values(value).forEach(counts)
}

/** Every word a client would be told, calls included. */
const wordsIn = (events: readonly ChatEvent[]): string[] =>
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

type Fault = { readonly place: string; readonly instead: string; readonly what: string; readonly id: string }

/** Reads it, and says what is wrong with how it was read. */
const faultIn = (
  read: () => readonly ChatEvent[],
  loose: boolean,
  said: readonly string[] | undefined,
): string | undefined => {
  try {
    const events = read()
    ends(events, loose)
    if (events.some(({ type }) => type === 'failure')) return undefined
    const answer = fold(events)
    for (const protocol of Object.values(protocols)) {
      const whole = protocol.encodeAnswer(answer, context)
      counts(whole.usage)
    }
    if (!said) return undefined
    const words = wordsIn(events)
    // Numbers as text, and objects put together anew, say the same.
    const lost = said.filter((word) => word !== '' && !words.includes(word))
    return lost.length === 0 ? undefined : `lost in silence: ${JSON.stringify(lost).slice(0, 80)}`
  } catch (error) {
    return error instanceof Error ? (error.message.split('\n')[0] ?? '') : 'thrown'
  }
}

/** Of many recordings those that are not long, and differ: a place is tried in so many of them. */
const LONGEST = 6_000
const EACH = 2

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

/** A stream's messages as one value, each behind the lines that stand in front of its data. */
const streams = (protocol: UpstreamProtocol, recordings: readonly Recording[]): Sample[] =>
  recordings.flatMap(({ id, chunks, framing, status }) => {
    if (!chunks || chunks.length === 0 || (status ?? 200) >= 400) return []
    const parts = chunks.map((chunk) => {
      const start = framing === 'sse' ? chunk.search(/^data: ?[{[]/m) : 0
      const data = start === -1 ? '' : chunk.slice(start).replace(/^data: ?/, '')
      try {
        return { front: chunk.slice(0, Math.max(0, start)), value: JSON.parse(data) as Json }
      } catch {
        // A comment, `[DONE]`, or data in several lines: left as it is.
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

/** `least`: how deep a place has to be. Above it is what a test made to hold a stream's messages. */
const judge = (samples: readonly Sample[], loose: boolean, least: number): { tried: number; faults: Fault[] } => {
  const faults: Fault[] = []
  const seen = new Map<string, number>()
  let tried = 0
  for (const { id, body, read } of samples) {
    if (JSON.stringify(body).length > LONGEST) continue
    const sound = read(body)
    if (sound.some(({ type }) => type === 'failure')) continue
    const said = wordsIn(sound)
    for (const at of pathsIn(body)) {
      if (at.length < least) continue
      const kind = kindOf(get(body, at))
      const place = `${placeOf(at)} (${kind})`
      const free = isFree(at)
      const count = seen.get(place) ?? 0
      if (count >= EACH) continue
      seen.set(place, count + 1)
      for (const { name, value, says } of INSTEAD) {
        if (kindOf(value) === kind && kind !== 'number') continue
        const anew = says || free || kind === 'null' || alike(at, kind, kindOf(value))
        tried++
        const changed = put(body, at, value)
        if (changed === undefined) continue
        const what = faultIn(() => read(changed), loose, anew ? undefined : said)
        if (what !== undefined) faults.push({ place, instead: name, what, id })
      }
    }
  }
  return { tried, faults }
}

requireRecordings()

// Recordings alone: in a stream of two deltas, a delta that moves to another block leaves too little to compare.
describe('one thing wrong in an answer', { skip: skipWithoutRecordings }, () => {
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
    for (const [name, samples, loose, least] of table)
      test(`${protocol.name}, ${name}`, (t) => {
        const { tried, faults } = judge(samples, loose, least)
        t.diagnostic(`${tried} answers with one thing wrong`)
        const lines = new Map<string, Fault[]>()
        for (const fault of faults) {
          const key = `${fault.place}: ${fault.what}`
          lines.set(key, [...(lines.get(key) ?? []), fault])
        }
        const told = [...lines].map(
          ([key, all]) => `${key} | ${all.map(({ instead }) => instead).join(', ')} | ${all[0]?.id}`,
        )
        assert.equal(faults.length, 0, `${faults.length} of ${tried}\n${told.slice(0, 60).join('\n')}`)
      })
  }
})

// ── Less of it, and other bytes ──────────────────────────────────────────────────────────────────────────────────

/** Whoever is told of an end has been told everything. */
const wholeOrFailed = (events: readonly ChatEvent[], sound: readonly string[], loose: boolean, what: string): void => {
  ends(events, loose)
  if (!events.some(({ type }) => type === 'failure')) assert.deepEqual(wordsIn(events), sound, what)
}

const streamsOf = (protocol: UpstreamProtocol, most: number) =>
  evidenceOf(protocol.name)
    .filter(({ chunks, status }) => (chunks?.length ?? 0) > 1 && (status ?? 200) < 400)
    .map((recording) => ({ id: recording.id, bytes: Buffer.concat(messagesOf(recording)) }))
    .filter(({ bytes }) => bytes.length < 8_000)
    .filter(({ bytes }) => readStream(protocol, bytes).every(({ type }) => type !== 'failure'))
    .slice(0, most)

describe('a stream that ends too early', () => {
  for (const protocol of Object.values(upstreamProtocols))
    test(protocol.name, (t) => {
      const streams = streamsOf(protocol, 20)
      assert.ok(streams.length > 2)
      let tried = 0
      for (const { id, bytes } of streams) {
        const sound = wordsIn(readStream(protocol, bytes))
        // In the middle of words, of characters and of numbers of a length; the step has no factor in common with any.
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
    const sound = wordsIn(readStream(protocol, bytes))
    for (let at = 0; at < bytes.length; at += 3, tried++) {
      const wrong = Uint8Array.from(bytes)
      wrong[at] = (wrong[at] ?? 0) ^ 0x15
      wholeOrFailed(readStream(protocol, wrong), sound, false, `${id}, byte ${at}`)
    }
  }
  t.diagnostic(`${tried} wrong bytes`)
})
