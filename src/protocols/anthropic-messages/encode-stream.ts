import type { Block, ChatEvent, Citation, Finish, ReasoningSignature, Usage } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import type { AnswerContext, StreamStep, StreamWriter } from '../../core/protocol.ts'
import { encodeSignature } from '../client-parts/thinking-signatures.ts'
import { writeFrame } from '../framing/sse.ts'
import { isTranscript, reportLost, reportLostCitation } from '../shared/output-media.ts'
import { issuedSignature } from '../shared/reasoning-members.ts'
import { SpokenWords } from '../shared/spoken-words.ts'
import { FREE_INPUT } from '../shared/tool-arguments.ts'
import { encodeCitation } from './citations.ts'
import { messageHead } from './encode-answer.ts'
import { errorEvent } from './errors.ts'
import { encodeFinish, encodeUsage } from './finish-and-usage.ts'
import { toolUseId } from './ids.ts'

/** Kinds of open blocks, by the deltas they take. A `complete` block has no deltas. */
type OpenKind = 'text' | 'thinking' | 'call' | 'custom' | 'complete'

/** Keeps the connection alive, also before the message has begun: official SDKs ignore it, and watchdogs count it. */
export const PING = 'event: ping\ndata: {"type": "ping"}\n\n'

/** Writes a messages stream from events. Every event has a name, because the official SDKs skip events without one. */
export const encodeStream = (context: AnswerContext): StreamWriter<string> => new MessagesStreamWriter(context)

/** The beginning of a message, which has the model's name and the first usage. */
class MessageStart {
  readonly #context: AnswerContext
  #written = false
  /** The start of the answer, written with its first block. Usage may follow it. */
  head: { readonly id?: string; readonly model?: string } | undefined
  usage: Usage | undefined

  constructor(context: AnswerContext) {
    this.#context = context
  }

  get written(): boolean {
    return this.#written
  }

