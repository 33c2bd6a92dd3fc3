/** Arguments of a tool call: text in the canonical form, an object in some formats. */
import type { Tool } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, readJson } from '../../core/json.ts'
import { survey } from '../../core/json-text.ts'
import type { Losses } from './losses.ts'

/** Maximum nesting of arguments that are stringified again. Deeper values may overflow a reader's stack. */
export const MAX_DEPTH = 64

/** The member that carries arguments that are not valid JSON; they are kept, since the model wrote them. */
const UNREADABLE = 'unreadable_arguments'
/** The only property of a free-form tool that is encoded as a function. */
export const FREE_INPUT = 'input'

/** Parses arguments to an object. Empty text is `{}`; invalid JSON is kept as text in one member. */
export const parseArguments = (text: string): JsonObject => {
  if (text.trim() === '') return {}
  // Models return malformed JSON too. It is content, not a failure.
  const parsed = readJson(text)
  return isObject(parsed) && survey(text.trim(), MAX_DEPTH).ok ? parsed : { [UNREADABLE]: text }
}

/** Arguments as text. Undefined if nested deeper than `MAX_DEPTH`. */
export const argumentsText = (input: Json | undefined): string | undefined => {
  if (input === undefined || input === null) return '{}'
  if (exceedsDepth(input, MAX_DEPTH)) return undefined
  return typeof input === 'string' ? input : JSON.stringify(input)
}

/** Whether a value is nested deeper than `levels`. Recursion stops at that depth. */
export const exceedsDepth = (value: Json | undefined, levels: number): boolean => {
  if (typeof value !== 'object' || value === null) return false
  if (levels === 0) return true
  return (Array.isArray(value) ? value : Object.values(value)).some((inner) => exceedsDepth(inner, levels - 1))
}

/**
 * The schema of a free-form tool in formats that require one; `toolRestorer` unwraps the input in the answer. A grammar
 * cannot be enforced there: it moves into the description and is reported as lost.
 */
export const freeInputSchema = (tool: Tool & { readonly kind: 'custom' }, losses: Losses) => {
  const { format } = tool
  const grammar = isObject(format) && format.type === 'grammar' ? format : undefined
  if (grammar) losses.loseMember(tool, 'format')
  const rule = grammar ? ` It must follow this grammar:\n${JSON.stringify(grammar)}` : ''
  return {
    type: 'object',
    properties: { [FREE_INPUT]: { type: 'string', description: `The tool's input, as plain text.${rule}` } },
    required: [FREE_INPUT],
  }
}

/** Wraps free-form input as arguments. */
export const wrapInput = (text: string): JsonObject => ({ [FREE_INPUT]: text })

/** The free-form input in wrapped arguments; the arguments themselves if they are not wrapped. */
export const unwrapInput = (text: string): string => {
  const input = readJson(text)
  const free = isObject(input) ? input[FREE_INPUT] : undefined
  return typeof free === 'string' ? free : text
}
