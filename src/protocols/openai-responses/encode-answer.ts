import type { Block, ChatAnswer, ChatEvent, Citation, Finish, Usage } from '../../core/chat.ts'
import { unfold } from '../../core/chat.ts'
import { type Failure, type FailureKind, fail, rowOf } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, list, number, object, parseJson, text } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { encodeOpenaiFailure, isRetryableByClient } from '../errors/openai-error.ts'
import { shortId } from '../shared/call-ids.ts'
import { encodeImageCalls, type ForeignBlock, isTranscript, reportLost } from '../shared/output-media.ts'
import { REFUSAL_TEXT } from '../shared/refusal-text.ts'
import { type QualifiedTool, SEARCH_CALL, toolNames } from '../shared/tool-names.ts'
import { echo } from './echo-settings.ts'
import { OWN_REASONING, seal } from './signatures.ts'

/** Turns the events of an answer into those of a responses stream, as objects: `type` and the rest, not yet numbered. */
export type Writer = {
  write(event: ChatEvent): WireEvent[]
  /** More of the open block, if its last step differs from the one this is in its words alone; false: it is to be written. */
  goesOn(words: string): boolean
  /** Begins the response if it has not begun, so that there is an id to speak of. */
  begin(): WireEvent[]
  /** The answer is over; one that never finished ends as a failure. */
  end(): WireEvent[]
  /** The response as it stands. */
  response(): JsonObject
  readonly begun: boolean
  readonly over: boolean
}
export type WireEvent = { readonly type: string } & JsonObject

/** The item being written. It is ended by what follows it: only then it is known whether the answer broke off in it. */
type Item =
  | { readonly kind: 'message'; readonly id: string; readonly content: JsonObject[] }
  | {
      readonly kind: 'reasoning'
      readonly id: string
      readonly summary: JsonObject[]
      readonly content: JsonObject[]
      sealed: string | undefined
    }
  | {
      readonly kind: 'call'
      readonly id: string
      readonly callId: string
      readonly name: string
      /** More than a name, in this format. */
      readonly called: QualifiedTool | undefined
      readonly custom: boolean
      arguments: string
    }
  | { readonly kind: 'foreign'; readonly raw: JsonObject }

