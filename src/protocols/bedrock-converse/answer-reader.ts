/**
 * Reads an answer event by event. A whole answer is told as the events it would have been, so one reader serves both.
 */
import type { ChatEvent, Citation, ReasoningSignature } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import { append } from '../shared/append.ts'
import { derivedCallId } from '../shared/call-ids.ts'
import { argumentsText, exceedsDepth, MAX_DEPTH, parseArguments } from '../shared/tool-arguments.ts'
import { optionalArguments, optionalObject, optionalString, type TypeCheck } from '../shared/type-checks.ts'
import { exceptionFailure } from './errors.ts'
import { decodeUsage, endingOf } from './finish-and-usage.ts'

export const malformed = (what: string): Failure =>
  fail('malformed', `The provider's answer could not be read: ${what}.`)

export type AnswerReader = {
  push(event: string, payload: JsonObject): readonly ChatEvent[]
  fail(failure: Failure): readonly ChatEvent[]
  /** It lives, and says nothing. */
  ping(): readonly ChatEvent[]
  /** Input is over; what is missing is told. */
  end(): readonly ChatEvent[]
}

/** The block that is being read. `at`: its `contentBlockIndex`. */
type Open =
  /** `stopped`: its end has come, but citations may still follow in a block of their own. */
  | { readonly is: 'text'; readonly at: number; stopped: boolean }
  | { readonly is: 'reasoning'; readonly at: number; signature: string; readonly redacted: string[] }
  | { readonly is: 'call'; readonly at: number; said: boolean }
  /** Something the middle has no word for, gathered to be one block. */
  | {
      readonly is: 'foreign'
      readonly at: number
      readonly add: (delta: JsonObject) => void
      readonly raw: () => JsonObject
    }

/** What a piece adds. `toolUse.input` is text in a stream; a whole answer is told as such pieces. */
const PIECE: TypeCheck = optionalObject({
  text: optionalString,
  toolUse: optionalObject({ input: optionalArguments }),
  reasoningContent: optionalObject({
    text: optionalString,
    signature: optionalString,
    redactedContent: optionalString,
  }),
  citation: optionalObject(),
})
const BEGUN: TypeCheck = optionalObject({
  toolUse: optionalObject(),
  toolResult: optionalObject(),
  image: optionalObject(),
})

