/**
 * How the answer of a relayed endpoint is read: whole, as events or as bytes. The events of a step state its tokens and its end; its text
 * or bytes are forwarded beside them.
 */
import type { ChatEvent, UnitCount, Usage } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, readJson, text } from '../../core/json.ts'
import type { Frame, StreamDecoder, StreamStep } from '../../core/protocol.ts'
import type { RelayRow } from '../../core/relay.ts'
import { malformed, oversizedEvent } from '../../protocols/errors/answer-failures.ts'
import { decodeOpenaiFailure } from '../../protocols/errors/openai-error.ts'
import { utf8 } from '../../protocols/framing/utf8.ts'
import { failureIn } from '../../protocols/shared/openai-finish-and-usage.ts'
import { decodeUsage } from '../../protocols/shared/usage-members.ts'
import type { TokenUsage } from '../accounts/token-usage.ts'
import { type AnswerBodyReader, type AnswerFormat, MAX_WHOLE, type ResponseHead } from '../upstream/body-reader.ts'
import { answerUnits, imagesOf } from './relay-units.ts'

const FINISH: ChatEvent = { type: 'finish', finish: { kind: 'stop', raw: null } }
/** Content that the gateway does not read. */
const CONTENT: ChatEvent = { type: 'open', block: { type: 'foreign', protocol: 'openai-chat', raw: {} } }
const ONLY_CONTENT: readonly ChatEvent[] = [CONTENT]

/** Whether a request with these members asks for events. Those of a form are texts. */
export const asksForEvents = ({ events }: RelayRow, members: JsonObject): boolean =>
  events !== undefined && String(members[events.member]) === events.value

/** Whether the answer is sent when it is complete, and not forwarded as it arrives. */
export const isSentWhole = (row: RelayRow, members: JsonObject): boolean =>
  row.answer !== 'bytes' && !asksForEvents(row, members)

/** How an answer is read. */
type AskedAnswer = {
  readonly row: RelayRow
  /** The request asks for events. */
  readonly isEvents: boolean
  /** What is billed where tokens are not. */
  readonly units: UnitCount | undefined
}

/** The format of an endpoint's answers. */
export const relayFormat = (asked: AskedAnswer): AnswerFormat => ({
  decodeFailure: decodeOpenaiFailure,
  decodeAnswer: (body) => decodeWhole(asked, body),
  decodeStream: () => (asked.isEvents ? new RelayedEvents(asked) : UNASKED),
  readerOf: (head) => readerOf(asked.row, head),
})

const decodeWhole = ({ row, units }: AskedAnswer, body: Json): readonly ChatEvent[] => {
  const { answer } = row
  const failure = failureIn(body)
  if (failure) return [{ type: 'failure', failure }]
  if (answer === 'bytes') return [{ type: 'failure', failure: NO_BYTES }]
  if (answer === 'json' && !isObject(body)) return [{ type: 'failure', failure: NO_OBJECT }]
  return isObject(body) ? [...usageIn(row, body, units && answerUnits(body, units)), FINISH] : [FINISH]
}

const NO_OBJECT = malformed('it is not a JSON object')
const NO_BYTES = malformed('it is JSON, not the file that the request asks for')
const UNASKED: StreamDecoder = {
  push: () => [],
  end: () => [{ type: 'failure', failure: malformed('it is a stream, which the request does not ask for') }],
}

/** Without tokens, those of the request are estimated. */
const usageIn = (row: RelayRow, body: JsonObject, units: UnitCount | undefined): readonly ChatEvent[] => {
  const usage = decodeUsage(tokensIn(row, body))
  if (units) return [{ type: 'usage', usage: { ...(usage ?? NO_TOKENS), units } }]
  return usage ? [{ type: 'usage', usage }] : []
}

const NO_TOKENS = { input: 0, output: 0, unknown: 'output' } as const

