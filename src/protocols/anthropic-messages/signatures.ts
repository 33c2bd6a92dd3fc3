/**
 * A client of this format keeps a thinking block's `signature` and sends it back, whoever answered. So the proof of
 * another format travels there, packed so that it is known again and never mistaken for one of Anthropic's.
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
 * The signature a client receives for the proof of a thinking block. It states whether the block's text is a summary:
 * the block has no member for that, and OpenAI refuses a summary that comes back as `content`.
 */
export const sign = (proof: ReasoningSignature, summary: boolean): string =>
  proof.origin === 'anthropic-messages' && !proof.redacted
    ? proof.value
    : MARK + JSON.stringify(summary ? { ...proof, summary } : proof)

/** What a client's signature says of its block: the proof, and whether the text is a summary. An empty one says nothing. */
export const signedIn = (signature: string): Pick<Reasoning, 'proof' | 'summary'> => {
  if (signature === '') return {}
  return packedIn(signature) ?? { proof: { origin: 'anthropic-messages', value: signature } }
}

/** Whether Anthropic itself made this signature, as far as can be seen. */
export const isOwn = (signature: unknown): boolean =>
  typeof signature === 'string' && signature !== '' && !signature.startsWith(MARK)

const packedIn = (signature: string): Pick<Reasoning, 'proof' | 'summary'> | undefined => {
  if (!signature.startsWith(MARK)) return undefined
  const packed = parseObject(signature.slice(MARK.length))
  // A client that changed what it was given: the block then proves nothing here and is kept as a signature.
  if (!packed) return undefined
  const origin = text(packed.origin)
  const value = text(packed.value)
  if (origin === undefined || value === undefined || !ORIGINS.has(origin)) return undefined
  const id = text(packed.id)
  return {
    ...(packed.summary === true && { summary: true }),
    proof: {
      // Looked up just above.
      origin: origin as UpstreamProtocolName,
      value,
      ...(packed.redacted === true && { redacted: true }),
      ...(id !== undefined && { id }),
    },
  }
}
