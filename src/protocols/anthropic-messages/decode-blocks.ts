/** The blocks of an answer as events. Whole answers and streams both open a block by what stands in it. */
import type { ChatEvent } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { isObject, type JsonObject, list, text } from '../../core/json.ts'
import { derivedCallId } from '../shared/call-ids.ts'
import { argumentsText, exceedsDepth, MAX_DEPTH } from '../shared/tool-arguments.ts'
import { byType, nonEmptyString, optionalArguments, optionalObject, optionalString } from '../shared/type-checks.ts'
import { decodeCitation } from './citations.ts'

export const malformed = (what: string): Failure =>
  fail('malformed', `The provider's answer could not be read: ${what}.`)

/** The events a whole block is, from `open` to `close`. `place` makes an id for a call that has none. */
export const decodeBlock = (block: JsonObject, place: readonly (string | number)[]): readonly ChatEvent[] => {
  const close = { type: 'close' } as const
  switch (block.type) {
    case 'text':
    case 'thinking':
    case 'redacted_thinking':
      return [...beginBlock(block, place), close]
    case 'tool_use': {
      const written = argumentsText(block.input)
      if (written === undefined) return [{ type: 'failure', failure: malformed('a call with too deep an input') }]
      return [...beginBlock(block, place), { type: 'delta', text: written }, close]
    }
    default:
      return exceedsDepth(block, MAX_DEPTH)
        ? [{ type: 'failure', failure: malformed('a block nested too deep') }]
        : [...beginBlock(block, place), close]
  }
}

/** The opening of a block and all it already says, save a call's input, which in a stream comes by and by. */
export const beginBlock = (block: JsonObject, place: readonly (string | number)[]): readonly ChatEvent[] => {
  switch (block.type) {
    case 'text':
      return [
        { type: 'open', block: { type: 'text' } },
        ...said(text(block.text)),
        ...list(block.citations).flatMap((raw): ChatEvent[] => {
          const citation = decodeCitation(raw)
          return citation ? [{ type: 'citation', citation }] : []
        }),
      ]
    case 'thinking': {
      const signature = text(block.signature)
      return [
        { type: 'open', block: { type: 'reasoning' } },
        ...said(text(block.thinking)),
        ...(signature ? [proof(signature)] : []),
      ]
    }
    case 'redacted_thinking':
      return [
        { type: 'open', block: { type: 'reasoning' } },
        { type: 'proof', proof: { origin: 'anthropic-messages', value: text(block.data) ?? '', redacted: true } },
      ]
    case 'tool_use':
      return [
        {
          type: 'open',
          block: { type: 'tool-call', id: text(block.id) || derivedCallId(...place), name: text(block.name) ?? '' },
        },
      ]
    // Tools the provider runs, their results, and whatever comes next: nothing a client of another format may run.
    default:
      return [{ type: 'open', block: { type: 'foreign', protocol: 'anthropic-messages', raw: block } }]
  }
}

const said = (words: string | undefined): readonly ChatEvent[] => (words ? [{ type: 'delta', text: words }] : [])

export const proof = (signature: string): ChatEvent => ({
  type: 'proof',
  proof: { origin: 'anthropic-messages', value: signature },
})

/** Why a model refused, as the refusal it did not write. */
export const refusal = (explanation: string | undefined): readonly ChatEvent[] =>
  explanation === undefined
    ? []
    : [{ type: 'open', block: { type: 'refusal' } }, { type: 'delta', text: explanation }, { type: 'close' }]

const FITS = byType({
  text: optionalObject({ text: optionalString }),
  thinking: optionalObject({ thinking: optionalString, signature: optionalString }),
  redacted_thinking: optionalObject({ data: optionalString }),
  tool_use: optionalObject({ name: nonEmptyString, input: optionalArguments }),
})

/** A block of a type, whose members are of theirs. */
export const isBlock = (value: unknown): value is JsonObject =>
  isObject(value) && typeof value.type === 'string' && FITS(value)

/** What a step adds to a block. */
export const isStep = byType({
  text_delta: optionalObject({ text: optionalString }),
  thinking_delta: optionalObject({ thinking: optionalString }),
  signature_delta: optionalObject({ signature: optionalString }),
  input_json_delta: optionalObject({ partial_json: optionalString }),
})
