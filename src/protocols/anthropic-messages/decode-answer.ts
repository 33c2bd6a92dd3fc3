import type { ChatEvent } from '../../core/chat.ts'
import { isList, isObject, type Json, text } from '../../core/json.ts'
import { malformed } from '../errors/answer-failures.ts'
import { decodeBlock, isBlock, refusal } from './decode-blocks.ts'
import { decodeFailure } from './errors.ts'
import { decodeFinish, decodeUsage, explanationIn } from './finish-and-usage.ts'

/** Decodes a complete answer as the events of the equivalent stream. */
export const decodeAnswer = (body: Json): readonly ChatEvent[] => {
  if (isObject(body) && (body.type === 'error' || isObject(body.error)))
    return [{ type: 'failure', failure: decodeFailure(200, body, () => undefined) }]
  if (!isObject(body) || !isList(body.content)) return [{ type: 'failure', failure: malformed('it is not a message') }]
  const id = text(body.id)
  const model = text(body.model)
  const events: ChatEvent[] = [{ type: 'start', ...(id && { id }), ...(model && { model }) }]
  let calledTools = false
  for (const [index, block] of body.content.entries()) {
    if (!isBlock(block)) return [{ type: 'failure', failure: malformed('a malformed content block') }]
    const blockEvents = decodeBlock(block, { id: id ?? '', index, model: model ?? '' })
    const last = blockEvents.at(-1)
    if (last?.type === 'failure') return [last]
    calledTools ||= block.type === 'tool_use'
    events.push(...blockEvents)
  }
  events.push(...refusal(explanationIn(body)))
  const usage = decodeUsage(body.usage)
  if (usage) events.push({ type: 'usage', usage })
  events.push({ type: 'finish', finish: decodeFinish(body, calledTools) })
  return events
}