/** The tokens that an answer states. Cohere has them in `meta`. Of an answer without output, some servers state the total alone. */
const tokensIn = ({ estimate }: RelayRow, { usage, meta }: JsonObject): Json | undefined => {
  if (!isObject(usage)) return isObject(meta) ? meta.tokens : undefined
  const hasOutput = estimate.outputPerInput > 0 || estimate.outputPerResult !== undefined
  const isAlone = usage.prompt_tokens === undefined && usage.input_tokens === undefined
  if (hasOutput || !isAlone || usage.total_tokens === undefined) return usage
  return { ...usage, input_tokens: usage.total_tokens, output_tokens: 0 }
}

/** The tokens of an answer: those that it reports, or else these. */
export const relayUsage = (reported: Usage | null, tokens: Pick<Usage, 'input' | 'output'>): TokenUsage => {
  if (!reported) return { usage: tokens, estimated: true }
  return reported.unknown ? { usage: { ...reported, ...tokens }, estimated: true } : { usage: reported }
}

// ── Answers that are neither JSON nor events ─────────────────────────────────────────────────────────────────────

const readerOf = ({ answer }: RelayRow, { headers }: ResponseHead): AnswerBodyReader | null => {
  const type = headers('content-type') ?? ''
  if (/json|event-stream/i.test(type) || answer === 'json') return null
  return answer === 'bytes' ? new RelayedBytes() : new WholeText()
}

/** A text, such as subtitles. It may be empty: a file may have no speech. */
class WholeText implements AnswerBodyReader {
  readonly #text = utf8()
  readonly #pieces: string[] = []
  #size = 0

  push(chunk: Uint8Array): readonly StreamStep[] {
    this.#size += chunk.length
    if (this.#size > MAX_WHOLE) return tooLarge(MAX_WHOLE)
    this.#pieces.push(...this.#text.push(chunk))
    return []
  }

  end(): readonly StreamStep[] {
    return [{ whole: [...this.#pieces, ...this.#text.end()].join(''), events: [FINISH] }]
  }
}

/** Bytes that are forwarded and not kept: an hour of uncompressed speech has 170 MB. */
const MAX_BYTES = 256 * 1024 * 1024

class RelayedBytes implements AnswerBodyReader {
  #size = 0

  push(chunk: Uint8Array): readonly StreamStep[] {
    this.#size += chunk.length
    if (this.#size > MAX_BYTES) return tooLarge(MAX_BYTES)
    return [{ frame: { data: '', raw: chunk }, events: ONLY_CONTENT }]
  }

  end(): readonly StreamStep[] {
    return [{ events: this.#size === 0 ? [{ type: 'failure', failure: malformed('it is empty') }] : [FINISH] }]
  }
}

const tooLarge = (limit: number): readonly StreamStep[] => [
  { events: [{ type: 'failure', failure: fail('too_large', `the upstream's answer is larger than ${limit} bytes`) }] },
]

// ── Events ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Events of OpenAI's endpoints: `transcript.text.delta`, `speech.audio.done`. The last one has the usage. */
class RelayedEvents implements StreamDecoder {
  readonly #asked: AskedAnswer
  #isDone = false
  #images = 0

  constructor(asked: AskedAnswer) {
    this.#asked = asked
  }

  get done(): boolean {
    return this.#isDone
  }

  push({ data, oversized }: Frame): readonly ChatEvent[] {
    if (oversized) return [{ type: 'failure', failure: oversizedEvent() }]
    if (data === '[DONE]') {
      this.#isDone = true
      return [FINISH]
    }
    const body = readJson(data)
    if (!isObject(body)) return data === '' ? [] : [{ type: 'failure', failure: malformed('an event is not JSON') }]
    if (body.error) return [{ type: 'failure', failure: decodeOpenaiFailure(200, body, () => undefined) }]
    const isLast = /\.(?:done|completed)$/.test(text(body.type) ?? '')
    return [
      CONTENT,
      ...usageIn(this.#asked.row, body, isLast ? this.#unitsOf(body) : undefined),
      ...(isLast ? [FINISH] : []),
    ]
  }

  end(): readonly ChatEvent[] {
    return []
  }

  /** Each image has a last event of its own. */
  #unitsOf(body: JsonObject): UnitCount | undefined {
    const { units } = this.#asked
    if (!units) return undefined
    return units.unit === 'images' ? imagesOf(++this.#images, body, units) : answerUnits(body, units)
  }
}
