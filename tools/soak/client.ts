/** One request of the soak run: asks, listens to the end or leaves, and says what it heard. */
import { type Agent, type IncomingMessage, request } from 'node:http'
import type { Heard } from './oracle.ts'

export const STYLES = {
  chat: '/v1/chat/completions',
  responses: '/v1/responses',
  messages: '/v1/messages',
} as const
export type Style = keyof typeof STYLES

export type Wish = {
  readonly id: string
  readonly style: Style
  readonly stream: boolean
  readonly model: string
  /** Leaves after so many ms. */
  readonly leaves?: number
  /** Reads nothing for so many ms once the first bytes have come. */
  readonly sleeps?: number
}

export const bodyOf = ({ id, style, stream, model }: Wish): string =>
  JSON.stringify({
    model,
    stream,
    ...(style === 'responses' ? { input: id } : { messages: [{ role: 'user', content: id }] }),
    ...(style === 'messages' && { max_tokens: 4_096 }),
  })

/** Never rejects: whatever happens is what was heard. */
export const listen = (url: string, agent: Agent, wish: Wish): Promise<Heard> =>
  new Promise((resolve) => {
    const { id, style, stream } = wish
    const reader = stream ? streamReader(style) : wholeReader(style)
    let left = false
    const tell = (status: number, whole: boolean) => {
      clearTimeout(leaving)
      resolve({ id, status, whole, left, ...reader.heard(status) })
    }
    const req = request(
      url + STYLES[style],
      { method: 'POST', agent, headers: { 'content-type': 'application/json' } },
      (res) => {
        res.setEncoding('utf8')
        res.on('data', reader.push)
        if (wish.sleeps !== undefined) pauseOnce(res, wish.sleeps)
        res.once('close', () => tell(res.statusCode ?? 0, res.complete))
      },
    )
    req.once('error', () => tell(0, false))
    const leaving =
      wish.leaves === undefined
        ? undefined
        : setTimeout(() => {
            left = true
            req.destroy()
          }, wish.leaves)
    req.end(bodyOf(wish))
  })

const pauseOnce = (res: IncomingMessage, ms: number): void => {
  res.once('data', () => {
    res.pause()
    setTimeout(() => res.resume(), ms)
  })
}

type Reader = {
  readonly push: (text: string) => void
  readonly heard: (status: number) => Pick<Heard, 'text' | 'finished' | 'error'>
}

// What comes is JSON of the three styles; a reader of a test looks into it without declaring all of them.
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

const wholeReader = (style: Style): Reader => {
  let body = ''
  return {
    push: (text) => {
      body += text
    },
    heard(status) {
      try {
        const value: Any = JSON.parse(body)
        if (status === 200) return { ...WHOLE[style](value), error: null }
        return { text: '', finished: false, error: errorIn(value) }
      } catch {
        return { text: '', finished: false, error: null }
      }
    },
  }
}

type Said = { readonly text?: string; readonly finished?: true; readonly error?: string }

const STREAMED: { readonly [style in Style]: (event: Any) => Said } = {
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

/** Text is joined at the end; errors of the stream and refusals in its place are told the same way. */
const streamReader = (style: Style): Reader => {
  const parts: string[] = []
  let rest = ''
  let finished = false
  let error: string | null = null
  const line = (one: string) => {
    if (style === 'chat' && one === 'data: [DONE]') finished = true
    if (!one.startsWith('data: {')) return
    const event: Any = JSON.parse(one.slice(6))
    const said = STREAMED[style](event)
    if (said.text) parts.push(said.text)
    if (said.finished) finished = true
    error ??= said.error ?? errorIn(event)
  }
  return {
    push(text) {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const one of lines) line(one)
    },
    heard(status) {
      if (status !== 200 && rest.startsWith('{')) error ??= errorIn(JSON.parse(rest))
      return { text: parts.join(''), finished, error }
    },
  }
}
