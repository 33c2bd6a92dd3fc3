/** Requests that Claude refuses in its own format, at every provider that serves it. */

import { continuesWithoutThinking, MESSAGES_BLOCKS } from '../../core/claude-thinking.ts'
import { isObject, type JsonObject, list, text } from '../../core/json.ts'
import { mapMember, withoutMember } from '../../core/json-edit.ts'
import type { RequestQuirk } from './request.ts'

/**
 * Members of Anthropic's own API that no cloud takes (coder/aibridge#226; Kong/developer.konghq.com#5952, 2026-07-15; anthropics/claude-code#82549,
 * 2026-07-30). A request for servers of a region, or with what Anthropic runs, needs another target.
 */
export const onlyAtAnthropic: RequestQuirk = (body, _model, lost) => {
  for (const member of ['container', 'mcp_servers', 'inference_geo'] as const)
    if (body[member] !== undefined && body[member] !== null) lost(member, true)
  for (const [member, usual] of [
    ['service_tier', 'auto'],
    ['speed', 'standard'],
  ] as const)
    if ((body[member] ?? usual) !== usual) lost(member)
  return withoutMember(body, 'container', 'mcp_servers', 'inference_geo', 'service_tier', 'speed')
}

/** Context edits that are refused without thinking (platform.claude.com, context editing, 2026-11-21). */
const NEEDS_THINKING = /^clear_thinking/

/**
 * With `thinking: enabled`, a turn whose calls were just answered has to begin with a thinking block
 * (github.com/zed-industries/zed/pull/33317, 2025-06-24; github.com/BerriAI/litellm/issues/15601). Calls made by another vendor
 * have none, so thinking is disabled for this turn and reported as dropped.
 */
export const thoughtBeforeCalls: RequestQuirk = (body, _model, lost, protocol) => {
  const { thinking } = body
  if (protocol !== 'anthropic-messages' || !isObject(thinking) || thinking.type !== 'enabled') return body
  const messages = list(body.messages)
  const last = messages.at(-1)
  // A prefill message, which the model continues, stays as the client sent it.
  if ((isObject(last) && last.role === 'assistant') || !continuesWithoutThinking(messages, MESSAGES_BLOCKS)) return body
  lost('thinking')
  return withoutEdits(withoutMember(body, 'thinking'), lost)
}

const withoutEdits = (body: JsonObject, lost: Parameters<RequestQuirk>[2]): JsonObject => {
  const { context_management: management } = body
  if (!isObject(management)) return body
  const kept = mapMember(management, 'edits', (edit, index) => {
    if (!isObject(edit) || !NEEDS_THINKING.test(text(edit.type) ?? '')) return edit
    lost(`context_management.edits[${index}]`)
    return undefined
  })
  if (kept === management) return body
  const isEmpty = list(kept.edits).length === 0
  return isEmpty ? withoutMember(body, 'context_management') : { ...body, context_management: kept }
}
