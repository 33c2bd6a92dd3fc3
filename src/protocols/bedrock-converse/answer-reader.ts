import type { ChatEvent, Citation, ReasoningSignature } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import { malformed, truncated } from '../errors/answer-failures.ts'
import { exceptionFailure } from '../errors/aws-error.ts'
import { append } from '../shared/append.ts'
import { derivedCallId } from '../shared/call-ids.ts'
import { argumentsText, exceedsDepth, MAX_DEPTH, parseArguments } from '../shared/tool-arguments.ts'
import { optionalArguments, optionalObject, optionalString, type TypeCheck } from '../shared/type-checks.ts'
import { decodeFinish, decodeUsage } from './finish-and-usage.ts'

/** The block being read. `index`: its `contentBlockIndex`. */
type ConverseBlock =
  /** `stopped`: its end has been read, but its citations may follow in another block. */
  | { readonly type: 'text'; readonly index: number; stopped: boolean }
  | { readonly type: 'reasoning'; readonly index: number; signature: string; readonly redacted: string[] }
  | { readonly type: 'call'; readonly index: number; hasInput: boolean }
  | ConverseForeignBlock

/** A block without a representation in `ChatEvent`; collected and emitted at its end. */
type ConverseForeignBlock = {
  readonly type: 'foreign'
  readonly index: number
  readonly add: (delta: JsonObject) => void
  readonly raw: () => JsonObject
}

/** Checks a delta's member types. `toolUse.input` is text in a stream. */
const hasDeltaTypes: TypeCheck = optionalObject({
  text: optionalString,
  toolUse: optionalObject({ input: optionalArguments }),
  reasoningContent: optionalObject({
    text: optionalString,
    signature: optionalString,
    redactedContent: optionalString,
  }),
  citation: optionalObject(),
})
const hasStartTypes: TypeCheck = optionalObject({
  toolUse: optionalObject(),
  toolResult: optionalObject(),
  image: optionalObject(),
})

/** Decodes the events of an answer. A complete answer is read as the events of the equivalent stream. */
export class ConverseAnswerReader {
  #started = false
  #open: ConverseBlock | undefined
  /** Citations that precede their block's text. */
  #pending: { readonly index: number; readonly citations: Citation[] } = { index: -1, citations: [] }
  #calls = 0
  #finished = false
  /** The answer has ended or failed; further events are ignored. */
  #over = false

  /** Reads one event by its name. */
  push(name: string, payload: JsonObject): readonly ChatEvent[] {
    if (this.#over) return []
    const read = this.#read(name, payload)
    const events = this.#started ? read : [{ type: 'start' } as const, ...read]
    this.#started = true
    // Closing a block may fail while the next one opens; drop everything after the failure.
    return this.#over ? events.slice(0, events.findIndex(({ type }) => type === 'failure') + 1) : events
  }

  fail(failure: Failure): readonly ChatEvent[] {
    return this.#over ? [] : this.#fail(failure)
  }

  /** Reports that the stream is alive. */
  ping(): readonly ChatEvent[] {
    return this.#over ? [] : [{ type: 'ping' }]
  }

  /** Ends the input; an unfinished answer is a `truncated` failure. */
  end(): readonly ChatEvent[] {
    if (this.#over) return []
    this.#over = true
    if (this.#finished) return []
    return [{ type: 'failure', failure: truncated() }]
  }

  #fail(failure: Failure): ChatEvent[] {
    this.#over = true
    return [{ type: 'failure', failure }]
  }

  #read(name: string, payload: JsonObject): ChatEvent[] {
    switch (name) {
      case 'messageStart':
        return []
      case 'contentBlockStart':
      case 'contentBlockDelta':
      case 'contentBlockStop':
        return this.#readContent(name, payload)
      case 'messageStop':
        return this.#finished ? this.#fail(malformed('a second `messageStop`')) : this.#finish(payload)
      case 'metadata': {
        const usage = exceedsDepth(payload.usage, MAX_DEPTH)
          ? undefined
          : decodeUsage(payload.usage, payload.serviceTier)
        return usage ? [{ type: 'usage', usage }] : []
      }
      default:
        // The published event union includes exceptions.
        return /(?:Exception|Error)$/.test(name) ? this.#fail(exceptionFailure(name, payload)) : [{ type: 'ping' }]
    }
  }

  #readContent(name: string, payload: JsonObject): ChatEvent[] {
    if (this.#finished) return this.#fail(malformed('content after the end of the answer'))
    const index = number(payload.contentBlockIndex) ?? 0
    if (name === 'contentBlockStop') return this.#stop(index)
    const isStart = name === 'contentBlockStart'
    const member = isStart ? payload.start : payload.delta
    if (!isObject(member)) return isStart ? [] : this.#fail(malformed('a delta is not an object'))
    if (!(isStart ? hasStartTypes : hasDeltaTypes)(member))
      return this.#fail(malformed(`members of ${isStart ? 'a block start' : 'a delta'} have the wrong type`))
    return isStart ? this.#begin(index, member) : this.#addDelta(index, member)
  }

  #begin(index: number, start: JsonObject): ChatEvent[] {
    if (isObject(start.toolUse)) return this.#beginCall(index, start.toolUse)
    if (isObject(start.toolResult) || isObject(start.image)) return this.#beginForeign(hostedOutput(index, start))
    return []
  }

