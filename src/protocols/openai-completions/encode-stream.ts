import { type Block, type ChatEvent, isContent, type Usage } from '../../core/chat.ts'
import { isList, type Json, type JsonObject } from '../../core/json.ts'
import type { AnswerContext, StreamWriter } from '../../core/protocol.ts'
import { writeFrame } from '../framing/sse.ts'
import { DONE, PING, writeFailure } from '../openai-chat/encode-stream.ts'
import { encodeUsage } from '../shared/openai-finish-and-usage.ts'
import { reportLost } from '../shared/output-media.ts'
import { echoOf } from './decode-request.ts'
import { encodeLogprobs, isText, OBJECT, reasonFor } from './encode-answer.ts'

/** Writes pieces of text as OpenAI's older stream does: text, then the reason, the usage if it was asked for, `[DONE]`. */
export const encodeStream = (context: AnswerContext): StreamWriter => {
  const wantsUsage = context.request.settings.streamUsage?.value === true
  const echo = echoOf(context.body)
  let start: { readonly id?: string; readonly model?: string; readonly created?: number } = {}
  /** What every chunk begins with; made at the first. */
  let head: JsonObject | undefined
  let block: Block | undefined
  let content = false
  let over = false
  let finished = false
  let usage: Usage | undefined
  /** UTF-16 units of text so far. */
  let length = 0

  const write = (more: JsonObject): string => {
    head ??= {
      id: start.id ?? context.id('cmpl'),
      object: OBJECT,
      created: start.created ?? context.created,
      model: start.model ?? context.model,
    }
    return writeFrame(undefined, JSON.stringify({ ...head, ...more }))
  }
  const chunk = (text: string, reason: string | null, logprobs: Json = null): string => {
    length += text.length
    return write({
      choices: [{ text, index: 0, logprobs, finish_reason: reason }],
      ...(wantsUsage && { usage: null }),
    })
  }
  /** The prompt, where it is wanted back: before anything else. */
  const opening = (): string[] => (head === undefined && echo !== '' ? [chunk(echo, null)] : [])

  const said = (text: string, tokens: Json | undefined): string[] => {
    if (!block || !isText(block)) return []
    const given = isList(tokens) ? tokens : tokens === undefined ? [] : [tokens]
    if (text === '' && given.length === 0) return []
    return [...opening(), chunk(text, null, encodeLogprobs(given, length))]
  }

  const written = (event: ChatEvent): string[] => {
    switch (event.type) {
      case 'start':
        start = { ...event, ...start }
        return []
      case 'open':
        block = event.block
        if (block.type === 'foreign') reportLost(block, context)
        return []
      case 'delta':
        return said(event.text, event.logprobs)
      case 'close':
        block = undefined
        return []
      case 'usage':
        usage = event.usage
        return []
      case 'finish':
        finished = true
        return [...opening(), chunk('', reasonFor(event.finish))]
      case 'failure':
        over = true
        return [writeFailure(event.failure, context, content)]
      case 'citation':
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
        out.push(...written(event))
        content ||= isContent(event)
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
