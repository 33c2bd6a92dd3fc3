/**
 * Reasoning signatures in `encrypted_content`, the only place this format has for them. Another format's signature is
 * stored there with a label, by which it is recognised when the client sends it back. If the signature covers a text, the
 * text is stored too: the AI SDK and Codex return `summary` and `encrypted_content`, but not `content`.
 */
import type { ReasoningSignature, UpstreamProtocolName } from '../../core/chat.ts'
import { type JsonObject, list, object, text } from '../../core/json.ts'
import type { EncodeTarget } from '../../core/protocol.ts'
import { SIGNED } from '../shared/reasoning-members.ts'

const OWN_FORMAT: UpstreamProtocolName = 'openai-responses'
const LABEL = 'hg1:'
/** Format, kind, id and length of the text; then the text and the signature. */
const LABELLED = /^hg1:([a-z-]{1,32}):(redacted)?:([^:]*):(\d{1,7}):/

/** Characters of the longest text that is stored with its signature. Claude's longest thinking is half as long. */
const MAX_TEXT = 1_048_576

/** The format names a label may contain. The type makes a missing format a compile error. */
const ORIGINS: { readonly [name in UpstreamProtocolName]: name } = {
  'openai-chat': 'openai-chat',
  'openai-responses': 'openai-responses',
  'anthropic-messages': 'anthropic-messages',
  gemini: 'gemini',
  'bedrock-converse': 'bedrock-converse',
  cohere: 'cohere',
  mistral: 'mistral',
  ollama: 'ollama',
}

/** The signature of a reasoning text as `encrypted_content`. */
export const encryptedContent = ({ origin, value, redacted, id }: ReasoningSignature, reasoning: string): string => {
  if (origin === OWN_FORMAT) return value
  const signed = SIGNED.has(origin) && !redacted && reasoning.length <= MAX_TEXT ? reasoning : ''
  // encodeURIComponent throws on a lone surrogate, so the id is made well-formed first.
  const name = encodeURIComponent((id ?? '').toWellFormed())
  return `${LABEL}${origin}:${redacted ? 'redacted' : ''}:${name}:${signed.length}:${signed}${value}`
}

/** Raw reasoning without a signature, for clients that return only items with encrypted content (the AI SDK, Codex). */
export const unsignedContent = (reasoning: string): string | undefined =>
  reasoning === '' || reasoning.length > MAX_TEXT ? undefined : `${LABEL}openai-chat:::${reasoning.length}:${reasoning}`

/** A signature, and the text it covers if that is stored with it. Without a signature: raw reasoning. */
export type SignedReasoning = { readonly signature?: ReasoningSignature; readonly text: string }

/** Reads an `encrypted_content`: a signature of the format in its label, otherwise of this format. */
export const signedReasoning = (encrypted: string, itemId?: string): SignedReasoning => {
  const found = LABELLED.exec(encrypted)
  const origin = Object.values(ORIGINS).find((name) => name === found?.[1])
  if (!found || !origin)
    return { signature: { origin: OWN_FORMAT, value: encrypted, ...(itemId && { id: itemId }) }, text: '' }
  const id = unescaped(found[3] ?? '')
  const start = found[0].length
  const end = start + Number(found[4])
  const value = encrypted.slice(end)
  const signature = { origin, value, ...(found[2] && { redacted: true }), ...(id && { id }) }
  return { ...(value !== '' && { signature }), text: encrypted.slice(start, end) }
}

const unescaped = (escaped: string): string => {
  try {
    return decodeURIComponent(escaped)
  } catch {
    // The label was modified. The id is optional.
    return ''
  }
}

/** Prefix of the ids of reasoning items made by the gateway. No upstream has such an item stored. */
export const OWN_REASONING = 'rs_hg'

/**
 * True for a reasoning item that the target cannot use: signed by another format, encrypted by another instance, or made by
 * the gateway. Providers that read plain reasoning encrypt none.
 */
export const isForeignReasoning = (
  item: JsonObject,
  { acceptsReasoning, isEncryptedElsewhere }: Omit<EncodeTarget, 'model'> = {},
): boolean => {
  if (item.type !== 'reasoning') return false
  const encrypted = text(item.encrypted_content)
  if (!encrypted) return text(item.id)?.startsWith(`${OWN_REASONING}_`) === true
  if (acceptsReasoning || signedReasoning(encrypted).signature?.origin !== OWN_FORMAT) return true
  return isEncryptedElsewhere?.(encrypted) === true
}

/** The texts of a reasoning item: the paragraphs of its summary, and the reasoning itself. */
export const reasoningTexts = (item: JsonObject): { readonly summary: string; readonly reasoning: string } => ({
  summary: textsOf(item.summary).join('\n\n'),
  reasoning: textsOf(item.content).join(''),
})

const textsOf = (parts: unknown): string[] =>
  list(parts).flatMap((part) => {
    const content = text(object(part)?.text)
    return content ? [content] : []
  })
