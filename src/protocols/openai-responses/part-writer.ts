import type { Block, Citation, ReasoningSignature } from '../../core/chat.ts'
import { type Json, type JsonObject, list } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { isTranscript, reportLostCitation } from '../shared/output-media.ts'
import { SpokenWords } from '../shared/spoken-words.ts'
import type { ItemWriter } from './item-writer.ts'
import { encodeCitation, encodeLogprob, isSearch, outputText, type WireEvent } from './output-items.ts'
import { encryptedContent, unsignedContent } from './signatures.ts'

/** Writes the parts of items: one for each block of the answer. */
export class PartWriter {
  readonly #context: AnswerContext
  readonly #items: ItemWriter
  /** Clients that ask for a summary show nothing else, so raw reasoning is written as one. */
  readonly #wantsSummary: boolean
  /** Clients that ask for encrypted content return no reasoning without it. */
  readonly #wantsEncrypted: boolean
  /** The open block is raw reasoning, not a summary. */
  #isRaw = false
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

  constructor(context: AnswerContext, items: ItemWriter) {
    this.#context = context
    this.#items = items
    this.#wantsEncrypted = context.request.settings.encryptedReasoning?.value === true
    this.#wantsSummary = (context.request.settings.reasoningSummary?.value ?? 'none') !== 'none'
  }

  /** The answer has content that the client has received. */
  get hasContent(): boolean {
    return this.#hasContent
  }

  /** The text of a refusal was written. */
  get refused(): boolean {
    return this.#refused
  }

