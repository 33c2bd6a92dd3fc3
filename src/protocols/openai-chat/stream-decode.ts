import type { Block, ChatEvent, Citation, Proof } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import type { Frame } from '../../core/protocol.ts'
import type { Stage } from '../../core/stage.ts'
import { decodeOpenaiFailure } from '../openai-error.ts'
import { Repetition, type TextOf } from '../repetition.ts'
import { aList } from '../shape.ts'
import { append, madeId } from '../shared.ts'
import { argumentsText, contentPart, isChoice, mediaOf } from './answer.ts'
import { detailsOf, readDetail, reasoningText } from './reasoning.ts'
import { decodeCitation, decodeUsage, endOf, failed, failureIn, reasonOf } from './said.ts'

const NO_HEADERS = () => undefined
const areChoices = aList(isChoice)

/** Reads a stream of chat completion chunks. Of several choices the first is told; all of them have to end. */
export const decodeStream = (): Stage<Frame, ChatEvent> => {
  /** Nothing more is read: `[DONE]`, or a failure. */
  let over = false
  let started = false
  let finished = false
  let answerId: string | undefined
  let reason: string | null = null
  let sources: readonly Json[] = []
  const unfinished = new Set<number>()
  const ended = new Set<number>()
  let out: ChatEvent[] = []
  const repetition = new Repetition(plainText)
  const blocks = openBlocks((event) => void out.push(event))

  const finish = () => {
    finished = true
    if (!blocks.cited()) blocks.cite(sources.flatMap((url) => (typeof url === 'string' ? [{ url }] : [])))
    blocks.closeAll()
    if (blocks.nameless()) return breakOff(failed(fail('malformed', 'The model called a function without a name.')))
    const end = endOf(reason, { calls: blocks.seen('tool-call'), refused: blocks.seen('refusal') })
    if (end.type === 'failure') over = true
    out.push(end)
  }

  const breakOff = (event: ChatEvent) => {
    over = true
    out.push(event)
  }

  /** Chunks stand for themselves: whether the answer may do without this one is for others to say, and they go on. */
  const unreadable = (message: string) => void out.push(failed(fail('malformed', message)))

  const start = (chunk: JsonObject, hasChoices: boolean) => {
    const id = text(chunk.id)
    // Azure's first chunk is about the prompt: no choices, empty id, created 0.
    if (!hasChoices && !id) return
    started = true
    answerId = id
    const model = text(chunk.model)
    const created = number(chunk.created)
    out.push({ type: 'start', ...(id && { id }), ...(model && { model }), ...(created && { created }) })
  }

  const readChoice = (choice: JsonObject) => {
    const index = number(choice.index) ?? 0
    const why = reasonOf(choice)
    if (why !== null) {
      ended.add(index)
      unfinished.delete(index)
    } else if (!ended.has(index)) unfinished.add(index)
    if (index !== 0 || finished) return
    // Some that only pretend to stream send the whole message.
    const delta = object(choice.delta) ?? object(choice.message)
    if (delta) readDelta(delta, object(choice.logprobs), blocks, answerId)
    if (why !== null) reason = why
  }

  const read = (chunk: Json) => {
    const failure = failureIn(chunk)
    if (failure) return breakOff(failed(failure))
    if (!isObject(chunk)) return unreadable('A part of the stream is not an object.')
    if (!areChoices(chunk.choices)) return unreadable('A part of the stream says something that is not of its type.')
    const choices = list(chunk.choices)
    if (!started) start(chunk, choices.length > 0)
    if (chunk.citations !== undefined) sources = list(chunk.citations)
    for (const entry of choices) {
      const choice = object(entry)
      if (choice) readChoice(choice)
    }
    const usage = decodeUsage(chunk.usage) ?? decodeUsage(object(chunk.x_groq)?.usage)
    if (usage) out.push({ type: 'usage', usage })
    if (!finished && ended.has(0) && unfinished.size === 0) finish()
  }

  const push = (frame: Frame) => {
    if (frame.oversized) return breakOff(failed(fail('too_large', 'One event of the stream is larger than allowed.')))
    const { data } = frame
    if (data === '') return void out.push({ type: 'ping' })
    if (data === '[DONE]' || data.trim() === '[DONE]') {
      // Without a reason it still is an end the provider meant.
      if (!finished) finish()
      over = true
      return
    }
    const again = repetition.textOf(frame)
    if (again !== undefined) return void out.push({ type: 'delta', text: again })
    repetition.forget()
    let chunk: Json
    try {
      chunk = JSON.parse(data)
    } catch {
      if (frame.event === 'error') return breakOff(failed(decodeOpenaiFailure(200, data, NO_HEADERS)))
      return unreadable('A part of the stream is not JSON.')
    }
    // Groq names the event; what it holds is then an error whatever its shape.
    if (frame.event === 'error')
      return breakOff(failed(failureIn(chunk) ?? decodeOpenaiFailure(200, chunk, NO_HEADERS)))
    read(chunk)
    const [only] = out
    // Of text nothing is kept here but that its block is open, so a chunk with another text does the same again.
    if (out.length === 1 && only?.type === 'delta' && !only.logprobs && blocks.inText())
      repetition.learn(frame, only.text)
  }

  return {
    push(frame) {
      if (over) return []
      out = []
      push(frame)
      return out
    },
    end() {
      if (over) return []
      over = true
      if (finished && unfinished.size === 0) return []
      return [failed(fail('truncated', 'The stream ended before the answer did.'))]
    },
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
    if (detail.proof) blocks.prove(detail.proof)
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
  for (const raw of mediaOf(delta)) blocks.write('media', { type: 'foreign', protocol: 'openai-chat', raw }, '')
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

type Blocks = {
  /** Reasoning comes as plain text here, so the text in its details is a repetition. */
  plainThought: boolean
  write(key: string, block: Block, text: string, logprobs?: readonly Json[]): void
  call(piece: Piece, text: string, answerId: string | undefined): void
  prove(proof: Proof): void
  cite(citations: readonly Citation[]): void
  cited(): boolean
  seen(type: Block['type']): boolean
  /** The open block is text or thoughts, and no other waits for it to end. */
  inText(): boolean
  /** Arguments came of a call that never had a name. */
  nameless(): boolean
  closeAll(): void
}

type Slot = {
  key: string
  readonly block: Block
  /** A call's arguments so far. */
  readonly pieces: string[]
  /** What is told of it once it is its turn. */
  readonly held: ChatEvent[]
}

type Call = { readonly place: number; id: string; readonly key: string; name: string; early: string }

/**
 * Blocks one after the other, whatever order their pieces come in: one is open, those begun meanwhile wait. A call stays
 * open until its arguments are whole, so calls that a server interleaves are still told one by one.
 */
const openBlocks = (tell: (event: ChatEvent) => void): Blocks => {
  let open: Slot | undefined
  let waiting: Slot[] = []
  // Looked up with every piece, and there may be many: by key those that wait, by number and by id the calls.
  const keyed = new Map<string, Slot>()
  const numbered = new Map<number, Call>()
  const known = new Map<string, Call>()
  const calls: Call[] = []
  const types = new Set<Block['type']>()
  let cited = false
  /** Sources told before the text that cites them, as OpenRouter's web search does. */
  let early: Citation[] = []
  let proofs = 0
  /** Calls told to the end; what still comes for them is not said twice. */
  const closed = new Set<string>()

  const begin = (slot: Slot) => {
    open = slot
    tell({ type: 'open', block: slot.block })
    for (const event of slot.held) tell(event)
  }
  const close = () => {
    if (!open) return
    if (open.block.type === 'tool-call') closed.add(open.key)
    tell({ type: 'close' })
    open = undefined
  }
  const mayClose = ({ block, pieces }: Slot): boolean =>
    block.type !== 'tool-call' || block.custom === true || isWhole(pieces.join(''))
  /** Closes what is whole and lets those who wait follow. */
  const advance = () => {
    while (open && waiting.length > 0 && mayClose(open)) {
      close()
      const next = waiting.shift()
      if (!next) continue
      keyed.delete(next.key)
      begin(next)
    }
  }
  const find = (key: string): Slot | undefined => (open?.key === key ? open : keyed.get(key))
  const enter = (key: string, block: Block): Slot => {
    const begun = find(key)
    if (begun) return begun
    types.add(block.type)
    const slot: Slot = { key, block, pieces: [], held: [] }
    if (open && waiting.length === 0 && mayClose(open)) close()
    if (!open) {
      begin(slot)
      return slot
    }
    waiting.push(slot)
    keyed.set(key, slot)
    advance()
    return slot
  }
  const say = (slot: Slot, event: ChatEvent) => {
    if (slot === open) tell(event)
    else slot.held.push(event)
  }

  const remember = (call: Call) => {
    if (call.id !== '' && !known.has(call.id)) known.set(call.id, call)
  }
  /** Whose piece this is. By index; some number every call 0, or not at all, and then a new id or a new name tells. */
  const callOf = ({ index, id, name }: Piece, said: string): Call => {
    const same = index === undefined ? (id ? known.get(id) : calls.at(-1)) : undefined
    const last = same ?? (index === undefined ? undefined : numbered.get(index))
    if (last && !isAnother(last, id, name, said)) return last
    const call: Call = { place: calls.length, id, key: `call ${calls.length}`, name: '', early: '' }
    calls.push(call)
    if (index !== undefined) numbered.set(index, call)
    remember(call)
    return call
  }
  const isAnother = (before: Call, id: string, name: string, said: string): boolean => {
    if (name === '' || before.name === '') return false
    if (id !== '' ? id === before.id : said === '') return false
    const given = find(before.key)?.pieces.join('')
    return given === undefined || (given === '' && id !== '') || isWhole(given)
  }

  return {
    plainThought: false,
    write(key, block, said, logprobs = []) {
      const slot = enter(key, block)
      if (said !== '' || logprobs.length > 0)
        say(slot, { type: 'delta', text: said, ...(logprobs.length > 0 && { logprobs: [...logprobs] }) })
      if (block.type !== 'text') return
      for (const citation of early) say(slot, { type: 'citation', citation })
      early = []
    },
    call(piece, said, answerId) {
      const call = callOf(piece, said)
      if (closed.has(call.key)) return
      call.name ||= piece.name
      call.id ||= piece.id
      remember(call)
      // It cannot be opened before it has its name.
      if (call.name === '') {
        call.early += said
        return
      }
      const id = call.id || madeId(answerId, call.place, call.name)
      const custom = piece.custom && { custom: true }
      const slot = enter(call.key, { type: 'tool-call', id, name: call.name, ...custom })
      const more = call.early + said
      call.early = ''
      if (more === '') return
      slot.pieces.push(more)
      say(slot, { type: 'delta', text: more })
      if (waiting.length > 0 && more.endsWith('}')) advance()
    },
    prove(proof) {
      // A sealed block of Anthropic's is one of its own; any other proof belongs to the text before it.
      const slot = (proof.redacted ? undefined : find('reasoning')) ?? enter(`proof ${proofs}`, { type: 'reasoning' })
      say(slot, { type: 'proof', proof })
      // What is thought after it is another block.
      const waits = keyed.delete(slot.key)
      slot.key = `proof ${proofs++}`
      if (waits) keyed.set(slot.key, slot)
    },
    cite(citations) {
      const slot = find('text')
      if (slot) for (const citation of citations) say(slot, { type: 'citation', citation })
      else append(early, citations)
      cited ||= citations.length > 0
    },
    cited: () => cited,
    seen: (type) => types.has(type),
    inText: () => waiting.length === 0 && (open?.block.type === 'text' || open?.block.type === 'reasoning'),
    nameless: () => calls.some(({ name, early }) => name === '' && early.trim() !== ''),
    closeAll() {
      close()
      for (const slot of waiting) {
        begin(slot)
        close()
      }
      waiting = []
      keyed.clear()
    },
  }
}

const isWhole = (given: string): boolean => {
  const bare = given.trim()
  if (!bare.startsWith('{') || !bare.endsWith('}')) return false
  try {
    JSON.parse(bare)
    return true
  } catch {
    // Not all of it has come yet.
    return false
  }
}