  #addDelta(index: number, delta: JsonObject): ChatEvent[] {
    if (isObject(delta.toolUse)) return this.#addInput(index, delta.toolUse)
    if (typeof delta.text === 'string') return this.#addText(index, delta.text)
    if (isObject(delta.reasoningContent)) return this.#addReasoning(index, delta.reasoningContent)
    if (delta.citation !== undefined) return this.#addCitation(index, delta.citation)
    if (this.#open?.type === 'foreign' && this.#open.index === index) {
      this.#open.add(delta)
      return []
    }
    // An unknown kind of delta, passed on as a foreign block.
    return Object.keys(delta).length === 0 ? [] : [...this.#close(), ...this.#foreign(delta)]
  }

  #stop(index: number): ChatEvent[] {
    if (this.#pending.index === index) {
      const cited = this.#emitPending()
      if (this.#open?.type === 'text') this.#open.stopped = true
      return cited
    }
    if (this.#open?.index !== index) return []
    if (this.#open.type !== 'text') return this.#close()
    this.#open.stopped = true
    return []
  }

  // ── Blocks ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  #close(): ChatEvent[] {
    const cited = this.#emitPending()
    const open = this.#open
    this.#open = undefined
    if (!open) return cited
    switch (open.type) {
      case 'text':
        return [...cited, { type: 'close' }]
      case 'call':
        // A call without any input has no arguments.
        return [...(open.hasInput ? [] : [{ type: 'delta', text: '{}' } as const]), { type: 'close' }]
      case 'reasoning': {
        const signature = signatureOf(open.signature, open.redacted)
        return [...(signature ? [{ type: 'signature', signature } as const] : []), { type: 'close' }]
      }
      case 'foreign':
        return this.#foreign(open.raw())
      default:
        throw new Error(`unknown block ${JSON.stringify(open satisfies never)}`)
    }
  }

  /** Emits citations whose block has no text. They belong to the preceding text. */
  #emitPending(): ChatEvent[] {
    const { citations } = this.#pending
    this.#pending = { index: -1, citations: [] }
    if (citations.length === 0) return []
    const cited = citations.map((citation) => ({ type: 'citation', citation }) as const)
    if (this.#open?.type === 'text') return cited
    const before = this.#close()
    this.#open = { type: 'text', index: -1, stopped: true }
    return [...before, { type: 'open', block: { type: 'text' } }, ...cited]
  }

  #foreign(raw: JsonObject): ChatEvent[] {
    return exceedsDepth(raw, MAX_DEPTH)
      ? this.#fail(malformed('a block is nested too deep'))
      : [{ type: 'open', block: { type: 'foreign', protocol: 'bedrock-converse', raw } }, { type: 'close' }]
  }

  #addText(index: number, content: string): ChatEvent[] {
    if (content === '') return []
    const delta = { type: 'delta', text: content } as const
    if (this.#open?.type === 'text' && this.#open.index === index && !this.#open.stopped) return [delta]
    const citations = this.#pending.index === index ? this.#pending.citations : []
    if (citations.length > 0) this.#pending = { index: -1, citations: [] }
    const before = this.#close()
    this.#open = { type: 'text', index, stopped: false }
    const cited = citations.map((citation) => ({ type: 'citation', citation }) as const)
    return [...before, { type: 'open', block: { type: 'text' } }, delta, ...cited]
  }

