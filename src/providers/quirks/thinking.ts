/** Requests that vendors refuse while their model thinks. */
import { isObject, type Json, type JsonObject, object, text } from '../../core/json.ts'
import { withoutMember } from '../../core/json-edit.ts'
import { besideCalls } from './chat-messages.ts'
import type { RequestQuirk } from './request.ts'

/** Members that control thinking, in chat completions and messages. */
const CONTROLS = ['reasoning_effort', 'reasoning', 'thinking', 'enable_thinking', 'thinking_budget']

/** How a vendor controls thinking. */
type Thinking = {
  /** Whether the model thinks in this request and could answer it without. */
  readonly thinks: (body: JsonObject, model: string) => boolean
  /** The member that disables thinking. */
  readonly off: JsonObject
}

/**
 * Disables thinking for a request that forces a tool call, where the vendor refuses the combination. The call is what the client
 * requested, so it is kept. The client's members that control thinking are removed and reported. If it sent none, the choice is
 * reported: it is the member that has this effect.
 */
export const forcedCallsWithoutThinking =
  ({ thinks, off }: Thinking): RequestQuirk =>
  (body, model, lost) => {
    if (!forcesCall(body.tool_choice) || !thinks(body, model)) return body
    const controls = CONTROLS.filter((member) => (body[member] ?? null) !== null)
    for (const member of controls) if (!isOff(body[member])) lost(member)
    if (controls.length === 0) lost('tool_choice')
    return { ...withoutMember(body, ...controls), ...off }
  }

const isOff = (value: Json | undefined): boolean =>
  value === false || value === 'none' || (isObject(value) && (value.type === 'disabled' || value.effort === 'none'))

/** Types of a choice that names a tool, in chat completions, responses and messages, or requires any (messages). */
const FORCED: ReadonlySet<string> = new Set(['function', 'custom', 'tool', 'any'])

const forcesCall = (choice: Json | undefined): boolean => {
  if (!isObject(choice)) return choice === 'required'
  if (choice.type !== 'allowed_tools') return FORCED.has(text(choice.type) ?? '')
  return (object(choice.allowed_tools) ?? choice).mode === 'required'
}

const withReasoning = besideCalls('reasoning_content')

/**
 * Adds an empty `reasoning_content` to messages with calls, unless thinking is disabled: a vendor that thinks requires the reasoning
 * of each, and calls of another vendor have none.
 */
export const thoughtsOfCalls: RequestQuirk = (body, ...rest) =>
  object(body.thinking)?.type === 'disabled' ? body : withReasoning(body, ...rest)