  write(): string[] {
    if (this.#written) return []
    this.#written = true
    const message = {
      ...messageHead(this.head ?? {}, this.#context),
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: this.encodeUsage(),
    }
    return [frame('message_start', { message })]
  }

  /** A ping; none before the answer has begun. */
  ping(): string[] {
    return this.head ? [...this.write(), PING] : []
  }

  /** Clients take the input from `message_start`, so the estimate fills in what the upstream has not stated (yet). */
  encodeUsage(): JsonObject {
    const usage = this.usage
    if (usage && usage.input > 0) return encodeUsage(usage)
    const input = this.#context.inputTokens?.() ?? 0
    return encodeUsage({ ...usage, input, output: usage?.output ?? 0 })
  }
}

class MessagesStreamWriter implements StreamWriter<string> {
  readonly #context: AnswerContext
  readonly #start: MessageStart
  #over = false
  #index = -1
  /** A block that has been opened but not written, because empty blocks are never sent. */
  #pending: Block | undefined
  /** The open text block is the transcript of audio. */
  #isSpoken = false
  readonly #words = new SpokenWords()
  /** The open thinking block is a summary. */
  #isSummary = false
  #open: OpenKind | undefined
  #calledTools = false
  /** The model has refused: the refusal is written as text, and the stop reason marks it. */
  #refused = false
  #finish: Finish | undefined

  constructor(context: AnswerContext) {
    this.#context = context
    this.#start = new MessageStart(context)
  }

  push({ events }: StreamStep): readonly string[] {
    const out: string[] = []
    // Chat servers state the usage at the end of their first chunk: after its content.
    if (!this.#start.written) for (const event of events) if (event.type === 'usage') this.#start.usage = event.usage
    for (const event of events) if (!this.#over) out.push(...this.#write(event))
    return out
  }

  end(): readonly string[] {
    const finish = this.#finish
    if (this.#over || !finish) return []
    if (finish.kind === 'error' || finish.kind === 'malformed')
      return this.#fail(
        fail('error_in_stream', `The model ended its answer with an error (${finish.raw ?? finish.kind}).`),
      )
    this.#over = true
    const ending = this.#refused && finish.kind === 'stop' ? { ...finish, kind: 'refusal' as const } : finish
    // Written at the end, because usage may follow the finish.
    const delta = encodeFinish(ending, this.#calledTools)
    return [
      ...this.#start.write(),
      frame('message_delta', { delta, usage: this.#start.encodeUsage() }),
      frame('message_stop', {}),
    ]
  }

  keepAlive(): string {
    if (this.#over) return ''
    return this.#start.ping().join('') || PING
  }

  #write(event: ChatEvent): string[] {
    switch (event.type) {
      case 'start':
        this.#start.head = event
        return []
      case 'open':
        return this.#openBlock(event.block)
      case 'delta':
        return this.#addText(event.text)
      case 'citation':
        return this.#addCitation(event.citation)
      case 'signature':
        return this.#addSignature(event.signature)
      case 'close':
        return this.#close()
      case 'usage':
        this.#start.usage = event.usage
        return []
      case 'finish':
        this.#finish = event.finish
        return this.#close()
      case 'failure':
        return this.#fail(event.failure)
      case 'ping':
        return this.#start.ping()
      default:
        throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
    }
  }

  #openBlock(block: Block): string[] {
    const before = this.#close()
    this.#refused ||= block.type === 'refusal'
    this.#isSpoken = block.type === 'foreign'
    switch (block.type) {
      case 'text':
      case 'refusal':
      case 'reasoning':
        this.#pending = block
        this.#isSummary = block.type === 'reasoning' && block.summary === true
        return before
      case 'tool-call': {
        this.#calledTools = true
        const call = { type: 'tool_use', id: toolUseId(block.id), name: block.name, input: {} }
        if (!block.custom) return [...before, ...this.#begin('call', call)]
        const begun = this.#begin('custom', call)
        return [...before, ...begun, this.#inputDelta(`{${JSON.stringify(FREE_INPUT)}:"`)]
      }
      case 'foreign':
        if (block.protocol === 'anthropic-messages') return [...before, ...this.#begin('complete', block.raw)]
        reportLost(block, this.#context)
        // Audio output is encoded as its transcript only.
        if (isTranscript(block)) this.#pending = { type: 'text' }
        return before
      default:
        throw new Error(`unknown block ${JSON.stringify(block satisfies never)}`)
    }
  }

  #begin(kind: OpenKind, content_block: Json): string[] {
    this.#index++
    this.#open = kind
    this.#pending = undefined
    return [...this.#start.write(), frame('content_block_start', { index: this.#index, content_block })]
  }

  /** Writes the start of the pending block unless it is open. */
  #ensureOpen(kind: 'text' | 'thinking'): string[] {
    if (this.#open === kind) return []
    const block = kind === 'text' ? { type: 'text', text: '' } : { type: 'thinking', thinking: '', signature: '' }
    return this.#begin(kind, block)
  }

  #delta(delta: Json): string {
    return frame('content_block_delta', { index: this.#index, delta })
  }

  #inputDelta(partial_json: string): string {
    return this.#delta({ type: 'input_json_delta', partial_json })
  }

  #addText(text: string): string[] {
    if (text === '') return []
    if (this.#open === 'call') return [this.#inputDelta(text)]
    // Free-form input is sent as the content of a JSON string.
    if (this.#open === 'custom') return [this.#inputDelta(JSON.stringify(text).slice(1, -1))]
    if (this.#open === 'thinking' || this.#pending?.type === 'reasoning')
      return [...this.#ensureOpen('thinking'), this.#delta({ type: 'thinking_delta', thinking: text })]
    if (this.#open !== 'text' && !this.#pending) return []
    const words = this.#isSpoken ? this.#words.transcript(text) : this.#words.text(text)
    return words === '' ? [] : [...this.#ensureOpen('text'), this.#delta({ type: 'text_delta', text: words })]
  }

  #addCitation(citation: Citation): string[] {
    if (this.#open !== 'text' && this.#pending?.type !== 'text') return []
    const encodedCitation = encodeCitation(citation)
    if (encodedCitation.length === 0) reportLostCitation(this.#context)
    return encodedCitation.flatMap((encoded) => [
      ...this.#ensureOpen('text'),
      this.#delta({ type: 'citations_delta', citation: encoded }),
    ])
  }

  #addSignature(signature: ReasoningSignature): string[] {
    const isOpen = this.#open === 'thinking'
    if (!isOpen && this.#pending?.type !== 'reasoning') return []
    if (!isOpen && signature.redacted && signature.origin === 'anthropic-messages')
      return this.#begin('complete', { type: 'redacted_thinking', data: signature.value })
    const encoded = encodeSignature(issuedSignature(signature, this.#context), this.#isSummary)
    return [...this.#ensureOpen('thinking'), this.#delta({ type: 'signature_delta', signature: encoded })]
  }

  #close(): string[] {
    this.#pending = undefined
    const kind = this.#open
    this.#open = undefined
    if (!kind) return []
    const stop = frame('content_block_stop', { index: this.#index })
    return kind === 'custom' ? [this.#inputDelta('"}'), stop] : [stop]
  }

  #fail(failure: Failure): string[] {
    this.#over = true
    return [writeFrame('error', JSON.stringify(errorEvent(failure, this.#context.requestId)))]
  }
}

const frame = (type: string, members: { readonly [member: string]: Json }): string =>
  writeFrame(type, JSON.stringify({ type, ...members }))
