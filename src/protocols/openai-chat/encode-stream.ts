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
import { encodeCitation, encodeUsage, hasUrl } from '../shared/openai-finish-and-usage.ts'
import { type ForeignBlock, reportLost, reportLostCitation } from '../shared/output-media.ts'
import { issuedSignature, writeDetails } from '../shared/reasoning-members.ts'
import { REFUSAL_TEXT } from '../shared/refusal-text.ts'
import { openaiTier } from '../shared/service-tiers.ts'
import { finishReasonFor, imagesOf, isLegacy, isOwnBlock } from './encode-answer.ts'

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

const NO_CITATIONS: readonly Citation[] = []

class ChunkWriter implements StreamWriter<string> {
  readonly #context: AnswerContext
  /** Calls are written as `function_call`, which holds only one. */
  readonly #legacy: boolean
  readonly #wantsUsage: boolean
  readonly #choiceStart: string
  readonly #chunkEnd: string
  /** The members shared by all chunks, written once at the first chunk; empty before it. */
  #chunkStart = ''
  #id: string | undefined
  #model: string | undefined
  #created: number | undefined
  #over = false
  #hasContent = false
  #block: Block | undefined
  /** Length of the open text block, and of the text blocks before it: offsets of citations. */
  #textLength = 0
  #textBefore = 0
  /** Citations of the open text block without a range. */
  #cited = NO_CITATIONS
  /** Text of the open reasoning block, for its signature. */
  #reasoning = ''
  #reasoningBlocks = 0
  #needsSeparator = false
  #calls = 0
  #hasArguments = false
  #refused = false
  #finish: Finish | undefined
  #usage: Usage | undefined

  constructor(context: AnswerContext, index: number) {
    this.#context = context
    this.#legacy = isLegacy(context)
    this.#wantsUsage = context.request.settings.streamUsage?.value === true
    this.#choiceStart = `"choices":[{"index":${index},"delta":`
    this.#chunkEnd = this.#wantsUsage ? ',"usage":null}\n\n' : '}\n\n'
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
    if (!this.#wantsUsage || !this.#usage) return [DONE]
    const tier = openaiTier(this.#usage.serviceTier)
    const members = `"choices":[],${tier === undefined ? '' : `"service_tier":"${tier}",`}"usage":`
    return [`${this.#chunkStart}${members}${JSON.stringify(encodeUsage(this.#usage))}}\n\n`, DONE]
  }

  keepAlive(): string {
    return PING
  }

  #write(event: ChatEvent): readonly string[] {
    switch (event.type) {
      case 'start':
        this.#id ??= event.id
        this.#model ??= event.model
        this.#created ??= event.created
        return []
      case 'open':
        return this.#open(event.block)
      case 'delta':
        return this.#delta(event.text, event.logprobs)
      case 'citation':
        return this.#cite(event.citation)
      case 'signature':
        return [this.#signature(event.signature)]
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

  /** A chunk; `delta` and `logprobs` are JSON text. */
  #chunk(delta: string, reason: string | null = null, logprobs = 'null'): string {
    return `${this.#chunkStart}${this.#choiceStart}${delta},"logprobs":${logprobs},"finish_reason":${
      reason === null ? 'null' : `"${reason}"`
    }}]${this.#chunkEnd}`
  }

  /** The first chunk, with the role; empty later. */
  #role(first: Block | undefined): string[] {
    if (this.#chunkStart !== '') return []
    const shared = JSON.stringify({
      id: this.#id ?? this.#context.id('chatcmpl'),
      object: 'chat.completion.chunk',
      created: this.#created ?? this.#context.created,
      model: this.#model ?? this.#context.model,
    })
    this.#chunkStart = `data: ${shared.slice(0, -1)},`
    const content = first?.type === 'tool-call' ? 'null' : '""'
    return [this.#chunk(`{"role":"assistant","content":${content},"refusal":null}`)]
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
        this.#reasoning = ''
        this.#needsSeparator = this.#reasoningBlocks > 0
        this.#reasoningBlocks++
        return out
      case 'refusal':
        this.#refused = true
        return out
      case 'text':
        this.#textLength = 0
        return out
      case 'foreign':
        return [...out, ...this.#media(block)]
    }
  }

  /** A citation without a range covers its whole text, which may follow (Claude), so it is written at the text's end. */
  #cite(citation: Citation): string[] {
    if (!hasUrl(citation)) {
      reportLostCitation(this.#context)
      return []
    }
    if (this.#block?.type === 'text' && (citation.start === undefined || citation.end === undefined)) {
      this.#cited = [...this.#cited, citation]
      return []
    }
    return [this.#annotations([citation])]
  }

  #annotations(citations: readonly Citation[]): string {
    const annotations = citations.map((citation) => encodeCitation(citation, this.#textBefore, this.#textLength))
    return this.#chunk(JSON.stringify({ annotations }))
  }

  /** The end of a text block: writes its citations. */
  #endText(): string[] {
    const cited = this.#cited.length > 0 ? [this.#annotations(this.#cited)] : []
    this.#cited = NO_CITATIONS
    this.#textBefore += this.#textLength
    return cited
  }

  /** Audio and images of this format, and images of others. */
  #media(block: ForeignBlock): string[] {
    if (isOwnBlock(block)) return [this.#chunk(JSON.stringify(block.raw))]
    const images = imagesOf(block)
    reportLost(block, this.#context, images.length)
    return images.length > 0 ? [this.#chunk(JSON.stringify({ images }))] : []
  }

  #delta(text: string, tokens: Json | undefined): readonly string[] {
    if (!this.#block) return []
    const logprobs = isList(tokens) && tokens.length > 0 ? tokens : undefined
    if (text === '' && !logprobs) return []
    switch (this.#block.type) {
      case 'text': {
        this.#textLength += text.length
        const encoded = logprobs && JSON.stringify({ content: logprobs, refusal: null })
        return [this.#chunk(`{"content":${JSON.stringify(text)}}`, null, encoded)]
      }
      case 'refusal': {
        const encoded = logprobs && JSON.stringify({ content: null, refusal: logprobs })
        return [this.#chunk(`{"refusal":${JSON.stringify(text)}}`, null, encoded)]
      }
      case 'reasoning': {
        const separated = this.#needsSeparator ? `\n\n${text}` : text
        this.#needsSeparator = false
        this.#reasoning += text
        return [this.#chunk(`{"reasoning_content":${JSON.stringify(separated)}}`)]
      }
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
    if (block?.type === 'text') return this.#endText()
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
    return this.#chunk(JSON.stringify(delta))
  }

  /** The whole text with its signature in one entry: clients that append lists keep it intact. */
  #signature(signature: ReasoningSignature): string {
    const summary = this.#block?.type === 'reasoning' && this.#block.summary ? { summary: true } : {}
    const details = writeDetails(
      { text: this.#reasoning, ...summary, signature: issuedSignature(signature, this.#context) },
      Math.max(0, this.#reasoningBlocks - 1),
    )
    return this.#chunk(JSON.stringify({ reasoning_details: details }))
  }

  #end(finish: Finish): string[] {
    this.#finish = finish
    const out = [...this.#role(undefined), ...this.#close()]
    if (finish.kind === 'refusal' && !this.#refused)
      out.push(this.#chunk(`{"refusal":${JSON.stringify(REFUSAL_TEXT)}}`))
    out.push(this.#chunk('{}', finishReasonFor(finish, this.#refused, this.#legacy)))
    return out
  }
}
