import type { ChatEvent } from '../../core/chat.ts'
import type { Failure } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, object, readJson, text } from '../../core/json.ts'
import type { Frame, StreamDecoder } from '../../core/protocol.ts'
import { malformed, oversizedEvent, truncated } from '../errors/answer-failures.ts'
import type { TextOf } from '../framing/delta-template.ts'
import { argumentsText, parseArguments } from '../shared/tool-arguments.ts'
import { decodeCitation } from './citations.ts'
import { type BlockPlace, beginBlock, decodeBlock, isBlock, isDelta, refusal, signatureEvent } from './decode-blocks.ts'
import { decodeFailure } from './errors.ts'
import { decodeFinish, decodeUsage, explanationIn, mergeUsage } from './finish-and-usage.ts'

/** The block being read. A foreign block is emitted at its end, because it is passed on complete. */
type OpenBlock =
  | { readonly type: 'text' | 'thinking' }
  | { readonly type: 'call'; readonly block: JsonObject; hasInput: boolean }
  | { readonly type: 'foreign'; readonly block: JsonObject; readonly input: string[]; readonly members: JsonObject[] }

/** Decodes a messages stream. */
export const decodeStream = (): StreamDecoder => new MessagesStreamDecoder()

class MessagesStreamDecoder implements StreamDecoder {
  #id = ''
  #model = ''
  #started = false
  #open: OpenBlock | undefined
  #blockCount = 0
  #calledTools = false
  #usage: JsonObject = {}
  #finished = false
  #over = false

  /** The last event or a failure has been read; further frames are ignored. */
  get done(): boolean {
    return this.#over
  }

