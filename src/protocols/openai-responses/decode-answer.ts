import type { Block, ChatEvent, Citation, Finish, Usage } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import { decodeOpenaiFailure } from '../errors/openai-error.ts'
import { derivedCallId } from '../shared/call-ids.ts'
import { tokenCount } from '../shared/numbers.ts'
import { outputOfItem } from '../shared/output-media.ts'
import { joinNames } from '../shared/tool-names.ts'
import {
  byType,
  optionalList,
  optionalNumber,
  optionalObject,
  optionalString,
  type TypeCheck,
} from '../shared/type-checks.ts'
import { reasoningTexts, unseal } from './signatures.ts'

/** Reads the events of one answer, already parsed, in the order they came. Tolerates what upstreams leave out or say twice. */
export type Reader = {
  /** `size` is the event's length as text. */
  read(event: JsonObject, type: string, size: number): ChatEvent[]
  /** The event read last, which said more of the open block and nothing else, once more with other words. */
  readAgain(words: string): ChatEvent[]
  /** Whether the answer has ended, well or not; then nothing more is read. */
  readonly over: boolean
}

const ITEM_DONE = 'response.output_item.done'

/** An output item on its way. `said`: what has been passed on of it, by part. */
type Item = {
  readonly index: number
  type: string
  id: string | undefined
  callId: string | undefined
  name: string | undefined
  readonly said: Map<string, string>
  /** The part whose block is open. */
  part: string | undefined
  citations: number
  summaries: number
}

/**
 * A ceiling for what waits because items interleave. None ever did in 313 recorded streams, so this is for an upstream
 * that never ends an item.
 */
const MOST_WAITING = { characters: 4_000_000, items: 128 }