export const answerWriter = (context: AnswerContext): Writer => {
  const asked = echo(context)
  const names = toolNames(context.body)
  const output: JsonObject[] = []
  let id = context.kept?.id ?? ''
  let created = context.created
  let model = context.model
  let begun = false
  let over = false
  let item: Item | undefined
  let block: Block | undefined
  /** The block of which a plain step has been told. */
  let stepped: Block | undefined
  let texts: string[] = []
  let textLength = 0
  let annotations: JsonObject[] = []
  let logprobs: JsonObject[] = []
  let hasContent = false
  /** How it finished, once it has. */
  let last: 'completed' | { readonly reason: string } | undefined
  let refused = false
  let usage: Usage | undefined

  const response = (status: string, more: JsonObject = {}): JsonObject => ({
    id,
    object: 'response',
    created_at: created,
    status,
    completed_at: null,
    error: null,
    incomplete_details: null,
    model,
    ...asked,
    output: [...output],
    usage: usage ? encodeUsage(usage) : null,
    ...more,
  })

  const begin = (): WireEvent[] => {
    if (begun) return []
    begun = true
    id = id || context.id('resp')
    return [
      { type: 'response.created', response: response('in_progress') },
      { type: 'response.in_progress', response: response('in_progress') },
    ]
  }

  // ── Items ──────────────────────────────────────────────────────────────────────────────────────────────────────

  const addItem = (fresh: Item): WireEvent[] => {
    const before = endItem('completed')
    item = fresh
    return [
      ...before,
      { type: 'response.output_item.added', output_index: output.length, item: encodeItem(fresh, 'in_progress') },
    ]
  }

  const endItem = (status: 'completed' | 'incomplete'): WireEvent[] => {
    if (!item) return []
    const whole = encodeItem(item, status)
    const event = { type: 'response.output_item.done', output_index: output.length, item: whole }
    output.push(whole)
    item = undefined
    return [event]
  }

  /** Where an event belongs: the item, its place among the items, and the part's among its parts. */
  const place = (part?: 'content_index' | 'summary_index'): JsonObject => ({
    item_id: item && item.kind !== 'foreign' ? item.id : '',
    output_index: output.length,
    ...(part && { [part]: partIndex() }),
  })

  const partIndex = (): number => {
    if (item?.kind === 'message') return item.content.length
    if (item?.kind === 'reasoning') return isSummary() ? item.summary.length : item.content.length
    return 0
  }

  const isSummary = (): boolean => block?.type === 'reasoning' && block.summary === true

  // ── Blocks ─────────────────────────────────────────────────────────────────────────────────────────────────────

  const openBlock = (fresh: Block): WireEvent[] => {
    const before = closeBlock()
    block = fresh
    switch (fresh.type) {
      case 'text':
      case 'refusal': {
        const added = item?.kind === 'message' ? [] : addItem({ kind: 'message', id: context.id('msg'), content: [] })
        const part = fresh.type === 'text' ? outputText('', [], []) : { type: 'refusal', refusal: '' }
        return [...before, ...added, { type: 'response.content_part.added', ...place('content_index'), part }]
      }
      case 'reasoning':
        // The summary's part begins with its first text: most are empty and then have none.
        return [
          ...before,
          ...addItem({ kind: 'reasoning', id: context.id(OWN_REASONING), summary: [], content: [], sealed: undefined }),
        ]
      case 'tool-call': {
        const { id, name, custom = false } = fresh
        const called = names.called(name)
        const kind = custom ? 'ctc' : called?.kind === 'search' ? 'tsc' : 'fc'
        const own = called?.kind === 'member' ? called.name : name
        hasContent = true
        const callId = shortId(id)
        return [
          ...before,
          ...addItem({ kind: 'call', id: context.id(kind), callId, name: own, called, custom, arguments: '' }),
        ]
      }
      case 'foreign':
        return [...before, ...openForeign(fresh)]
      default:
        throw new Error(`unknown block ${JSON.stringify(fresh satisfies never)}`)
    }
  }

  /** This format's own item, or what it can carry of another's: pictures. */
  const openForeign = (fresh: ForeignBlock): WireEvent[] => {
    const items =
      fresh.protocol === 'openai-responses'
        ? [fresh.raw]
        : encodeImageCalls(fresh.output?.images, () => context.id('ig'))
    if (fresh.protocol !== 'openai-responses') reportLost(fresh, context, items.length)
    hasContent ||= items.length > 0
    return items.flatMap((raw) => addItem({ kind: 'foreign', raw }))
  }

  const reasoningStarts = (): WireEvent[] => {
    if (texts.length > 0) return []
    return isSummary()
      ? [
          {
            type: 'response.reasoning_summary_part.added',
            ...place('summary_index'),
            part: { type: 'summary_text', text: '' },
          },
        ]
      : [
          {
            type: 'response.content_part.added',
            ...place('content_index'),
            part: { type: 'reasoning_text', text: '' },
          },
        ]
  }

  const writeDelta = (words: string, probabilities: Json | undefined): WireEvent[] => {
    if (words === '' && probabilities === undefined) return []
    hasContent = true
    stepped = words === '' || probabilities !== undefined || isSearch(item) ? undefined : block
    switch (block?.type) {
      case 'text': {
        const some = list(probabilities).flatMap(encodeLogprob)
        texts.push(words)
        textLength += words.length
        logprobs.push(...some)
        return [{ type: 'response.output_text.delta', ...place('content_index'), delta: words, logprobs: some }]
      }
      case 'refusal':
        refused = true
        texts.push(words)
        return [{ type: 'response.refusal.delta', ...place('content_index'), delta: words }]
      case 'reasoning': {
        if (words === '') return []
        const before = reasoningStarts()
        texts.push(words)
        return [
          ...before,
          isSummary()
            ? { type: 'response.reasoning_summary_text.delta', ...place('summary_index'), delta: words }
            : { type: 'response.reasoning_text.delta', ...place('content_index'), delta: words },
        ]
      }
      case 'tool-call':
        if (words === '') return []
        texts.push(words)
        // A search is told whole.
        return isSearch(item) ? [] : [{ type: `response.${callEvent(block)}.delta`, ...place(), delta: words }]
      case 'foreign':
        // Of sound the words that were spoken can be carried.
        return isTranscript(block) ? [...openBlock({ type: 'text' }), ...writeDelta(words, undefined)] : []
      default:
        // Text of nothing.
        return []
    }
  }

  const writeCitation = (citation: Citation): WireEvent[] => {
    // A passage of the client's own document has no address, which is all this format could tell of it.
    if (block?.type !== 'text' || citation.url === '') return []
    const annotation = encodeCitation(citation, textLength)
    annotations.push(annotation)
    return [
      {
        type: 'response.output_text.annotation.added',
        ...place('content_index'),
        annotation_index: annotations.length - 1,
        annotation,
      },
    ]
  }

  const closeBlock = (): WireEvent[] => {
    const closing = block
    const words = texts.join('')
    const events = closing ? closeEvents(closing, words) : []
    block = undefined
    stepped = undefined
    texts = []
    textLength = 0
    annotations = []
    logprobs = []
    return events
  }

  const closeEvents = (closing: Block, words: string): WireEvent[] => {
    switch (closing.type) {
      case 'text': {
        const part = outputText(words, annotations, logprobs)
        const at = place('content_index')
        if (item?.kind === 'message') item.content.push(part)
        return [
          { type: 'response.output_text.done', ...at, text: words, logprobs },
          { type: 'response.content_part.done', ...at, part },
        ]
      }
      case 'refusal': {
        const part = { type: 'refusal', refusal: words }
        const at = place('content_index')
        if (item?.kind === 'message') item.content.push(part)
        return [
          { type: 'response.refusal.done', ...at, refusal: words },
          { type: 'response.content_part.done', ...at, part },
        ]
      }
      case 'reasoning': {
        if (words === '' || item?.kind !== 'reasoning') return []
        const part = { type: closing.summary ? 'summary_text' : 'reasoning_text', text: words }
        const at = place(closing.summary ? 'summary_index' : 'content_index')
        if (closing.summary) {
          item.summary.push(part)
          return [
            { type: 'response.reasoning_summary_text.done', ...at, text: words },
            { type: 'response.reasoning_summary_part.done', ...at, part },
          ]
        }
        item.content.push(part)
        return [
          { type: 'response.reasoning_text.done', ...at, text: words },
          { type: 'response.content_part.done', ...at, part },
        ]
      }
      case 'tool-call': {
        // A call without arguments has an empty object of them; free text may be empty.
        const whole = words === '' && !closing.custom ? '{}' : words
        if (item?.kind !== 'call') return []
        item.arguments = whole
        if (isSearch(item)) return []
        return closing.custom
          ? [{ type: `response.${callEvent(closing)}.done`, ...place(), input: whole }]
          : [{ type: `response.${callEvent(closing)}.done`, ...place(), name: item.name, arguments: whole }]
      }
      case 'foreign':
        return []
      default:
        throw new Error(`unknown block ${JSON.stringify(closing satisfies never)}`)
    }
  }

  // ── Ends ───────────────────────────────────────────────────────────────────────────────────────────────────────

  const finish = (how: Finish): WireEvent[] => {
    const reason = incompleteReason(how)
    if (reason === undefined)
      return failWith(fail('malformed', 'The model ended its answer in a way that is no answer.'))
    // A refusal is one here by its words; where the model found none, ours say it.
    const words =
      how.kind === 'refusal' && !refused
        ? [...openBlock({ type: 'refusal' }), ...writeDelta(REFUSAL_TEXT, undefined)]
        : []
    last = reason === null ? 'completed' : { reason }
    return [...words, ...closeBlock(), ...endItem(reason === null ? 'completed' : 'incomplete')]
  }

  /** The last event. It waits for the stream's end: on chat completions the token count comes after the finish. */
  const complete = (how: NonNullable<typeof last>): WireEvent[] => {
    over = true
    // No clock here: the time the answer was asked for is the nearest known.
    const ended = { completed_at: Math.max(created, context.created) }
    return how === 'completed'
      ? [{ type: 'response.completed', response: response('completed', ended) }]
      : [{ type: 'response.incomplete', response: response('incomplete', { ...ended, incomplete_details: how }) }]
  }

  const failWith = (failure: Failure): WireEvent[] => {
    over = true
    // What there is of an unfinished item is shown as that; it gets no end of its own.
    closeBlock()
    const unfinished = item ? [encodeItem(item, 'incomplete')] : []
    item = undefined
    return failureEvents(failure, response('failed', { output: [...output, ...unfinished] }), context, hasContent)
  }

  const write = (event: ChatEvent): WireEvent[] => {
    if (over) return []
    switch (event.type) {
      case 'start':
        // Only until the response has begun; its id never changes after that.
        if (!begun) {
          if (!context.kept && event.id?.startsWith('resp_')) id = event.id
          model = event.model ?? model
          created = event.created ?? created
        }
        return begin()
      case 'open':
        return [...begin(), ...openBlock(event.block)]
      case 'delta':
        return [...begin(), ...writeDelta(event.text, event.logprobs)]
      case 'citation':
        return [...begin(), ...writeCitation(event.citation)]
      case 'proof':
        if (item?.kind === 'reasoning') item.sealed = seal(event.proof)
        return []
      case 'close':
        return closeBlock()
      case 'usage':
        usage = event.usage
        return []
      case 'finish':
        return [...begin(), ...finish(event.finish)]
      case 'failure':
        return [...begin(), ...failWith(event.failure)]
      case 'ping':
        return []
      default:
        throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
    }
  }

  return {
    write,
    goesOn(words) {
      if (over || !stepped || stepped !== block || stepped.type === 'foreign' || words === '') return false
      texts.push(words)
      if (stepped.type === 'text') textLength += words.length
      return true
    },
    begin,
    end: () => {
      if (over) return []
      if (last) return complete(last)
      return [...begin(), ...failWith(fail('truncated', "The provider's answer ended before it was complete."))]
    },
    response: () => response('in_progress'),
    get begun() {
      return begun
    },
    get over() {
      return over
    },
  }
}

