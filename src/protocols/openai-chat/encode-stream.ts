import {
  type Block,
  type ChatEvent,
  type Citation,
  type Finish,
  isContent,
  type ReasoningSignature,
  type Usage,
} from '../../core/chat.ts'
import type { Failure } from '../../core/failure.ts'
import { isList, type Json, type JsonObject } from '../../core/json.ts'
import type { AnswerContext, StreamStep, StreamWriter } from '../../core/protocol.ts'
import { encodeOpenaiFailure } from '../errors/openai-error.ts'
import { writeFrame } from '../framing/sse.ts'
import { hasUrl } from '../shared/openai-finish-and-usage.ts'
import { type ForeignBlock, reportLost, reportLostCitation } from '../shared/output-media.ts'
import { REFUSAL_TEXT } from '../shared/refusal-text.ts'
import { ChunkFrame } from './chunk-frame.ts'
import { CitedText } from './cited-text.ts'
import { finishReasonFor, imagesOf, isLegacy, isOwnBlock } from './encode-answer.ts'
import { ReasoningText } from './reasoning-text.ts'

/** The event that ends a complete stream. */
export const DONE = writeFrame(undefined, '[DONE]')

/**
 * A keep-alive comment without a blank line, so that it becomes part of the next event. With a blank line, openai-python
 * parses it as an event without data once the stream has used an ID, and fails.
 */
export const PING = ': ping\n'

/** The in-band error. The stream ends after it without `[DONE]`, so that it does not look complete. */
export const writeFailure = (
  failure: Failure,
  { requestId, id }: Pick<AnswerContext, 'requestId' | 'id'>,
  interrupted: boolean,
): string =>
  writeFrame(
    undefined,
    JSON.stringify(
      encodeOpenaiFailure(failure, { requestId: requestId ?? id('req'), ...(interrupted && { interrupted }) }),
    ),
  )

/** Writes chunks as OpenAI does: the role, deltas, the finish reason, usage if requested, `[DONE]`. */
export const encodeStream = (context: AnswerContext): StreamWriter<string> => choiceWriter(context, 0)

/** The writer of the choice with this index. */
export const choiceWriter = (context: AnswerContext, index: number): StreamWriter<string> =>
  new ChunkWriter(context, index)

class ChunkWriter implements StreamWriter<string> {
  readonly #context: AnswerContext
  /** Calls are written as `function_call`, which holds only one. */
  readonly #legacy: boolean
  readonly #frame: ChunkFrame
  readonly #text = new CitedText()
  readonly #reasoning = new ReasoningText()
  #over = false
  #hasContent = false
  #block: Block | undefined
  #calls = 0
  #hasArguments = false
  #refused = false
  #finish: Finish | undefined
  #usage: Usage | undefined

  constructor(context: AnswerContext, index: number) {
    this.#context = context
    this.#legacy = isLegacy(context)
    this.#frame = new ChunkFrame(context, index)
  }

