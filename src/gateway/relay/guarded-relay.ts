/**
 * Passes the texts of a relayed answer through the guards that read answers. Each string is one text, as a block of a chat answer is;
 * an answer in which nothing changes keeps its bytes.
 */
import type { ChatEvent } from '../../core/chat.ts'
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, readJson } from '../../core/json.ts'
import type { Frame, StreamStep } from '../../core/protocol.ts'
import type { RelayRow } from '../../core/relay.ts'
import type { Sink } from '../../core/stage.ts'
import { changedObject } from '../../policy/guards/answer-values.ts'
import { singleFrames } from '../../protocols/framing/sse.ts'
import { type AnswerGuards, pipeThrough } from '../guards/guarded-answer.ts'

/** Characters of the longest answer that is held until it is checked. */
const LONGEST = 8 * 1024 * 1024

const TOO_LONG = fail(
  'guardrail_blocked',
  `The answer is too long to be checked (limit ${LONGEST / 1024 / 1024} Mi characters). Send a shorter file.`,
)
const CUES = fail(
  'guardrail_blocked',
  'A guard has found text in subtitles, where a match may extend over several cues. Ask for `response_format` `json` or `text`.',
)

/** Members that are no text for people: names, and encoded files. */
const NO_TEXT = /^(?:id|type|object|model|b64_json|.*_id)$/

/** The texts as the guards leave them, in the same order. A failure is the refusal of a guard. */
const checkTexts = (guards: AnswerGuards, texts: readonly string[]): Promise<Outcome<readonly string[]>> => {
  const events = texts.flatMap((text): readonly ChatEvent[] => [
    { type: 'open', block: { type: 'text' } },
    { type: 'delta', text },
    { type: 'close' },
  ])
  return new Promise((resolve) => {
    const checked: string[] = []
    const answer = {
      pipeTo: (sink: Sink<readonly StreamStep[]>) => {
        sink.push([{ events }])
        sink.end()
      },
      abort: () => {},
    }
    pipeThrough(guards, answer, {
      push: (steps) => {
        for (const event of steps.flatMap((step) => step.events))
          if (event.type === 'open') checked.push('')
          else if (event.type === 'delta') checked.push((checked.pop() ?? '') + event.text)
        return true
      },
      end: (failure?: Failure) => resolve(failure ? bad(failure) : good(checked)),
    })
  })
}

// ── Whole answers ────────────────────────────────────────────────────────────────────────────────────────────────

/** An answer that has been received. `body`: undefined if it is not JSON. */
type ReceivedAnswer = { readonly whole: string; readonly body: Json | undefined }

/** The answer as the guards leave it. */
export const checkWhole = async (
  guards: AnswerGuards,
  { repeated = NONE }: RelayRow,
  { whole, body }: ReceivedAnswer,
): Promise<Outcome<string>> => {
  if (!isObject(body)) return CUE.test(whole) ? checkCues(guards, whole) : only(await checkTexts(guards, [whole]))
  const texts = textsIn(body, repeated)
  const checked = await checkTexts(guards, texts)
  if (!checked.ok) return checked
  if (isSame(texts, checked.value)) return good(whole)
  return good(JSON.stringify(withTexts(without(body, repeated), checked.value)))
}

const NONE: readonly string[] = []
const only = (texts: Outcome<readonly string[]>): Outcome<string> => (texts.ok ? good(texts.value[0] ?? '') : texts)
const isSame = (before: readonly string[], after: readonly string[]): boolean =>
  before.length === after.length && before.every((text, at) => text === after[at])

/** The times of a cue in SubRip and WebVTT. */
const CUE = /^(?:\d+:)?\d\d:\d\d[.,]\d{3} --> .*$/m
const CUE_LINES = /^(?:\d+|WEBVTT.*|(?:\d+:)?\d\d:\d\d[.,]\d{3} --> .*)?\r?$/gm

/** Subtitles pass or are refused: a match may begin in one cue and end in the next, with times between. */
const checkCues = async (guards: AnswerGuards, whole: string): Promise<Outcome<string>> => {
  const texts = [whole, whole.replace(CUE_LINES, '').split(/\s+/).join(' ')]
  const checked = await checkTexts(guards, texts)
  if (!checked.ok) return checked
  return isSame(texts, checked.value) ? good(whole) : bad(CUES)
}

