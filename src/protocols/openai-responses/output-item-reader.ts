import type { Block, ChatEvent, Citation } from '../../core/chat.ts'
import type { Failure } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import { malformed } from '../errors/answer-failures.ts'
import { derivedCallId } from '../shared/call-ids.ts'
import { outputOfItem } from '../shared/output-media.ts'
import { joinNames } from '../shared/tool-names.ts'
import { reasoningTexts, signedReasoning } from './signatures.ts'

/** State shared by all items of one answer. */
export type AnswerState = {
  /** Events decoded from the upstream event that is being read. */
  out: ChatEvent[]
  responseId: string | undefined
  calledTools: boolean
  refused: boolean
  /** The answer has ended, completed or failed. Later upstream events are ignored. */
  over: boolean
}

/** The event that carries an item's final state. */
export const ITEM_DONE = 'response.output_item.done'

/** Ends the answer with a failure. */
export const failAnswer = (answer: AnswerState, failure: Failure): void => {
  answer.over = true
  answer.out.push({ type: 'failure', failure })
}

/** Keys that identify an item. A call and its result share their `call_id`, so the item type is part of the key. */
export const itemKeys = (type: string | undefined, ...ids: readonly (string | undefined)[]): string[] =>
  ids.flatMap((id) => (id ? [`${type} ${id}`] : []))

/** Turns the events of one output item into blocks. Emits each piece of text once, from increments or from final values. */
export class OutputItemReader {
  readonly index: number
  readonly #answer: AnswerState
  #type = 'message'
  #id: string | undefined
  #callId: string | undefined
  #name: string | undefined
  /** Text emitted so far, by part key. */
  readonly #emitted = new Map<string, string>()
  /** Key of the part whose block is open. */
  #part: string | undefined
  #citations = 0
  #summaries = 0

  /** `index`: the item's `output_index`. */
  constructor(index: number, answer: AnswerState) {
    this.index = index
    this.#answer = answer
  }

  get keys(): string[] {
    return itemKeys(this.#type, this.#id, this.#callId)
  }

  /** Closes the open block, if there is one. */
  close(): void {
    if (this.#part !== undefined) this.#answer.out.push({ type: 'close' })
    this.#part = undefined
    this.#citations = 0
  }

  /** Reads one event of this item. The caller has checked the types of its members. */
  read(event: JsonObject, type: string): void {
    const contentIndex = number(event.content_index) ?? 0
    switch (type) {
      case 'response.output_item.added':
        this.#identify(object(event.item) ?? {})
        // A call without a name stays unopened until its name is known.
        if (this.#type === 'function_call' || this.#type === 'custom_tool_call') this.#openCall()
        break
      case 'response.content_part.added':
        this.#readContentPart(object(event.part) ?? {}, contentIndex, false)
        break
      case 'response.content_part.done':
        this.#readContentPart(object(event.part) ?? {}, contentIndex, true)
        break
      case 'response.output_text.delta':
        this.#append(this.#openText(contentIndex), text(event.delta) ?? '', list(event.logprobs))
        break
      case 'response.output_text.done':
        this.#appendRest(this.#openText(contentIndex), text(event.text) ?? '', list(event.logprobs))
        break
      case 'response.output_text.annotation.added':
        if (this.#openText(contentIndex) === undefined) break
        this.#citations++
        this.#cite([event.annotation ?? null])
        break
      case 'response.refusal.delta':
        this.#append(this.#openRefusal(contentIndex), text(event.delta) ?? '')
        break
      case 'response.refusal.done':
        this.#appendRest(this.#openRefusal(contentIndex), text(event.refusal) ?? '')
        break
      // Open Responses uses the second name.
      case 'response.reasoning_text.delta':
      case 'response.reasoning.delta':
        this.#append(this.#openReasoning(), text(event.delta) ?? '')
        break
      case 'response.reasoning_text.done':
      case 'response.reasoning.done': {
        const part = this.#openReasoning()
        if (contentIndex === 0) this.#appendRest(part, text(event.text) ?? '')
        break
      }
      case 'response.reasoning_summary_text.delta':
        this.#readSummary(number(event.summary_index) ?? 0, text(event.delta) ?? '', false)
        break
      case 'response.reasoning_summary_text.done':
        this.#readSummary(number(event.summary_index) ?? 0, text(event.text) ?? '', true)
        break
      case 'response.function_call_arguments.delta':
      case 'response.custom_tool_call_input.delta':
        this.#append(this.#openCall(), text(event.delta) ?? '')
        break
      case 'response.function_call_arguments.done':
      case 'response.custom_tool_call_input.done':
        this.#name ||= text(event.name)
        this.#appendRest(this.#openCall(), text(event.arguments) ?? text(event.input) ?? '')
        break
      case ITEM_DONE:
        this.#readDone(object(event.item) ?? {})
        break
      default:
      // Progress of a hosted tool. Its final item carries everything.
    }
  }

  #identify(item: JsonObject): void {
    this.#type = text(item.type) ?? this.#type
    this.#id ??= text(item.id)
    this.#callId ||= text(item.call_id)
    this.#name ||= text(item.name) && joinNames(text(item.namespace), text(item.name) ?? '')
  }

  // ── Blocks ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Makes a part the open one and returns its key. Undefined: the part has been closed before. */
  #openPart(part: string, block: Block): string | undefined {
    if (this.#part === part) return part
    if (this.#emitted.has(part)) return undefined
    this.close()
    this.#part = part
    this.#emitted.set(part, '')
    if (block.type === 'tool-call') this.#answer.calledTools = true
    if (block.type === 'refusal') this.#answer.refused = true
    this.#answer.out.push({ type: 'open', block })
    return part
  }

  #openText(index: number): string | undefined {
    return this.#openPart(`text ${index}`, { type: 'text' })
  }

  #openRefusal(index: number): string | undefined {
    return this.#openPart(`refusal ${index}`, { type: 'refusal' })
  }

  /** All reasoning parts of an item form one block; all its summaries form another. */
  #openReasoning(): string | undefined {
    return this.#openPart('reasoning', { type: 'reasoning' })
  }

  #openCall(): string | undefined {
    if (!this.#name) return undefined
    const id = this.#callId || this.#id || derivedCallId(this.#answer.responseId, this.index)
    const custom = this.#type === 'custom_tool_call'
    return this.#openPart('call', { type: 'tool-call', id, name: this.#name, ...(custom && { custom }) })
  }

  #append(part: string | undefined, delta: string, logprobs: readonly Json[] = []): void {
    if (part === undefined || (delta === '' && logprobs.length === 0)) return
    this.#emitted.set(part, (this.#emitted.get(part) ?? '') + delta)
    this.#answer.out.push({ type: 'delta', text: delta, ...(logprobs.length > 0 && { logprobs }) })
  }