/** A whole answer: the response its stream would have ended with. */
export const encodeAnswer = (answer: ChatAnswer, context: AnswerContext): JsonObject => {
  const writer = answerWriter(context)
  const events = [...unfold(answer).flatMap((event) => writer.write(event)), ...writer.end()]
  return object(events.at(-1)?.response) ?? writer.response()
}

// ── Values ───────────────────────────────────────────────────────────────────────────────────────────────────────

const outputText = (
  words: string,
  annotations: readonly JsonObject[],
  logprobs: readonly JsonObject[],
): JsonObject => ({
  type: 'output_text',
  text: words,
  annotations,
  logprobs,
})

const isSearch = (item: Item | undefined): boolean => item?.kind === 'call' && item.called?.kind === 'search'

/** What the model wrote, as the object it should be; what is none stays text, for the client to say so. */
const asObject = (words: string): Json => {
  try {
    const value: unknown = parseJson(words || '{}')
    return isObject(value) ? value : words
  } catch {
    return words
  }
}

const callEvent = (block: { readonly custom?: boolean }): string =>
  block.custom ? 'custom_tool_call_input' : 'function_call_arguments'

const encodeItem = (item: Item, status: 'in_progress' | 'completed' | 'incomplete'): JsonObject => {
  switch (item.kind) {
    case 'message':
      return { type: 'message', id: item.id, status, role: 'assistant', content: [...item.content] }
    case 'reasoning':
      return {
        type: 'reasoning',
        id: item.id,
        status,
        summary: [...item.summary],
        ...(item.content.length > 0 && { content: [...item.content] }),
        ...(item.sealed !== undefined && { encrypted_content: item.sealed }),
      }
    case 'call': {
      const { id, callId, name, called } = item
      const said = { id, status, call_id: callId }
      if (called?.kind === 'search')
        return { type: SEARCH_CALL, ...said, execution: 'client', arguments: asObject(item.arguments) }
      const tool = { name, ...(called && { namespace: called.namespace }) }
      return item.custom
        ? { type: 'custom_tool_call', ...said, ...tool, input: item.arguments }
        : { type: 'function_call', ...said, ...tool, arguments: item.arguments }
    }
    case 'foreign':
      // A picture is long, and is sent once: at its end.
      return status === 'in_progress' && item.raw.type === 'image_generation_call'
        ? { ...item.raw, status, result: null }
        : item.raw
    default:
      throw new Error(`unknown item ${JSON.stringify(item satisfies never)}`)
  }
}

