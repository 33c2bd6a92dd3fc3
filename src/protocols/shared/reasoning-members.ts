/**
 * Reasoning in chat completions. OpenAI has no place for it; others use `reasoning_content` or `reasoning` for the text,
 * and `reasoning_details` for text with its proof, a list every vendor's proof fits into.
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
  // These two sign nothing.
  mistral: 'unknown',
  ollama: 'unknown',
}

/** Where a thought has a signature beside its text, or is sealed whole: Claude's, at its maker's and at Bedrock. */
const SIGNED: ReadonlySet<UpstreamProtocolName> = new Set(['anthropic-messages', 'bedrock-converse'])

/** Whose proof it is. One of a format we do not speak can only go back the way it came: through chat completions. */
const originOf = (format: string | undefined): UpstreamProtocolName => {
  if (format?.startsWith('anthropic')) return 'anthropic-messages'
  if (format?.startsWith('openai-responses')) return 'openai-responses'
  if (format?.startsWith('google-gemini')) return 'gemini'
  if (format?.startsWith('cohere')) return 'cohere'
  if (format?.startsWith('bedrock-converse')) return 'bedrock-converse'
  return 'openai-chat'
}

/**
 * Ids of entries that were written here begin so. Other vendors of chat completions write entries of the same formats
 * (OpenRouter: `anthropic-claude-v1`), and theirs go back to them; a proof packed here goes back to its own format only.
 */
const PACKED = 'hg:'

/** Whether an entry was written here, around the proof of another format. */
export const isGatewayDetail = (entry: Json): boolean => text(object(entry)?.id)?.startsWith(PACKED) === true

/** The maker's id. */
const idIn = ({ id }: JsonObject): string | undefined => {
  const found = text(id)
  return found?.startsWith(PACKED) ? found.slice(PACKED.length) || undefined : found
}

/** One entry of `reasoning_details`, or a piece of one in a stream. */
export type ReasoningDetail = {
  readonly text: string
  readonly summary: boolean
  readonly proof?: ReasoningSignature
  readonly group: string
}

export const readDetail = (entry: Json): ReasoningDetail | undefined => {
  const value = object(entry)
  if (!value) return undefined
  const origin = originOf(text(value.format))
  const id = idIn(value)
  const group = `${typeof value.index === 'number' ? value.index : ''}`
  const proof = (sealed: string | undefined, redacted: boolean): { proof?: ReasoningSignature } =>
    sealed ? { proof: { origin, value: sealed, ...(redacted && { redacted }), ...(id !== undefined && { id }) } } : {}
  switch (value.type) {
    case 'reasoning.text':
      return { text: text(value.text) ?? '', summary: false, group, ...proof(text(value.signature), false) }
    case 'reasoning.summary':
      return { text: text(value.summary) ?? '', summary: true, group }
    case 'reasoning.encrypted':
      // Sealed blocks of Claude stand alone; OpenAI's seal belongs to the summary before it.
      return { text: '', summary: false, group, ...proof(text(value.data), SIGNED.has(origin)) }
    default:
      return undefined
  }
}

/** Whether this piece goes on with the block before it. */
export const continuesBlock = (before: ReasoningDetail | undefined, next: ReasoningDetail): boolean =>
  before !== undefined && before.group === next.group && !before.proof && !next.proof?.redacted

/** A whole list of details as blocks, pieces of one block joined. */
export const readDetails = (entries: readonly Json[]): Reasoning[] => {
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
    .filter((block) => block.text !== '' || block.proof)
    .map(({ text, summary, proof }) => ({
      type: 'reasoning',
      text,
      ...(summary && { summary }),
      ...(proof && { proof }),
    }))
}

/** One block of reasoning as entries of `reasoning_details`. */
export const writeDetails = (block: Omit<Reasoning, 'type'>, index: number): JsonObject[] => {
  const { text, summary, proof } = block
  const format = FORMATS[proof?.origin ?? 'openai-chat']
  // A proof in this format was written by the upstream, and keeps its id.
  const isOurs = proof !== undefined && proof.origin !== 'openai-chat'
  const id = isOurs ? `${PACKED}${proof.id ?? ''}` : proof?.id
  const common = { ...(id !== undefined && { id }), format, index }
  if (proof?.redacted) return [{ type: 'reasoning.encrypted', data: proof.value, ...common }]
  if (proof && SIGNED.has(proof.origin)) return [{ type: 'reasoning.text', text, signature: proof.value, ...common }]
  return [
    ...(text === ''
      ? []
      : summary
        ? [{ type: 'reasoning.summary', summary: text, ...common }]
        : [{ type: 'reasoning.text', text, ...common }]),
    ...(proof ? [{ type: 'reasoning.encrypted', data: proof.value, ...common }] : []),
  ]
}

/** The reasoning a message or a delta of theirs carries as plain text. */
export const reasoningText = (said: JsonObject): string | undefined =>
  text(said.reasoning_content) || text(said.reasoning) || undefined

export const detailsOf = (said: JsonObject): readonly Json[] => list(said.reasoning_details)
