import { type Block, type ChatEvent, isContent, type Usage } from '../../core/chat.ts'
import { isList, type Json, type JsonObject } from '../../core/json.ts'
import type { AnswerContext, StreamWriter } from '../../core/protocol.ts'
import { writeFrame } from '../framing/sse.ts'
import { DONE, PING, writeFailure } from '../openai-chat/encode-stream.ts'
import { encodeUsage } from '../shared/openai-finish-and-usage.ts'
import { reportLost, reportLostCitation } from '../shared/output-media.ts'
import { SpokenWords } from '../shared/spoken-words.ts'
import { echoOf } from './decode-request.ts'
import { encodeLogprobs, finishReasonFor, isText, OBJECT } from './encode-answer.ts'

/** Writes chunks of the legacy completions API: text, the finish reason, usage if requested, `[DONE]`. */
export const encodeStream = (context: AnswerContext): StreamWriter<string> => {
  const wantsUsage = context.request.settings.streamUsage?.value === true
  const echo = echoOf(context.body)
  let start: { readonly id?: string; readonly model?: string; readonly created?: number } = {}
  /** The members shared by all chunks, created at the first chunk. */
  let shared: JsonObject | undefined
  let block: Block | undefined
  let hasContent = false
  let over = false
  let finished = false
  let usage: Usage | undefined
  /** Text written so far in UTF-16 units. */
  let length = 0
  const words = new SpokenWords()

  const write = (more: JsonObject): string => {
    shared ??= {
      id: start.id ?? context.id('cmpl'),
      object: OBJECT,
      created: start.created ?? context.created,
      model: start.model ?? context.model,
    }
    return writeFrame(undefined, JSON.stringify({ ...shared, ...more }))
  }
  const chunk = (text: string, reason: string | null, logprobs: Json = null): string => {
    length += text.length
    return write({
      choices: [{ text, index: 0, logprobs, finish_reason: reason }],
      ...(wantsUsage && { usage: null }),
    })
  }
  /** The echoed prompt, before the first text. */
  const echoed = (): string[] => (shared === undefined && echo !== '' ? [chunk(echo, null)] : [])

  const encodeDelta = (fragment: string, tokens: Json | undefined): string[] => {
    if (!block || !isText(block)) return []
    const text = block.type === 'foreign' ? words.transcript(fragment) : words.text(fragment)
    if (text === '' && fragment !== '') return []
    const logprobs = isList(tokens) ? tokens : tokens === undefined ? [] : [tokens]
    if (text === '' && logprobs.length === 0) return []
    return [...echoed(), chunk(text, null, encodeLogprobs(logprobs, length))]
  }

  const encodeEvent = (event: ChatEvent): string[] => {
    switch (event.type) {
      case 'start':
        start = { ...event, ...start }
        return []
      case 'open':
        block = event.block
        if (block.type === 'foreign') reportLost(block, context)
        return []
      case 'delta':
        return encodeDelta(event.text, event.logprobs)
      case 'close':
        block = undefined
        return []
      case 'usage':
        usage = event.usage
        return []
      case 'finish':
        finished = true
        return [...echoed(), chunk('', finishReasonFor(event.finish))]
      case 'failure':
        over = true
        return [writeFailure(event.failure, context, hasContent)]
      case 'citation':
        reportLostCitation(context)
        return []
      case 'signature':
      case 'ping':
        return []
      default:
        throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
    }
  }

  return {
    push({ events }) {
      const out: string[] = []
      for (const event of events) {
        if (over) break
        out.push(...encodeEvent(event))
        hasContent ||= isContent(event)
      }
      return out
    },
    end() {
      if (over || !finished) return []
      over = true
      return [...(wantsUsage && usage ? [write({ choices: [], usage: encodeUsage(usage) })] : []), DONE]
    },
    keepAlive: () => PING,
  }
}