  open(block: Block): WireEvent[] {
    const before = this.close()
    this.#isRaw = block.type === 'reasoning' && block.summary !== true
    this.#isSpoken = block.type === 'foreign' && isTranscript(block)
    this.#block = block.type === 'reasoning' && this.#wantsSummary ? { ...block, summary: true } : block
    switch (block.type) {
      case 'text':
      case 'refusal': {
        const added = this.#items.openMessage()
        const part = block.type === 'text' ? outputText('', [], []) : { type: 'refusal', refusal: '' }
        return [
          ...before,
          ...added,
          { type: 'response.content_part.added', ...this.#items.place('content_index'), part },
        ]
      }
      case 'reasoning':
        return [...before, ...this.#items.openReasoning()]
      case 'tool-call':
        this.#hasContent = true
        return [...before, ...this.#items.openCall(block)]
      case 'foreign': {
        const opened = this.#items.openForeign(block)
        this.#hasContent ||= opened.length > 0
        return [...before, ...opened]
      }
      default:
        throw new Error(`unknown block ${JSON.stringify(block satisfies never)}`)
    }
  }

  /** Words that arrive as text and as a transcript are written once. Audio output is encoded as its transcript only. */
  write(fragment: string, probabilities: Json | undefined): WireEvent[] {
    if (!this.#isSpoken) {
      const words = this.#block?.type === 'text' ? this.#words.text(fragment) : fragment
      return this.#writeDelta(words, words === '' && fragment !== '' ? undefined : probabilities)
    }
    const words = this.#words.transcript(fragment)
    if (words === '') return []
    const opened = this.#block?.type === 'text' ? [] : this.open({ type: 'text' })
    this.#isSpoken = true
    return [...opened, ...this.#writeDelta(words, undefined)]
  }

  /**
   * Adds text to the open block without making an event. True if the event would differ from the last one in its delta
   * alone, so that the caller can repeat that event; false if the caller has to use `write`.
   */
  appendRepeated(delta: string): boolean {
    const block = this.#deltaBlock
    if (!block || block !== this.#block || block.type === 'foreign' || delta === '') return false
    if (block.type === 'text') {
      if (this.#isSpoken || this.#words.isSpoken) return false
      this.#words.text(delta)
      this.#textLength += delta.length
    }
    this.#texts.push(delta)
    return true
  }

  /** A citation without a range covers its whole text, which may follow (Claude), so it is written at the text's end. */
  cite(citation: Citation): WireEvent[] {
    if (this.#block?.type !== 'text') return []
    // A passage of the client's own document has no URL, and this format has no other kind of citation.
    if (citation.url === '') reportLostCitation(this.#context)
    else if (citation.start === undefined || citation.end === undefined) this.#cited.push(citation)
    else return this.#annotate([citation])
    return []
  }

  sign(signature: ReasoningSignature): void {
    const { item } = this.#items
    if (item?.kind === 'reasoning') item.encryptedContent = encryptedContent(signature, this.#texts.join(''))
  }

  close(): WireEvent[] {
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

  #writeDelta(delta: string, probabilities: Json | undefined): WireEvent[] {
    if (delta === '' && probabilities === undefined) return []
    this.#hasContent = true
    const block = this.#block
    this.#deltaBlock = delta === '' || probabilities !== undefined || isSearch(this.#items.item) ? undefined : block
    switch (block?.type) {
      case 'text': {
        const logprobs = list(probabilities).flatMap(encodeLogprob)
        this.#texts.push(delta)
        this.#textLength += delta.length
        this.#logprobs.push(...logprobs)
        return [{ type: 'response.output_text.delta', ...this.#items.place('content_index'), delta, logprobs }]
      }
      case 'refusal':
        this.#refused = true
        this.#texts.push(delta)
        return [{ type: 'response.refusal.delta', ...this.#items.place('content_index'), delta }]
      case 'reasoning':
        return delta === '' ? [] : this.#writeReasoning(delta)
      case 'tool-call':
        if (delta === '') return []
        this.#texts.push(delta)
        // The arguments of a tool search are sent once, complete.
        return isSearch(this.#items.item)
          ? []
          : [{ type: `response.${callEvent(block)}.delta`, ...this.#items.place(), delta }]
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
    if (this.#block?.type === 'reasoning' && this.#block.summary === true) {
      const place = this.#items.place('summary_index')
      const event = { type: 'response.reasoning_summary_text.delta', ...place, delta }
      if (!isFirst) return [event]
      const part = { type: 'summary_text', text: '' }
      return [{ type: 'response.reasoning_summary_part.added', ...place, part }, event]
    }
    const place = this.#items.place('content_index')
    const event = { type: 'response.reasoning_text.delta', ...place, delta }
    if (!isFirst) return [event]
    return [{ type: 'response.content_part.added', ...place, part: { type: 'reasoning_text', text: '' } }, event]
  }

  #annotate(citations: readonly Citation[]): WireEvent[] {
    const place = this.#items.place('content_index')
    return citations.map((citation) => {
      const annotation = encodeCitation(citation, this.#textLength)
      const annotation_index = this.#annotations.push(annotation) - 1
      return { type: 'response.output_text.annotation.added', ...place, annotation_index, annotation }
    })
  }

  #closeEvents(block: Block, content: string): WireEvent[] {
    const item = this.#items.item
    switch (block.type) {
      case 'text': {
        const cited = this.#annotate(this.#cited)
        const part = outputText(content, this.#annotations, this.#logprobs)
        const place = this.#items.place('content_index')
        if (item?.kind === 'message') item.content.push(part)
        return [
          ...cited,
          { type: 'response.output_text.done', ...place, text: content, logprobs: this.#logprobs },
          { type: 'response.content_part.done', ...place, part },
        ]
      }
      case 'refusal': {
        const part = { type: 'refusal', refusal: content }
        const place = this.#items.place('content_index')
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
        const place = this.#items.place(block.summary ? 'summary_index' : 'content_index')
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
        return [{ type: `response.${callEvent(block)}.done`, ...this.#items.place(), ...members }]
      }
      case 'foreign':
        return []
      default:
        throw new Error(`unknown block ${JSON.stringify(block satisfies never)}`)
    }
  }
}

const callEvent = (block: { readonly custom?: boolean }): string =>
  block.custom ? 'custom_tool_call_input' : 'function_call_arguments'
