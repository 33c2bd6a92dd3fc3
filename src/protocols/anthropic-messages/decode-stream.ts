import type { ChatEvent } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, object, readJson, text } from '../../core/json.ts'
import type { StreamDecoder } from '../../core/protocol.ts'
import { DeltaTemplate, type TextOf } from '../framing/delta-template.ts'
import { argumentsText, parseArguments } from '../shared/tool-arguments.ts'
import { decodeCitation } from './citations.ts'
import { beginBlock, decodeBlock, isBlock, isStep, malformed, proof, refusal } from './decode-blocks.ts'
import { decodeFailure } from './errors.ts'
import { decodeFinish, decodeUsage, explanationIn, mergeUsage } from './finish-and-usage.ts'

/** The block under way. A foreign one is told of when it is whole, since it is carried whole. */
type Open =
  | { readonly type: 'text' | 'thinking' }
  | { readonly type: 'call'; readonly block: JsonObject; wrote: boolean }
  | { readonly type: 'foreign'; readonly block: JsonObject; readonly input: string[]; readonly more: JsonObject[] }

/** Reads a stream of this format. */
export const decodeStream = (): StreamDecoder => {
  let id = ''
  let started = false
  let open: Open | undefined
  let blocks = 0
  let calledTools = false
  let usage: JsonObject = {}
  let finished = false
  /** After the last event, or a failure, nothing more is heard. */
  let deaf = false
  const repetition = new DeltaTemplate(stepText)

  const failed = (failure: Failure): ChatEvent[] => {
    deaf = true
    return [{ type: 'failure', failure }]
  }

  const count = (raw: Json | undefined): ChatEvent[] => {
    if (!isObject(raw)) return []
    usage = mergeUsage(usage, raw)
    const known = decodeUsage(usage)
    return known ? [{ type: 'usage', usage: known }] : []
  }

  const start = (message: JsonObject): ChatEvent[] => {
    // A second one would make two answers of one.
    if (started) return []
    started = true
    id = text(message.id) ?? ''
    const model = text(message.model)
    const events: ChatEvent[] = [{ type: 'start', ...(id && { id }), ...(model && { model }) }]
    events.push(...count(message.usage))
    // Usually empty; what already stands there is part of the answer.
    for (const block of Array.isArray(message.content) ? message.content : [])
      if (isBlock(block)) {
        calledTools ||= block.type === 'tool_use'
        events.push(...decodeBlock(block, [id, blocks++]))
      }
    if (events.some(({ type }) => type === 'failure')) deaf = true
    return events
  }

  const begin = (block: JsonObject): ChatEvent[] => {
    const events = close()
    const place = [id, blocks++]
    switch (block.type) {
      case 'text':
      case 'thinking':
        open = { type: block.type }
        break
      case 'redacted_thinking':
        open = { type: 'thinking' }
        break
      case 'tool_use':
        open = { type: 'call', block, wrote: false }
        calledTools = true
        break
      default:
        open = { type: 'foreign', block, input: [], more: [] }
        return events
    }
    return [...events, ...beginBlock(block, place)]
  }

  const close = (): ChatEvent[] => {
    const last = open
    open = undefined
    if (!last) return []
    switch (last.type) {
      case 'text':
      case 'thinking':
        return [{ type: 'close' }]
      case 'call': {
        // No delta at all is the empty object, or one that was there from the start.
        const written = last.wrote ? '' : argumentsText(last.block.input)
        if (written === undefined) return failed(malformed('a call with too deep an input'))
        return [...(written === '' ? [] : [{ type: 'delta', text: written } as const]), { type: 'close' }]
      }
      case 'foreign': {
        const written = last.input.join('')
        const block = Object.assign(
          {},
          last.block,
          ...last.more,
          written === '' ? {} : { input: parseArguments(written) },
        )
        const told = decodeBlock(block, [])
        if (told[0]?.type === 'failure') deaf = true
        return [...told]
      }
      default:
        throw new Error(`unknown block ${JSON.stringify(last satisfies never)}`)
    }
  }

  /** Compatible servers leave out `content_block_start`, or a block's end; a delta says by itself what it belongs to. */
  const within = (type: 'text' | 'thinking', event: ChatEvent): ChatEvent[] =>
    open?.type === type ? [event] : [...begin({ type }), event]

  const add = (delta: JsonObject): ChatEvent[] => {
    switch (delta.type) {
      case 'text_delta': {
        const words = text(delta.text) ?? ''
        return words === '' ? [] : within('text', { type: 'delta', text: words })
      }
      case 'thinking_delta': {
        const words = text(delta.thinking) ?? ''
        return words === '' ? [] : within('thinking', { type: 'delta', text: words })
      }
      case 'signature_delta': {
        const signature = text(delta.signature) ?? ''
        return signature === '' ? [] : within('thinking', proof(signature))
      }
      case 'citations_delta': {
        const citation = decodeCitation(delta.citation ?? null)
        return citation ? within('text', { type: 'citation', citation }) : []
      }
      case 'input_json_delta': {
        const piece = text(delta.partial_json) ?? ''
        if (piece === '') return []
        if (open?.type === 'foreign') open.input.push(piece)
        else if (open?.type === 'call') {
          open.wrote = true
          return [{ type: 'delta', text: piece }]
        } else return failed(malformed('the input of a call that was not begun'))
        return []
      }
      default: {
        // A block only this format knows grows by its own kind of delta: `compaction_delta` and the like.
        const { type: _, ...members } = delta
        if (open?.type === 'foreign') open.more.push(members)
        return []
      }
    }
  }

  const finish = (holder: JsonObject): ChatEvent[] => {
    if (finished) return []
    finished = true
    return [...refusal(explanationIn(holder)), { type: 'finish', finish: decodeFinish(holder, calledTools) }]
  }

  const read = (event: JsonObject, type: string | undefined): ChatEvent[] => {
    switch (type) {
      case 'message_start':
        return isObject(event.message) ? start(event.message) : failed(malformed('a beginning without a message'))
      case 'content_block_start':
        return isBlock(event.content_block)
          ? begin(event.content_block)
          : failed(malformed('a content block that is none'))
      case 'content_block_delta':
        return isObject(event.delta) && isStep(event.delta)
          ? add(event.delta)
          : failed(malformed('a step that adds nothing readable'))
      case 'content_block_stop':
        return close()
      case 'message_delta': {
        const delta = object(event.delta) ?? {}
        const closed = typeof delta.stop_reason === 'string' ? close() : []
        if (deaf) return closed
        const counted = count(event.usage)
        return [...closed, ...counted, ...(typeof delta.stop_reason === 'string' ? finish(delta) : [])]
      }
      case 'message_stop': {
        const closed = close()
        if (deaf) return closed
        deaf = true
        // It ended as it should and only forgot to say why.
        return [...closed, ...finish({})]
      }
      case 'ping':
        return [{ type: 'ping' }]
      case 'error':
        return failed(decodeFailure(200, event, () => undefined))
      default:
        // Compatible servers send an error without its name.
        return isObject(event.error) ? failed(decodeFailure(200, event, () => undefined)) : []
    }
  }

  return {
    get over() {
      return deaf
    },
    again: (bytes, letters, from) => (deaf ? undefined : repetition.inBytes(bytes, letters, from)),
    push(frame) {
      if (deaf) return []
      if (frame.oversized)
        return failed(fail('too_large', "A single event of the provider's answer was larger than the gateway takes."))
      if (frame.data === '') return [{ type: 'ping' }]
      if (frame.data === '[DONE]') return []
      const again = repetition.textOf(frame)
      if (again !== undefined) return [{ type: 'delta', text: again }]
      repetition.forget()
      const event = readJson(frame.data)
      if (!isObject(event)) return failed(malformed('an event is not JSON'))
      const events = read(event, text(event.type) ?? frame.event)
      const [only] = events
      // More of the block that is open, of which nothing is kept but that it is: so another such step does the same again.
      if (events.length === 1 && only?.type === 'delta' && event.type === 'content_block_delta')
        repetition.learn(frame, only.text)
      return events
    },
    end() {
      if (deaf) return []
      deaf = true
      // The reason has been given: only the last event is missing, and nothing of the answer.
      if (finished) return []
      return [{ type: 'failure', failure: fail('truncated', "The provider's answer broke off before its end.") }]
    },
  }
}

/** What a step adds to a block. */
const stepText: TextOf = (event) => {
  const { type, delta } = object(event) ?? {}
  const step = object(delta)
  if (type !== 'content_block_delta' || !step) return undefined
  switch (step.type) {
    case 'text_delta':
      return step.text
    case 'thinking_delta':
      return step.thinking
    case 'input_json_delta':
      return step.partial_json
    default:
      return undefined
  }
}
