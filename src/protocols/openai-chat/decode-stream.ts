import type { Block, ChatEvent, Citation, ReasoningSignature } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, list, number, object, readJson, text } from '../../core/json.ts'
import type { Frame, RepeatMatch, StreamDecoder } from '../../core/protocol.ts'
import { decodeOpenaiFailure } from '../errors/openai-error.ts'
import { DeltaTemplate, type TextOf } from '../framing/delta-template.ts'
import { append } from '../shared/append.ts'
import { derivedCallId } from '../shared/call-ids.ts'
import {
  decodeCitation,
  decodeUsage,
  failureEvent,
  failureIn,
  finishEvent,
  finishReasonOf,
} from '../shared/openai-finish-and-usage.ts'
import type { ForeignBlock } from '../shared/output-media.ts'
import { detailsOf, readDetail, reasoningText } from '../shared/reasoning-members.ts'
import { optionalList } from '../shared/type-checks.ts'
import { argumentsText, contentPart, isChoice, mediaBlock, mediaOf } from './decode-answer.ts'

const NO_HEADERS = () => undefined
const areChoices = optionalList(isChoice)
/** Between two frames there are no events. */
const NOWHERE: ChatEvent[] = []
const NO_SOURCES: readonly Json[] = []

/** Reads a stream of chat completion chunks. Of several choices the first is told; all of them have to end. */
export const decodeStream = (): StreamDecoder => new ChunkReader()

/** A class and few collections, since thousands of streams may be open and say nothing: closures took 4 KB of each. */
class ChunkReader implements StreamDecoder {
  /** Nothing more is read: `[DONE]`, or a failure. */
  #over = false
  #started = false
  #finished = false
  #answerId: string | undefined
  #reason: string | null = null
  #sources = NO_SOURCES
  /** Of each choice whether it has ended: of the first, and, where there are such, of the others by index. */
  #first: boolean | undefined
  #others: Map<number, boolean> | null = null
  #unfinished = 0
  #out = NOWHERE
  readonly #repetition = new DeltaTemplate(plainText)
  readonly #blocks = new Blocks()

  get done(): boolean {
    return this.#over
  }

  matchRepeated(bytes: Uint8Array, latin1: string, from: number): RepeatMatch | undefined {
    return this.#over ? undefined : this.#repetition.inBytes(bytes, latin1, from)
  }

