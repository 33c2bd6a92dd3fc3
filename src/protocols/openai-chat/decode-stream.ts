import type { Block, ChatEvent, Citation, ReasoningSignature, Usage } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, list, number, object, readJson, text } from '../../core/json.ts'
import type { Frame, StreamDecoder } from '../../core/protocol.ts'
import { oversizedEvent, truncated } from '../errors/answer-failures.ts'
import { decodeOpenaiFailure } from '../errors/openai-error.ts'
import type { TextOf } from '../framing/delta-template.ts'
import { append } from '../shared/append.ts'
import { derivedCallId } from '../shared/call-ids.ts'
import {
  decodeCitation,
  failureEvent,
  failureIn,
  finishEvent,
  finishReasonOf,
  hasUrl,
  stopSequenceIn,
} from '../shared/openai-finish-and-usage.ts'
import type { ForeignBlock } from '../shared/output-media.ts'
import { detailsOf, readDetail, reasoningText } from '../shared/reasoning-members.ts'
import { optionalList } from '../shared/type-checks.ts'
import { laterUsage } from '../shared/usage.ts'
import { argumentsText, contentPart, isChoice, mediaBlock, mediaOf, usageIn } from './decode-answer.ts'

const NO_HEADERS = () => undefined
const areChoices = optionalList(isChoice)
/** The event list while no frame is decoded. Shared by all streams, so it must stay empty. */
const NO_EVENTS: ChatEvent[] = []
const NO_SOURCES: readonly Json[] = []

/** Decodes a stream of chunks. Only the first choice is decoded, but all choices must finish. */
export const decodeStream = (): StreamDecoder => new ChunkReader()

/** A class with few collections: thousands of idle streams may be open, and closures needed 4 KB each. */
class ChunkReader implements StreamDecoder {
  /** Ended by `[DONE]` or a failure; further input is ignored. */
  #over = false
  #started = false
  #finished = false
  #answerId: string | undefined
  #reason: string | null = null
  #stopSequence: string | undefined
  #sources = NO_SOURCES
  /** Whether each choice has finished: the first, and further ones by index. */
  #first: boolean | undefined
  #others: Map<number, boolean> | null = null
  #unfinished = 0
  #hasContent = false
  /** The last finish reason may not be the end: the next chunk shows it. */
  #mayContinue = false
  #usage: Usage | undefined
  #out = NO_EVENTS
  readonly #blocks = new Blocks()

  get done(): boolean {
    return this.#over
  }

  get mayBeDone(): boolean {
    return this.#mayContinue && this.#unfinished === 0
  }

