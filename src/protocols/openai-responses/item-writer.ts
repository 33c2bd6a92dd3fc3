import type { Block } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { shortId } from '../shared/call-ids.ts'
import { encodeImageCalls, type ForeignBlock, reportLost } from '../shared/output-media.ts'
import { toolNames } from '../shared/tool-names.ts'
import { encodeItem, type OutputItem, type WireEvent } from './output-items.ts'
import { OWN_REASONING } from './signatures.ts'

/** Writes the items of a response: at most one is open. */
export class ItemWriter {
  readonly #context: AnswerContext
  readonly #names: ReturnType<typeof toolNames>
  readonly #output: JsonObject[] = []
  #item: OutputItem | undefined

  constructor(context: AnswerContext) {
    this.#context = context
    this.#names = toolNames(context.body)
  }

  /** The items that are complete. */
  get output(): readonly JsonObject[] {
    return this.#output
  }

  /** The open item. */
  get item(): OutputItem | undefined {
    return this.#item
  }

  /** Continues the open message, or opens one. */
  openMessage(): WireEvent[] {
    if (this.#item?.kind === 'message') return []
    return this.#add({ kind: 'message', id: this.#context.id('msg'), content: [] })
  }

  /** Parts are added with their first text: most reasoning items have none. */
  openReasoning(): WireEvent[] {
    const id = this.#context.id(OWN_REASONING)
    return this.#add({ kind: 'reasoning', id, summary: [], content: [], encryptedContent: undefined })
  }

  openCall({ id, name, custom = false }: Block & { readonly type: 'tool-call' }): WireEvent[] {
    const called = this.#names.called(name)
    const prefix = custom ? 'ctc' : called?.kind === 'search' ? 'tsc' : 'fc'
    return this.#add({
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
  openForeign(block: ForeignBlock): WireEvent[] {
    const items =
      block.protocol === 'openai-responses'
        ? [block.raw]
        : encodeImageCalls(block.output?.images, () => this.#context.id('ig'))
    if (block.protocol !== 'openai-responses') reportLost(block, this.#context, items.length)
    return items.flatMap((raw) => this.#add({ kind: 'foreign', raw }))
  }

  end(status: 'completed' | 'incomplete'): WireEvent[] {
    if (!this.#item) return []
    const item = encodeItem(this.#item, status)
    const event = { type: 'response.output_item.done', output_index: this.#output.length, item }
    this.#output.push(item)
    this.#item = undefined
    return [event]
  }

  /** Drops the open item. It appears as incomplete in the response, and gets no `done` event. */
  abandon(): readonly JsonObject[] {
    const unfinished = this.#item ? [encodeItem(this.#item, 'incomplete')] : []
    this.#item = undefined
    return unfinished
  }

  /** The members that locate an event: item id, item index and, if `part` is given, the part's index. */
  place(part?: 'content_index' | 'summary_index'): JsonObject {
    return {
      item_id: this.#item && this.#item.kind !== 'foreign' ? this.#item.id : '',
      output_index: this.#output.length,
      ...(part && { [part]: this.#partIndex(part) }),
    }
  }

  #partIndex(part: 'content_index' | 'summary_index'): number {
    const item = this.#item
    if (item?.kind === 'message') return item.content.length
    if (item?.kind === 'reasoning') return part === 'summary_index' ? item.summary.length : item.content.length
    return 0
  }

  #add(item: OutputItem): WireEvent[] {
    const before = this.end('completed')
    this.#item = item
    const output_index = this.#output.length
    return [...before, { type: 'response.output_item.added', output_index, item: encodeItem(item, 'in_progress') }]
  }
}
