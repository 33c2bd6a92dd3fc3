/** What is shown of an answer of the model API, whole or streamed, in each style. */
import { isPlainObject, listIn, objectIn, type PlainObject, parsed, textIn } from './plain-json.ts'

export type AnswerStyle = 'chat' | 'responses' | 'messages'

type ShownCall = { readonly name: string; readonly arguments: string }

/** An answer as far as it was received. */
export type ShownAnswer = {
  readonly text: string
  readonly reasoning: string
  /** By their index in the answer. */
  readonly calls: { readonly [index: string]: ShownCall }
  /** Why it ended, as the style has it. */
  readonly finish: string | null
  readonly usage: { readonly input: number; readonly output: number } | null
  /** The error of a stream, as JSON. */
  readonly error: string | null
}

export const NO_ANSWER: ShownAnswer = { text: '', reasoning: '', calls: {}, finish: null, usage: null, error: null }

/** Collects server-sent events: returns the data of those that are complete. */
export const sseReader = (): ((text: string) => readonly string[]) => {
  let rest = ''
  return (text) => {
    rest += text
    const blocks = rest.split(/\r?\n\r?\n/)
    rest = blocks.pop() ?? ''
    return blocks.flatMap((block) => {
      const data = block.split(/\r?\n/).flatMap((line) => (line.startsWith('data:') ? [line.slice(5).trimStart()] : []))
      return data.length === 0 ? [] : [data.join('\n')]
    })
  }
}

const usageIn = (value: unknown): ShownAnswer['usage'] => {
  if (!isPlainObject(value)) return null
  const number = (one: unknown) => (typeof one === 'number' ? one : 0)
  return {
    input: number(value.prompt_tokens ?? value.input_tokens),
    output: number(value.completion_tokens ?? value.output_tokens),
  }
}

const withCall = (answer: ShownAnswer, index: unknown, name: string, part: string): ShownAnswer => {
  const at = String(index)
  const { [at]: known = { name: '', arguments: '' }, ...others } = answer.calls
  const call = { name: known.name || name, arguments: known.arguments + part }
  return { ...answer, calls: { ...others, [at]: call } }
}

const chatDelta = (answer: ShownAnswer, delta: PlainObject): ShownAnswer => {
  const next = {
    ...answer,
    text: answer.text + textIn(delta.content) + textIn(delta.refusal),
    reasoning: answer.reasoning + (textIn(delta.reasoning_content) || textIn(delta.reasoning)),
  }
  return listIn(delta.tool_calls).reduce((before: ShownAnswer, entry, at) => {
    const { index = at, function: called } = objectIn(entry)
    const { name, arguments: part } = objectIn(called)
    return withCall(before, index, textIn(name), textIn(part))
  }, next)
}

const chatEvent = (answer: ShownAnswer, event: PlainObject): ShownAnswer => {
  const { delta, message, finish_reason: finish } = objectIn(listIn(event.choices)[0])
  return {
    ...chatDelta(answer, objectIn(delta ?? message)),
    finish: textIn(finish) || answer.finish,
    usage: usageIn(event.usage) ?? answer.usage,
  }
}

const responsesItem = (answer: ShownAnswer, entry: unknown, index: unknown): ShownAnswer => {
  const item = objectIn(entry)
  if (item.type === 'function_call') return withCall(answer, index, textIn(item.name), textIn(item.arguments))
  const parts = (list: unknown) =>
    listIn(list).map((part) => textIn(objectIn(part).text) || textIn(objectIn(part).refusal))
  if (item.type === 'reasoning')
    return { ...answer, reasoning: answer.reasoning + parts(item.summary).join('') + parts(item.content).join('') }
  return { ...answer, text: answer.text + parts(item.content).join('') }
}

const responsesEnd = (answer: ShownAnswer, response: PlainObject): ShownAnswer => ({
  ...answer,
  finish: textIn(objectIn(response.incomplete_details).reason) || textIn(response.status) || answer.finish,
  usage: usageIn(response.usage) ?? answer.usage,
})

const responsesEvent = (answer: ShownAnswer, event: PlainObject): ShownAnswer => {
  const part = textIn(event.delta)
  switch (event.type) {
    case 'response.output_text.delta':
    case 'response.refusal.delta':
      return { ...answer, text: answer.text + part }
    case 'response.reasoning_summary_text.delta':
    case 'response.reasoning_text.delta':
      return { ...answer, reasoning: answer.reasoning + part }
    case 'response.output_item.added': {
      const item = objectIn(event.item)
      return item.type === 'function_call' ? withCall(answer, event.output_index, textIn(item.name), '') : answer
    }
    case 'response.function_call_arguments.delta':
      return withCall(answer, event.output_index, '', part)
    case 'response.completed':
    case 'response.incomplete':
      return responsesEnd(answer, objectIn(event.response))
    case 'response.failed':
      return { ...answer, error: JSON.stringify(objectIn(event.response).error ?? event, null, 2) }
    default:
      return answer
  }
}

