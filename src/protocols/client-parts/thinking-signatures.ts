/**
 * Reasoning signatures in a thinking block's `signature`, which clients store and send back. Another format's signature is
 * packed there with a mark, so that it is recognised and never mistaken for one of Anthropic's.
 */
import type { Reasoning, ReasoningSignature, UpstreamProtocolName } from '../../core/chat.ts'
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

/**
 * The `signature` of a thinking block. It includes whether the text is a summary, because the block has no member for that
 * and OpenAI rejects a summary that is sent back as `content`.
 */
export const encodeSignature = (signature: ReasoningSignature, summary: boolean): string =>
  signature.origin === 'anthropic-messages' && !signature.redacted
    ? signature.value
    : packReasoning(signature, { summary })

/** Decodes a client's `signature`: the reasoning signature and whether the text is a summary. Empty: no members. */
export const decodeSignature = (signature: string): Pick<Reasoning, 'signature' | 'summary'> => {
  if (signature === '') return {}
  const packed = unpackReasoning(signature)
  if (!packed) return { signature: { origin: 'anthropic-messages', value: signature } }
  const { text: _, ...reasoning } = packed
  return reasoning
}

/** A signature with its mark. `text`: the reasoning, for formats whose clients do not return it. */
export const packReasoning = (
  signature: ReasoningSignature,
  { summary, text }: { readonly summary: boolean; readonly text?: string },
): string => MARK + JSON.stringify({ ...signature, ...(summary && { summary }), ...(text && { text }) })

/** True if the signature was not packed by the gateway, so it is Anthropic's. */
export const isOwn = (signature: unknown): boolean =>
  typeof signature === 'string' && signature !== '' && !signature.startsWith(MARK)

/** The members of `packReasoning`; undefined if they were packed elsewhere, or changed. */
export const unpackReasoning = (
  signature: string,
): (Omit<Reasoning, 'type' | 'text'> & Partial<Pick<Reasoning, 'text'>>) | undefined => {
  if (!signature.startsWith(MARK)) return undefined
  const packed = parseObject(signature.slice(MARK.length))
  // The client modified the value; keep it as an ordinary signature.
  if (!packed) return undefined
  const origin = text(packed.origin)
  const value = text(packed.value)
  if (origin === undefined || value === undefined || !ORIGINS.has(origin)) return undefined
  const id = text(packed.id)
  const issuer = text(packed.issuer)
  const reasoned = text(packed.text)
  return {
    ...(packed.summary === true && { summary: true }),
    ...(reasoned !== undefined && { text: reasoned }),
    signature: {
      // The cast is safe: `ORIGINS` has the name.
      origin: origin as UpstreamProtocolName,
      value,
      ...(packed.redacted === true && { redacted: true }),
      ...(id !== undefined && { id }),
      ...(issuer !== undefined && { issuer }),
    },
  }
}
