/** Decodes content blocks, for complete answers and streams. */

import type { ChatEvent } from '../../core/chat.ts'
import { isObject, type JsonObject, list, text } from '../../core/json.ts'
import { malformed } from '../errors/answer-failures.ts'
import { derivedCallId } from '../shared/call-ids.ts'
import { showsSummary } from '../shared/claude.ts'
import { argumentsText, exceedsDepth, MAX_DEPTH } from '../shared/tool-arguments.ts'
import { byType, nonEmptyString, optionalArguments, optionalObject, optionalString } from '../shared/type-checks.ts'
import { decodeCitation } from './citations.ts'

/** The answer of a block: the id of a call without one is derived from its place, and the model decides what its thinking is. */
export type BlockPlace = { readonly id: string; readonly index: number; readonly model: string }

/** The events of a complete block, from `open` to `close`. */
export const decodeBlock = (block: JsonObject, place: BlockPlace): readonly ChatEvent[] => {
  const close = { type: 'close' } as const
  switch (block.type) {
    case 'text':
    case 'thinking':
    case 'redacted_thinking':
      return [...beginBlock(block, place), close]
    case 'tool_use': {
      const input = argumentsText(block.input)
      if (input === undefined)
        return [{ type: 'failure', failure: malformed('the input of a tool call is nested too deep') }]
      return [...beginBlock(block, place), { type: 'delta', text: input }, close]
    }
    default:
      return exceedsDepth(block, MAX_DEPTH)
        ? [{ type: 'failure', failure: malformed('a block is nested too deep') }]
        : [...beginBlock(block, place), close]
  }
}

/** The `open` event of a block and the content it already has, except a call's input, which a stream sends in deltas. */
export const beginBlock = (block: JsonObject, place: BlockPlace): readonly ChatEvent[] => {
  switch (block.type) {
    case 'text':
      return [
        { type: 'open', block: { type: 'text' } },
        ...textDelta(text(block.text)),
        ...list(block.citations).flatMap((raw): ChatEvent[] => {
          const citation = decodeCitation(raw)
          return citation ? [{ type: 'citation', citation }] : []
        }),
      ]
    case 'thinking': {
      const signature = text(block.signature)
      return [
        { type: 'open', block: { type: 'reasoning', ...(showsSummary(place.model) && { summary: true }) } },
        ...textDelta(text(block.thinking)),
        ...(signature ? [signatureEvent(signature)] : []),
      ]
    }
    case 'redacted_thinking':
      return [
        { type: 'open', block: { type: 'reasoning' } },
        {
          type: 'signature',
          signature: { origin: 'anthropic-messages', value: text(block.data) ?? '', redacted: true },
        },
      ]
    case 'tool_use':
      return [
        {
          type: 'open',
          block: {
            type: 'tool-call',
            id: text(block.id) || derivedCallId(place.id, place.index),
            name: text(block.name) ?? '',
          },
        },
      ]
    // Hosted tools, their results and unknown blocks are foreign: clients of other formats must not run them.
    default:
      return [{ type: 'open', block: { type: 'foreign', protocol: 'anthropic-messages', raw: block } }]
  }
}

const textDelta = (content: string | undefined): readonly ChatEvent[] =>
  content ? [{ type: 'delta', text: content }] : []

/** The event for a signature of this format. */
export const signatureEvent = (signature: string): ChatEvent => ({
  type: 'signature',
  signature: { origin: 'anthropic-messages', value: signature },
})

/** The explanation of a refusal as a refusal block; empty without one. */
export const refusal = (explanation: string | undefined): readonly ChatEvent[] =>
  explanation === undefined
    ? []
    : [{ type: 'open', block: { type: 'refusal' } }, { type: 'delta', text: explanation }, { type: 'close' }]

const hasBlockTypes = byType({
  text: optionalObject({ text: optionalString }),
  thinking: optionalObject({ thinking: optionalString, signature: optionalString }),
  redacted_thinking: optionalObject({ data: optionalString }),
  tool_use: optionalObject({ name: nonEmptyString, input: optionalArguments }),
})

/** True for an object with a `type` whose members have the right types. */
export const isBlock = (value: unknown): value is JsonObject =>
  isObject(value) && typeof value.type === 'string' && hasBlockTypes(value)

/** Checks the member types of a `content_block_delta`'s delta. */
export const isDelta = byType({
  text_delta: optionalObject({ text: optionalString }),
  thinking_delta: optionalObject({ thinking: optionalString }),
  signature_delta: optionalObject({ signature: optionalString }),
  input_json_delta: optionalObject({ partial_json: optionalString }),
})