const encodeUsage = ({ input, output, cacheRead = 0, cacheWrite = 0, reasoning = 0 }: Usage): JsonObject => ({
  input_tokens: input,
  input_tokens_details: { cached_tokens: cacheRead, cache_write_tokens: cacheWrite },
  output_tokens: output,
  output_tokens_details: { reasoning_tokens: reasoning },
  total_tokens: input + output,
})

/** Why an answer is not whole; null: it is. Undefined: what ended so is no answer. */
const incompleteReason = ({ kind }: Finish): string | null | undefined => {
  switch (kind) {
    case 'stop':
    case 'tool-calls':
    // A complete answer, in this format.
    case 'refusal':
      return null
    case 'content-filter':
      return 'content_filter'
    case 'length':
    // Sent back as it is, it goes on: as after any limit.
    case 'pause':
      return 'max_output_tokens'
    case 'malformed':
    case 'error':
      return undefined
    default:
      throw new Error(`unknown finish ${JSON.stringify(kind satisfies never)}`)
  }
}

/** Without a place of its own, a citation is of all the text there is so far. */
const encodeCitation = ({ url, title, start, end }: Citation, length: number): JsonObject => ({
  type: 'url_citation',
  url,
  title: title ?? '',
  start_index: start ?? 0,
  end_index: end ?? length,
})