  /** Emits the rest of the final text after the increments. If the final text contradicts them, it is ignored. */
  #appendRest(part: string | undefined, final: string, logprobs: readonly Json[] = []): void {
    if (part === undefined) return
    const emitted = this.#emitted.get(part) ?? ''
    if (final.startsWith(emitted)) this.#append(part, final.slice(emitted.length), emitted === '' ? logprobs : [])
  }

  #cite(annotations: readonly Json[]): void {
    for (const annotation of annotations) {
      const citation = citationOf(annotation)
      if (citation) this.#answer.out.push({ type: 'citation', citation })
    }
  }

  // ── Parts ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  #readContentPart(part: JsonObject, index: number, isDone: boolean): void {
    if (part.type === 'reasoning_text') {
      const key = this.#openReasoning()
      // Several parts share one block, so the emitted text is known for the first part only.
      if (isDone && index === 0) this.#appendRest(key, text(part.text) ?? '')
      return
    }
    if (part.type === 'refusal') {
      const key = this.#openRefusal(index)
      if (isDone) this.#appendRest(key, text(part.refusal) ?? '')
    } else {
      const key = this.#openText(index)
      if (key && isDone) {
        this.#appendRest(key, text(part.text) ?? '', list(part.logprobs))
        this.#cite(list(part.annotations).slice(this.#citations))
      }
    }
    if (isDone) this.close()
  }

  /** Summaries are paragraphs of one block, in order of arrival. */
  #readSummary(index: number, value: string, isFinal: boolean): void {
    if (value === '') return
    const block = this.#openPart('summary', { type: 'reasoning', summary: true })
    if (!block) return
    const part = `summary ${index}`
    const emitted = this.#emitted.get(part)
    let fresh = value
    if (isFinal) fresh = value.startsWith(emitted ?? '') ? value.slice((emitted ?? '').length) : ''
    if (emitted === undefined) this.#summaries++
    this.#emitted.set(part, (emitted ?? '') + fresh)
    if (fresh !== '') this.#append(block, emitted === undefined && this.#summaries > 1 ? `\n\n${fresh}` : fresh)
  }

  /** Reads the final item and emits the parts that were missing in earlier events. */
  #readDone(item: JsonObject): void {
    this.#identify(item)
    switch (item.type) {
      case 'message':
        for (const { part, index } of withIndexes(list(item.content).filter(isObject), this.#emitted))
          this.#readContentPart(part, index, true)
        break
      case 'reasoning':
        this.#readReasoningDone(item)
        break
      case 'function_call':
      case 'custom_tool_call': {
        const key = this.#openCall()
        if (key) this.#appendRest(key, text(item.type === 'function_call' ? item.arguments : item.input) ?? '')
        else if (!this.#name) return failAnswer(this.#answer, malformed('a tool call without a name'))
        break
      }
      default:
        this.#openPart('foreign', foreignBlock(item))
    }
    this.close()
  }

  #readReasoningDone(item: JsonObject): void {
    for (const [index, part] of list(item.summary).entries())
      this.#readSummary(index, text(object(part)?.text) ?? '', true)
    const { reasoning } = reasoningTexts(item)
    if (reasoning) this.#appendRest(this.#openReasoning(), reasoning)
    // Only the final signature is valid: it differed from the first one in 44 of 44 recorded streams.
    const encrypted = text(item.encrypted_content)
    if (!encrypted) return
    if (this.#part === undefined) this.#openPart('signature', { type: 'reasoning', summary: true })
    const { signature } = signedReasoning(encrypted, this.#id)
    if (signature) this.#answer.out.push({ type: 'signature', signature })
  }
}

type IndexedPart = {
  readonly part: JsonObject
  readonly place: number
  readonly kind: 'refusal' | 'reasoning' | 'text'
  index: number
}

/**
 * The parts of a finished message, each with the content index of its events. That is its place in the message, except
 * where events with another index have emitted its text: Bedrock's Mantle endpoint counts from 1 in events and from 0 in
 * the item. `emitted`: the text emitted so far, by kind and index.
 */
const withIndexes = (parts: readonly JsonObject[], emitted: ReadonlyMap<string, string>): readonly IndexedPart[] => {
  const found = parts.map((part, place): IndexedPart => ({ part, place, kind: kindOf(part), index: -1 }))
  const taken = new Set<string>()
  const take = (entry: IndexedPart, index: number) => {
    entry.index = index
    taken.add(`${entry.kind} ${index}`)
  }
  const continues = ({ part, kind }: IndexedPart, before: string | undefined): boolean =>
    before !== undefined && (text(part[kind]) ?? '').startsWith(before)
  for (const entry of found) if (continues(entry, emitted.get(`${entry.kind} ${entry.place}`))) take(entry, entry.place)
  // Pair the remaining parts and the remaining emitted texts in order.
  const left = [...emitted].filter(([key, before]) => NUMBERED.test(key) && before !== '' && !taken.has(key)).values()
  let next = left.next().value
  for (const entry of found) {
    if (entry.index !== -1 || !next?.[0].startsWith(`${entry.kind} `) || !continues(entry, next[1])) continue
    take(entry, Number(next[0].slice(entry.kind.length + 1)))
    next = left.next().value
  }
  for (const entry of found) {
    let index = entry.place
    while (entry.index === -1 && taken.has(`${entry.kind} ${index}`)) index += parts.length
    if (entry.index === -1) take(entry, index)
  }
  return found
}

const NUMBERED = /^(?:text|refusal) \d+$/

const kindOf = ({ type }: JsonObject): IndexedPart['kind'] =>
  type === 'refusal' ? type : type === 'reasoning_text' ? 'reasoning' : 'text'

const foreignBlock = (raw: JsonObject): Block => {
  const output = outputOfItem(raw)
  return { type: 'foreign', protocol: 'openai-responses', raw, ...(output && { output }) }
}

/** A URL citation. File citations of a hosted search have no address and stay in its item. */
const citationOf = (value: Json): Citation | undefined => {
  const annotation = object(value)
  const url = text(annotation?.url)
  if (annotation?.type !== 'url_citation' || !url) return undefined
  const title = text(annotation.title)
  const start = number(annotation.start_index)
  const end = number(annotation.end_index)
  return {
    url,
    ...(title !== undefined && { title }),
    ...(start !== undefined && { start }),
    ...(end !== undefined && { end }),
    raw: annotation,
  }
}
