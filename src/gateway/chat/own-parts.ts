/**
 * Items and blocks of one vendor's own kind at a server of the same format. They pass unchanged, since the server may know
 * them; one that knows the published kinds only refuses the whole request by the type of the item.
 */
import { type Failure, rowOf } from '../../core/failure.ts'
import { isObject, type Json, list, object, text } from '../../core/json.ts'
import { withoutForeignParts } from '../../protocols/shared/foreign-parts.ts'
import type { InboundRequest } from '../upstream/outbound-request.ts'

/** The entry in the refusals of a model. Not a path, so that no member has this name. */
export const OWN_PARTS = '(own parts)'

/** Types of items and blocks that every server of their format knows. */
const COMMON: ReadonlySet<string> = new Set([
  ...['message', 'reasoning', 'function_call', 'function_call_output'],
  ...['text', 'image', 'document', 'thinking', 'redacted_thinking', 'tool_use', 'tool_result'],
  ...['input_text', 'output_text', 'input_image', 'input_file', 'refusal', 'image_url', 'file', 'input_audio'],
])

/** The request with its own parts in words, as calls, or left out, to be encoded again. */
export const withoutOwnParts = (inbound: InboundRequest): InboundRequest => {
  const { request, losses } = withoutForeignParts(inbound.request, null)
  const without = [...(inbound.reencode?.without ?? []), ...losses.map(({ path }) => path)]
  return { ...inbound, reencode: { without }, request }
}

/**
 * Whether a server refuses the request because of such a part, and the request can be sent without it. Messages seen: `input[14]:
 * unknown input item type: "web_search_call"` (github.com/openai/codex/issues/24612), `Unsupported Responses API input item
 * type: 'additional_tools'` (github.com/mxyhi/token_proxy/issues/307).
 */
export const refusesOwnParts = ({ body, request }: InboundRequest, failure: Failure): boolean => {
  if (rowOf(failure).side !== 'client' || failure.kind === 'content_policy') return false
  // OpenAI lists the types that it takes: "Invalid value: 'context_compaction'. Supported values are: 'compaction', …".
  const [words = ''] = (failure.upstream?.message ?? '').split(/supported values/i, 1)
  // Some name the list only: "Invalid input" (github.com/CommandCodeAI/command-code/issues/893).
  const isWhole = failure.param === 'input' || failure.param === 'messages'
  const types = typesIn([...list(body.input), ...list(body.messages)])
  const refused = [...types].filter((type) => isWhole || isNamed(words, type))
  if (refused.length === 0) return false
  const { messages } = withoutForeignParts(request, null).request
  const left = messages.flatMap(({ content }) => content.filter((part) => part.type === 'foreign'))
  return !left.some(({ raw }) => refused.includes(text(raw.type) ?? ''))
}

const isNamed = (words: string, type: string): boolean =>
  ['"', "'", '`', ' '].some((quote) => words.includes(`${quote}${type}${quote}`))

/** The types of items, blocks, and blocks in results, without the common ones. */
const typesIn = (entries: readonly Json[]): ReadonlySet<string> => {
  const types = new Set<string>()
  const add = (value: Json, depth: number): void => {
    if (!isObject(value)) return
    const type = text(value.type)
    if (type !== undefined && !COMMON.has(type)) types.add(type)
    if (depth < 2) for (const inner of [...list(value.content), ...list(object(value)?.output)]) add(inner, depth + 1)
  }
  for (const entry of entries) add(entry, 0)
  return types
}