// ── Texts in JSON ────────────────────────────────────────────────────────────────────────────────────────────────

/** Members that repeat the text in parts, by which a mask could be undone, are removed from an answer that changes. */
const without = (body: JsonObject, repeated: readonly string[]): JsonObject =>
  Object.fromEntries(Object.entries(body).filter(([name]) => !repeated.includes(name)))

const textsIn = (body: JsonObject, repeated: readonly string[]): readonly string[] => {
  const texts: string[] = []
  changed(without(body, repeated), (text) => {
    texts.push(text)
    return text
  })
  return texts
}

const withTexts = (body: JsonObject, texts: readonly string[]): JsonObject => {
  let at = 0
  return changed(body, (text) => texts[at++] ?? text)
}

const changed = (body: JsonObject, text: (text: string) => string): JsonObject =>
  changedObject(body, { text, offset: (offset) => offset, kept: NO_TEXT })

// ── Events ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** An event with its JSON. */
type HeldEvent = { readonly event: string | undefined; readonly body: JsonObject }

type HeldRelay = {
  readonly guards: AnswerGuards
  readonly row: RelayRow
  readonly sink: Sink<readonly StreamStep[]>
  /** Ends the upstream call. */
  readonly cancel: () => void
}

/** Holds the events of an answer back until the guards have read its text, which its events have in parts and once more as a whole. */
export class HeldEvents implements Sink<readonly StreamStep[]> {
  readonly #answer: HeldRelay
  readonly #steps: StreamStep[] = []
  #length = 0
  #isOver = false

  constructor(answer: HeldRelay) {
    this.#answer = answer
  }

  push(steps: readonly StreamStep[]): boolean {
    if (this.#isOver) return true
    for (const step of steps) {
      const { frame } = step
      this.#length += frame?.raw?.length ?? frame?.data.length ?? 0
      // Bytes of a frame are valid during the call only.
      this.#steps.push(frame ? { ...step, frame: kept(frame) } : step)
    }
    if (this.#length <= LONGEST) return true
    this.#isOver = true
    this.#answer.cancel()
    this.#answer.sink.end(TOO_LONG)
    return true
  }

  end(failure?: Failure): void {
    if (this.#isOver) return
    this.#isOver = true
    const { sink } = this.#answer
    // What was held back of an answer that breaks has not been checked.
    if (failure) return sink.end(failure)
    void this.#checked().then((steps) => {
      if (!steps.ok) return sink.end(steps.failure)
      sink.push(steps.value)
      sink.end()
    })
  }

  async #checked(): Promise<Outcome<readonly StreamStep[]>> {
    const { guards, row } = this.#answer
    const { repeated = NONE } = row
    const events = this.#steps.flatMap(({ frame }) => (frame ? singleFrames(frame) : [])).flatMap(heldEvent)
    const deltas = events.filter(isDelta)
    const others = events.filter((event) => !isDelta(event))
    const own = others.map(({ body }) => textsIn(body, repeated))
    const texts = [deltas.map(({ body }) => body.delta).join(''), ...own.flat()]
    const checked = await checkTexts(guards, texts)
    if (!checked.ok) return checked
    if (isSame(texts, checked.value)) return good(this.#steps)
    const [text = '', ...rest] = checked.value
    const left = others.map((event, at) => {
      const body = withTexts(without(event.body, repeated), rest.splice(0, own[at]?.length))
      return { ...event, body }
    })
    const [first] = deltas
    const joined = first ? [{ ...first, body: { ...without(first.body, repeated), delta: text } }] : []
    return good([...joined, ...left.filter((event) => !isPart(event))].map(stepOf))
  }
}

const kept = (frame: Frame): Frame =>
  frame.raw === undefined || typeof frame.raw === 'string' ? frame : { ...frame, raw: frame.raw.slice() }

const heldEvent = ({ event, data }: Frame): readonly HeldEvent[] => {
  const body = readJson(data)
  return isObject(body) ? [{ event, body }] : []
}

const isDelta = ({ body }: HeldEvent): boolean => typeof body.delta === 'string'
/** An event with a part of the text that other events have too. */
const isPart = ({ body }: HeldEvent): boolean => /\.segment$/.test(String(body.type))

const stepOf = ({ event, body }: HeldEvent): StreamStep => {
  const data = JSON.stringify(body)
  return { frame: event === undefined ? { data } : { event, data }, events: [] }
}
