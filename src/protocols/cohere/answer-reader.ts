import type { ChatEvent } from '../../core/chat.ts'
import type { Failure } from '../../core/failure.ts'
import { type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import { malformed, truncated } from '../errors/answer-failures.ts'
import { derivedCallId } from '../shared/call-ids.ts'
import { citationsOf, isTextCitation } from './citations.ts'
import { decodeFinish, decodeUsage } from './finish-and-usage.ts'
import { PLAN, THINKING } from './tool-plan.ts'

/** The kinds of text in an answer. Plan and thinking become reasoning blocks. */
export type CohereTextKind = 'text' | 'thinking' | 'plan'

/** Decodes the pieces of an answer into events whose blocks do not interleave. A complete answer has the same pieces. */
export class CohereAnswerReader {
  #answerId = ''
  #open: CohereTextKind | 'call' | undefined
  /** The open text so far; citations refer to positions in it. */
  #text = ''
  /** The part of the open text has ended, but its citations may follow. */
  #paused = false
  #calls = 0
  /** The start of a call's arguments while it could still be `null`; undefined when it has been emitted. */
  #heldArguments: string | undefined
  /** The held arguments without white space, of which models have written endless amounts. */
  #heldTrimmed = ''
  #over = false

  /** The answer has ended or failed; further input is ignored. */
  get over(): boolean {
    return this.#over
  }

  start(id: Json | undefined): readonly ChatEvent[] {
    this.#answerId = text(id) ?? ''
    return [{ type: 'start', ...(this.#answerId && { id: this.#answerId }) }]
  }

  /** Adds text. Another kind than before opens a new block. */
  addText(kind: CohereTextKind, content: string, rawLogprobs?: Json): readonly ChatEvent[] {
    const logprobs = kind === 'text' ? logprobsOf(rawLogprobs) : []
    if (content === '' && logprobs.length === 0) return []
    const before = this.#begin(kind)
    if (kind === 'text') this.#text += content
    return [...before, { type: 'delta', text: content, ...(logprobs.length > 0 && { logprobs }) }]
  }

  /** Ends the open part. A text block stays open for its citations. */
  endPart(): readonly ChatEvent[] {
    if (this.#open !== 'text') return this.#open === 'call' ? [] : this.#close()
    this.#paused = true
    return []
  }

  foreign(raw: JsonObject): readonly ChatEvent[] {
    return [...this.#close(), { type: 'open', block: { type: 'foreign', protocol: 'cohere', raw } }, { type: 'close' }]
  }

  beginCall(id: Json | undefined, name: string): readonly ChatEvent[] {
    const before = this.#close()
    if (name === '') return [...before, ...this.fail(malformed('a tool call without a name'))]
    this.#open = 'call'
    this.#heldArguments = ''
    this.#heldTrimmed = ''
    const callId = text(id) || derivedCallId(this.#answerId, this.#calls, name)
    this.#calls++
    return [...before, { type: 'open', block: { type: 'tool-call', id: callId, name } }]
  }

  addArguments(piece: string): readonly ChatEvent[] {
    if (this.#open !== 'call')
      return piece === '' ? [] : this.fail(malformed('the arguments of a tool call that has not begun'))
    if (this.#heldArguments === undefined) return piece === '' ? [] : [{ type: 'delta', text: piece }]
    this.#heldArguments += piece
    this.#heldTrimmed += piece.trim()
    if ('null'.startsWith(this.#heldTrimmed)) return []
    const held = this.#heldArguments
    this.#heldArguments = undefined
    return [{ type: 'delta', text: held }]
  }

  endCall(): readonly ChatEvent[] {
    return this.#open === 'call' ? this.#close() : []
  }

  cite(raw: Json | undefined): readonly ChatEvent[] {
    if (this.#open !== 'text' || !isTextCitation(raw)) return []
    return citationsOf(raw, this.#text).map((citation) => ({ type: 'citation', citation }) as const)
  }

  /** Ends the answer with its finish reason, or with a failure if the reason is an error. `error`: the error message. */
  finish(reason: Json | undefined, rawUsage: Json | undefined, error?: Json): readonly ChatEvent[] {
    const finish = decodeFinish(reason, this.#calls > 0, error)
    const usage = decodeUsage(rawUsage)
    const before: ChatEvent[] = [...this.#close(), ...(usage ? [{ type: 'usage', usage } as const] : [])]
    if (!finish) return before
    if (!finish.ok) return [...before, ...this.fail(finish.failure)]
    this.#over = true
    return [...before, { type: 'finish', finish: { kind: finish.kind, raw: finish.raw } }]
  }

  fail(failure: Failure): ChatEvent[] {
    this.#over = true
    return [{ type: 'failure', failure }]
  }

  /** Ends the input; an unfinished answer is a `truncated` failure. */
  end(): readonly ChatEvent[] {
    return this.#over ? [] : this.fail(truncated())
  }

  #begin(kind: CohereTextKind): ChatEvent[] {
    if (this.#open === kind && !this.#paused) return []
    const before = this.#close()
    this.#open = kind
    return [...before, { type: 'open', block: { type: kind === 'text' ? 'text' : 'reasoning' } }]
  }

  #close(): ChatEvent[] {
    if (!this.#open) return []
    const last = this.#lastEvents(this.#open)
    this.#open = undefined
    this.#text = ''
    this.#paused = false
    this.#heldArguments = undefined
    return [...last, { type: 'close' }]
  }

  #lastEvents(open: CohereTextKind | 'call'): ChatEvent[] {
    if (open === 'plan') return [{ type: 'signature', signature: PLAN }]
    if (open === 'thinking') return [{ type: 'signature', signature: THINKING }]
    // A call without arguments has an empty text (recording cohere-chat-function-calling, 173ef52f) or `null`
    // (cohere-null-args) in their place.
    return open === 'call' && this.#heldArguments !== undefined ? [{ type: 'delta', text: '{}' }] : []
  }
}

/** The log probability of a piece of text, as in chat completions. For several tokens the log probabilities are added. */
const logprobsOf = (item: Json | undefined): JsonObject[] => {
  const piece = object(item)
  const token = text(piece?.text)
  const values = list(piece?.logprobs).filter((value) => typeof value === 'number')
  if (token === undefined || values.length === 0) return []
  const logprob = values.reduce((sum, value) => sum + value, 0)
  if (!Number.isFinite(logprob)) return []
  return [{ token, logprob, bytes: [...new TextEncoder().encode(token)], top_logprobs: [] }]
}
