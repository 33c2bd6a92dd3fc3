/** The providers of the soak run, as one process of their own: each path's first part is a provider's name. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { isList, list, object, text } from '../../src/core/json.ts'
import { type AnswerContent, answerBody, errorBody, failWith, piecesOf } from '../../test/support/answers.ts'
import { type Act, startUpstream, type UpstreamRequest } from '../../test/support/upstream.ts'
import { type Fault, faultOf, textOf } from './oracle.ts'

export type Manner = {
  /** Percent of each fault. */
  readonly percent: number
  /** ms between two events. */
  readonly gap: number
}

export type Providers = {
  /** `http://127.0.0.1:…` */
  readonly url: string
  /** Connections open now. */
  open(): Promise<number>
  stop(): Promise<void>
}

export const startProviders = async (manner: Manner): Promise<Providers> => {
  const child: ChildProcess = fork(import.meta.filename, [JSON.stringify(manner)], { stdio: 'inherit', execArgv: [] })
  const gone = once(child, 'exit')
  const told = (): Promise<number> =>
    Promise.race([
      once(child, 'message').then(([value]) => Number(value)),
      gone.then(() => Promise.reject(new Error('the providers’ process has ended'))),
    ])
  const port = await told()
  return {
    url: `http://127.0.0.1:${port}`,
    open() {
      const answer = told()
      child.send('open')
      return answer
    },
    async stop() {
      child.kill('SIGKILL')
      await gone
    },
  }
}

/** The id is the only word of the question. */
const idIn = ({ json }: UpstreamRequest): string => {
  const last = object(list(json.messages ?? json.input).at(-1))
  const { content } = last ?? {}
  return text(content) ?? text(object(isList(content) ? content[0] : undefined)?.text) ?? text(json.input) ?? ''
}

const answer = (asked: UpstreamRequest, { percent, gap }: Manner): Act => {
  if (asked.method === 'GET') return { do: 'answer', status: 404, body: { error: { message: 'no list' } } }
  const provider = asked.path.split('/')[1] ?? ''
  const id = idIn(asked)
  const said: AnswerContent = { text: textOf(id, provider) }
  const fault = faultOf(id, provider, percent)
  const pace = { first: gap, gap: fault === 'slow' ? 4 * gap : gap }
  if (fault === null || fault === 'slow')
    return asked.stream
      ? { do: 'stream', pieces: piecesOf(asked, said), ...pace }
      : { do: 'answer', body: answerBody(asked, said), after: 10 * pace.gap }
  return broken(fault, asked, said, pace)
}

const broken = (
  fault: Exclude<Fault, 'slow'>,
  asked: UpstreamRequest,
  said: AnswerContent,
  pace: { readonly first: number; readonly gap: number },
): Act => {
  const pieces = asked.stream ? piecesOf(asked, said) : []
  const half = pieces.slice(0, Math.floor(pieces.length / 2))
  const body = JSON.stringify(answerBody(asked, said))
  /** The first half, then this. A whole answer states a length it does not reach. */
  const breaks = (ending: 'reset' | 'close' | 'stall'): Act =>
    asked.stream
      ? { do: 'stream', pieces: half, ...pace, ending }
      : {
          do: 'raw',
          bytes: `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length * 2}\r\n\r\n${body.slice(0, 200)}`,
          ending,
        }
  switch (fault) {
    case 'reset':
      return { do: 'reset' }
    case 'reset_middle':
      return breaks('reset')
    case 'truncated':
      return breaks('close')
    case 'ends_early':
      return asked.stream
        ? { do: 'stream', pieces: half, ...pace, untilClose: true }
        : {
            do: 'raw',
            bytes: `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n${body.slice(0, 200)}`,
          }
    case 'stall':
      return breaks('stall')
    case 'silent':
      return { do: 'hang' }
    case 'error':
      return failWith(asked, 500, { type: 'server_error', message: 'it broke' })
    case 'limited':
      return failWith(asked, 429, { type: 'rate_limit_error', message: 'slower' }, { 'retry-after': '1' })
    case 'error_event': {
      if (!asked.stream) return failWith(asked, 503, { type: 'overloaded_error', message: 'too busy' })
      const event = errorBody(asked, { type: 'server_error', message: 'it broke' })
      return { do: 'stream', pieces: [...half, `event: error\ndata: ${JSON.stringify(event)}\n\n`], ...pace }
    }
    case 'empty': {
      const nothing: AnswerContent = { text: '', output: 0 }
      return asked.stream
        ? { do: 'stream', pieces: piecesOf(asked, nothing), ...pace }
        : { do: 'answer', body: answerBody(asked, nothing) }
    }
    case 'malformed':
      return asked.stream
        ? { do: 'stream', pieces: [...half, 'data: {"half":\n\n', ...pieces.slice(half.length)], ...pace }
        : { do: 'answer', body: body.slice(0, -20) }
    default:
      throw new Error(`unknown fault ${fault satisfies never}`)
  }
}

if (process.argv[1] === import.meta.filename) {
  const manner: Manner = JSON.parse(process.argv[2] ?? '{}')
  const upstream = await startUpstream((asked) => answer(asked, manner), { discardsRecords: true })
  process.on('message', () => process.send?.(upstream.open()))
  process.send?.(upstream.port)
  // Whoever started it has gone: so does it.
  process.on('disconnect', () => process.exit())
}
