import type { Block, ChatEvent, Citation, Finish, Usage } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { type Json, type JsonObject, list, number, text } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { truncated } from '../errors/answer-failures.ts'
import { shortId } from '../shared/call-ids.ts'
import {
  encodeImageCalls,
  type ForeignBlock,
  isTranscript,
  reportLost,
  reportLostCitation,
} from '../shared/output-media.ts'
import { REFUSAL_TEXT } from '../shared/refusal-text.ts'
import { openaiTier } from '../shared/service-tiers.ts'
import { SpokenWords } from '../shared/spoken-words.ts'
import { toolNames } from '../shared/tool-names.ts'
import { echo } from './echo-settings.ts'
import { failureEvents } from './errors.ts'
import {
  encodeCitation,
  encodeItem,
  encodeLogprob,
  encodeUsage,
  isSearch,
  type OutputItem,
  outputText,
  type WireEvent,
} from './output-items.ts'
import { encryptedContent, OWN_REASONING, unsignedContent } from './signatures.ts'

/** How the answer ended: completed, or incomplete for this reason. */
type ResponseEnding = 'completed' | { readonly reason: string }

/** Turns the events of an answer into the events of a responses stream, without sequence numbers. */
export class ResponsesAnswerWriter {
  readonly #context: AnswerContext
  readonly #settings: JsonObject
  readonly #names: ReturnType<typeof toolNames>
  /** Clients that ask for a summary show nothing else, so raw reasoning is written as one. */
  readonly #wantsSummary: boolean
  /** Clients that ask for encrypted content return no reasoning without it. */
  readonly #wantsEncrypted: boolean
  /** The open block is raw reasoning, not a summary. */
  #isRaw = false
  readonly #output: JsonObject[] = []
  #id: string
  #created: number
  #model: string
  #begun = false
  #over = false
  #item: OutputItem | undefined
  #block: Block | undefined
  /** The block whose last event was a plain delta. */
  #deltaBlock: Block | undefined
  #texts: string[] = []
  #textLength = 0
  /** The open block is the transcript of audio. */
  #isSpoken = false
  readonly #words = new SpokenWords()
  #annotations: JsonObject[] = []
  /** Citations of the open text without a range. */
  #cited: Citation[] = []
  #logprobs: JsonObject[] = []
  #hasContent = false
  #refused = false
  #usage: Usage | undefined
  /** Set by the finish event. */
  #ending: ResponseEnding | undefined

  constructor(context: AnswerContext) {
    this.#context = context
    this.#settings = echo(context)
    this.#names = toolNames(context.body)
    this.#wantsEncrypted = context.request.settings.encryptedReasoning?.value === true
    this.#wantsSummary = (context.request.settings.reasoningSummary?.value ?? 'none') !== 'none'
    this.#begun = context.begun !== undefined
    this.#id = text(context.begun?.response.id) ?? context.storage?.id ?? ''
    this.#created = number(context.begun?.response.created_at) ?? context.created
    this.#model = context.model
  }

  get begun(): boolean {
    return this.#begun
  }

  get over(): boolean {
    return this.#over
  }