  push(frame: Frame): readonly ChatEvent[] {
    if (this.#over) return []
    if (frame.oversized) return this.#fail(oversizedEvent())
    if (frame.data === '') return [{ type: 'ping' }]
    if (frame.data === '[DONE]') return []
    const event = readJson(frame.data)
    if (!isObject(event)) return this.#fail(malformed('an event is not JSON'))
    return this.#read(event, text(event.type) ?? frame.event)
  }

  end(): readonly ChatEvent[] {
    if (this.#over) return []
    this.#over = true
    // Only the last event is missing; the answer itself is complete.
    if (this.#finished) return []
    return [{ type: 'failure', failure: truncated() }]
  }

  #read(event: JsonObject, type: string | undefined): ChatEvent[] {
    switch (type) {
      case 'message_start':
        return isObject(event.message)
          ? this.#start(event.message)
          : this.#fail(malformed('`message_start` without a message'))
      case 'content_block_start':
        return isBlock(event.content_block)
          ? this.#begin(event.content_block)
          : this.#fail(malformed('a malformed content block'))
      case 'content_block_delta':
        return isObject(event.delta) && isDelta(event.delta)
          ? this.#addDelta(event.delta)
          : this.#fail(malformed('a malformed content block delta'))
      case 'content_block_stop':
        return this.#close()
      case 'message_delta': {
        const delta = object(event.delta) ?? {}
        const hasReason = typeof delta.stop_reason === 'string'
        const closed = hasReason ? this.#close() : []
        if (this.#over) return closed
        const usage = this.#readUsage(event.usage ?? delta.usage)
        return [...closed, ...usage, ...(hasReason ? this.#finish(delta) : [])]
      }
      case 'message_stop': {
        const closed = this.#close()
        if (this.#over) return closed
        this.#over = true
        const usage = this.#readUsage(event.usage ?? event['amazon-bedrock-invocationMetrics'])
        // Some servers end without a stop reason.
        return [...closed, ...usage, ...this.#finish({})]
      }
      case 'ping':
        return [{ type: 'ping' }]
      case 'error':
        return this.#fail(decodeFailure(200, event, () => undefined))
      default:
        // Compatible servers send errors without an event type.
        return isObject(event.error) ? this.#fail(decodeFailure(200, event, () => undefined)) : []
    }
  }

  #start(message: JsonObject): ChatEvent[] {
    // A second start would split the answer in two.
    if (this.#started) return []
    this.#started = true
    this.#id = text(message.id) ?? ''
    this.#model = text(message.model) ?? ''
    const model = this.#model
    const events: ChatEvent[] = [{ type: 'start', ...(this.#id && { id: this.#id }), ...(model && { model }) }]
    events.push(...this.#readUsage(message.usage))
    // Usually empty; any block in it is part of the answer.
    for (const block of Array.isArray(message.content) ? message.content : [])
      if (isBlock(block)) {
        this.#calledTools ||= block.type === 'tool_use'
        events.push(...decodeBlock(block, this.#nextPlace()))
      }
    if (events.some(({ type }) => type === 'failure')) this.#over = true
    return events
  }

  #nextPlace(): BlockPlace {
    this.#blockCount++
    return this.#lastPlace()
  }

  #lastPlace(): BlockPlace {
    return { id: this.#id, index: this.#blockCount - 1, model: this.#model }
  }

  #begin(block: JsonObject): ChatEvent[] {
    const events = this.#close()
    const place = this.#nextPlace()
    switch (block.type) {
      case 'text':
      case 'thinking':
        this.#open = { type: block.type }
        break
      case 'redacted_thinking':
        this.#open = { type: 'thinking' }
        break
      case 'tool_use':
        this.#open = { type: 'call', block, hasInput: false }
        this.#calledTools = true
        break
      default:
        this.#open = { type: 'foreign', block, input: [], members: [] }
        return events
    }
    return [...events, ...beginBlock(block, place)]
  }

  #close(): ChatEvent[] {
    const open = this.#open
    this.#open = undefined
    if (!open) return []
    switch (open.type) {
      case 'text':
      case 'thinking':
        return [{ type: 'close' }]
      case 'call': {
        // Without a delta, the input is the one in the block's start, usually empty.
        const input = open.hasInput ? '' : argumentsText(open.block.input)
        if (input === undefined) return this.#fail(malformed('the input of a tool call is nested too deep'))
        return [...(input === '' ? [] : [{ type: 'delta', text: input } as const]), { type: 'close' }]
      }
      case 'foreign': {
        const input = open.input.join('')
        const members = input === '' ? {} : { input: parseArguments(input) }
        const events = decodeBlock(Object.assign({}, open.block, ...open.members, members), this.#lastPlace())
        if (events[0]?.type === 'failure') this.#over = true
        return [...events]
      }
      default:
        throw new Error(`unknown block ${JSON.stringify(open satisfies never)}`)
    }
  }

  #addDelta(delta: JsonObject): ChatEvent[] {
    switch (delta.type) {
      case 'text_delta': {
        const added = text(delta.text) ?? ''
        return added === '' ? [] : this.#addTo('text', { type: 'delta', text: added })
      }
      case 'thinking_delta': {
        const added = text(delta.thinking) ?? ''
        return added === '' ? [] : this.#addTo('thinking', { type: 'delta', text: added })
      }
      case 'signature_delta': {
        const signature = text(delta.signature) ?? ''
        return signature === '' ? [] : this.#addTo('thinking', signatureEvent(signature))
      }
      case 'citations_delta': {
        const citation = decodeCitation(delta.citation ?? null)
        return citation ? this.#addTo('text', { type: 'citation', citation }) : []
      }
      case 'input_json_delta':
        return this.#addInput(text(delta.partial_json) ?? '')
      default: {
        // Foreign blocks have deltas of their own, such as `compaction_delta`.
        const { type: _, ...members } = delta
        if (this.#open?.type === 'foreign') this.#open.members.push(members)
        return []
      }
    }
  }

  /** Adds to the open block, or begins one: compatible servers omit `content_block_start` or a block's end. */
  #addTo(type: 'text' | 'thinking', event: ChatEvent): ChatEvent[] {
    return this.#open?.type === type ? [event] : [...this.#begin({ type }), event]
  }

  #addInput(piece: string): ChatEvent[] {
    if (piece === '') return []
    const open = this.#open
    if (open?.type === 'foreign') {
      open.input.push(piece)
      return []
    }
    if (open?.type !== 'call') return this.#fail(malformed('the input of a tool call that has not begun'))
    open.hasInput = true
    return [{ type: 'delta', text: piece }]
  }

  #readUsage(raw: Json | undefined): ChatEvent[] {
    if (!isObject(raw)) return []
    this.#usage = mergeUsage(this.#usage, raw)
    const usage = decodeUsage(this.#usage)
    return usage ? [{ type: 'usage', usage }] : []
  }

  /** `holder`: the object with `stop_reason`. */
  #finish(holder: JsonObject): ChatEvent[] {
    if (this.#finished) return []
    this.#finished = true
    return [...refusal(explanationIn(holder)), { type: 'finish', finish: decodeFinish(holder, this.#calledTools) }]
  }

  #fail(failure: Failure): ChatEvent[] {
    this.#over = true
    return [{ type: 'failure', failure }]
  }
}

/** The text of a delta event. */
export const deltaText: TextOf = (event) => {
  const { type, delta } = object(event) ?? {}
  const members = object(delta)
  if (type !== 'content_block_delta' || !members) return undefined
  switch (members.type) {
    case 'text_delta':
      return members.text
    case 'thinking_delta':
      return members.thinking
    case 'input_json_delta':
      return members.partial_json
    default:
      return undefined
  }
}
