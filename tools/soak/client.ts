/** A client of the soak run: sends one request and reads the response to its end, or disconnects. */
import { type Agent, type IncomingMessage, request } from 'node:http'
import type { ClientView } from './oracle.ts'

export const STYLES = {
  chat: '/v1/chat/completions',
  responses: '/v1/responses',
  messages: '/v1/messages',
} as const
export type Style = keyof typeof STYLES

export type SoakRequest = {
  readonly id: string
  readonly style: Style
  readonly stream: boolean
  readonly model: string
  /** ms after which the client disconnects. */
  readonly disconnectAfter?: number
  /** ms in which it reads nothing after the first bytes. */
  readonly pause?: number
}

export const bodyOf = ({ id, style, stream, model }: SoakRequest): string =>
  JSON.stringify({
    model,
    stream,
    ...(style === 'responses' ? { input: id } : { messages: [{ role: 'user', content: id }] }),
    ...(style === 'messages' && { max_tokens: 4_096 }),
  })

/** Sends a request and returns what the client received. Never rejects. */
export const sendRequest = (url: string, agent: Agent, wanted: SoakRequest): Promise<ClientView> =>
  new Promise((resolve) => {
    const { id, style, stream } = wanted
    const reader = stream ? streamReader(style) : wholeReader(style)
    let left = false
    const finish = (status: number, whole: boolean) => {
      clearTimeout(timer)
      resolve({ id, status, whole, left, ...reader.result(status) })
    }
    const req = request(
      url + STYLES[style],
      { method: 'POST', agent, headers: { 'content-type': 'application/json' } },
      (res) => {
        res.setEncoding('utf8')
        res.on('data', reader.push)
        if (wanted.pause !== undefined) pauseOnce(res, wanted.pause)
        res.once('close', () => finish(res.statusCode ?? 0, res.complete))
      },
    )
    req.once('error', () => finish(0, false))
    const timer =
      wanted.disconnectAfter === undefined
        ? undefined
        : setTimeout(() => {
            left = true
            req.destroy()
          }, wanted.disconnectAfter)
    req.end(bodyOf(wanted))
  })

const pauseOnce = (res: IncomingMessage, ms: number): void => {
  res.once('data', () => {
    res.pause()
    setTimeout(() => res.resume(), ms)
  })
}

type Reader = {
  readonly push: (text: string) => void
  readonly result: (status: number) => Pick<ClientView, 'text' | 'finished' | 'error'>
}

// JSON of three API styles, whose types are not declared here.
// biome-ignore lint/suspicious/noExplicitAny: see above
type Any = any

const errorIn = ({ error }: Any): string | null =>
  error === undefined || error === null ? null : String(error.code ?? error.type ?? 'without a name')

const WHOLE: { readonly [style in Style]: (body: Any) => { readonly text: string; readonly finished: boolean } } = {
  chat: ({ choices }) => ({ text: choices[0].message.content ?? '', finished: choices[0].finish_reason === 'stop' }),
  responses: ({ output, status }) => ({
    text: output.map((item: Any) => item.content?.[0]?.text ?? '').join(''),
    finished: status === 'completed',
  }),
  messages: ({ content, stop_reason }) => ({
    text: content.map((block: Any) => block.text ?? '').join(''),
    finished: stop_reason === 'end_turn',
  }),
}

/** The beginning of an error body that is not JSON, as of a balancer in between. `judge` reports it as wrong text. */
const foreignBody = (body: string): string => (body.startsWith('{') ? '' : body.slice(0, 300))

const wholeReader = (style: Style): Reader => {
  let body = ''
  return {
    push: (text) => {
      body += text
    },
    result(status) {
      try {
        const value: Any = JSON.parse(body)
        if (status === 200) return { ...WHOLE[style](value), error: null }
        return { text: '', finished: false, error: errorIn(value) }
      } catch {
        return { text: status === 200 ? '' : foreignBody(body), finished: false, error: null }
      }
    },
  }
}

type EventPart = { readonly text?: string; readonly finished?: true; readonly error?: string }

const STREAMED: { readonly [style in Style]: (event: Any) => EventPart } = {
  chat: (event) => ({ text: event.choices?.[0]?.delta?.content ?? '' }),
  responses: (event) =>
    event.type === 'response.output_text.delta'
      ? { text: event.delta }
      : event.type === 'response.completed'
        ? { finished: true }
        : event.type === 'response.failed'
          ? { error: event.response.error?.code ?? 'failed' }
          : {},
  messages: (event) =>
    event.type === 'content_block_delta'
      ? { text: event.delta.text }
      : event.type === 'message_stop'
        ? { finished: true }
        : {},
}

/** Reads a stream. Error events and error bodies have the same result. */
const streamReader = (style: Style): Reader => {
  const parts: string[] = []
  /** The beginning of the body. */
  let start = ''
  let rest = ''
  let finished = false
  let error: string | null = null
  const line = (one: string) => {
    if (style === 'chat' && one === 'data: [DONE]') finished = true
    if (!one.startsWith('data: {')) return
    const event: Any = JSON.parse(one.slice(6))
    const part = STREAMED[style](event)
    if (part.text) parts.push(part.text)
    if (part.finished) finished = true
    error ??= part.error ?? errorIn(event)
  }
  return {
    push(text) {
      if (start.length < 300) start += text
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const one of lines) line(one)
    },
    result(status) {
      if (status !== 200 && rest.startsWith('{')) error ??= errorIn(JSON.parse(rest))
      return { text: status === 200 ? parts.join('') : foreignBody(start), finished, error }
    },
  }
}
