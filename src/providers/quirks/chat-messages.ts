/** Changes to messages of chat completions, shared by several providers. */

import { isList, isObject, type Json, type JsonObject, list, text } from '../../core/json.ts'
import { mapMember, withoutMember } from '../../core/json-edit.ts'
import type { RequestQuirk } from './request.ts'

const partsOf = (content: Json | undefined): readonly Json[] =>
  isList(content) ? content : content ? [{ type: 'text', text: content }] : []

const joined = (first: Json | undefined, second: Json | undefined): Json | undefined => {
  if (!first || !second) return first || second
  return typeof first === 'string' && typeof second === 'string'
    ? `${first}\n\n${second}`
    : [...partsOf(first), ...partsOf(second)]
}

/** Calls end a message, since their results follow. Two messages with calls are not merged. */
const joins = (before: Json | undefined, next: Json): before is JsonObject =>
  isObject(before) &&
  isObject(next) &&
  before.role === next.role &&
  (next.role === 'user' || next.role === 'assistant') &&
  list(before.tool_calls).length === 0

/**
 * Merges adjacent messages of one role, with a blank line between the texts. Chat templates that require alternating roles
 * raise an error otherwise; each provider that uses this cites the thread.
 */
export const alternating: RequestQuirk = (body) => {
  const messages = list(body.messages)
  const merged: Json[] = []
  for (const message of messages) {
    const before = merged.at(-1)
    if (!joins(before, message) || !isObject(message)) merged.push(message)
    else merged[merged.length - 1] = { ...before, ...message, content: joined(before.content, message.content) ?? '' }
  }
  return merged.length === messages.length ? body : { ...body, messages: merged }
}

/** An assistant message between the result of a tool call and the next user message. */
const ACKNOWLEDGED: JsonObject = { role: 'assistant', content: 'OK.' }

const MISTRAL_FAMILY = /(?:mi[sx]tral|(?:code|dev|magi|mini|vox)stral|pixtral)/i

const hasRole = (message: Json | undefined, role: string): boolean => isObject(message) && message.role === role

/**
 * Adds an assistant message where a user message follows a tool result, for models of Mistral. Their chat template does not
 * count calls and results when it checks that roles alternate, so it sees two user messages in a row and raises an error
 * (github.com/vllm-project/vllm/issues/6862).
 */
export const acknowledgedResults: RequestQuirk = (body, model) => {
  const messages = list(body.messages)
  const isUnanswered = (message: Json, index: number) =>
    hasRole(message, 'user') && hasRole(messages[index - 1], 'tool')
  if (!MISTRAL_FAMILY.test(model) || !messages.some(isUnanswered)) return body
  const added = messages.flatMap((message, index) =>
    isUnanswered(message, index) ? [ACKNOWLEDGED, message] : [message],
  )
  return { ...body, messages: added }
}

/** Moves system messages to the front, in their order. */
export const systemFirst: RequestQuirk = (body) => {
  const messages = list(body.messages)
  const isSystem = (message: Json) => isObject(message) && message.role === 'system'
  const first = messages.findIndex((message) => !isSystem(message))
  if (first === -1 || !messages.slice(first).some(isSystem)) return body
  return { ...body, messages: [...messages.filter(isSystem), ...messages.filter((message) => !isSystem(message))] }
}

/**
 * Converts OpenRouter's `reasoning: { effort }` to `reasoning_effort`, for vendors that support only this name. Other members of
 * `reasoning` are reported as dropped.
 */
export const flatEffort: RequestQuirk = (body, _model, lost) => {
  const { reasoning } = body
  if (!isObject(reasoning)) return body
  const effort = text(reasoning.effort)
  const isCarried = effort !== undefined && (body.reasoning_effort ?? null) === null
  for (const [member, value] of Object.entries(reasoning))
    if (
      value !== null &&
      value !== undefined &&
      !(member === 'effort' && (isCarried || value === body.reasoning_effort))
    )
      lost(`reasoning.${member}`)
  return { ...withoutMember(body, 'reasoning'), ...(isCarried && { reasoning_effort: effort }) }
}

/** Adds this member to every assistant message with calls: empty where the client sent none. */
export const besideCalls =
  (member: string): RequestQuirk =>
  (body) =>
    mapMember(body, 'messages', (message) =>
      isObject(message) &&
      message.role === 'assistant' &&
      list(message.tool_calls).length > 0 &&
      typeof message[member] !== 'string'
        ? { ...message, [member]: '' }
        : message,
    )
