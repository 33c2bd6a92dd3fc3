/**
 * How the answer of a relayed endpoint is read: whole, as events or as bytes. The events of a step state its tokens and its end; its text
 * or bytes are forwarded beside them.
 */
import type { ChatEvent } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, readJson, text } from '../../core/json.ts'
import type { Frame, StreamDecoder, StreamStep } from '../../core/protocol.ts'
import type { RelayRow } from '../../core/relay.ts'
import { malformed, oversizedEvent } from '../../protocols/errors/answer-failures.ts'
import { decodeOpenaiFailure } from '../../protocols/errors/openai-error.ts'
import { utf8 } from '../../protocols/framing/utf8.ts'
import { failureIn } from '../../protocols/shared/openai-finish-and-usage.ts'
import { decodeUsage } from '../../protocols/shared/usage-members.ts'
import { type AnswerBodyReader, type AnswerFormat, MAX_WHOLE, type ResponseHead } from '../upstream/body-reader.ts'

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

/** The format of an endpoint's answers. `isEvents`: the request asks for events. */
export const relayFormat = (row: RelayRow, isEvents: boolean): AnswerFormat => ({
  decodeFailure: decodeOpenaiFailure,
  decodeAnswer: (body) => decodeWhole(row, body),
  decodeStream: () => (isEvents ? new RelayedEvents(row) : UNASKED),
  readerOf: (head) => readerOf(row, head),
})

const decodeWhole = (row: RelayRow, body: Json): readonly ChatEvent[] => {
  const { answer } = row
  const failure = failureIn(body)
  if (failure) return [{ type: 'failure', failure }]
  if (answer === 'bytes') return [{ type: 'failure', failure: NO_BYTES }]
  if (answer === 'json' && !isObject(body)) return [{ type: 'failure', failure: NO_OBJECT }]
  return isObject(body) ? [...usageIn(row, body), FINISH] : [FINISH]
}

const NO_OBJECT = malformed('it is not a JSON object')
const NO_BYTES = malformed('it is JSON, not the file that the request asks for')
const UNASKED: StreamDecoder = {
  push: () => [],
  end: () => [{ type: 'failure', failure: malformed('it is a stream, which the request does not ask for') }],
}

const usageIn = (row: RelayRow, body: JsonObject): readonly ChatEvent[] => {
  const usage = decodeUsage(tokensIn(row, body))
  return usage ? [{ type: 'usage', usage }] : []
}

/** The tokens that an answer states. Cohere has them in `meta`. Of an answer without output, some servers state the total alone. */
const tokensIn = ({ estimate }: RelayRow, { usage, meta }: JsonObject): Json | undefined => {
  if (!isObject(usage)) return isObject(meta) ? meta.tokens : undefined
  const isAlone = usage.prompt_tokens === undefined && usage.input_tokens === undefined
  return estimate.outputPerInput === 0 && isAlone ? { ...usage, input_tokens: usage.total_tokens ?? null } : usage
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
  readonly #row: RelayRow
  #isDone = false

  constructor(row: RelayRow) {
    this.#row = row
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
    return [CONTENT, ...usageIn(this.#row, body), ...(isLast ? [FINISH] : [])]
  }

  end(): readonly ChatEvent[] {
    return []
  }
}