const messagesBlock = (answer: ShownAnswer, entry: unknown, index: unknown): ShownAnswer => {
  const block = objectIn(entry)
  if (block.type === 'tool_use') return withCall(answer, index, textIn(block.name), '')
  return {
    ...answer,
    text: answer.text + textIn(block.text),
    reasoning: answer.reasoning + textIn(block.thinking),
  }
}

const messagesUsage = (answer: ShownAnswer, value: unknown): ShownAnswer => {
  const usage = usageIn(value)
  if (!usage) return answer
  const { input = 0, output = 0 } = answer.usage ?? {}
  return { ...answer, usage: { input: usage.input || input, output: usage.output || output } }
}

const messagesEvent = (answer: ShownAnswer, event: PlainObject): ShownAnswer => {
  const delta = objectIn(event.delta)
  switch (event.type) {
    case 'message_start':
      return messagesUsage(answer, objectIn(event.message).usage)
    case 'content_block_start':
      return messagesBlock(answer, event.content_block, event.index)
    case 'content_block_delta':
      if (delta.type === 'input_json_delta') return withCall(answer, event.index, '', textIn(delta.partial_json))
      return {
        ...answer,
        text: answer.text + textIn(delta.text),
        reasoning: answer.reasoning + textIn(delta.thinking),
      }
    case 'message_delta':
      return { ...messagesUsage(answer, event.usage), finish: textIn(delta.stop_reason) || answer.finish }
    default:
      return answer
  }
}

const EVENT = { chat: chatEvent, responses: responsesEvent, messages: messagesEvent } as const

/** The answer after an event of its stream. `data`: of a server-sent event. */
export const withEvent = (style: AnswerStyle, answer: ShownAnswer, data: string): ShownAnswer => {
  const event = parsed(data)
  if (!isPlainObject(event)) return answer
  if (isPlainObject(event.error) || event.type === 'error') return { ...answer, error: JSON.stringify(event, null, 2) }
  return EVENT[style](answer, event)
}

const wholeChat = (body: PlainObject): ShownAnswer => chatEvent(NO_ANSWER, body)

const wholeResponse = (body: PlainObject): ShownAnswer =>
  responsesEnd(
    listIn(body.output).reduce((answer: ShownAnswer, item, index) => responsesItem(answer, item, index), NO_ANSWER),
    body,
  )

const wholeMessage = (body: PlainObject): ShownAnswer => {
  const answer = listIn(body.content).reduce((before: ShownAnswer, block, index) => {
    const next = messagesBlock(before, block, index)
    const { type, input } = objectIn(block)
    return type === 'tool_use' ? withCall(next, index, '', JSON.stringify(input)) : next
  }, NO_ANSWER)
  return { ...messagesUsage(answer, body.usage), finish: textIn(body.stop_reason) || null }
}

const WHOLE = { chat: wholeChat, responses: wholeResponse, messages: wholeMessage } as const

/** A whole answer. */
export const wholeAnswer = (style: AnswerStyle, value: unknown): ShownAnswer => WHOLE[style](objectIn(value))

/** A kept answer of a provider. */
type KeptAnswer = { readonly url: string; readonly answer: { readonly text: string | null } }

/** The text and the tool calls of the last attempt's answer; null: none is kept. Formats without a reader stay whole. */
export const answerText = (bodies: { readonly attempts: readonly KeptAnswer[] } | null): string | null => {
  const attempt = bodies?.attempts.at(-1)
  const raw = attempt?.answer.text ?? null
  if (attempt === undefined || raw === null) return null
  const style = /\/messages\b/.test(attempt.url) ? 'messages' : /\/responses\b/.test(attempt.url) ? 'responses' : 'chat'
  const value = parsed(raw)
  const { text, calls } =
    value === undefined
      ? sseReader()(`${raw}\n\n`).reduce((answer, data) => withEvent(style, answer, data), NO_ANSWER)
      : wholeAnswer(style, value)
  const lines = Object.values(calls).map((call) => `${call.name}(${call.arguments})`)
  return [text, ...lines].filter((line) => line !== '').join('\n') || raw
}
