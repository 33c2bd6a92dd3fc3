/** Reads answers of `/api/chat`. A stream has many answer objects, a non-streaming answer has one. */

import type { ChatEvent, FinishKind, Usage } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import { malformed } from '../errors/malformed.ts'
import { derivedCallId } from '../shared/call-ids.ts'
import { tokenCount as count, unixSeconds } from '../shared/numbers.ts'
import { argumentsText, exceedsDepth, MAX_DEPTH } from '../shared/tool-arguments.ts'
import {
  optionalArguments,
  optionalList,
  optionalObject,
  optionalString,
  type TypeCheck,
} from '../shared/type-checks.ts'
import { decodeFailure } from './errors.ts'

/** Decodes answer objects one by one. */
export type OllamaAnswerReader = {
  /** The answer is complete or has failed. */
  readonly over: boolean
  push(line: unknown): readonly ChatEvent[]
  /** End of input: reports a truncated answer. */
  end(): readonly ChatEvent[]
}

const MESSAGE: TypeCheck = optionalObject({
  content: optionalString,
  thinking: optionalString,
  images: optionalList(optionalString),
  tool_calls: optionalList(optionalObject({ function: optionalObject({ arguments: optionalArguments }) })),
})

/** A reader of one answer. */
export const answerReader = (): OllamaAnswerReader => {
  let started = false
  /** The answer's creation time: its only identifier. */
  let createdAt = ''
  let open: 'text' | 'reasoning' | undefined
  let calls = 0
  /** The answer is complete or has failed; further input is ignored. */
  let over = false

  const failed = (failure: Failure): ChatEvent[] => {
    over = true
    return [{ type: 'failure', failure }]
  }

  const start = (line: JsonObject): ChatEvent[] => {
    if (started) return []
    started = true
    createdAt = text(line.created_at) ?? ''
    const model = text(line.model)
    const created = unixSeconds(line.created_at)
    return [{ type: 'start', ...(model && { model }), ...(created && { created }) }]
  }

  const close = (): ChatEvent[] => {
    if (!open) return []
    open = undefined
    return [{ type: 'close' }]
  }

  const addText = (block: 'text' | 'reasoning', content: string, logprobs: readonly Json[] = []): ChatEvent[] => {
    if (content === '' && logprobs.length === 0) return []
    const opened: ChatEvent[] = open === block ? [] : [...close(), { type: 'open', block: { type: block } }]
    open = block
    return [...opened, { type: 'delta', text: content, ...(logprobs.length > 0 && { logprobs: [...logprobs] }) }]
  }

  const readCall = (value: Json): ChatEvent[] => {
    const inner = object(object(value)?.function)
    const name = text(inner?.name)
    if (!name) return failed(malformed('a call without a name'))
    const given = argumentsText(inner?.arguments)
    if (given === undefined) return failed(malformed('the arguments of a tool call are nested too deep'))
    // Older servers return no ID.
    const id = text(object(value)?.id) || derivedCallId(createdAt, calls, name, given)
    calls++
    return [
      ...close(),
      { type: 'open', block: { type: 'tool-call', id, name } },
      { type: 'delta', text: given },
      { type: 'close' },
    ]
  }

  const readMessage = (message: JsonObject, logprobs: readonly Json[]): ChatEvent[] => {
    const content = text(message.content) ?? ''
    const events = [
      ...addText('reasoning', text(message.thinking) ?? ''),
      ...addText('text', content, content === '' ? [] : logprobs),
    ]
    if (list(message.images).length > 0) {
      // The canonical form has no image block: only this format can express it.
      const raw = { images: list(message.images) }
      events.push(...close(), { type: 'open', block: { type: 'foreign', protocol: 'ollama', raw } }, { type: 'close' })
    }
    for (const entry of list(message.tool_calls)) {
      if (over) break
      events.push(...readCall(entry))
    }
    return events
  }

  const finish = (line: JsonObject): ChatEvent[] => {
    over = true
    const usage = usageOf(line)
    const raw = text(line.done_reason) || null
    return [
      ...close(),
      ...(usage ? [{ type: 'usage', usage } as const] : []),
      { type: 'finish', finish: { kind: kindOf(raw, calls > 0), raw } },
    ]
  }

  return {
    get over() {
      return over
    },
    push(line) {
      if (over) return []
      if (!isObject(line)) return failed(malformed('it is not an object'))
      if (line.error !== undefined && line.error !== null)
        return failed(decodeFailure(number(line.status) ?? 200, { error: line.error }, () => undefined))
      if (!isObject(line.message) && line.done !== true) return failed(malformed('it has neither `message` nor `done`'))
      if (!MESSAGE(line.message)) return failed(malformed('members of the message have the wrong type'))
      if (exceedsDepth(line.logprobs, MAX_DEPTH)) return failed(malformed('log probabilities are nested too deep'))
      const events = [...start(line), ...readMessage(object(line.message) ?? {}, list(line.logprobs))]
      return line.done === true && !over ? [...events, ...finish(line)] : events
    },
    end() {
      if (over) return []
      over = true
      return [
        ...close(),
        { type: 'failure', failure: fail('truncated', "The provider's answer ended before it was complete.") },
      ]
    },
  }
}

const KINDS: ReadonlyMap<string | null, FinishKind> = new Map([['length', 'length']])

/** Ollama returns `stop` also after calls (BerriAI/litellm#34692); `load` and `unload` answer requests without messages. */
const kindOf = (raw: string | null, called: boolean): FinishKind => {
  const kind = KINDS.get(raw) ?? 'stop'
  return kind === 'stop' && called ? 'tool-calls' : kind
}

/** Older servers omit the count of a fully cached prompt. */
const usageOf = (line: JsonObject): Usage | undefined => {
  const input = count(line.prompt_eval_count)
  const output = count(line.eval_count)
  if (input === undefined && output === undefined) return undefined
  const cached = count(line.prompt_eval_cached_count)
  const raw = Object.fromEntries(Object.entries(line).filter(([name]) => /_(?:count|duration)$/.test(name)))
  return { input: input ?? 0, output: output ?? 0, ...(cached !== undefined && { cacheRead: cached }), raw }
}
