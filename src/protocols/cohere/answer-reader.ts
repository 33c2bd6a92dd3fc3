/**
 * What is said piece by piece, as events whose blocks do not interleave. A whole answer is the same pieces at once, so
 * one reader serves both.
 */

import type { ChatEvent } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { type Json, type JsonObject, text } from '../../core/json.ts'
import { malformed } from '../errors/malformed.ts'
import { derivedCallId } from '../shared/call-ids.ts'
import { citationsOf, isOfText } from './citations.ts'
import { decodeUsage, endingOf } from './finish-and-usage.ts'
import { logprobsOf } from './logprobs.ts'
import { PLAN, THOUGHT } from './tool-plan.ts'

export type Kind = 'text' | 'thinking' | 'plan'

export type Reader = {
  start(id: Json | undefined): readonly ChatEvent[]
  /** More words of a kind; those of another kind than before are a block of their own. */
  say(kind: Kind, words: string, logprobs?: Json): readonly ChatEvent[]
  /** The block of words that is open ends, save that sources of a text may still follow. */
  pause(): readonly ChatEvent[]
  foreign(raw: JsonObject): readonly ChatEvent[]
  call(id: Json | undefined, name: string): readonly ChatEvent[]
  argue(words: string): readonly ChatEvent[]
  closeCall(): readonly ChatEvent[]
  cite(raw: Json | undefined): readonly ChatEvent[]
  finish(reason: Json | undefined, usage: Json | undefined, words?: Json): readonly ChatEvent[]
  fail(failure: Failure): readonly ChatEvent[]
  /** Input is over; what is missing is told. */
  end(): readonly ChatEvent[]
  /** After a failure or the end of the answer nothing more is heard. */
  readonly over: boolean
}

export const answerReader = (): Reader => {
  let answer = ''
  let open: Kind | 'call' | undefined
  /** The words so far of the text that is open, for the places of its sources. */
  let said = ''
  let paused = false
  let calls = 0
  /** The beginning of a call's arguments, while they may still turn out to be none. */
  let held: string | undefined
  /** What is held, without white space: models have written that without end. */
  let heldWords = ''
  let over = false

  const close = (): ChatEvent[] => {
    if (!open) return []
    const last: ChatEvent[] =
      open === 'plan' || open === 'thinking'
        ? [{ type: 'signature', signature: open === 'plan' ? PLAN : THOUGHT }]
        : open === 'call' && held !== undefined
          ? // No arguments are said by nothing at all (recording cohere-chat-function-calling, 173ef52f) or by `null`
            // (cohere-null-args); both mean the empty object.
            [{ type: 'delta', text: '{}' }]
          : []
    open = undefined
    said = ''
    paused = false
    held = undefined
    return [...last, { type: 'close' }]
  }

  const failed = (failure: Failure): ChatEvent[] => {
    over = true
    return [{ type: 'failure', failure }]
  }

  const begin = (kind: Kind): ChatEvent[] => {
    if (open === kind && !paused) return []
    const before = close()
    open = kind
    return [...before, { type: 'open', block: { type: kind === 'text' ? 'text' : 'reasoning' } }]
  }

  return {
    get over() {
      return over
    },
    start(id) {
      answer = text(id) ?? ''
      return [{ type: 'start', ...(answer && { id: answer }) }]
    },
    say(kind, words, item) {
      const logprobs = kind === 'text' ? logprobsOf(item) : []
      if (words === '' && logprobs.length === 0) return []
      const before = begin(kind)
      if (kind === 'text') said += words
      return [...before, { type: 'delta', text: words, ...(logprobs.length > 0 && { logprobs }) }]
    },
    pause() {
      if (open !== 'text') return open === 'call' ? [] : close()
      paused = true
      return []
    },
    foreign: (raw) => [
      ...close(),
      { type: 'open', block: { type: 'foreign', protocol: 'cohere', raw } },
      { type: 'close' },
    ],
    call(id, name) {
      const before = close()
      if (name === '') return [...before, ...failed(malformed('a call without a name'))]
      open = 'call'
      held = ''
      heldWords = ''
      const known = text(id) || derivedCallId(answer, calls, name)
      calls++
      return [...before, { type: 'open', block: { type: 'tool-call', id: known, name } }]
    },
    argue(words) {
      if (open !== 'call') return words === '' ? [] : failed(malformed('arguments of no call'))
      if (held === undefined) return words === '' ? [] : [{ type: 'delta', text: words }]
      held += words
      heldWords += words.trim()
      if ('null'.startsWith(heldWords)) return []
      const whole = held
      held = undefined
      return [{ type: 'delta', text: whole }]
    },
    closeCall: () => (open === 'call' ? close() : []),
    cite: (raw) =>
      open === 'text' && isOfText(raw)
        ? citationsOf(raw, said).map((citation) => ({ type: 'citation', citation }) as const)
        : [],
    finish(reason, usage, words) {
      const ending = endingOf(reason, calls > 0, words)
      const spent = decodeUsage(usage)
      const before: ChatEvent[] = [...close(), ...(spent ? [{ type: 'usage', usage: spent } as const] : [])]
      if (!ending) return before
      if (!ending.ok) return [...before, ...failed(ending.failure)]
      over = true
      return [...before, { type: 'finish', finish: { kind: ending.kind, raw: ending.raw } }]
    },
    fail: failed,
    end: () => (over ? [] : failed(fail('truncated', "The provider's answer broke off before its end."))),
  }
}