  #addCitation(index: number, raw: Json | undefined): ChatEvent[] {
    const citation = citationOf(raw)
    if (!citation) return []
    if (this.#open?.type === 'text' && this.#open.index === index && !this.#open.stopped)
      return [{ type: 'citation', citation }]
    const before = this.#pending.index === index ? [] : this.#emitPending()
    if (this.#pending.index !== index) this.#pending = { index, citations: [] }
    this.#pending.citations.push(citation)
    return before
  }

  #addReasoning(index: number, delta: JsonObject): ChatEvent[] {
    const content = text(delta.text) ?? ''
    const signature = text(delta.signature) ?? ''
    const redacted = text(delta.redactedContent) ?? ''
    if (content === '' && signature === '' && redacted === '') return []
    const events: ChatEvent[] = []
    let open = this.#open
    if (open?.type !== 'reasoning' || open.index !== index) {
      events.push(...this.#close(), { type: 'open', block: { type: 'reasoning' } })
      open = { type: 'reasoning', index, signature: '', redacted: [] }
      this.#open = open
    }
    open.signature += signature
    if (redacted !== '') open.redacted.push(redacted)
    if (content !== '') events.push({ type: 'delta', text: content })
    return events
  }

  #beginCall(index: number, use: JsonObject): ChatEvent[] {
    const name = text(use.name)
    if (!name) return this.#fail(malformed('a tool call without a name'))
    // The provider runs this call, so the client must not.
    if (use.type === 'server_tool_use') return this.#beginForeign(hostedCall(index, use))
    const before = this.#close()
    const id = text(use.toolUseId) || derivedCallId(this.#calls, name)
    this.#calls++
    this.#open = { type: 'call', index, hasInput: false }
    return [...before, { type: 'open', block: { type: 'tool-call', id, name } }]
  }

  #beginForeign(block: ConverseForeignBlock): ChatEvent[] {
    const before = this.#close()
    this.#open = block
    return before
  }

  #addInput(index: number, use: JsonObject): ChatEvent[] {
    const open = this.#open
    if (open?.type === 'foreign' && open.index === index) {
      open.add({ toolUse: use })
      return []
    }
    if (open?.type !== 'call' || open.index !== index)
      return this.#fail(malformed('the input of a tool call that has not begun'))
    const piece = use.input === undefined ? '' : argumentsText(use.input)
    if (piece === undefined) return this.#fail(malformed('the input of a tool call is nested too deep'))
    if (piece === '') return []
    open.hasInput = true
    return [{ type: 'delta', text: piece }]
  }

  #finish(payload: JsonObject): ChatEvent[] {
    const closed = this.#close()
    if (this.#over) return closed
    const finish = decodeFinish(payload.stopReason, this.#calls > 0, payload.additionalModelResponseFields)
    if (!finish) return [...closed, ...this.#fail(malformed('`messageStop` without a stop reason'))]
    if (finish.kind === 'malformed') {
      const failure = fail('malformed', `The model's answer is malformed (stop reason ${finish.raw}).`, {
        upstream: { code: finish.raw ?? '' },
      })
      return [...closed, ...this.#fail(failure)]
    }
    this.#finished = true
    return [...closed, { type: 'finish', finish }]
  }
}

/** A call of a hosted tool. */
const hostedCall = (index: number, use: JsonObject): ConverseForeignBlock => {
  const pieces: string[] = []
  return {
    type: 'foreign',
    index,
    add: (delta) => pieces.push(text(object(delta.toolUse)?.input) ?? ''),
    raw: () => ({ toolUse: { ...use, input: parseArguments(pieces.join('')) } }),
  }
}

/** The result of a hosted tool, or an image that the model generated. */
const hostedOutput = (index: number, { toolResult, image }: JsonObject): ConverseForeignBlock => {
  const results: Json[] = []
  const bytes: string[] = []
  return {
    type: 'foreign',
    index,
    add: (delta) => {
      append(results, list(delta.toolResult))
      bytes.push(text(object(object(delta.image)?.source)?.bytes) ?? '')
    },
    raw: () =>
      isObject(toolResult)
        ? { toolResult: { ...toolResult, content: results } }
        : { image: { ...object(image), source: { bytes: bytes.join('') } } },
  }
}

/** The signature of a reasoning block, or its redacted content; undefined if it has neither. */
const signatureOf = (signature: string, redacted: readonly string[]): ReasoningSignature | undefined => {
  const value = redacted.length > 0 ? joinBase64(redacted) : signature
  return value === ''
    ? undefined
    : { origin: 'bedrock-converse', value, ...(redacted.length > 0 && { redacted: true }) }
}

/** Joins pieces of base64, each of which may end in padding. Pieces that are not base64 are concatenated. */
const joinBase64 = (pieces: readonly string[]): string => {
  const [first, ...more] = pieces
  if (more.length === 0) return first ?? ''
  try {
    return btoa(pieces.map(atob).join(''))
  } catch {
    return pieces.join('')
  }
}

/** Decodes a citation. One of the client's own documents has no URL: `url` is empty and `raw` has the details. */
const citationOf = (raw: Json | undefined): Citation | undefined => {
  if (!isObject(raw) || exceedsDepth(raw, MAX_DEPTH)) return undefined
  const url = text(object(object(raw.location)?.web)?.url) ?? text(raw.source) ?? ''
  const title = text(raw.title)
  return { url, ...(title !== undefined && { title }), raw }
}