  push({ events }: StreamStep): readonly string[] {
    const out: string[] = []
    for (const event of events) {
      if (this.#over) break
      out.push(...this.#write(event))
      this.#hasContent ||= isContent(event)
    }
    return out
  }

  end(): readonly string[] {
    if (this.#over || !this.#finish) return []
    this.#over = true
    const usage = this.#frame.usageChunk(this.#usage)
    return usage === '' ? [DONE] : [usage, DONE]
  }

  keepAlive(): string {
    return PING
  }

  #write(event: ChatEvent): readonly string[] {
    switch (event.type) {
      case 'start':
        this.#frame.start(event)
        return []
      case 'open':
        return this.#open(event.block)
      case 'delta':
        return this.#delta(event.text, event.logprobs)
      case 'citation':
        return this.#cite(event.citation)
      case 'signature':
        return [this.#sign(event.signature)]
      case 'close':
        return this.#close()
      case 'usage':
        this.#usage = event.usage
        return []
      case 'finish':
        return this.#end(event.finish)
      case 'failure':
        this.#over = true
        return [writeFailure(event.failure, this.#context, this.#hasContent)]
      case 'ping':
        return []
      default:
        throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
    }
  }

  /** The first chunk, with the role; empty later. */
  #role(first: Block | undefined): string[] {
    if (this.#frame.begun) return []
    this.#frame.begin()
    const content = first?.type === 'tool-call' ? 'null' : '""'
    return [this.#frame.chunk(`{"role":"assistant","content":${content},"refusal":null}`)]
  }

  #open(block: Block): string[] {
    this.#block = block
    const out = this.#role(block)
    switch (block.type) {
      case 'tool-call': {
        this.#calls++
        this.#hasArguments = false
        if (this.#isDroppedCall()) return out
        const { id, name, custom } = block
        const members: JsonObject = custom
          ? { id, type: 'custom', custom: { name, input: '' } }
          : { id, type: 'function', function: { name, arguments: '' } }
        return [...out, this.#callChunk(members)]
      }
      case 'reasoning':
        this.#reasoning.begin()
        return out
      case 'refusal':
        this.#refused = true
        return out
      case 'text':
        this.#text.begin()
        return out
      case 'foreign':
        return [...out, ...this.#media(block)]
    }
  }

  #cite(citation: Citation): string[] {
    if (!hasUrl(citation)) {
      reportLostCitation(this.#context)
      return []
    }
    return this.#annotate(this.#text.cite(citation, this.#block?.type === 'text'))
  }

  #annotate(annotations: readonly JsonObject[]): string[] {
    return annotations.length > 0 ? [this.#frame.chunk(JSON.stringify({ annotations }))] : []
  }

  /** Audio and images of this format, and images of others. */
  #media(block: ForeignBlock): string[] {
    if (isOwnBlock(block)) return [this.#frame.chunk(JSON.stringify(block.raw))]
    const images = imagesOf(block)
    reportLost(block, this.#context, images.length)
    return images.length > 0 ? [this.#frame.chunk(JSON.stringify({ images }))] : []
  }

  #delta(text: string, tokens: Json | undefined): readonly string[] {
    if (!this.#block) return []
    const logprobs = isList(tokens) && tokens.length > 0 ? tokens : undefined
    if (text === '' && !logprobs) return []
    switch (this.#block.type) {
      case 'text': {
        this.#text.add(text)
        const encoded = logprobs && JSON.stringify({ content: logprobs, refusal: null })
        return [this.#frame.chunk(`{"content":${JSON.stringify(text)}}`, null, encoded)]
      }
      case 'refusal': {
        const encoded = logprobs && JSON.stringify({ content: null, refusal: logprobs })
        return [this.#frame.chunk(`{"refusal":${JSON.stringify(text)}}`, null, encoded)]
      }
      case 'reasoning':
        return [this.#frame.chunk(`{"reasoning_content":${JSON.stringify(this.#reasoning.add(text))}}`)]
      case 'tool-call':
        this.#hasArguments = true
        if (this.#isDroppedCall()) return []
        return [this.#callChunk(this.#block.custom ? { custom: { input: text } } : { function: { arguments: text } })]
      case 'foreign':
        return []
    }
  }

  #close(): string[] {
    const block = this.#block
    this.#block = undefined
    if (block?.type === 'text') return this.#annotate(this.#text.end())
    if (block?.type !== 'tool-call' || this.#hasArguments || block.custom || this.#isDroppedCall()) return []
    // Clients parse the collected arguments as JSON, so empty arguments are written as `{}`.
    return [this.#callChunk({ function: { arguments: '{}' } })]
  }

  /** `function_call` holds one call; later ones are dropped. */
  #isDroppedCall(): boolean {
    return this.#legacy && this.#calls > 1
  }

  #callChunk(members: JsonObject): string {
    const delta = this.#legacy
      ? { function_call: members.function ?? members.custom }
      : { tool_calls: [{ index: this.#calls - 1, ...members }] }
    return this.#frame.chunk(JSON.stringify(delta))
  }

  #sign(signature: ReasoningSignature): string {
    const isSummary = this.#block?.type === 'reasoning' && this.#block.summary === true
    return this.#frame.chunk(JSON.stringify(this.#reasoning.signed(signature, isSummary, this.#context)))
  }

  #end(finish: Finish): string[] {
    this.#finish = finish
    const out = [...this.#role(undefined), ...this.#close()]
    if (finish.kind === 'refusal' && !this.#refused)
      out.push(this.#frame.chunk(`{"refusal":${JSON.stringify(REFUSAL_TEXT)}}`))
    out.push(this.#frame.chunk('{}', finishReasonFor(finish, this.#refused, this.#legacy)))
    return out
  }
}
