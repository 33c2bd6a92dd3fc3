/**
 * Reasoning signatures in `encrypted_content`, the only place this format has for them. Another format's signature is
 * stored there with a label, by which it is recognised when the client sends it back.
 */
import type { ReasoningSignature, UpstreamProtocolName } from '../../core/chat.ts'
import { type JsonObject, list, object, text } from '../../core/json.ts'

const OWN_FORMAT: UpstreamProtocolName = 'openai-responses'
const LABEL = 'hg1:'
const LABELLED = /^hg1:([a-z-]+):(redacted)?:([^:]*):/

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

/** The signature as `encrypted_content`. */
export const encryptedContent = ({ origin, value, redacted, id }: ReasoningSignature): string =>
  // encodeURIComponent throws on a lone surrogate, so the id is made well-formed first.
  origin === OWN_FORMAT
    ? value
    : `${LABEL}${origin}:${redacted ? 'redacted' : ''}:${encodeURIComponent((id ?? '').toWellFormed())}:${value}`

/** The signature in an `encrypted_content`: of the format in its label, otherwise of this format. */
export const reasoningSignature = (encrypted: string, itemId?: string): ReasoningSignature => {
  const found = LABELLED.exec(encrypted)
  const origin = Object.values(ORIGINS).find((name) => name === found?.[1])
  if (!found || !origin) return { origin: OWN_FORMAT, value: encrypted, ...(itemId && { id: itemId }) }
  const id = unescaped(found[3] ?? '')
  return {
    origin,
    value: encrypted.slice(found[0].length),
    ...(found[2] && { redacted: true }),
    ...(id && { id }),
  }
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

/** True for a reasoning item that no upstream of this format can use: signed by another format, or made by the gateway. */
export const isForeignReasoning = (item: JsonObject): boolean => {
  if (item.type !== 'reasoning') return false
  const encrypted = text(item.encrypted_content)
  if (encrypted) return reasoningSignature(encrypted).origin !== OWN_FORMAT
  return text(item.id)?.startsWith(`${OWN_REASONING}_`) === true
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