const encodeLogprob = (value: Json): JsonObject[] =>
  encodeToken(value).map((token) => ({
    ...token,
    top_logprobs: list(object(value)?.top_logprobs).flatMap(encodeToken),
  }))

const encodeToken = (value: Json): JsonObject[] => {
  const token = text(object(value)?.token)
  const logprob = number(object(value)?.logprob)
  return token === undefined || logprob === undefined ? [] : [{ token, logprob, bytes: list(object(value)?.bytes) }]
}

// ── Failures in the stream ───────────────────────────────────────────────────────────────────────────────────────

/** Codes clients of this format know for what went wrong with a response; the rest is ours or, worth another try, `server_error`. */
const RESPONSE_CODES: { readonly [kind in FailureKind]?: string } = {
  rate_limited: 'rate_limit_exceeded',
  token_rate: 'rate_limit_exceeded',
  quota: 'insufficient_quota',
  context_length: 'context_length_exceeded',
}

/**
 * A failure in the middle of a stream: `error` (nested, as the live API has it), on which the SDKs throw, then
 * `response.failed`, which Open Responses wants and plain readers of events understand.
 */
export const failureEvents = (
  failure: Failure,
  response: JsonObject,
  context: AnswerContext,
  interrupted: boolean,
): WireEvent[] => {
  const { error } = encodeOpenaiFailure(failure, { requestId: context.requestId ?? '', interrupted })
  const { request_id, ...said } = isObject(error) ? error : {}
  const code =
    RESPONSE_CODES[failure.kind] ??
    (rowOf(failure).side === 'client'
      ? 'invalid_prompt'
      : isRetryableByClient(failure)
        ? 'server_error'
        : rowOf(failure).code)
  return [
    {
      type: 'error',
      error: { ...said, ...(context.requestId !== undefined && { request_id }) },
    },
    {
      type: 'response.failed',
      response: { ...response, status: 'failed', error: { code, message: failure.message } },
    },
  ]
}