  /** The response in its current state. */
  response(status = 'in_progress', members: JsonObject = {}): JsonObject {
    const tier = openaiTier(this.#usage?.serviceTier)
    return {
      id: this.#id,
      object: 'response',
      created_at: this.#created,
      status,
      completed_at: null,
      error: null,
      incomplete_details: null,
      model: this.#model,
      ...this.#settings,
      output: [...this.#output],
      usage: this.#usage ? encodeUsage(this.#usage) : null,
      ...(tier !== undefined && { service_tier: tier }),
      ...members,
    }
  }

  /** Begins the response unless it has begun. From then on its id is fixed. */
  begin(): WireEvent[] {
    if (this.#begun) return []
    this.#begun = true
    this.#id = this.#id || this.#context.id('resp')
    return [
      { type: 'response.created', response: this.response() },
      { type: 'response.in_progress', response: this.response() },
    ]
  }

  write(event: ChatEvent): WireEvent[] {
    if (this.#over) return []
    switch (event.type) {
      case 'start':
        if (!this.#begun) {
          if (!this.#context.storage && event.id?.startsWith('resp_')) this.#id = event.id
          this.#created = event.created ?? this.#created
        }
        // A response that a keep-alive has begun could not name it.
        if (!this.#begun || this.#context.begun) this.#model = event.model ?? this.#model
        return this.begin()
      case 'open':
        return [...this.begin(), ...this.#openBlock(event.block)]
      case 'delta':
        return [...this.begin(), ...this.#writeWords(event.text, event.logprobs)]
      case 'citation':
        return [...this.begin(), ...this.#writeCitation(event.citation)]
      case 'signature':
        if (this.#item?.kind === 'reasoning')
          this.#item.encryptedContent = encryptedContent(event.signature, this.#texts.join(''))
        return []
      case 'close':
        return this.#closeBlock()
      case 'usage':
        this.#usage = event.usage
        return []
      case 'finish':
        return [...this.begin(), ...this.#finish(event.finish)]
      case 'failure':
        return [...this.begin(), ...this.#fail(event.failure)]
      case 'ping':
        return []
      default:
        throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
    }
  }

  /**
   * Adds text to the open block without making an event. True if the event would differ from the last one in its delta
   * alone, so that the caller can repeat that event; false if the caller has to use `write`.
   */
  appendRepeated(delta: string): boolean {
    const block = this.#deltaBlock
    if (this.#over || !block || block !== this.#block || block.type === 'foreign' || delta === '') return false
    if (block.type === 'text') {
      if (this.#isSpoken || this.#words.isSpoken) return false
      this.#words.text(delta)
      this.#textLength += delta.length
    }
    this.#texts.push(delta)
    return true
  }

  /** Ends the answer. An answer without a finish ends as a failure. */
  end(): WireEvent[] {
    if (this.#over) return []
    if (this.#ending) return this.#complete(this.#ending)
    return [...this.begin(), ...this.#fail(truncated())]
  }

  // ── Items ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  #addItem(item: OutputItem): WireEvent[] {
    const before = this.#endItem('completed')
    this.#item = item
    const output_index = this.#output.length
    return [...before, { type: 'response.output_item.added', output_index, item: encodeItem(item, 'in_progress') }]
  }

  #endItem(status: 'completed' | 'incomplete'): WireEvent[] {
    if (!this.#item) return []
    const item = encodeItem(this.#item, status)
    const event = { type: 'response.output_item.done', output_index: this.#output.length, item }
    this.#output.push(item)
    this.#item = undefined
    return [event]
  }

  /** The members that locate an event: item id, item index and, if `part` is given, the part's index. */
  #place(part?: 'content_index' | 'summary_index'): JsonObject {
    return {
      item_id: this.#item && this.#item.kind !== 'foreign' ? this.#item.id : '',
      output_index: this.#output.length,
      ...(part && { [part]: this.#partIndex() }),
    }
  }

  #partIndex(): number {
    const item = this.#item
    if (item?.kind === 'message') return item.content.length
    if (item?.kind === 'reasoning') return this.#isSummary() ? item.summary.length : item.content.length
    return 0
  }

  #isSummary(): boolean {
    return this.#block?.type === 'reasoning' && this.#block.summary === true
  }

  // ── Blocks ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  #openBlock(block: Block): WireEvent[] {
    const before = this.#closeBlock()
    this.#isRaw = block.type === 'reasoning' && block.summary !== true
    this.#isSpoken = block.type === 'foreign' && isTranscript(block)
    this.#block = block.type === 'reasoning' && this.#wantsSummary ? { ...block, summary: true } : block
    switch (block.type) {
      case 'text':
      case 'refusal': {
        const added =
          this.#item?.kind === 'message'
            ? []
            : this.#addItem({ kind: 'message', id: this.#context.id('msg'), content: [] })
        const part = block.type === 'text' ? outputText('', [], []) : { type: 'refusal', refusal: '' }
        return [...before, ...added, { type: 'response.content_part.added', ...this.#place('content_index'), part }]
      }
      case 'reasoning': {
        // Parts are added with their first text: most reasoning items have none.
        const id = this.#context.id(OWN_REASONING)
        return [
          ...before,
          ...this.#addItem({ kind: 'reasoning', id, summary: [], content: [], encryptedContent: undefined }),
        ]
      }
      case 'tool-call':
        return [...before, ...this.#openCall(block)]
      case 'foreign':
        return [...before, ...this.#openForeign(block)]
      default:
        throw new Error(`unknown block ${JSON.stringify(block satisfies never)}`)
    }
  }

  #openCall({ id, name, custom = false }: Block & { readonly type: 'tool-call' }): WireEvent[] {
    const called = this.#names.called(name)
    const prefix = custom ? 'ctc' : called?.kind === 'search' ? 'tsc' : 'fc'
    this.#hasContent = true
    return this.#addItem({
      kind: 'call',
      id: this.#context.id(prefix),
      callId: shortId(id),
      name: called?.kind === 'member' ? called.name : name,
      called,
      custom,
      arguments: '',
    })
  }

  /** Writes an item of this format, or the images of another format's block. */
  #openForeign(block: ForeignBlock): WireEvent[] {
    const items =
      block.protocol === 'openai-responses'
        ? [block.raw]
        : encodeImageCalls(block.output?.images, () => this.#context.id('ig'))
    if (block.protocol !== 'openai-responses') reportLost(block, this.#context, items.length)
    this.#hasContent ||= items.length > 0
    return items.flatMap((raw) => this.#addItem({ kind: 'foreign', raw }))
  }

  /** Words that arrive as text and as a transcript are written once. Audio output is encoded as its transcript only. */
  #writeWords(fragment: string, probabilities: Json | undefined): WireEvent[] {
    if (!this.#isSpoken) {
      const words = this.#block?.type === 'text' ? this.#words.text(fragment) : fragment
      return this.#writeDelta(words, words === '' && fragment !== '' ? undefined : probabilities)
    }
    const words = this.#words.transcript(fragment)
    if (words === '') return []
    const opened = this.#block?.type === 'text' ? [] : this.#openBlock({ type: 'text' })
    this.#isSpoken = true
    return [...opened, ...this.#writeDelta(words, undefined)]
  }

  #writeDelta(delta: string, probabilities: Json | undefined): WireEvent[] {
    if (delta === '' && probabilities === undefined) return []
    this.#hasContent = true
    const block = this.#block
    this.#deltaBlock = delta === '' || probabilities !== undefined || isSearch(this.#item) ? undefined : block
    switch (block?.type) {
      case 'text': {
        const logprobs = list(probabilities).flatMap(encodeLogprob)
        this.#texts.push(delta)
        this.#textLength += delta.length
        this.#logprobs.push(...logprobs)
        return [{ type: 'response.output_text.delta', ...this.#place('content_index'), delta, logprobs }]
      }
      case 'refusal':
        this.#refused = true
        this.#texts.push(delta)
        return [{ type: 'response.refusal.delta', ...this.#place('content_index'), delta }]
      case 'reasoning':
        return delta === '' ? [] : this.#writeReasoning(delta)
      case 'tool-call':
        if (delta === '') return []
        this.#texts.push(delta)
        // The arguments of a tool search are sent once, complete.
        return isSearch(this.#item) ? [] : [{ type: `response.${callEvent(block)}.delta`, ...this.#place(), delta }]
      case 'foreign':
        return []
      default:
        // A delta without an open block is ignored.
        return []
    }
  }

  #writeReasoning(delta: string): WireEvent[] {
    const isFirst = this.#texts.length === 0
    this.#texts.push(delta)
    if (this.#isSummary()) {
      const place = this.#place('summary_index')
      const event = { type: 'response.reasoning_summary_text.delta', ...place, delta }
      if (!isFirst) return [event]
      const part = { type: 'summary_text', text: '' }
      return [{ type: 'response.reasoning_summary_part.added', ...place, part }, event]
    }
    const place = this.#place('content_index')
    const event = { type: 'response.reasoning_text.delta', ...place, delta }
    if (!isFirst) return [event]
    return [{ type: 'response.content_part.added', ...place, part: { type: 'reasoning_text', text: '' } }, event]
  }

  /** A citation without a range covers its whole text, which may follow (Claude), so it is written at the text's end. */
  #writeCitation(citation: Citation): WireEvent[] {
    if (this.#block?.type !== 'text') return []
    // A passage of the client's own document has no URL, and this format has no other kind of citation.
    if (citation.url === '') reportLostCitation(this.#context)
    else if (citation.start === undefined || citation.end === undefined) this.#cited.push(citation)
    else return this.#annotate([citation])
    return []
  }

  #annotate(citations: readonly Citation[]): WireEvent[] {
    const place = this.#place('content_index')
    return citations.map((citation) => {
      const annotation = encodeCitation(citation, this.#textLength)
      const annotation_index = this.#annotations.push(annotation) - 1
      return { type: 'response.output_text.annotation.added', ...place, annotation_index, annotation }
    })
  }

  #closeBlock(): WireEvent[] {
    const block = this.#block
    const events = block ? this.#closeEvents(block, this.#texts.join('')) : []
    this.#block = undefined
    this.#deltaBlock = undefined
    this.#texts = []
    this.#textLength = 0
    this.#annotations = []
    this.#cited = []
    this.#logprobs = []
    return events
  }

  #closeEvents(block: Block, content: string): WireEvent[] {
    const item = this.#item
    switch (block.type) {
      case 'text': {
        const cited = this.#annotate(this.#cited)
        const part = outputText(content, this.#annotations, this.#logprobs)
        const place = this.#place('content_index')
        if (item?.kind === 'message') item.content.push(part)
        return [
          ...cited,
          { type: 'response.output_text.done', ...place, text: content, logprobs: this.#logprobs },
          { type: 'response.content_part.done', ...place, part },
        ]
      }
      case 'refusal': {
        const part = { type: 'refusal', refusal: content }
        const place = this.#place('content_index')
        if (item?.kind === 'message') item.content.push(part)
        return [
          { type: 'response.refusal.done', ...place, refusal: content },
          { type: 'response.content_part.done', ...place, part },
        ]
      }
      case 'reasoning': {
        if (content === '' || item?.kind !== 'reasoning') return []
        if (this.#isRaw && this.#wantsEncrypted) item.encryptedContent ??= unsignedContent(content)
        const part = { type: block.summary ? 'summary_text' : 'reasoning_text', text: content }
        const place = this.#place(block.summary ? 'summary_index' : 'content_index')
        if (block.summary) item.summary.push(part)
        else item.content.push(part)
        return [
          { type: `response.reasoning_${block.summary ? 'summary_text' : 'text'}.done`, ...place, text: content },
          { type: `response.${block.summary ? 'reasoning_summary_part' : 'content_part'}.done`, ...place, part },
        ]
      }
      case 'tool-call': {
        if (item?.kind !== 'call') return []
        // A function call without arguments has an empty object; free-form input may be empty.
        item.arguments = content === '' && !block.custom ? '{}' : content
        if (isSearch(item)) return []
        const members = block.custom ? { input: item.arguments } : { name: item.name, arguments: item.arguments }
        return [{ type: `response.${callEvent(block)}.done`, ...this.#place(), ...members }]
      }
      case 'foreign':
        return []
      default:
        throw new Error(`unknown block ${JSON.stringify(block satisfies never)}`)
    }
  }

  // ── Ends ───────────────────────────────────────────────────────────────────────────────────────────────────────────

  #finish(finish: Finish): WireEvent[] {
    const reason = incompleteReason(finish)
    if (reason === undefined)
      return this.#fail(fail('malformed', `The model ended its answer with an error (${finish.raw ?? finish.kind}).`))
    // This format marks a refusal by its text only. Add a text if the model wrote none.
    const refusal =
      finish.kind === 'refusal' && !this.#refused
        ? [...this.#openBlock({ type: 'refusal' }), ...this.#writeDelta(REFUSAL_TEXT, undefined)]
        : []
    this.#ending = reason === null ? 'completed' : { reason }
    return [...refusal, ...this.#closeBlock(), ...this.#endItem(reason === null ? 'completed' : 'incomplete')]
  }

  /** The last event. It is written at the end of the stream, because chat completions send usage after the finish. */
  #complete(ending: ResponseEnding): WireEvent[] {
    this.#over = true
    // The core has no clock. The creation time is the closest known value.
    const members = { completed_at: Math.max(this.#created, this.#context.created) }
    return ending === 'completed'
      ? [{ type: 'response.completed', response: this.response('completed', members) }]
      : [
          {
            type: 'response.incomplete',
            response: this.response('incomplete', { ...members, incomplete_details: ending }),
          },
        ]
  }

  #fail(failure: Failure): WireEvent[] {
    this.#over = true
    // An unfinished item appears as incomplete in the response and gets no `done` event.
    this.#closeBlock()
    const unfinished = this.#item ? [encodeItem(this.#item, 'incomplete')] : []
    this.#item = undefined
    const response = this.response('failed', { output: [...this.#output, ...unfinished] })
    return failureEvents(failure, response, this.#context, this.#hasContent)
  }
}

const callEvent = (block: { readonly custom?: boolean }): string =>
  block.custom ? 'custom_tool_call_input' : 'function_call_arguments'

/** The `incomplete_details.reason`; null for a complete answer, undefined for a finish that makes the answer unusable. */
const incompleteReason = ({ kind }: Finish): string | null | undefined => {
  switch (kind) {
    case 'stop':
    case 'tool-calls':
    // In this format a refusal is a complete answer.
    case 'refusal':
      return null
    case 'content-filter':
      return 'content_filter'
    case 'length':
    // A paused answer continues when the client sends it back, as after any limit.
    case 'pause':
      return 'max_output_tokens'
    case 'malformed':
    case 'error':
      return undefined
    default:
      throw new Error(`unknown finish ${JSON.stringify(kind satisfies never)}`)
  }
}
