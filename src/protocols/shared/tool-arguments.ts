/** A call's arguments: text in the middle, an object in formats that want one. */
import type { Tool } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, readJson } from '../../core/json.ts'
import { survey } from '../../core/json-text.ts'
import type { Losses } from './losses.ts'

/** Deeper than this an object is not written again: what reads it later may overflow its stack. */
export const MAX_DEPTH = 64

/** Where text goes that should have been JSON and is none. The model wrote it, so it is kept and not thrown away. */
const UNREADABLE = 'unreadable_arguments'
/** The one property a tool with free-form input has here. */
export const FREE_INPUT = 'input'

/** The object these arguments are. Nothing is the empty object; what is no object is kept as text under one member. */
export const parseArguments = (text: string): JsonObject => {
  if (text.trim() === '') return {}
  // Models write broken JSON too. It is the answer's content, not a failure.
  const parsed = readJson(text)
  return isObject(parsed) && survey(text.trim(), MAX_DEPTH).ok ? parsed : { [UNREADABLE]: text }
}

/** The arguments an object is, as text. Undefined when it is nested too deep to be written. */
export const argumentsText = (input: Json | undefined): string | undefined => {
  if (input === undefined || input === null) return '{}'
  if (exceedsDepth(input, MAX_DEPTH)) return undefined
  return typeof input === 'string' ? input : JSON.stringify(input)
}

/** Whether a value is nested deeper than that. Looks no further than it asks. */
export const exceedsDepth = (value: Json | undefined, levels: number): boolean => {
  if (typeof value !== 'object' || value === null) return false
  if (levels === 0) return true
  return (Array.isArray(value) ? value : Object.values(value)).some((inner) => exceedsDepth(inner, levels - 1))
}

/**
 * The schema that stands for free-form input, where a format knows tools with a schema only; `restore` takes the input
 * out of the answer again. A grammar it has to follow cannot be enforced; the model is told of it.
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

/** Free-form input for a tool that has a schema here. */
export const wrapInput = (text: string): JsonObject => ({ [FREE_INPUT]: text })

/** The free-form input in such arguments; the arguments themselves when they are not of that shape. */
export const unwrapInput = (text: string): string => {
  const input = readJson(text)
  const free = isObject(input) ? input[FREE_INPUT] : undefined
  return typeof free === 'string' ? free : text
}