  push(frame: Frame): readonly ChatEvent[] {
    if (this.#over) return []
    const again = this.#repetition.textOf(frame)
    if (again !== undefined) return [{ type: 'delta', text: again }]
    const out: ChatEvent[] = []
    this.#out = out
    this.#blocks.out = out
    this.#push(frame)
    this.#out = NOWHERE
    this.#blocks.out = NOWHERE
    return out
  }

  end(): readonly ChatEvent[] {
    if (this.#over) return []
    this.#over = true
    if (this.#finished && this.#unfinished === 0) return []
    return [failureEvent(fail('truncated', 'The stream ended before the answer did.'))]
  }

  #push(frame: Frame): void {
    if (frame.oversized)
      return this.#breakOff(failureEvent(fail('too_large', 'One event of the stream is larger than allowed.')))
    const { data } = frame
    if (data === '') return void this.#out.push({ type: 'ping' })
    if (data === '[DONE]' || data.trim() === '[DONE]') {
      // Without a reason it still is an end the provider meant.
      if (!this.#finished) this.#finish()
      this.#over = true
      return
    }
    this.#repetition.forget()
    let chunk: Json
    try {
      chunk = JSON.parse(data)
    } catch {
      if (frame.event === 'error') return this.#breakOff(failureEvent(decodeOpenaiFailure(200, data, NO_HEADERS)))
      return this.#unreadable('A part of the stream is not JSON.')
    }
    // Groq names the event; what it holds is then an error whatever its shape.
    if (frame.event === 'error')
      return this.#breakOff(failureEvent(failureIn(chunk) ?? decodeOpenaiFailure(200, chunk, NO_HEADERS)))
    this.#read(chunk)
    const [only] = this.#out
    // Of text nothing is kept here but that its block is open, so a chunk with another text does the same again.
    if (this.#out.length === 1 && only?.type === 'delta' && !only.logprobs && this.#blocks.inText())
      this.#repetition.learn(frame, only.text)
  }

  #read(chunk: Json): void {
    const failure = failureIn(chunk)
    if (failure) return this.#breakOff(failureEvent(failure))
    if (!isObject(chunk)) return this.#unreadable('A part of the stream is not an object.')
    if (!areChoices(chunk.choices))
      return this.#unreadable('A part of the stream says something that is not of its type.')
    const choices = list(chunk.choices)
    if (!this.#started) this.#start(chunk, choices.length > 0)
    if (chunk.citations !== undefined) this.#sources = list(chunk.citations)
    for (const entry of choices) {
      const choice = object(entry)
      if (choice) this.#readChoice(choice)
    }
    const usage = decodeUsage(chunk.usage) ?? decodeUsage(object(chunk.x_groq)?.usage)
    if (usage) this.#out.push({ type: 'usage', usage })
    if (!this.#finished && this.#first === true && this.#unfinished === 0) this.#finish()
  }

  #start(chunk: JsonObject, hasChoices: boolean): void {
    const id = text(chunk.id)
    // Azure's first chunk is about the prompt: no choices, empty id, created 0.
    if (!hasChoices && !id) return
    this.#started = true
    this.#answerId = id
    const model = text(chunk.model)
    const created = number(chunk.created)
    this.#out.push({ type: 'start', ...(id && { id }), ...(model && { model }), ...(created && { created }) })
  }

  #readChoice(choice: JsonObject): void {
    const index = number(choice.index) ?? 0
    const why = finishReasonOf(choice)
    const ended = index === 0 ? this.#first : this.#others?.get(index)
    if (ended === undefined || (why !== null && !ended)) {
      if (index === 0) this.#first = why !== null
      else {
        this.#others ??= new Map()
        this.#others.set(index, why !== null)
      }
      if (why === null) this.#unfinished++
      else if (ended === false) this.#unfinished--
    }
    if (index !== 0 || this.#finished) return
    // Some that only pretend to stream send the whole message.
    const delta = object(choice.delta) ?? object(choice.message)
    if (delta) readDelta(delta, object(choice.logprobs), this.#blocks, this.#answerId)
    if (why !== null) this.#reason = why
  }

  #finish(): void {
    const blocks = this.#blocks
    this.#finished = true
    if (!blocks.cited) blocks.cite(this.#sources.flatMap((url) => (typeof url === 'string' ? [{ url }] : [])))
    blocks.closeAll()
    if (blocks.nameless())
      return this.#breakOff(failureEvent(fail('malformed', 'The model called a function without a name.')))
    const end = finishEvent(this.#reason, { calls: blocks.called, refused: blocks.refused })
    if (end.type === 'failure') this.#over = true
    this.#out.push(end)
  }

  #breakOff(event: ChatEvent): void {
    this.#over = true
    this.#out.push(event)
  }

  /** Chunks stand for themselves: whether the answer may do without this one is for others to say, and they go on. */
  #unreadable(message: string): void {
    this.#out.push(failureEvent(fail('malformed', message)))
  }
}

/** What a chunk says, if it is text or thoughts of the only choice, and nothing is called with it. */
const plainText: TextOf = (chunk) => {
  const [choice, ...others] = list(object(chunk)?.choices)
  const delta = object(object(choice)?.delta)
  if (!delta || others.length > 0 || list(delta.tool_calls).length > 0 || isObject(delta.function_call))
    return undefined
  return text(delta.content) || reasoningText(delta)
}

const readDelta = (
  delta: JsonObject,
  logprobs: JsonObject | undefined,
  blocks: Blocks,
  answerId: string | undefined,
) => {
  const details = detailsOf(delta)
  const thought = reasoningText(delta)
  if (thought) {
    blocks.plainThought = true
    blocks.write('reasoning', { type: 'reasoning' }, thought)
  }
  for (const entry of details) {
    const detail = readDetail(entry)
    if (!detail) continue
    const summary = detail.summary && { summary: true }
    // Where there is text beside the details it is the same text, in the same chunk or (ours) in those before.
    if (detail.text !== '' && !blocks.plainThought)
      blocks.write('reasoning', { type: 'reasoning', ...summary }, detail.text)
    if (detail.signature) blocks.prove(detail.signature)
  }

  const { content } = delta
  if (typeof content === 'string') {
    const tokens = list(logprobs?.content)
    if (content !== '' || tokens.length > 0) blocks.write('text', { type: 'text' }, content, tokens)
  } else
    for (const piece of list(content).flatMap((entry) => contentPart(object(entry))))
      if (piece.type === 'sources') blocks.cite(piece.citations)
      else blocks.write(piece.type, { type: piece.type }, piece.text)
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

type Piece = { readonly index?: number; readonly id: string; readonly name: string; readonly custom?: boolean }

type Slot = {
  key: string
  readonly block: Block
  /** Of a call. */
  readonly given: Arguments | null
  /** What is told of it once it is its turn. */
  readonly held: ChatEvent[]
}

/**
 * Blocks one after the other, whatever order their pieces come in: one is open, those begun meanwhile wait. A call stays
 * open until its arguments are whole, so calls that a server interleaves are still told one by one.
 */
class Blocks {
  /** Where its events go. */
  out = NOWHERE
  /** Reasoning comes as plain text here, so the text in its details is a repetition. */
  plainThought = false
  /** Something has been cited, something called, something refused. */
  cited = false
  called = false
  refused = false
  #open: Slot | undefined
  #waiting: Slot[] | null = null
  /** Those by key: looked up with every piece, and there may be many. */
  #keyed: Map<string, Slot> | null = null
  #calls: Calls | null = null
  /** Sources told before the text that cites them, as OpenRouter's web search does. */
  #early: Citation[] | null = null
  #proofs = 0
  #pictures = 0

  write(key: string, block: Block, said: string, logprobs: readonly Json[] = []): void {
    const slot = this.#enter(key, block)
    if (said !== '' || logprobs.length > 0)
      this.#say(slot, { type: 'delta', text: said, ...(logprobs.length > 0 && { logprobs: [...logprobs] }) })
    if (block.type !== 'text' || !this.#early) return
    for (const citation of this.#early) this.#say(slot, { type: 'citation', citation })
    this.#early = null
  }

  call(piece: Piece, said: string, answerId: string | undefined): void {
    this.#calls ??= new Calls((key) => this.#find(key))
    const call = this.#calls.of(piece, said)
    if (call.closed) return
    // It cannot be opened before it has its name.
    if (call.name === '') {
      call.early += said
      return
    }
    const id = call.id || derivedCallId(answerId, call.place, call.name)
    const custom = piece.custom && { custom: true }
    const slot = this.#enter(call.key, { type: 'tool-call', id, name: call.name, ...custom })
    const more = call.early + said
    call.early = ''
    if (more === '') return
    slot.given?.add(more)
    this.#say(slot, { type: 'delta', text: more })
    if (this.#waiting && more.endsWith('}')) this.#advance()
  }

  prove(proof: ReasoningSignature): void {
    // A sealed block of Anthropic's is one of its own; any other proof belongs to the text before it.
    const slot =
      (proof.redacted ? undefined : this.#find('reasoning')) ??
      this.#enter(`proof ${this.#proofs}`, { type: 'reasoning' })
    this.#say(slot, { type: 'signature', signature: proof })
    // What is thought after it is another block.
    const waits = this.#keyed?.delete(slot.key)
    slot.key = `proof ${this.#proofs++}`
    if (waits) this.#keyed?.set(slot.key, slot)
  }

  cite(citations: readonly Citation[]): void {
    const slot = this.#find('text')
    if (slot) for (const citation of citations) this.#say(slot, { type: 'citation', citation })
    else if (citations.length > 0) {
      this.#early ??= []
      append(this.#early, citations)
    }
    this.cited ||= citations.length > 0
  }

  /** Pictures come whole, each time a block of their own; sound comes in pieces of one. */
  show(block: ForeignBlock): void {
    const audio = object(block.raw.audio)
    this.write(audio ? 'audio' : `images ${this.#pictures++}`, block, text(audio?.transcript) ?? '')
  }

  /** The open block is text or thoughts, and no other waits for it to end. */
  inText(): boolean {
    return !this.#waiting && (this.#open?.block.type === 'text' || this.#open?.block.type === 'reasoning')
  }

  /** Arguments came of a call that never had a name. */
  nameless(): boolean {
    return this.#calls?.nameless() ?? false
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

  #find(key: string): Slot | undefined {
    return this.#open?.key === key ? this.#open : this.#keyed?.get(key)
  }

  #enter(key: string, block: Block): Slot {
    const begun = this.#find(key)
    if (begun) return begun
    this.called ||= block.type === 'tool-call'
    this.refused ||= block.type === 'refusal'
    const slot: Slot = { key, block, given: block.type === 'tool-call' ? new Arguments() : null, held: [] }
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

  #begin(slot: Slot): void {
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

  /** Closes what is whole and lets those who wait follow. */
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

  #say(slot: Slot, event: ChatEvent): void {
    if (slot === this.#open) this.out.push(event)
    else slot.held.push(event)
  }
}

const mayClose = ({ block, given }: Slot): boolean =>
  given === null || (block.type === 'tool-call' && block.custom === true) || given.whole

/** `closed`: told to the end; what still comes for it is not said twice. */
type Call = { readonly place: number; id: string; readonly key: string; name: string; early: string; closed: boolean }

/** Whose a piece of a call is. */
class Calls {
  readonly #slotOf: (key: string) => Slot | undefined
  readonly #all: Call[] = []
  // Looked up with every piece, and there may be many.
  readonly #numbered = new Map<number, Call>()
  readonly #known = new Map<string, Call>()
  readonly #keyed = new Map<string, Call>()

  constructor(slotOf: (key: string) => Slot | undefined) {
    this.#slotOf = slotOf
  }

  /** By index; some number every call 0, or not at all, and then a new id or a new name tells. What the piece says of its call is kept. */
  of(piece: Piece, said: string): Call {
    const { index, id, name } = piece
    const same = index === undefined ? (id ? this.#known.get(id) : this.#all.at(-1)) : undefined
    const last = same ?? (index === undefined ? undefined : this.#numbered.get(index))
    const call = last && !this.#isAnother(last, piece, said) ? last : this.#add(piece)
    if (call.closed) return call
    call.name ||= name
    call.id ||= id
    this.#remember(call)
    return call
  }

  close(key: string): void {
    const call = this.#keyed.get(key)
    if (call) call.closed = true
  }

  nameless(): boolean {
    return this.#all.some(({ name, early }) => name === '' && early.trim() !== '')
  }

  #add({ index, id }: Piece): Call {
    const place = this.#all.length
    const call: Call = { place, id, key: `call ${place}`, name: '', early: '', closed: false }
    this.#all.push(call)
    this.#keyed.set(call.key, call)
    if (index !== undefined) this.#numbered.set(index, call)
    this.#remember(call)
    return call
  }

  #remember(call: Call): void {
    if (call.id !== '' && !this.#known.has(call.id)) this.#known.set(call.id, call)
  }

  #isAnother(before: Call, { id, name }: Piece, said: string): boolean {
    if (name === '' || before.name === '') return false
    if (id !== '' ? id === before.id : said === '') return false
    const given = this.#slotOf(before.key)?.given
    return !given || (given.empty && id !== '') || given.whole
  }
}

/** A call's arguments so far. Each letter is looked at once, however often it is asked whether they are whole. */
class Arguments {
  readonly #pieces: string[] = []
  #looked = 0
  /** `shut`: as far as its brackets tell. `other`: nothing that may still come makes an object of it. */
  #is: 'open' | 'shut' | 'whole' | 'other' = 'open'
  #depth = 0
  #at: 'outside' | 'in a string' | 'behind a backslash' = 'outside'

  get empty(): boolean {
    return this.#pieces.length === 0
  }

  add(piece: string): void {
    this.#pieces.push(piece)
  }

  /** They are one JSON object. */
  get whole(): boolean {
    while (this.#looked < this.#pieces.length && this.#is !== 'other') this.#look(this.#pieces[this.#looked++] ?? '')
    if (this.#is === 'shut') this.#is = readJson(this.#pieces.join('').trim()) !== undefined ? 'whole' : 'other'
    return this.#is === 'whole'
  }

  #look(piece: string): void {
    for (const letter of piece)
      if (this.#at === 'behind a backslash') this.#at = 'in a string'
      else if (this.#at === 'in a string') {
        if (letter === '"') this.#at = 'outside'
        else if (letter === '\\') this.#at = 'behind a backslash'
      } else if (this.#depth > 0 || (this.#is === 'open' && letter === '{')) this.#step(letter)
      else if (letter.trim() !== '') this.#is = 'other'
  }

  #step(letter: string): void {
    if (letter === '"') this.#at = 'in a string'
    else if (letter === '{' || letter === '[') this.#depth++
    else if ((letter === '}' || letter === ']') && --this.#depth === 0) this.#is = 'shut'
  }
}
