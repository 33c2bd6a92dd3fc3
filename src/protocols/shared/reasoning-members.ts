/**
 * Reasoning in chat completions. OpenAI defines no member for it. Other providers use `reasoning_content` or `reasoning`
 * for text, and `reasoning_details` for text with its signature.
 */
import type { Reasoning, ReasoningSignature, UpstreamProtocolName } from '../../core/chat.ts'
import { type Json, type JsonObject, list, object, text } from '../../core/json.ts'

const FORMATS: { readonly [origin in UpstreamProtocolName]: string } = {
  'anthropic-messages': 'anthropic-claude-v1',
  'openai-responses': 'openai-responses-v1',
  'openai-chat': 'unknown',
  gemini: 'google-gemini-v1',
  cohere: 'cohere-v2',
  'bedrock-converse': 'bedrock-converse-v1',
  // These formats have no signatures.
  mistral: 'unknown',
  ollama: 'unknown',
}

/** Formats whose reasoning has a signature beside its text or is encrypted as a whole: Claude at Anthropic and Bedrock. */
export const SIGNED: ReadonlySet<UpstreamProtocolName> = new Set(['anthropic-messages', 'bedrock-converse'])

/** The format that issued a signature. Unknown ones are returned to chat completions providers only. */
const originOf = (format: string | undefined): UpstreamProtocolName => {
  if (format?.startsWith('anthropic')) return 'anthropic-messages'
  if (format?.startsWith('openai-responses')) return 'openai-responses'
  if (format?.startsWith('google-gemini')) return 'gemini'
  if (format?.startsWith('cohere')) return 'cohere'
  if (format?.startsWith('bedrock-converse')) return 'bedrock-converse'
  return 'openai-chat'
}

/**
 * ID prefix of entries that the gateway wrote. Providers write entries of the same formats (OpenRouter:
 * `anthropic-claude-v1`), which are sent back to them. A signature packed by the gateway is sent to its own format only.
 */
const PACKED = 'hg:'

/** Whether the gateway wrote this entry, around a signature of another format. */
export const isGatewayDetail = (entry: Json): boolean => text(object(entry)?.id)?.startsWith(PACKED) === true

/** Between the issuer and the ID of an entry that the gateway wrote. IDs of OpenAI's reasoning have none. */
const ISSUED = '/'

/** The provider's ID, and the instance that encrypted the entry. */
const identityOf = ({ id }: JsonObject, origin: UpstreamProtocolName): Pick<ReasoningSignature, 'id' | 'issuer'> => {
  const found = text(id)
  if (!found?.startsWith(PACKED)) return found === undefined ? {} : { id: found }
  const packed = found.slice(PACKED.length)
  const end = origin === 'openai-responses' ? packed.indexOf(ISSUED) : -1
  const own = packed.slice(end + 1)
  return { ...(own && { id: own }), ...(end > 0 && { issuer: packed.slice(0, end) }) }
}

/** The signature with its issuer, if it is one that only the issuer can read. */
export const issuedSignature = (
  signature: ReasoningSignature,
  { issuer }: { readonly issuer?: string | undefined },
): ReasoningSignature =>
  signature.origin === 'openai-responses' && issuer !== undefined && signature.issuer === undefined
    ? { ...signature, issuer }
    : signature

/** An entry of `reasoning_details`, or a fragment of one in a stream. */
export type ReasoningDetail = {
  readonly text: string
  readonly summary: boolean
  readonly signature?: ReasoningSignature
  readonly group: string
}

/** Decodes an entry; undefined for unknown types. */
export const readDetail = (entry: Json): ReasoningDetail | undefined => {
  const value = object(entry)
  if (!value) return undefined
  const origin = originOf(text(value.format))
  const identity = identityOf(value, origin)
  const group = `${typeof value.index === 'number' ? value.index : ''}`
  const signatureMember = (data: string | undefined, redacted: boolean): { signature?: ReasoningSignature } =>
    data ? { signature: { origin, value: data, ...(redacted && { redacted }), ...identity } } : {}
  switch (value.type) {
    case 'reasoning.text':
      return { text: text(value.text) ?? '', summary: false, group, ...signatureMember(text(value.signature), false) }
    case 'reasoning.summary':
      return { text: text(value.summary) ?? '', summary: true, group }
    case 'reasoning.encrypted':
      // Claude's encrypted blocks have no text; OpenAI's encrypted content belongs to the preceding summary.
      return { text: '', summary: false, group, ...signatureMember(text(value.data), SIGNED.has(origin)) }
    default:
      return undefined
  }
}

/** Whether `next` continues the preceding block. */
export const continuesBlock = (before: ReasoningDetail | undefined, next: ReasoningDetail): boolean =>
  before !== undefined && before.group === next.group && !before.signature && !next.signature?.redacted

/** Decodes a list of details; fragments of one block are joined. */
export const readDetails = (entries: readonly Json[]): Reasoning[] => {
  if (entries.length === 0) return []
  const blocks: ReasoningDetail[] = []
  for (const entry of entries) {
    const next = readDetail(entry)
    if (!next) continue
    const last = blocks.at(-1)
    if (last && continuesBlock(last, next))
      blocks[blocks.length - 1] = {
        ...next,
        text: last.text + next.text,
        summary: last.summary || next.summary,
      }
    else blocks.push(next)
  }
  return blocks
    .filter((block) => block.text !== '' || block.signature)
    .map(({ text, summary, signature }) => ({
      type: 'reasoning',
      text,
      ...(summary && { summary }),
      ...(signature && { signature }),
    }))
}

/** Encodes a reasoning block as entries of `reasoning_details`. */
export const writeDetails = (block: Omit<Reasoning, 'type'>, index: number): JsonObject[] => {
  const { text, summary, signature } = block
  const format = FORMATS[signature?.origin ?? 'openai-chat']
  // The upstream's own entries keep their IDs.
  const isPacked = signature !== undefined && signature.origin !== 'openai-chat'
  const issuer = signature?.issuer === undefined ? '' : `${signature.issuer}${ISSUED}`
  const id = isPacked ? `${PACKED}${issuer}${signature.id ?? ''}` : signature?.id
  const common = { ...(id !== undefined && { id }), format, index }
  if (signature?.redacted) return [{ type: 'reasoning.encrypted', data: signature.value, ...common }]
  if (signature && SIGNED.has(signature.origin))
    return [{ type: 'reasoning.text', text, signature: signature.value, ...common }]
  return [
    ...(text === ''
      ? []
      : summary
        ? [{ type: 'reasoning.summary', summary: text, ...common }]
        : [{ type: 'reasoning.text', text, ...common }]),
    ...(signature ? [{ type: 'reasoning.encrypted', data: signature.value, ...common }] : []),
  ]
}

/** The plain reasoning text of a message or delta. */
export const reasoningText = (message: JsonObject): string | undefined =>
  text(message.reasoning_content) || text(message.reasoning) || undefined

/** The `reasoning_details` of a message or delta. */
export const detailsOf = (message: JsonObject): readonly Json[] => list(message.reasoning_details)
