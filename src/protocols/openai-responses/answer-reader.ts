import type { ChatEvent, Finish, Usage } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { isObject, type JsonObject, list, number, object, text } from '../../core/json.ts'
import { malformed } from '../errors/answer-failures.ts'
import { decodeOpenaiFailure } from '../errors/openai-error.ts'
import {
  byType,
  optionalList,
  optionalNumber,
  optionalObject,
  optionalString,
  type TypeCheck,
} from '../shared/type-checks.ts'
import { toolCallsOf } from '../shared/usage.ts'
import { decodeUsage } from '../shared/usage-members.ts'
import { type AnswerState, failAnswer, ITEM_DONE, itemKeys, OutputItemReader } from './output-item-reader.ts'
import { eventName } from './terminal-event.ts'

/**
 * Limits on events that are buffered because items interleave. No item did in 313 recorded streams; the limits bound
 * memory against an upstream that never ends an item.
 */
const BUFFER_LIMIT = { characters: 4_000_000, items: 128 }

const PARTS = optionalList(optionalObject({ type: optionalString, text: optionalString, refusal: optionalString }))
const ITEM = byType({
  message: optionalObject({ content: PARTS }),
  reasoning: optionalObject({ content: PARTS, summary: PARTS, encrypted_content: optionalString }),
  function_call: optionalObject({ arguments: optionalString }),
  custom_tool_call: optionalObject({ input: optionalString }),
})
const DELTA = optionalObject({ output_index: optionalNumber, delta: optionalString })
const FINAL_TEXT = optionalObject({
  output_index: optionalNumber,
  text: optionalString,
  refusal: optionalString,
  arguments: optionalString,
  input: optionalString,
})
const OF_ITEM = optionalObject({ output_index: optionalNumber, item: ITEM })
const OF_PART = optionalObject({
  output_index: optionalNumber,
  part: optionalObject({ type: optionalString, text: optionalString, refusal: optionalString }),
})
/** Type checks by event type. */
const EVENT_SHAPES: ReadonlyMap<string, TypeCheck> = new Map(
  Object.entries({
    'response.output_item.added': OF_ITEM,
    [ITEM_DONE]: OF_ITEM,
    'response.content_part.added': OF_PART,
    'response.content_part.done': OF_PART,
    'response.output_text.delta': DELTA,
    'response.refusal.delta': DELTA,
    'response.reasoning_text.delta': DELTA,
    'response.reasoning.delta': DELTA,
    'response.reasoning_summary_text.delta': DELTA,
    'response.function_call_arguments.delta': DELTA,
    'response.custom_tool_call_input.delta': DELTA,
    'response.output_text.done': FINAL_TEXT,
    'response.refusal.done': FINAL_TEXT,
    'response.function_call_arguments.done': FINAL_TEXT,
    'response.custom_tool_call_input.done': FINAL_TEXT,
  }),
)
const areItems = optionalList(ITEM)

/** Reads the parsed events of one answer in order of arrival. Tolerates events that are missing or repeated. */
export class ResponsesAnswerReader {
  readonly #answer: AnswerState = { out: [], responseId: undefined, calledTools: false, refused: false, over: false }
  #started = false
  #current: OutputItemReader | undefined
  #bufferedCharacters = 0
  /** Events of items that begin before the current item has ended, by output index. */
  readonly #buffered = new Map<number, { readonly event: JsonObject; readonly type: string }[]>()
  /** Output indexes and keys of the items that have ended. */
  readonly #doneIndexes = new Set<number>()
  readonly #doneKeys = new Set<string>()

  /** The answer has ended, completed or failed; further events are ignored. */
  get over(): boolean {
    return this.#answer.over
  }

  /** `size`: length of the event's JSON text in characters. */
  read(event: JsonObject, type: string, size: number): ChatEvent[] {
    const out: ChatEvent[] = []
    if (this.over) return out
    this.#answer.out = out
    if (EVENT_SHAPES.get(type)?.(event) === false) this.#fail(malformed('event members have the wrong type'))
    else this.#readEvent(event, eventName(type, event), size)
    return out
  }

  #fail(failure: Failure): void {
    failAnswer(this.#answer, failure)
  }