const PARTS = optionalList(optionalObject({ type: optionalString, text: optionalString, refusal: optionalString }))
const ITEM = byType({
  message: optionalObject({ content: PARTS }),
  reasoning: optionalObject({ content: PARTS, summary: PARTS, encrypted_content: optionalString }),
  function_call: optionalObject({ arguments: optionalString }),
  custom_tool_call: optionalObject({ input: optionalString }),
})
const INCREMENT = optionalObject({ output_index: optionalNumber, delta: optionalString })
const WHOLE = optionalObject({
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
/** Whether what an event says is of its types. */
const READABLE: ReadonlyMap<string, TypeCheck> = new Map(
  Object.entries({
    'response.output_item.added': OF_ITEM,
    [ITEM_DONE]: OF_ITEM,
    'response.content_part.added': OF_PART,
    'response.content_part.done': OF_PART,
    'response.output_text.delta': INCREMENT,
    'response.refusal.delta': INCREMENT,
    'response.reasoning_text.delta': INCREMENT,
    'response.reasoning.delta': INCREMENT,
    'response.reasoning_summary_text.delta': INCREMENT,
    'response.function_call_arguments.delta': INCREMENT,
    'response.custom_tool_call_input.delta': INCREMENT,
    'response.output_text.done': WHOLE,
    'response.refusal.done': WHOLE,
    'response.function_call_arguments.done': WHOLE,
    'response.custom_tool_call_input.done': WHOLE,
  }),
)
const areItems = optionalList(ITEM)

export const answerReader = (): Reader => {
  let over = false
  let started = false
  let responseId: string | undefined
  let current: Item | undefined
  let called = false
  let refused = false
  let waitingSize = 0
  /** Events of items whose turn has not come, by output index. */
  const waiting = new Map<number, { readonly event: JsonObject; readonly type: string }[]>()
  /** Output indexes that are over, and the names their items had. */
  const done = new Set<number>()
  const doneNames = new Set<string>()

  const failWith = (out: ChatEvent[], failure: Failure) => {
    over = true
    out.push({ type: 'failure', failure })
  }

  // ── Blocks ─────────────────────────────────────────────────────────────────────────────────────────────────────

  const closePart = (item: Item, out: ChatEvent[]) => {
    if (item.part !== undefined) out.push({ type: 'close' })
    item.part = undefined
    item.citations = 0
  }

  /** Makes that part the open one. False: it was open once and is over. */
  const openPart = (item: Item, part: string, block: Block, out: ChatEvent[]): boolean => {
    if (item.part === part) return true
    if (item.said.has(part)) return false
    closePart(item, out)
    item.part = part
    item.said.set(part, '')
    if (block.type === 'tool-call') called = true
    if (block.type === 'refusal') refused = true
    out.push({ type: 'open', block })
    return true
  }

  const say = (item: Item, part: string, words: string, out: ChatEvent[], logprobs: readonly Json[] = []) => {
    if (words === '' && logprobs.length === 0) return
    item.said.set(part, (item.said.get(part) ?? '') + words)
    out.push({ type: 'delta', text: words, ...(logprobs.length > 0 && { logprobs }) })
  }

  /** What the whole text has beyond its increments: all of it where none came. Of texts that differ the first told stays. */
  const sayRest = (item: Item, part: string, whole: string, out: ChatEvent[], logprobs: readonly Json[] = []) => {
    const said = item.said.get(part) ?? ''
    if (whole.startsWith(said)) say(item, part, whole.slice(said.length), out, said === '' ? logprobs : [])
  }

  const textPart = (item: Item, index: number, out: ChatEvent[]) =>
    openPart(item, `text ${index}`, { type: 'text' }, out) ? `text ${index}` : undefined
  const refusalPart = (item: Item, index: number, out: ChatEvent[]) =>
    openPart(item, `refusal ${index}`, { type: 'refusal' }, out) ? `refusal ${index}` : undefined
  /** All thoughts of an item are one block, all its summaries are another. */
  const thoughtsPart = (item: Item, out: ChatEvent[]) =>
    openPart(item, 'thoughts', { type: 'reasoning' }, out) ? 'thoughts' : undefined
  const summaryPart = (item: Item, out: ChatEvent[]) =>
    openPart(item, 'summary', { type: 'reasoning', summary: true }, out) ? 'summary' : undefined

  const callPart = (item: Item, out: ChatEvent[]): string | undefined => {
    if (!item.name) return undefined
    const id = item.callId || item.id || derivedCallId(responseId, item.index)
    const custom = item.type === 'custom_tool_call'
    const block: Block = { type: 'tool-call', id, name: item.name, ...(custom && { custom }) }
    return openPart(item, 'call', block, out) ? 'call' : undefined
  }

  const cite = (annotations: readonly Json[], out: ChatEvent[]) => {
    for (const annotation of annotations) {
      const citation = citationOf(annotation)
      if (citation) out.push({ type: 'citation', citation })
    }
  }

  // ── Parts of an item ───────────────────────────────────────────────────────────────────────────────────────────

  const readContentPart = (item: Item, part: JsonObject, index: number, isDone: boolean, out: ChatEvent[]) => {
    if (part.type === 'reasoning_text') {
      const key = thoughtsPart(item, out)
      // Several parts are one block: only of the first is it sure what has been said.
      if (key && isDone && index === 0) sayRest(item, key, text(part.text) ?? '', out)
      return
    }
    if (part.type === 'refusal') {
      const key = refusalPart(item, index, out)
      if (key && isDone) sayRest(item, key, text(part.refusal) ?? '', out)
    } else {
      const key = textPart(item, index, out)
      if (key && isDone) {
        sayRest(item, key, text(part.text) ?? '', out, list(part.logprobs))
        cite(list(part.annotations).slice(item.citations), out)
      }
    }
    if (isDone) closePart(item, out)
  }

  const readSummary = (item: Item, index: number, words: string, isWhole: boolean, out: ChatEvent[]) => {
    if (words === '') return
    const key = summaryPart(item, out)
    if (!key) return
    const part = `summary ${index}`
    // Paragraphs of one block, in the order they come.
    const said = item.said.get(part)
    const fresh = isWhole ? (words.startsWith(said ?? '') ? words.slice((said ?? '').length) : '') : words
    if (said === undefined) item.summaries++
    item.said.set(part, (said ?? '') + fresh)
    if (fresh !== '') say(item, key, said === undefined && item.summaries > 1 ? `\n\n${fresh}` : fresh, out)
  }

  /** The whole item, at its end: whatever of it has not been told yet. */
  const readItemDone = (item: Item, whole: JsonObject, out: ChatEvent[]) => {
    name(item, whole)
    switch (whole.type) {
      case 'message':
        for (const { part, index } of withIndexes(list(whole.content).filter(isObject), item.said))
          readContentPart(item, part, index, true, out)
        break
      case 'reasoning': {
        for (const [index, part] of list(whole.summary).entries())
          readSummary(item, index, text(object(part)?.text) ?? '', true, out)
        const { thoughts } = reasoningTexts(whole)
        const key = thoughts ? thoughtsPart(item, out) : undefined
        if (key) sayRest(item, key, thoughts, out)
        // The one sent when the item began differs from this one in 44 of 44 recorded streams; only this one is valid.
        const sealed = text(whole.encrypted_content)
        if (sealed) {
          if (item.part === undefined) openPart(item, 'proof', { type: 'reasoning', summary: true }, out)
          out.push({ type: 'proof', proof: unseal(sealed, item.id) })
        }
        break
      }
      case 'function_call':
      case 'custom_tool_call': {
        const key = callPart(item, out)
        if (key) sayRest(item, key, text(whole.type === 'function_call' ? whole.arguments : whole.input) ?? '', out)
        else if (!item.name) return failWith(out, malformed('a tool call without a name'))
        break
      }
      default:
        openPart(item, 'foreign', foreignBlock(whole), out)
    }
    closePart(item, out)
  }

  const name = (item: Item, of: JsonObject) => {
    item.type = text(of.type) ?? item.type
    item.id ??= text(of.id)
    item.callId ||= text(of.call_id)
    item.name ||= text(of.name) && joinNames(text(of.namespace), text(of.name) ?? '')
  }

  const readItemEvent = (item: Item, event: JsonObject, type: string, out: ChatEvent[]) => {
    const contentIndex = number(event.content_index) ?? 0
    switch (type) {
      case 'response.output_item.added':
        name(item, object(event.item) ?? {})
        // Shown at once; a call whose name is still missing is shown when it is known.
        if (item.type === 'function_call' || item.type === 'custom_tool_call') callPart(item, out)
        break
      case 'response.content_part.added':
        readContentPart(item, object(event.part) ?? {}, contentIndex, false, out)
        break
      case 'response.content_part.done':
        readContentPart(item, object(event.part) ?? {}, contentIndex, true, out)
        break
      case 'response.output_text.delta': {
        const key = textPart(item, contentIndex, out)
        if (key) say(item, key, text(event.delta) ?? '', out, list(event.logprobs))
        break
      }
      case 'response.output_text.done': {
        const key = textPart(item, contentIndex, out)
        if (key) sayRest(item, key, text(event.text) ?? '', out, list(event.logprobs))
        break
      }
      case 'response.output_text.annotation.added':
        if (textPart(item, contentIndex, out)) {
          item.citations++
          cite([event.annotation ?? null], out)
        }
        break
      case 'response.refusal.delta': {
        const key = refusalPart(item, contentIndex, out)
        if (key) say(item, key, text(event.delta) ?? '', out)
        break
      }
      case 'response.refusal.done': {
        const key = refusalPart(item, contentIndex, out)
        if (key) sayRest(item, key, text(event.refusal) ?? '', out)
        break
      }
      // The second name is Open Responses'.
      case 'response.reasoning_text.delta':
      case 'response.reasoning.delta': {
        const key = thoughtsPart(item, out)
        if (key) say(item, key, text(event.delta) ?? '', out)
        break
      }
      case 'response.reasoning_text.done':
      case 'response.reasoning.done': {
        const key = thoughtsPart(item, out)
        if (key && contentIndex === 0) sayRest(item, key, text(event.text) ?? '', out)
        break
      }
      case 'response.reasoning_summary_text.delta':
        readSummary(item, number(event.summary_index) ?? 0, text(event.delta) ?? '', false, out)
        break
      case 'response.reasoning_summary_text.done':
        readSummary(item, number(event.summary_index) ?? 0, text(event.text) ?? '', true, out)
        break
      case 'response.function_call_arguments.delta':
      case 'response.custom_tool_call_input.delta': {
        const key = callPart(item, out)
        const words = text(event.delta) ?? ''
        if (key) say(item, key, words, out)
        break
      }
      case 'response.function_call_arguments.done':
      case 'response.custom_tool_call_input.done': {
        item.name ||= text(event.name)
        const key = callPart(item, out)
        if (key) sayRest(item, key, text(event.arguments) ?? text(event.input) ?? '', out)
        break
      }
      case ITEM_DONE:
        readItemDone(item, object(event.item) ?? {}, out)
        end(item)
        break
      default:
      // How a provider's own tool is getting on. Its item tells everything at its end.
    }
  }

  // ── Order ──────────────────────────────────────────────────────────────────────────────────────────────────────

  const begin = (index: number): Item => ({
    index,
    type: 'message',
    id: undefined,
    callId: undefined,
    name: undefined,
    said: new Map(),
    part: undefined,
    citations: 0,
    summaries: 0,
  })

  const end = (item: Item) => {
    done.add(item.index)
    for (const known of namesOf(item.type, item.id, item.callId)) doneNames.add(known)
    current = undefined
  }

  /** Blocks never interleave: the events of another item than the open one wait until that is over. */
  const readInOrder = (index: number, event: JsonObject, type: string, size: number, out: ChatEvent[]) => {
    if (over || done.has(index)) return
    if (current && current.index !== index) {
      const events = waiting.get(index)
      if (events) events.push({ event, type })
      else waiting.set(index, [{ event, type }])
      waitingSize += size
      if (waitingSize > MOST_WAITING.characters || waiting.size > MOST_WAITING.items)
        failWith(out, malformed('items that never end'))
      return
    }
    current ??= begin(index)
    readItemEvent(current, event, type, out)
    readWaiting(out)
  }

  const readWaiting = (out: ChatEvent[]) => {
    while (!current && waiting.size > 0) {
      const next = Math.min(...waiting.keys())
      const events = waiting.get(next) ?? []
      waiting.delete(next)
      current = begin(next)
      for (const { event, type } of events) if (!over && current) readItemEvent(current, event, type, out)
    }
  }

  /** What never came in the stream comes from the whole response; what came and has no end is ended. */
  const readRest = (response: JsonObject, out: ChatEvent[]) => {
    for (const [index, whole] of list(response.output).entries()) {
      if (!isObject(whole)) continue
      // Two things of one kind and name are one, whatever their places.
      const known = namesOf(text(whole.type), text(whole.id), text(whole.call_id)).some((one) => doneNames.has(one))
      if (!known || current?.index === index) readInOrder(index, { item: whole }, ITEM_DONE, 0, out)
    }
    while (current && !over) {
      closePart(current, out)
      end(current)
      readWaiting(out)
    }
  }

  const readTerminal = (response: JsonObject, type: string, out: ChatEvent[]) => {
    const status = type === 'response.failed' ? 'failed' : (text(response.status) ?? type.slice('response.'.length))
    const pending = status === 'queued' || status === 'in_progress'
    const isAnswer = status === 'completed' || status === 'incomplete'
    // Of an answer that failed nothing more is told: content would bind the client to it.
    if (isAnswer) readRest(response, out)
    if (over) return
    const usage = usageOf(response.usage)
    if (usage) out.push({ type: 'usage', usage })
    const reason = text(object(response.incomplete_details)?.reason)
    if (status === 'completed')
      out.push({ type: 'finish', finish: { kind: called ? 'tool-calls' : refused ? 'refusal' : 'stop', raw: status } })
    else if (status === 'incomplete') out.push({ type: 'finish', finish: incomplete(reason) })
    // Answered later, as it was asked. Otherwise no answer is in this state when it is given.
    else if (pending && response.background === true)
      out.push({ type: 'finish', finish: { kind: 'pause', raw: status } })
    else failWith(out, pending ? malformed(`a response that is still "${status}"`) : failureOf(response))
    over = true
  }

  const readStart = (response: JsonObject, out: ChatEvent[]) => {
    if (started) return void out.push({ type: 'ping' })
    started = true
    responseId = text(response.id)
    const model = text(response.model)
    const created = number(response.created_at)
    out.push({
      type: 'start',
      ...(responseId && { id: responseId }),
      ...(model && { model }),
      ...(created !== undefined && { created: Math.trunc(created) }),
    })
  }

  return {
    get over() {
      return over
    },
    read(event, type, size) {
      const out: ChatEvent[] = []
      if (over) return out
      if (READABLE.get(type)?.(event) === false) {
        failWith(out, malformed('an event whose members are not of their types'))
        return out
      }
      switch (type) {
        case 'response.created':
        case 'response.in_progress':
        case 'response.queued':
          readStart(object(event.response) ?? {}, out)
          break
        case 'response.completed':
        case 'response.incomplete':
        case 'response.failed':
        case 'response.cancelled': {
          const response = object(event.response)
          if (!response) {
            failWith(out, malformed(`"${type}" without a response`))
            break
          }
          if (!areItems(response.output)) {
            failWith(out, malformed('items whose members are not of their types'))
            break
          }
          if (!started) readStart(response, out)
          readTerminal(response, type, out)
          break
        }
        default: {
          // Nested or flat; and any event with a true `error` is one, whatever its type (both official SDKs throw).
          if (type === 'error' || isObject(event.error) || text(event.error)) {
            failWith(out, decodeOpenaiFailure(200, event, noHeaders))
            break
          }
          const index = number(event.output_index)
          if (index === undefined) break
          if (!started) readStart({}, out)
          readInOrder(index, event, type, size, out)
        }
      }
      return out
    },
    readAgain(words) {
      const out: ChatEvent[] = []
      if (!over && current?.part !== undefined) say(current, current.part, words, out)
      return out
    },
  }
}

/**
 * The parts of a finished message, each with the content index of its events. That is its place in the message, except
 * where events with another index have emitted its text: Bedrock's Mantle endpoint counts from 1 in events and from 0 in
 * the item. `said`: the text emitted so far, by kind and index.
 */
const withIndexes = (
  parts: readonly JsonObject[],
  said: ReadonlyMap<string, string>,
): { readonly part: JsonObject; readonly index: number }[] => {
  const found = parts.map((part, place) => ({ part, place, kind: kindOf(part), index: -1 }))
  const taken = new Set<string>()
  const take = (one: (typeof found)[number], index: number) => {
    one.index = index
    taken.add(`${one.kind} ${index}`)
  }
  const isRestOf = ({ part, kind }: (typeof found)[number], before: string | undefined): boolean =>
    before !== undefined && (text(part[kind]) ?? '').startsWith(before)
  for (const one of found) if (isRestOf(one, said.get(`${one.kind} ${one.place}`))) take(one, one.place)
  // What is left on both sides is paired in order.
  const left = [...said].filter(([key, before]) => NUMBERED.test(key) && before !== '' && !taken.has(key)).values()
  let next = left.next().value
  for (const one of found) {
    if (one.index !== -1 || !next?.[0].startsWith(`${one.kind} `) || !isRestOf(one, next[1])) continue
    take(one, Number(next[0].slice(one.kind.length + 1)))
    next = left.next().value
  }
  for (const one of found) {
    let index = one.place
    while (one.index === -1 && taken.has(`${one.kind} ${index}`)) index += parts.length
    if (one.index === -1) take(one, index)
  }
  return found
}

const NUMBERED = /^(?:text|refusal) \d+$/

const kindOf = ({ type }: JsonObject): 'refusal' | 'reasoning' | 'text' =>
  type === 'refusal' ? type : type === 'reasoning_text' ? 'reasoning' : 'text'

const foreignBlock = (raw: JsonObject): Block => {
  const output = outputOfItem(raw)
  return { type: 'foreign', protocol: 'openai-responses', raw, ...(output && { output }) }
}

/** A call and its result share their `call_id`, so the kind is part of a name. */
const namesOf = (type: string | undefined, ...ids: readonly (string | undefined)[]): string[] =>
  ids.flatMap((id) => (id ? [`${type} ${id}`] : []))

const noHeaders = () => undefined

export const malformed = (what: string): Failure => fail('malformed', `The provider's answer cannot be read: ${what}.`)

const incomplete = (reason: string | undefined): Finish =>
  reason === 'content_filter'
    ? { kind: 'content-filter', raw: reason }
    : { kind: 'length', raw: reason ?? 'incomplete' }

/** Why a response failed, from its own `error`. */
const failureOf = (response: JsonObject): Failure =>
  isObject(response.error)
    ? decodeOpenaiFailure(200, { error: response.error }, noHeaders)
    : fail('error_in_stream', `The provider gave up on its answer (${text(response.status) ?? 'no status'}).`)

const usageOf = (value: unknown): Usage | undefined => {
  const raw = object(value)
  const input = tokenCount(raw?.input_tokens)
  const output = tokenCount(raw?.output_tokens)
  if (!raw || (input === undefined && output === undefined)) return undefined
  const inputDetails = object(raw.input_tokens_details)
  const cacheRead = tokenCount(inputDetails?.cached_tokens)
  const cacheWrite = tokenCount(inputDetails?.cache_write_tokens)
  const reasoning = tokenCount(object(raw.output_tokens_details)?.reasoning_tokens)
  return {
    input: input ?? 0,
    output: output ?? 0,
    ...(cacheRead !== undefined && { cacheRead }),
    ...(cacheWrite !== undefined && { cacheWrite }),
    ...(reasoning !== undefined && { reasoning }),
    raw,
  }
}

/** Files a provider's own search found have no address; they are its tool's business and stay with it. */
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
