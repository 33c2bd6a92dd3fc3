/** Reads answers of `/api/chat`. A stream has many answer objects, a non-streaming answer has one. */

import type { ChatEvent, FinishKind, Usage } from '../../core/chat.ts'
import type { Failure } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import { malformed, truncated } from '../errors/answer-failures.ts'
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
import { usageOf } from '../shared/usage.ts'
import { decodeFailure } from './errors.ts'

const MESSAGE: TypeCheck = optionalObject({
  content: optionalString,
  thinking: optionalString,
  images: optionalList(optionalString),
  tool_calls: optionalList(optionalObject({ function: optionalObject({ arguments: optionalArguments }) })),
})

/** Decodes answer objects one by one. */
export class OllamaAnswerReader {
  #started = false
  /** The answer's creation time: its only identifier. */
  #createdAt = ''
  #open: 'text' | 'reasoning' | undefined
  #calls = 0
  #over = false

  /** The answer is complete or has failed; further input is ignored. */
  get over(): boolean {
    return this.#over
  }

  push(line: unknown): readonly ChatEvent[] {
    if (this.#over) return []
    if (!isObject(line)) return this.fail(malformed('it is not an object'))
    if (line.error !== undefined && line.error !== null)
      return this.fail(decodeFailure(number(line.status) ?? 200, { error: line.error }, () => undefined))
    if (!isObject(line.message) && line.done !== true)
      return this.fail(malformed('it has neither `message` nor `done`'))
    if (!MESSAGE(line.message)) return this.fail(malformed('members of the message have the wrong type'))
    if (exceedsDepth(line.logprobs, MAX_DEPTH)) return this.fail(malformed('log probabilities are nested too deep'))
    const events = [...this.#start(line), ...this.#readMessage(object(line.message) ?? {}, list(line.logprobs))]
    return line.done === true && !this.#over ? [...events, ...this.#finish(line)] : events
  }

  fail(failure: Failure): ChatEvent[] {
    this.#over = true
    return [{ type: 'failure', failure }]
  }

  /** Ends the input; an unfinished answer is a `truncated` failure. */
  end(): readonly ChatEvent[] {
    return this.#over ? [] : [...this.#close(), ...this.fail(truncated())]
  }

  #start(line: JsonObject): ChatEvent[] {
    if (this.#started) return []
    this.#started = true
    this.#createdAt = text(line.created_at) ?? ''
    const model = text(line.model)
    const created = unixSeconds(line.created_at)
    return [{ type: 'start', ...(model && { model }), ...(created && { created }) }]
  }

  #readMessage(message: JsonObject, logprobs: readonly Json[]): ChatEvent[] {
    const content = text(message.content) ?? ''
    const events = [
      ...this.#addText('reasoning', text(message.thinking) ?? ''),
      ...this.#addText('text', content, content === '' ? [] : logprobs),
    ]
    if (list(message.images).length > 0) {
      // The canonical form has no image block: only this format can express it.
      const raw = { images: list(message.images) }
      const block = { type: 'foreign', protocol: 'ollama', raw } as const
      events.push(...this.#close(), { type: 'open', block }, { type: 'close' })
    }
    for (const entry of list(message.tool_calls)) {
      if (this.#over) break
      events.push(...this.#readCall(entry))
    }
    return events
  }

  #addText(type: 'text' | 'reasoning', content: string, logprobs: readonly Json[] = []): ChatEvent[] {
    if (content === '' && logprobs.length === 0) return []
    const opened: ChatEvent[] = this.#open === type ? [] : [...this.#close(), { type: 'open', block: { type } }]
    this.#open = type
    return [...opened, { type: 'delta', text: content, ...(logprobs.length > 0 && { logprobs: [...logprobs] }) }]
  }

  #readCall(value: Json): ChatEvent[] {
    const inner = object(object(value)?.function)
    const name = text(inner?.name)
    if (!name) return this.fail(malformed('a call without a name'))
    const given = argumentsText(inner?.arguments)
    if (given === undefined) return this.fail(malformed('the arguments of a tool call are nested too deep'))
    // Older servers return no ID.
    const id = text(object(value)?.id) || derivedCallId(this.#createdAt, this.#calls, name, given)
    this.#calls++
    return [
      ...this.#close(),
      { type: 'open', block: { type: 'tool-call', id, name } },
      { type: 'delta', text: given },
      { type: 'close' },
    ]
  }

  #finish(line: JsonObject): ChatEvent[] {
    this.#over = true
    const usage = decodeUsage(line)
    const raw = text(line.done_reason) || null
    return [
      ...this.#close(),
      ...(usage ? [{ type: 'usage', usage } as const] : []),
      { type: 'finish', finish: { kind: kindOf(raw, this.#calls > 0), raw } },
    ]
  }

  #close(): ChatEvent[] {
    if (!this.#open) return []
    this.#open = undefined
    return [{ type: 'close' }]
  }
}

const KINDS: ReadonlyMap<string | null, FinishKind> = new Map([['length', 'length']])

/** Ollama returns `stop` also after calls (BerriAI/litellm#34692); `load` and `unload` answer requests without messages. */
const kindOf = (raw: string | null, called: boolean): FinishKind => {
  const kind = KINDS.get(raw) ?? 'stop'
  return kind === 'stop' && called ? 'tool-calls' : kind
}

/** Older servers omit the count of a fully cached prompt. */
const decodeUsage = (line: JsonObject): Usage | undefined => {
  const raw = Object.fromEntries(Object.entries(line).filter(([name]) => /_(?:count|duration)$/.test(name)))
  const input = count(line.prompt_eval_count)
  const output = count(line.eval_count)
  return usageOf({ input, output, cacheRead: count(line.prompt_eval_cached_count) }, raw)
}