  #readEvent(event: JsonObject, type: string, size: number): void {
    switch (type) {
      case 'response.created':
      case 'response.in_progress':
      case 'response.queued':
        return this.#readStart(object(event.response) ?? {})
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
      case 'response.cancelled': {
        const response = object(event.response)
        if (!response) return this.#fail(malformed(`"${type}" without a response`))
        if (!areItems(response.output)) return this.#fail(malformed('members of output items have the wrong type'))
        if (!this.#started) this.#readStart(response)
        return this.#readTerminal(response, type)
      }
    }
    // Errors are nested or flat. Like both official SDKs, treat any event with a truthy `error` as one.
    if (type === 'error' || isObject(event.error) || text(event.error))
      return this.#fail(decodeOpenaiFailure(200, event, noHeaders))
    const index = number(event.output_index)
    if (index === undefined) return
    if (!this.#started) this.#readStart({})
    this.#readInOrder(index, event, type, size)
  }

  #readStart(response: JsonObject): void {
    if (this.#started) return void this.#answer.out.push({ type: 'ping' })
    this.#started = true
    const id = text(response.id)
    this.#answer.responseId = id
    const model = text(response.model)
    const created = number(response.created_at)
    this.#answer.out.push({
      type: 'start',
      ...(id && { id }),
      ...(model && { model }),
      ...(created !== undefined && { created: Math.trunc(created) }),
    })
  }

  /** Blocks never interleave: events of another item are buffered until the current item ends. */
  #readInOrder(index: number, event: JsonObject, type: string, size: number): void {
    if (this.over || this.#doneIndexes.has(index)) return
    if (this.#current && this.#current.index !== index) {
      const events = this.#buffered.get(index)
      if (events) events.push({ event, type })
      else this.#buffered.set(index, [{ event, type }])
      this.#bufferedCharacters += size
      const { characters, items } = BUFFER_LIMIT
      if (this.#bufferedCharacters > characters || this.#buffered.size > items)
        this.#fail(malformed(`too many unfinished output items (limit ${items} items or ${characters} characters)`))
      return
    }
    this.#current ??= new OutputItemReader(index, this.#answer)
    this.#readItemEvent(this.#current, event, type)
    this.#readBuffered()
  }

  #readItemEvent(item: OutputItemReader, event: JsonObject, type: string): void {
    item.read(event, type)
    if (type === ITEM_DONE) this.#endItem(item)
  }

  #endItem(item: OutputItemReader): void {
    this.#doneIndexes.add(item.index)
    for (const key of item.keys) this.#doneKeys.add(key)
    this.#current = undefined
  }

  #readBuffered(): void {
    while (!this.#current && this.#buffered.size > 0) {
      const next = Math.min(...this.#buffered.keys())
      const events = this.#buffered.get(next) ?? []
      this.#buffered.delete(next)
      this.#current = new OutputItemReader(next, this.#answer)
      for (const { event, type } of events)
        if (!this.over && this.#current) this.#readItemEvent(this.#current, event, type)
    }
  }

  /** Reads items the stream left out from the final response, and ends items that have no end event. */
  #readRest(response: JsonObject): void {
    for (const [index, item] of list(response.output).entries()) {
      if (!isObject(item)) continue
      // An item with a known key is the same item, even at another index.
      const keys = itemKeys(text(item.type), text(item.id), text(item.call_id))
      const known = keys.some((key) => this.#doneKeys.has(key))
      if (!known || this.#current?.index === index) this.#readInOrder(index, { item }, ITEM_DONE, 0)
    }
    while (this.#current && !this.over) {
      this.#current.close()
      this.#endItem(this.#current)
      this.#readBuffered()
    }
  }

  #readTerminal(response: JsonObject, type: string): void {
    const answer = this.#answer
    const status = type === 'response.failed' ? 'failed' : (text(response.status) ?? type.slice('response.'.length))
    // Skip the content of a failed answer: content that has been sent prevents failover.
    if (status === 'completed' || status === 'incomplete') this.#readRest(response)
    if (answer.over) return
    const usage = decodeUsage(response.usage, {
      serviceTier: response.service_tier,
      toolCalls: shownCalls(response),
    })
    if (usage) answer.out.push({ type: 'usage', usage })
    const ending = this.#endingOf(response, status)
    if (ending.type === 'failure') this.#fail(ending.failure)
    else answer.out.push(ending)
    answer.over = true
  }

  #endingOf(response: JsonObject, status: string): ChatEvent & { readonly type: 'finish' | 'failure' } {
    const pending = status === 'queued' || status === 'in_progress'
    if (status === 'completed') {
      const { calledTools, refused } = this.#answer
      return {
        type: 'finish',
        finish: { kind: calledTools ? 'tool-calls' : refused ? 'refusal' : 'stop', raw: status },
      }
    }
    if (status === 'incomplete')
      return { type: 'finish', finish: incomplete(text(object(response.incomplete_details)?.reason)) }
    // Only a background response may be returned before it is complete.
    if (pending && response.background === true) return { type: 'finish', finish: { kind: 'pause', raw: status } }
    return {
      type: 'failure',
      failure: pending ? malformed(`the response status is still "${status}"`) : failureOf(response),
    }
  }
}

const noHeaders = () => undefined

const incomplete = (reason: string | undefined): Finish =>
  reason === 'content_filter'
    ? { kind: 'content-filter', raw: reason }
    : { kind: 'length', raw: reason ?? 'incomplete' }

/** The failure in the `error` member of a failed response. */
const failureOf = (response: JsonObject): Failure =>
  isObject(response.error)
    ? decodeOpenaiFailure(200, { error: response.error }, noHeaders)
    : fail('error_in_stream', `The provider did not complete its answer (${text(response.status) ?? 'no status'}).`)

/** Calls of hosted tools among the output items. */
const shownCalls = ({ output }: JsonObject): Usage['toolCalls'] => {
  const items = list(output).filter(isObject)
  return toolCallsOf({
    // Opening a page and searching in it are parts of a search.
    web_search: items.filter(
      ({ type, action }) => type === 'web_search_call' && (object(action)?.type ?? 'search') === 'search',
    ).length,
    file_search: items.filter(({ type }) => type === 'file_search_call').length,
  })
}
