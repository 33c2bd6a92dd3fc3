/**
 * Claude Code's billing line: the first line of its system prompt, with a hash that differs in each request. Only Anthropic
 * reads it. Elsewhere it makes every prompt cache miss (github.com/anthropics/claude-code/issues/68900, 2026-06-16), and
 * Bedrock answers 400 "x-anthropic-billing-header is a reserved keyword" (…/issues/24168, 2026-02-08).
 */
import { isList, isObject, type Json, type JsonObject, text } from './json.ts'
import { mapMember } from './json-edit.ts'

const PREFIX = 'x-anthropic-billing-header:'

/** The billing line at the beginning of a text, and the rest of the text; null if there is none. */
export const splitBillingLine = (value: string): { readonly line: string; readonly rest: string } | null => {
  if (!value.startsWith(PREFIX)) return null
  const end = value.indexOf('\n')
  return end === -1 ? { line: value, rest: '' } : { line: value.slice(0, end), rest: value.slice(end).trimStart() }
}

/** A messages request without billing lines, in its system prompt and in system messages. The same object if it has none. */
export const withoutBillingLines = (body: JsonObject): JsonObject => {
  const opened = withoutLine(body, 'system')
  return mapMember(opened, 'messages', (message) =>
    isObject(message) && message.role === 'system' ? withoutLine(message, 'content') : message,
  )
}

/** `member` is a text or a list of text blocks. A block with nothing else is removed, and so is an empty member. */
const withoutLine = (of: JsonObject, member: string): JsonObject => {
  const value = of[member]
  if (isList(value)) {
    const changed = mapMember(of, member, withoutLineOf)
    return changed !== of && isList(changed[member]) && changed[member].length === 0 ? without(of, member) : changed
  }
  const found = splitBillingLine(text(value) ?? '')
  if (!found) return of
  return found.rest === '' ? without(of, member) : { ...of, [member]: found.rest }
}

const withoutLineOf = (block: Json): Json | undefined => {
  const found = isObject(block) ? splitBillingLine(text(block.text) ?? '') : null
  if (!isObject(block) || !found) return block
  return found.rest === '' ? undefined : { ...block, text: found.rest }
}

const without = (of: JsonObject, member: string): JsonObject => {
  const { [member]: _, ...rest } = of
  return rest
}