export const answerReader = (): AnswerReader => {
  let started = false
  let open: Open | undefined
  /** Citations of a block whose text has not come yet. */
  let waiting: { readonly at: number; readonly citations: Citation[] } = { at: -1, citations: [] }
  let calls = 0
  let finished = false
  /** After a failure nothing more is heard. */
  let deaf = false

  const failed = (failure: Failure): ChatEvent[] => {
    deaf = true
    return [{ type: 'failure', failure }]
  }

  const close = (): ChatEvent[] => {
    const cited = settle()
    const block = open
    open = undefined
    if (!block) return cited
    switch (block.is) {
      case 'text':
        return [...cited, { type: 'close' }]
      case 'call':
        // No piece of input at all is a call without arguments.
        return [...(block.said ? [] : [{ type: 'delta', text: '{}' } as const]), { type: 'close' }]
      case 'reasoning': {
        const proof = proofOf(block.signature, block.redacted)
        return [...(proof ? [{ type: 'proof', proof } as const] : []), { type: 'close' }]
      }
      case 'foreign':
        return foreign(block.raw())
      default:
        throw new Error(`unknown block ${JSON.stringify(block satisfies never)}`)
    }
  }

  /** Citations that came without a text of their own belong to the text before them. */
  const settle = (): ChatEvent[] => {
    const { citations } = waiting
    waiting = { at: -1, citations: [] }
    if (citations.length === 0) return []
    const told = citations.map((citation) => ({ type: 'citation', citation }) as const)
    if (open?.is === 'text') return told
    const at = -1
    const before = close()
    open = { is: 'text', at, stopped: true }
    return [...before, { type: 'open', block: { type: 'text' } }, ...told]
  }

  const foreign = (raw: JsonObject): ChatEvent[] =>
    exceedsDepth(raw, MAX_DEPTH)
      ? failed(malformed('a block nested too deep'))
      : [{ type: 'open', block: { type: 'foreign', protocol: 'bedrock-converse', raw } }, { type: 'close' }]

  const addText = (at: number, words: string): ChatEvent[] => {
    if (words === '') return []
    const delta = { type: 'delta', text: words } as const
    if (open?.is === 'text' && open.at === at && !open.stopped) return [delta]
    const own = waiting.at === at ? waiting.citations : []
    if (own.length > 0) waiting = { at: -1, citations: [] }
    const before = close()
    open = { is: 'text', at, stopped: false }
    const cited = own.map((citation) => ({ type: 'citation', citation }) as const)
    return [...before, { type: 'open', block: { type: 'text' } }, delta, ...cited]
  }

  const cite = (at: number, raw: Json | undefined): ChatEvent[] => {
    const citation = citationOf(raw)
    if (!citation) return []
    if (open?.is === 'text' && open.at === at && !open.stopped) return [{ type: 'citation', citation }]
    const before = waiting.at === at ? [] : settle()
    if (waiting.at !== at) waiting = { at, citations: [] }
    waiting.citations.push(citation)
    return before
  }

  const think = (at: number, delta: JsonObject): ChatEvent[] => {
    const words = text(delta.text) ?? ''
    const signature = text(delta.signature) ?? ''
    const redacted = text(delta.redactedContent) ?? ''
    if (words === '' && signature === '' && redacted === '') return []
    const events: ChatEvent[] = []
    let block = open
    if (block?.is !== 'reasoning' || block.at !== at) {
      events.push(...close(), { type: 'open', block: { type: 'reasoning' } })
      block = { is: 'reasoning', at, signature: '', redacted: [] }
      open = block
    }
    block.signature += signature
    if (redacted !== '') block.redacted.push(redacted)
    if (words !== '') events.push({ type: 'delta', text: words })
    return events
  }

  const call = (at: number, use: JsonObject): ChatEvent[] => {
    const name = text(use.name)
    if (!name) return failed(malformed('a call without a name'))
    const before = close()
    // Run by the provider: its call is none of the client's.
    if (use.type === 'server_tool_use') {
      const pieces: string[] = []
      open = {
        is: 'foreign',
        at,
        add: (delta) => pieces.push(text(object(delta.toolUse)?.input) ?? ''),
        raw: () => ({ toolUse: { ...use, input: parseArguments(pieces.join('')) } }),
      }
      return before
    }
    const id = text(use.toolUseId) || derivedCallId(calls, name)
    calls++
    open = { is: 'call', at, said: false }
    return [...before, { type: 'open', block: { type: 'tool-call', id, name } }]
  }

  const addInput = (at: number, use: JsonObject): ChatEvent[] => {
    if (open?.is === 'foreign' && open.at === at) {
      open.add({ toolUse: use })
      return []
    }
    if (open?.is !== 'call' || open.at !== at) return failed(malformed('input of a call that has not begun'))
    const piece = use.input === undefined ? '' : argumentsText(use.input)
    if (piece === undefined) return failed(malformed('a call with too deep arguments'))
    if (piece === '') return []
    open.said = true
    return [{ type: 'delta', text: piece }]
  }

  /** A result of a tool the provider ran, or a picture it made: pieces of one block. */
  const gather = (at: number, begun: JsonObject): ChatEvent[] => {
    const before = close()
    const { toolResult, image } = begun
    const results: Json[] = []
    const bytes: string[] = []
    open = {
      is: 'foreign',
      at,
      add: (delta) => {
        append(results, list(delta.toolResult))
        bytes.push(text(object(object(delta.image)?.source)?.bytes) ?? '')
      },
      raw: () =>
        isObject(toolResult)
          ? { toolResult: { ...toolResult, content: results } }
          : { image: { ...object(image), source: { bytes: bytes.join('') } } },
    }
    return before
  }

  const begin = (at: number, begun: JsonObject): ChatEvent[] => {
    if (isObject(begun.toolUse)) return call(at, begun.toolUse)
    if (isObject(begun.toolResult) || isObject(begun.image)) return gather(at, begun)
    return []
  }

  const add = (at: number, delta: JsonObject): ChatEvent[] => {
    if (isObject(delta.toolUse)) return addInput(at, delta.toolUse)
    if (typeof delta.text === 'string') return addText(at, delta.text)
    if (isObject(delta.reasoningContent)) return think(at, delta.reasoningContent)
    if (delta.citation !== undefined) return cite(at, delta.citation)
    if (open?.is === 'foreign' && open.at === at) {
      open.add(delta)
      return []
    }
    // Whatever comes next: nothing a client of another format could use.
    return Object.keys(delta).length === 0 ? [] : [...close(), ...foreign(delta)]
  }

  const stop = (at: number): ChatEvent[] => {
    if (waiting.at === at) {
      const told = settle()
      if (open?.is === 'text') open.stopped = true
      return told
    }
    if (open?.at !== at) return []
    if (open.is !== 'text') return close()
    open.stopped = true
    return []
  }

  const finish = (payload: JsonObject): ChatEvent[] => {
    const closed = close()
    if (deaf) return closed
    const ending = endingOf(payload.stopReason, calls > 0, payload.additionalModelResponseFields)
    if (!ending) return [...closed, ...failed(malformed('an end without a reason'))]
    if (ending.kind === 'malformed') {
      const failure = fail('malformed', `The model's answer could not be used (${ending.raw}).`, {
        upstream: { code: ending.raw ?? '' },
      })
      return [...closed, ...failed(failure)]
    }
    finished = true
    return [...closed, { type: 'finish', finish: ending }]
  }

  const content = (name: string, payload: JsonObject): ChatEvent[] => {
    if (finished) return failed(malformed('more of an answer that had ended'))
    const at = number(payload.contentBlockIndex) ?? 0
    if (name === 'contentBlockStop') return stop(at)
    const member = name === 'contentBlockStart' ? payload.start : payload.delta
    if (!isObject(member)) return name === 'contentBlockStart' ? [] : failed(malformed('a piece that is no object'))
    if (!(name === 'contentBlockStart' ? BEGUN : PIECE)(member))
      return failed(malformed('a piece whose members are not of their types'))
    return name === 'contentBlockStart' ? begin(at, member) : add(at, member)
  }

  const read = (name: string, payload: JsonObject): ChatEvent[] => {
    switch (name) {
      case 'messageStart':
        return []
      case 'contentBlockStart':
      case 'contentBlockDelta':
      case 'contentBlockStop':
        return content(name, payload)
      case 'messageStop':
        return finished ? failed(malformed('a second end')) : finish(payload)
      case 'metadata': {
        const usage = exceedsDepth(payload.usage, MAX_DEPTH) ? undefined : decodeUsage(payload.usage)
        return usage ? [{ type: 'usage', usage }] : []
      }
      default:
        // Exceptions are members of the published union of events too.
        return /(?:Exception|Error)$/.test(name) ? failed(exceptionFailure(name, payload)) : [{ type: 'ping' }]
    }
  }

  return {
    push(name, payload) {
      if (deaf) return []
      const events = started ? read(name, payload) : [{ type: 'start' } as const, ...read(name, payload)]
      started = true
      // What a block turned out to be may fail while the next one opens; nothing comes behind a failure.
      return deaf ? events.slice(0, events.findIndex(({ type }) => type === 'failure') + 1) : events
    },
    fail: (failure) => (deaf ? [] : failed(failure)),
    ping: () => (deaf ? [] : [{ type: 'ping' }]),
    end() {
      if (deaf) return []
      deaf = true
      if (finished) return []
      return [{ type: 'failure', failure: fail('truncated', "The provider's answer broke off before its end.") }]
    },
  }
}

/** A thought is signed, or all of it sealed. */
const proofOf = (signature: string, redacted: readonly string[]): ReasoningSignature | undefined => {
  const value = redacted.length > 0 ? joined(redacted) : signature
  return value === ''
    ? undefined
    : { origin: 'bedrock-converse', value, ...(redacted.length > 0 && { redacted: true }) }
}

/** Pieces of base64 as one: each may end in padding of its own. */
const joined = (pieces: readonly string[]): string => {
  const [first, ...more] = pieces
  if (more.length === 0) return first ?? ''
  try {
    return btoa(pieces.map(atob).join(''))
  } catch {
    // Not base64 then; whoever made it knows how to read it.
    return pieces.join('')
  }
}

/** A source in the middle's words. One of the client's own documents has no address: then `url` is empty and `raw` tells. */
const citationOf = (raw: Json | undefined): Citation | undefined => {
  if (!isObject(raw) || exceedsDepth(raw, MAX_DEPTH)) return undefined
  const url = text(object(object(raw.location)?.web)?.url) ?? text(raw.source) ?? ''
  const title = text(raw.title)
  return { url, ...(title !== undefined && { title }), raw }
}
