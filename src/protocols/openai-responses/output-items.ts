/** The values in a responses answer: output items, their parts and usage. */
import type { Citation, Usage } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, list, number, object, parseJson, text } from '../../core/json.ts'
import { type QualifiedTool, SEARCH_CALL } from '../shared/tool-names.ts'

/** An event of a responses stream without its sequence number. */
export type WireEvent = { readonly type: string } & JsonObject

/** An output item that is being written. The next item or the end of the answer ends it, because only then its status is known. */
export type OutputItem =
  | { readonly kind: 'message'; readonly id: string; readonly content: JsonObject[] }
  | {
      readonly kind: 'reasoning'
      readonly id: string
      readonly summary: JsonObject[]
      readonly content: JsonObject[]
      encryptedContent: string | undefined
    }
  | {
      readonly kind: 'call'
      readonly id: string
      readonly callId: string
      readonly name: string
      /** Set for a tool search or a namespace member. */
      readonly called: QualifiedTool | undefined
      readonly custom: boolean
      arguments: string
    }
  | { readonly kind: 'foreign'; readonly raw: JsonObject }

export const isSearch = (item: OutputItem | undefined): boolean =>
  item?.kind === 'call' && item.called?.kind === 'search'

/** The item as JSON. */
export const encodeItem = (item: OutputItem, status: 'in_progress' | 'completed' | 'incomplete'): JsonObject => {
  switch (item.kind) {
    case 'message':
      return { type: 'message', id: item.id, status, role: 'assistant', content: [...item.content] }
    case 'reasoning':
      return {
        type: 'reasoning',
        id: item.id,
        status,
        summary: [...item.summary],
        ...(item.content.length > 0 && { content: [...item.content] }),
        ...(item.encryptedContent !== undefined && { encrypted_content: item.encryptedContent }),
      }
    case 'call': {
      const { id, callId, name, called } = item
      const call = { id, status, call_id: callId }
      if (called?.kind === 'search')
        return { type: SEARCH_CALL, ...call, execution: 'client', arguments: asObject(item.arguments) }
      const tool = { name, ...(called && { namespace: called.namespace }) }
      return item.custom
        ? { type: 'custom_tool_call', ...call, ...tool, input: item.arguments }
        : { type: 'function_call', ...call, ...tool, arguments: item.arguments }
    }
    case 'foreign':
      // An image is long, so it is sent only once, at its end.
      return status === 'in_progress' && item.raw.type === 'image_generation_call'
        ? { ...item.raw, status, result: null }
        : item.raw
    default:
      throw new Error(`unknown item ${JSON.stringify(item satisfies never)}`)
  }
}

/** The arguments as an object. Invalid JSON stays text, so that the client can report it. */
const asObject = (source: string): Json => {
  try {
    const value: unknown = parseJson(source || '{}')
    return isObject(value) ? value : source
  } catch {
    return source
  }
}

/** An `output_text` part. */
export const outputText = (
  content: string,
  annotations: readonly JsonObject[],
  logprobs: readonly JsonObject[],
): JsonObject => ({ type: 'output_text', text: content, annotations, logprobs })

/** A citation as an annotation. Without a range it covers all text so far (`length` characters). */
export const encodeCitation = ({ url, title, start, end }: Citation, length: number): JsonObject => ({
  type: 'url_citation',
  url,
  title: title ?? '',
  start_index: start ?? 0,
  end_index: end ?? length,
})

/** A token's log probability with its alternatives; empty if the value is incomplete. */
export const encodeLogprob = (value: Json): JsonObject[] =>
  encodeToken(value).map((token) => ({
    ...token,
    top_logprobs: list(object(value)?.top_logprobs).flatMap(encodeToken),
  }))

const encodeToken = (value: Json): JsonObject[] => {
  const token = text(object(value)?.token)
  const logprob = number(object(value)?.logprob)
  return token === undefined || logprob === undefined ? [] : [{ token, logprob, bytes: list(object(value)?.bytes) }]
}

/** Token counts in this format. */
export const encodeUsage = ({ input, output, cacheRead = 0, cacheWrite = 0, reasoning = 0 }: Usage): JsonObject => ({
  input_tokens: input,
  input_tokens_details: { cached_tokens: cacheRead, cache_write_tokens: cacheWrite },
  output_tokens: output,
  output_tokens_details: { reasoning_tokens: reasoning },
  total_tokens: input + output,
})
