/**
 * A proof of reasoning on its way through a client that speaks responses. This format has one place for it,
 * `encrypted_content`; a proof of another format is put there with a label, and told apart by it when it comes back.
 */
import type { ReasoningSignature, UpstreamProtocolName } from '../../core/chat.ts'
import { type JsonObject, list, object, text } from '../../core/json.ts'

const HERE: UpstreamProtocolName = 'openai-responses'
const LABEL = 'hg1:'
const SEALED = /^hg1:([a-z-]+):(redacted)?:([^:]*):/

/** The names a label may carry, each once: a format missing here is a compile error. */
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

/** What a client of this format is given as `encrypted_content`. */
export const seal = ({ origin, value, redacted, id }: ReasoningSignature): string =>
  // toWellFormed: half a surrogate pair makes encodeURIComponent throw.
  origin === HERE
    ? value
    : `${LABEL}${origin}:${redacted ? 'redacted' : ''}:${encodeURIComponent((id ?? '').toWellFormed())}:${value}`

/** The proof an `encrypted_content` is: another format's under its label, otherwise this one's own. */
export const unseal = (sealed: string, itemId?: string): ReasoningSignature => {
  const found = SEALED.exec(sealed)
  const origin = Object.values(ORIGINS).find((name) => name === found?.[1])
  if (!found || !origin) return { origin: HERE, value: sealed, ...(itemId && { id: itemId }) }
  const id = decoded(found[3] ?? '')
  return {
    origin,
    value: sealed.slice(found[0].length),
    ...(found[2] && { redacted: true }),
    ...(id && { id }),
  }
}

const decoded = (escaped: string): string => {
  try {
    return decodeURIComponent(escaped)
  } catch {
    // Not a label of ours then, or one somebody changed; the id is a convenience and its loss no harm.
    return ''
  }
}

/** Ids of reasoning items made here begin so; no upstream has ever stored such an item. */
export const OWN_REASONING = 'rs_hg'

/** Whether a reasoning item means nothing to any upstream of this format: sealed by another, or only ever made here. */
export const isForeignReasoning = (item: JsonObject): boolean => {
  if (item.type !== 'reasoning') return false
  const sealed = text(item.encrypted_content)
  if (sealed) return unseal(sealed).origin !== HERE
  return text(item.id)?.startsWith(`${OWN_REASONING}_`) === true
}

/** The texts of a reasoning item: its summary's paragraphs, and the thoughts themselves. */
export const reasoningTexts = (item: JsonObject): { readonly summary: string; readonly thoughts: string } => ({
  summary: textsOf(item.summary).join('\n\n'),
  thoughts: textsOf(item.content).join(''),
})

const textsOf = (parts: unknown): string[] =>
  list(parts).flatMap((part) => {
    const words = text(object(part)?.text)
    return words ? [words] : []
  })
