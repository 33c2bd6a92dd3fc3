/**
 * What the gateway reads of the server events of OpenAI's Realtime API: that a response begins, what it used, and which model transcribes
 * (openai-node 7.55.0, `resources/realtime/realtime.d.ts`). All other events are recognised by their first bytes and not parsed.
 */
import type { Usage } from '../../core/chat.ts'
import { joinedBytes } from '../../core/joined-bytes.ts'
import { type Json, type JsonObject, object, readJson, text } from '../../core/json.ts'
import { decodeUtf8, latin1Of } from '../../protocols/framing/utf8.ts'
import type { MessageSink } from '../../protocols/framing/web-socket-frames.ts'
import { decodeUsage } from '../../protocols/shared/usage-members.ts'

/** `unknown`: the event states none. `none`: the response has failed, so none is billed. */
export type StatedUsage = Usage | 'unknown' | 'none'

export type RealtimeListener = {
  /** A response has begun. */
  onBegun(): void
  /** `model`: the one that was used, where it is not that of the session; null: it is. */
  onUsage(usage: StatedUsage, model: string | null): void
}

/** The type of an event whose first members are its ID and its type, with no other object before it. */
const LEADING_TYPE = /^\s*\{\s*(?:"event_id"\s*:\s*"[^"\\]*"\s*,\s*)?"type"\s*:\s*"([^"\\]*)"/

/** Bytes in which a leading type is found. */
const HEAD = 192

/** Reads the messages of the upstream. */
export class RealtimeEvents implements MessageSink {
  readonly listener: RealtimeListener
  /** The model that transcribes the input; null: it is not known. */
  transcribes: string | null = null
  /** Copies of the parts of a message that may have to be parsed. */
  #parts: Uint8Array[] = []
  #size = 0
  /** The rest of the message is not read. */
  #isSkipping = false

  constructor(listener: RealtimeListener) {
    this.listener = listener
  }

  part(bytes: Uint8Array, isEnd: boolean): void {
    if (this.#isSkipping) {
      this.#isSkipping = !isEnd
      return
    }
    if (this.#size === 0 && isEnd) return this.#read(bytes)
    // The bytes are valid only during the call.
    this.#parts.push(bytes.slice())
    this.#size += bytes.length
    if (!isEnd && this.#size < HEAD) return
    const all = this.#joined()
    if (isEnd) {
      this.#clear()
      return this.#read(all)
    }
    if (!isPassing(all)) {
      this.#parts = [all]
      return
    }
    this.#clear()
    this.#isSkipping = true
  }

  /** One copy for a message of a few parts; for one that must be kept whole only at its end. */
  #joined(): Uint8Array {
    const [first] = this.#parts
    if (first && this.#parts.length === 1) return first
    return joinedBytes(this.#parts, this.#size)
  }

  #clear(): void {
    this.#parts = []
    this.#size = 0
  }

  #read(message: Uint8Array): void {
    if (isPassing(message)) return
    const json = decodeUtf8(message)
    if (!NAMED.test(json)) return
    const event = object(readJson(json))
    READ.get(text(event?.type) ?? '')?.(event ?? {}, this)
  }
}

/** Whether the first bytes show that a message is not parsed. */
const isPassing = (message: Uint8Array): boolean => {
  const head = message.subarray(0, HEAD)
  const type = LEADING_TYPE.exec(latin1Of(head) ?? decodeUtf8(head))?.[1]
  return type !== undefined && !READ.has(type)
}

/** Of audio that is heard (developers.openai.com/api/docs/guides/realtime-costs, 2026-11-28), for a model without a price by the second. */
const TOKENS_PER_SECOND = 10

const usageOf = (usage: Json | undefined): StatedUsage => {
  const stated = object(usage)
  // Whisper is billed by the second.
  if (stated?.type === 'duration' && typeof stated.seconds === 'number') {
    const tokens = Math.ceil(stated.seconds * TOKENS_PER_SECOND)
    return { input: tokens, audioInput: tokens, output: 0, units: { unit: 'seconds', count: stated.seconds } }
  }
  return decodeUsage(usage) ?? 'unknown'
}

const usageOfResponse = (response: JsonObject | undefined): StatedUsage => {
  const usage = usageOf(response?.usage)
  return usage === 'unknown' && response?.status === 'failed' ? 'none' : usage
}

/** Of the current API, and of its beta. */
const readSession: Read = ({ session }, events) => {
  const known = object(session)
  const transcription =
    object(object(object(known?.audio)?.input)?.transcription) ?? object(known?.input_audio_transcription)
  events.transcribes = text(transcription?.model) ?? events.transcribes
}

type Read = (event: JsonObject, events: RealtimeEvents) => void

/** The events that are parsed, by their type. */
const READ: ReadonlyMap<string, Read> = new Map<string, Read>([
  ['response.created', (_event, events) => events.listener.onBegun()],
  ['response.done', ({ response }, { listener }) => listener.onUsage(usageOfResponse(object(response)), null)],
  [
    'conversation.item.input_audio_transcription.completed',
    ({ usage }, { listener, transcribes }) => listener.onUsage(usageOf(usage), transcribes),
  ],
  // vLLM, whose sessions only transcribe (docs.vllm.ai/en/latest/examples/speech_to_text/realtime, 2026-11-28).
  ['transcription.done', ({ usage }, { listener }) => listener.onUsage(usageOf(usage), null)],
  ['session.created', readSession],
  ['session.updated', readSession],
])

/** Their types, to find one in an event whose type is not among its first members. */
const NAMED = new RegExp(`"(?:${[...READ.keys()].map((name) => name.replaceAll('.', '\\.')).join('|')})"`)
