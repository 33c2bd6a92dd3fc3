/**
 * Reasoning of other formats in a `thoughtSignature`, which clients store and send back. It is base64, because Google's SDKs decode
 * it. It includes the reasoning text, because clients leave thoughts out of the history (gemini-cli 0.61.0).
 */
import { toBase64 } from '../../core/base64.ts'
import type { Reasoning } from '../../core/chat.ts'
import { packReasoning, unpackReasoning } from '../client-parts/thinking-signatures.ts'
import { fromBase64, standardBase64 } from '../shared/media.ts'

/** Google's placeholder for a missing signature: clients send it for calls of other models. */
export const PLACEHOLDER_SIGNATURE = 'skip_thought_signature_validator'

/** The mark of packed reasoning in base64, as far as it does not depend on what follows; the same in both alphabets. */
const MARK = toBase64('headgate.proof.1.').slice(0, 22)

/** Characters of the longest reasoning that is packed with its signature. */
const LONGEST_TEXT = 65_536

/** A signature for the next part of the answer: Gemini's own unchanged, others packed. */
export const encodeThoughtSignature = ({
  text,
  summary = false,
  signature,
}: Required<Pick<Reasoning, 'text' | 'signature'>> & Pick<Reasoning, 'summary'>): string =>
  signature.origin === 'gemini'
    ? signature.value
    : toBase64(packReasoning(signature, { summary, ...(text.length <= LONGEST_TEXT && { text }) }))

/** Whether the gateway has packed the signature, so that Gemini would refuse it. */
export const isPacked = (value: unknown): boolean => typeof value === 'string' && value.startsWith(MARK)

/** The reasoning that the gateway has packed; undefined for a signature of Gemini. */
export const unpackThought = (value: string): Reasoning | undefined => {
  const packed = isPacked(value) ? unpackReasoning(fromBase64(standardBase64(value)) ?? '') : undefined
  return packed && { type: 'reasoning', ...packed, text: packed.text ?? '' }
}
