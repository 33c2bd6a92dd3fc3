/**
 * A client of this format keeps a thinking block's `signature` and sends it back, whoever answered. So the proof of
 * another format travels there, packed so that it is known again and never mistaken for one of Anthropic's.
 */
import type { Proof, UpstreamProtocolName } from '../../core/chat.ts'
import { parseObject, text } from '../../core/json.ts'

const MARK = 'headgate.proof.1.'
const ORIGINS: ReadonlySet<string> = new Set<UpstreamProtocolName>([
  'openai-chat',
  'openai-responses',
  'anthropic-messages',
  'gemini',
  'bedrock-converse',
  'cohere',
  'mistral',
  'ollama',
])

/** The signature a client is given for this proof. */
export const sign = (proof: Proof): string =>
  proof.origin === 'anthropic-messages' && !proof.redacted ? proof.value : MARK + JSON.stringify(proof)

/** The proof in a signature a client sent; undefined for an empty one, which proves nothing. */
export const proofIn = (signature: string): Proof | undefined => {
  if (signature === '') return undefined
  return packedIn(signature) ?? { origin: 'anthropic-messages', value: signature }
}

/** Whether Anthropic itself made this signature, as far as can be seen. */
export const isOwn = (signature: unknown): boolean =>
  typeof signature === 'string' && signature !== '' && !signature.startsWith(MARK)

const packedIn = (signature: string): Proof | undefined => {
  if (!signature.startsWith(MARK)) return undefined
  const packed = parseObject(signature.slice(MARK.length))
  // A client that changed what it was given: the block then proves nothing here and is kept as a signature.
  if (!packed) return undefined
  const origin = text(packed.origin)
  const value = text(packed.value)
  if (origin === undefined || value === undefined || !ORIGINS.has(origin)) return undefined
  const id = text(packed.id)
  return {
    // Looked up just above.
    origin: origin as UpstreamProtocolName,
    value,
    ...(packed.redacted === true && { redacted: true }),
    ...(id !== undefined && { id }),
  }
}
