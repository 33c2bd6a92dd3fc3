/**
 * A guard for tests of the list. It masks one secret in requests and restores it in answers, refuses requests with a forbidden
 * word, and ends answers with a stop word.
 */
import type { ChatEvent } from '../../src/core/chat.ts'
import { fail } from '../../src/core/failure.ts'
import type { ChooseGuards, ChosenGuard } from '../../src/core/guard.ts'
import type { Stage } from '../../src/core/stage.ts'

/** A quotation mark has an escape in JSON. */
export const SECRET = 'hun"ter2'
export const MASK = '[MASK_K7Q2M9]'
export const FORBIDDEN = 'forbidden-word'
export const STOP_WORD = 'stop-word'

const REFUSED = fail('content_policy', 'The request contains a forbidden word.')
const STOPPED = fail('content_policy', 'The answer contains a stop word.')

const maskingGuard = (): ChosenGuard => ({
  revision: 'masking 1',
  request: (texts) => {
    if (texts().some(({ text }) => text.includes(FORBIDDEN))) return { refuse: REFUSED }
    const found = texts().filter(({ text }) => text.includes(SECRET))
    return found.length === 0
      ? null
      : { replace: new Map(found.map(({ text }) => [text, text.replaceAll(SECRET, MASK)])) }
  },
  events: () => new UnmaskingStage(),
})

/** The guard for every call. `later`: its verdict is a promise, as that of a service. */
export const withMasking =
  (later = false): ChooseGuards =>
  () => {
    const guard = maskingGuard()
    return [
      later ? { ...guard, request: async (texts, media) => (await guard.request?.(texts, media)) ?? null } : guard,
    ]
  }

/** The words that may be cut between two deltas. */
const WORDS = [MASK, STOP_WORD]

/** Restores the secret in texts and in arguments of tools. Holds back what may be the beginning of a word. */
class UnmaskingStage implements Stage<ChatEvent, ChatEvent> {
  #held = ''
  #isArguments = false
  #isChanged = true

  push(event: ChatEvent): readonly ChatEvent[] {
    switch (event.type) {
      case 'open':
        this.#isArguments = event.block.type === 'tool-call' && event.block.custom !== true
        this.#isChanged = event.block.type !== 'reasoning'
        return [event]
      case 'delta':
        return this.#isChanged ? this.#texts(this.#held + event.text) : [event]
      case 'close':
      case 'finish':
        return [...this.end(), event]
      default:
        return [event]
    }
  }

  end(): readonly ChatEvent[] {
    const rest = this.#held
    this.#held = ''
    return rest === '' ? [] : [{ type: 'delta', text: rest }]
  }

  #texts(text: string): readonly ChatEvent[] {
    const stop = text.indexOf(STOP_WORD)
    const whole = stop === -1 ? text : text.slice(0, stop)
    const secret = this.#isArguments ? JSON.stringify(SECRET).slice(1, -1) : SECRET
    const restored = whole.replaceAll(MASK, () => secret)
    if (stop !== -1)
      return [
        { type: 'delta', text: restored },
        { type: 'failure', failure: STOPPED },
      ]
    const length = Math.max(...WORDS.map((word) => beginning(restored, word)))
    this.#held = restored.slice(restored.length - length)
    return length === restored.length ? [] : [{ type: 'delta', text: restored.slice(0, restored.length - length) }]
  }
}

/** Length of the longest end of the text with which the word begins. */
const beginning = (text: string, word: string): number => {
  for (let length = Math.min(text.length, word.length - 1); length > 0; length--)
    if (word.startsWith(text.slice(-length))) return length
  return 0
}