  push(frame: Frame): readonly ChatEvent[] {
    if (this.#over) return []
    const out: ChatEvent[] = []
    this.#out = out
    this.#blocks.out = out
    this.#push(frame)
    this.#out = NO_EVENTS
    this.#blocks.out = NO_EVENTS
    return out
  }

  end(): readonly ChatEvent[] {
    if (this.#over) return []
    const out: ChatEvent[] = []
    this.#out = out
    this.#blocks.out = out
    if (this.#mayContinue) this.#finish()
    this.#over = true
    if (!this.#finished || this.#unfinished > 0) out.push(failureEvent(truncated()))
    return out
  }

  #push(frame: Frame): void {
    if (frame.oversized) return this.#breakOff(failureEvent(oversizedEvent()))
    const { data } = frame
    if (data === '') return void this.#out.push({ type: 'ping' })
    if (data === '[DONE]' || data.trim() === '[DONE]') {
      // `[DONE]` without a finish reason is an intended end, but not within a call (router-for-me/CLIProxyAPI#5836).
      if (this.#reason === null && this.#blocks.hasCutCall()) return this.#breakOff(failureEvent(truncated()))
      if (!this.#finished) this.#finish()
      this.#over = true
      return
    }
    let chunk: Json
    try {
      chunk = JSON.parse(data)
    } catch {
      if (frame.event === 'error') return this.#breakOff(failureEvent(decodeOpenaiFailure(200, data, NO_HEADERS)))
      return this.#unreadable('A part of the stream is not JSON.')
    }
    // Groq names the event `error`; its data is an error in any form.
    if (frame.event === 'error')
      return this.#breakOff(failureEvent(failureIn(chunk) ?? decodeOpenaiFailure(200, chunk, NO_HEADERS)))
    this.#read(chunk)
  }

  #read(chunk: Json): void {
    const failure = failureIn(chunk)
    if (failure) return this.#breakOff(failureEvent(failure))
    if (!isObject(chunk)) return this.#unreadable('A part of the stream is not an object.')
    if (!areChoices(chunk.choices)) return this.#unreadable('A part of the stream has a member of the wrong type.')
    const choices = list(chunk.choices)
    if (!this.#started) this.#start(chunk, choices.length > 0)
    if (chunk.citations !== undefined) this.#sources = list(chunk.citations)
    for (const entry of choices) {
      const choice = object(entry)
      if (choice) this.#readChoice(choice)
    }
    const usage = usageIn(chunk, object(choices[0]), this.#blocks.searched || this.#sources.length > 0)
    if (usage) {
      this.#usage = laterUsage(this.#usage, usage)
      this.#out.push({ type: 'usage', usage: this.#usage })
    }
    if (choices.length === 0) this.#mayContinue = false
    if (!this.#finished && !this.#mayContinue && this.#first === true && this.#unfinished === 0) this.#finish()
  }

  #start(chunk: JsonObject, hasChoices: boolean): void {
    const id = text(chunk.id)
    // Azure's first chunk describes the prompt: no choices, empty ID, created 0.
    if (!hasChoices && !id) return
    this.#started = true
    this.#answerId = id
    const model = text(chunk.model)
    const created = number(chunk.created)
    this.#out.push({ type: 'start', ...(id && { id }), ...(model && { model }), ...(created && { created }) })
  }

  #readChoice(choice: JsonObject): void {
    const index = number(choice.index) ?? 0
    const reason = finishReasonOf(choice)
    const ended = index === 0 ? this.#first : this.#others?.get(index)
    if (ended === undefined || (reason !== null && !ended)) {
      if (index === 0) this.#first = reason !== null
      else {
        this.#others ??= new Map()
        this.#others.set(index, reason !== null)
      }
      if (reason === null) this.#unfinished++
      else if (ended === false) this.#unfinished--
    }
    if (index !== 0 || this.#finished) return
    // Servers without real streaming send a complete message.
    const delta = object(choice.delta) ?? object(choice.message)
    const before = this.#out.length
    if (delta) readDelta(delta, object(choice.logprobs), this.#blocks, this.#answerId)
    const hasContent = this.#out.length > before
    if (this.#mayContinue && hasContent && reason === null) {
      this.#first = false
      this.#unfinished++
    }
    this.#hasContent ||= hasContent
    // Some servers state `stop` in each chunk (BerriAI/litellm#2195), or before the content (Chevey339/kelivo#1003).
    this.#mayContinue = reason === 'stop' && (hasContent || !this.#hasContent)
    if (reason === null) return
    this.#reason = reason
    this.#stopSequence = stopSequenceIn(choice)
  }

  #finish(): void {
    const blocks = this.#blocks
    this.#finished = true
    if (!blocks.cited) blocks.cite(this.#sources.flatMap((url) => (typeof url === 'string' ? [{ url }] : [])))
    blocks.closeAll()
    if (blocks.hasNamelessCall())
      return this.#breakOff(failureEvent(fail('malformed', 'The model called a function without a name.')))
    const end = finishEvent(this.#reason, {
      calls: blocks.called,
      refused: blocks.refused,
      stopSequence: this.#stopSequence,
    })
    if (end.type === 'failure') this.#over = true
    this.#out.push(end)
  }

  #breakOff(event: ChatEvent): void {
    this.#over = true
    this.#out.push(event)
  }

  /** Reports an invalid chunk and continues: the caller decides whether the answer is still usable. */
  #unreadable(message: string): void {
    this.#out.push(failureEvent(fail('malformed', message)))
  }
}

/** The text or reasoning of a chunk without other content. */
export const deltaText: TextOf = (chunk) => {
  const [choice, ...others] = list(object(chunk)?.choices)
  const delta = object(object(choice)?.delta)
  if (!delta || others.length > 0 || text(delta.refusal) || isObject(delta.function_call)) return undefined
  const further = [list(delta.tool_calls), list(delta.annotations), detailsOf(delta), mediaOf(delta)]
  if (further.some(({ length }) => length > 0)) return undefined
  const reasoning = reasoningText(delta)
  if (!reasoning) return text(delta.content)
  return delta.content ? undefined : reasoning
}

const readDelta = (
  delta: JsonObject,
  logprobs: JsonObject | undefined,
  blocks: Blocks,
  answerId: string | undefined,
) => {
  const details = detailsOf(delta)
  const reasoning = reasoningText(delta)
  if (reasoning) {
    blocks.hasPlainReasoning = true
    blocks.write('reasoning', { type: 'reasoning' }, reasoning)
  }
  for (const entry of details) {
    const detail = readDetail(entry)
    if (!detail) continue
    const summary = detail.summary && { summary: true }
    // Plain reasoning repeats the text of the details, in the same chunk or (written by the gateway) in earlier ones.
    if (detail.text !== '' && !blocks.hasPlainReasoning)
      blocks.write('reasoning', { type: 'reasoning', ...summary }, detail.text)
    if (detail.signature) blocks.addSignature(detail.signature)
  }

  const { content } = delta
  if (typeof content === 'string') {
    const tokens = list(logprobs?.content)
    if (content !== '' || tokens.length > 0) blocks.write('text', { type: 'text' }, content, tokens)
  } else
    for (const part of list(content).flatMap((entry) => contentPart(object(entry))))
      if (part.type === 'sources') blocks.cite(part.citations)
      else blocks.write(part.type, { type: part.type }, part.text)
  const refusal = text(delta.refusal)
  if (refusal) blocks.write('refusal', { type: 'refusal' }, refusal, list(logprobs?.refusal))
  const citations = list(delta.annotations).flatMap(decodeCitation)
  if (citations.length > 0) blocks.cite(citations)

  for (const entry of list(delta.tool_calls)) {
    const call = object(entry)
    if (call) readCall(call, blocks, answerId)
  }
  const legacy = object(delta.function_call)
  if (legacy)
    blocks.call({ index: 0, id: '', name: text(legacy.name) ?? '' }, argumentsText(legacy.arguments), answerId)
  for (const raw of mediaOf(delta)) blocks.show(mediaBlock(raw))
}

const readCall = (call: JsonObject, blocks: Blocks, answerId: string | undefined) => {
  const custom = object(call.custom)
  const inner = custom ?? object(call.function)
  const index = number(call.index)
  blocks.call(
    {
      ...(index !== undefined && { index }),
      id: text(call.id) ?? '',
      name: text(inner?.name) ?? '',
      ...(custom && { custom: true }),
    },
    argumentsText(custom ? custom.input : inner?.arguments),
    answerId,
  )
}

/** A fragment of a call. */
type CallFragment = { readonly index?: number; readonly id: string; readonly name: string; readonly custom?: boolean }

type BlockSlot = {
  key: string
  readonly block: Block
  /** The arguments of a call; null for other blocks. */
  readonly given: StreamedArguments | null
  /** Events buffered until the block is opened. */
  readonly held: ChatEvent[]
}

/**
 * Emits blocks one after the other, in any order of their fragments: one block is open, others are buffered. A call stays
 * open until its arguments are complete, so interleaved calls are emitted one by one.
 */
class Blocks {
  /** Receives the events. */
  out = NO_EVENTS
  /** The stream has plain reasoning, so the text in `reasoning_details` is a repetition. */
  hasPlainReasoning = false
  /** Kinds of content seen so far in the answer. */
  cited = false
  /** Some have an address: a search found them. */
  searched = false
  called = false
  refused = false
  #open: BlockSlot | undefined
  #waiting: BlockSlot[] | null = null
  /** Buffered blocks by key, for the lookup per fragment. */
  #keyed: Map<string, BlockSlot> | null = null
  #calls: Calls | null = null
  /** Citations received before their text, as from OpenRouter's web search. */
  #earlyCitations: Citation[] | null = null
  #signatures = 0
  #imageBlocks = 0

  write(key: string, block: Block, content: string, logprobs: readonly Json[] = []): void {
    const slot = this.#enter(key, block)
    if (content !== '' || logprobs.length > 0)
      this.#emit(slot, { type: 'delta', text: content, ...(logprobs.length > 0 && { logprobs: [...logprobs] }) })
    if (block.type !== 'text' || !this.#earlyCitations) return
    for (const citation of this.#earlyCitations) this.#emit(slot, { type: 'citation', citation })
    this.#earlyCitations = null
  }

  call(fragment: CallFragment, given: string, answerId: string | undefined): void {
    this.#calls ??= new Calls((key) => this.#find(key))
    const call = this.#calls.of(fragment, given)
    if (call.closed) return
    // A call cannot be opened before its name is known.
    if (call.name === '') {
      call.early += given
      return
    }
    const id = call.id || derivedCallId(answerId, call.position, call.name)
    const custom = fragment.custom && { custom: true }
    const slot = this.#enter(call.key, { type: 'tool-call', id, name: call.name, ...custom })
    const more = call.early + given
    call.early = ''
    if (more === '') return
    slot.given?.add(more)
    this.#emit(slot, { type: 'delta', text: more })
    if (this.#waiting && more.endsWith('}')) this.#advance()
  }

  addSignature(signature: ReasoningSignature): void {
    // A redacted block of Anthropic is a block of its own; any other signature belongs to the preceding text.
    const slot =
      (signature.redacted ? undefined : this.#find('reasoning')) ??
      this.#enter(`signature ${this.#signatures}`, { type: 'reasoning' })
    this.#emit(slot, { type: 'signature', signature })
    // Reasoning after a signature starts another block.
    const isBuffered = this.#keyed?.delete(slot.key)
    slot.key = `signature ${this.#signatures++}`
    if (isBuffered) this.#keyed?.set(slot.key, slot)
  }

  cite(citations: readonly Citation[]): void {
    const slot = this.#find('text')
    if (slot) for (const citation of citations) this.#emit(slot, { type: 'citation', citation })
    else if (citations.length > 0) {
      this.#earlyCitations ??= []
      append(this.#earlyCitations, citations)
    }
    this.cited ||= citations.length > 0
    this.searched ||= citations.some(hasUrl)
  }

  /** Images arrive complete, one block each; audio arrives in fragments of one block. */
  show(block: ForeignBlock): void {
    const audio = object(block.raw.audio)
    this.write(audio ? 'audio' : `images ${this.#imageBlocks++}`, block, text(audio?.transcript) ?? '')
  }

  /** Whether a call has arguments but no name. */
  hasNamelessCall(): boolean {
    return this.#calls?.hasNameless() ?? false
  }

  /** Whether the arguments of a call have begun and lack their end. */
  hasCutCall(): boolean {
    const slots = this.#open ? [this.#open, ...(this.#waiting ?? [])] : []
    return slots.some(({ block, given }) => block.type === 'tool-call' && !block.custom && given?.isCut === true)
  }

  closeAll(): void {
    this.#close()
    for (const slot of this.#waiting ?? []) {
      this.#begin(slot)
      this.#close()
    }
    this.#waiting = null
    this.#keyed = null
  }

  #find(key: string): BlockSlot | undefined {
    return this.#open?.key === key ? this.#open : this.#keyed?.get(key)
  }

  #enter(key: string, block: Block): BlockSlot {
    const begun = this.#find(key)
    if (begun) return begun
    this.called ||= block.type === 'tool-call'
    this.refused ||= block.type === 'refusal'
    const slot: BlockSlot = { key, block, given: block.type === 'tool-call' ? new StreamedArguments() : null, held: [] }
    if (this.#open && !this.#waiting && mayClose(this.#open)) this.#close()
    if (!this.#open) {
      this.#begin(slot)
      return slot
    }
    this.#waiting ??= []
    this.#waiting.push(slot)
    this.#keyed ??= new Map()
    this.#keyed.set(key, slot)
    this.#advance()
    return slot
  }

  #begin(slot: BlockSlot): void {
    this.#open = slot
    this.out.push({ type: 'open', block: slot.block })
    append(this.out, slot.held)
  }

  #close(): void {
    if (!this.#open) return
    if (this.#open.block.type === 'tool-call') this.#calls?.close(this.#open.key)
    this.out.push({ type: 'close' })
    this.#open = undefined
  }

  /** Closes complete blocks and opens buffered ones. */
  #advance(): void {
    while (this.#open && this.#waiting && mayClose(this.#open)) {
      this.#close()
      const next = this.#waiting.shift()
      if (this.#waiting.length === 0) this.#waiting = null
      if (!next) continue
      this.#keyed?.delete(next.key)
      this.#begin(next)
    }
  }

  #emit(slot: BlockSlot, event: ChatEvent): void {
    if (slot === this.#open) this.out.push(event)
    else slot.held.push(event)
  }
}

const mayClose = ({ block, given }: BlockSlot): boolean =>
  given === null || (block.type === 'tool-call' && block.custom === true) || given.isComplete

/** A call of the stream. After `closed`, further fragments are ignored. `early` holds arguments before the name. */
type StreamedCall = {
  readonly position: number
  id: string
  readonly key: string
  name: string
  early: string
  closed: boolean
}

/** Assigns fragments to calls. */
class Calls {
  readonly #slotOf: (key: string) => BlockSlot | undefined
  readonly #all: StreamedCall[] = []
  // Maps, for the lookup per fragment.
  readonly #byIndex = new Map<number, StreamedCall>()
  readonly #byId = new Map<string, StreamedCall>()
  readonly #byKey = new Map<string, StreamedCall>()

  constructor(slotOf: (key: string) => BlockSlot | undefined) {
    this.#slotOf = slotOf
  }

  /**
   * The call of a fragment, by index. Some providers use index 0 for all calls or none; then a new ID or name starts a
   * call. Stores the fragment's name and ID.
   */
  of(fragment: CallFragment, given: string): StreamedCall {
    const { index, id, name } = fragment
    const same = index === undefined ? (id ? this.#byId.get(id) : this.#all.at(-1)) : undefined
    const last = same ?? (index === undefined ? undefined : this.#byIndex.get(index))
    const call = last && !this.#isAnother(last, fragment, given) ? last : this.#add(fragment)
    if (call.closed) return call
    call.name ||= name
    call.id ||= id
    this.#remember(call)
    return call
  }

  close(key: string): void {
    const call = this.#byKey.get(key)
    if (call) call.closed = true
  }

  hasNameless(): boolean {
    return this.#all.some(({ name, early }) => name === '' && early.trim() !== '')
  }

  #add({ index, id }: CallFragment): StreamedCall {
    const position = this.#all.length
    const call: StreamedCall = { position, id, key: `call ${position}`, name: '', early: '', closed: false }
    this.#all.push(call)
    this.#byKey.set(call.key, call)
    if (index !== undefined) this.#byIndex.set(index, call)
    this.#remember(call)
    return call
  }

  #remember(call: StreamedCall): void {
    if (call.id !== '' && !this.#byId.has(call.id)) this.#byId.set(call.id, call)
  }

  #isAnother(before: StreamedCall, { id, name }: CallFragment, given: string): boolean {
    if (name === '' || before.name === '') return false
    if (id !== '' ? id === before.id : given === '') return false
    const known = this.#slotOf(before.key)?.given
    return !known || (known.isEmpty && id !== '') || known.isComplete
  }
}

/** The arguments of a call so far. Each character is scanned once, however often completeness is checked. */
class StreamedArguments {
  readonly #parts: string[] = []
  #scanned = 0
  /** `balanced`: all brackets are closed. `invalid`: no continuation makes it a JSON object. */
  #state: 'open' | 'balanced' | 'complete' | 'invalid' = 'open'
  #depth = 0
  #position: 'outside' | 'in-string' | 'escaped' = 'outside'

  get isEmpty(): boolean {
    return this.#parts.length === 0
  }

  add(part: string): void {
    this.#parts.push(part)
  }

  /** Whether they are the beginning of a JSON object. */
  get isCut(): boolean {
    return !this.isEmpty && !this.isComplete && this.#state === 'open'
  }

  /** Whether the arguments are one complete JSON object. */
  get isComplete(): boolean {
    while (this.#scanned < this.#parts.length && this.#state !== 'invalid')
      this.#scan(this.#parts[this.#scanned++] ?? '')
    if (this.#state === 'balanced')
      this.#state = readJson(this.#parts.join('').trim()) !== undefined ? 'complete' : 'invalid'
    return this.#state === 'complete'
  }

  #scan(part: string): void {
    for (const char of part)
      if (this.#position === 'escaped') this.#position = 'in-string'
      else if (this.#position === 'in-string') {
        if (char === '"') this.#position = 'outside'
        else if (char === '\\') this.#position = 'escaped'
      } else if (this.#depth > 0 || (this.#state === 'open' && char === '{')) this.#step(char)
      else if (char.trim() !== '') this.#state = 'invalid'
  }

  #step(char: string): void {
    if (char === '"') this.#position = 'in-string'
    else if (char === '{' || char === '[') this.#depth++
    else if ((char === '}' || char === ']') && --this.#depth === 0) this.#state = 'balanced'
  }
}
