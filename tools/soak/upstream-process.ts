/** The providers of the soak run, in one child process. The first path segment is the provider's name. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { isList, list, object, text } from '../../src/core/json.ts'
import { type AnswerContent, answerBody, errorBody, failWith, piecesOf } from '../../test/support/answers.ts'
import { type Act, startUpstream, type UpstreamRequest } from '../../test/support/upstream.ts'
import { type Fault, faultOf, textOf } from './oracle.ts'

export type ProviderOptions = {
  /** Percent of each fault. */
  readonly percent: number
  /** ms between two events of a stream. */
  readonly gap: number
}

export type Providers = {
  /** `http://127.0.0.1:…` */
  readonly url: string
  /** Number of open connections. */
  open(): Promise<number>
  stop(): Promise<void>
}

export const startProviders = async (options: ProviderOptions): Promise<Providers> => {
  const child: ChildProcess = fork(import.meta.filename, [JSON.stringify(options)], { stdio: 'inherit', execArgv: [] })
  const exited = once(child, 'exit')
  const nextNumber = (): Promise<number> =>
    Promise.race([
      once(child, 'message').then(([value]) => Number(value)),
      exited.then(() => Promise.reject(new Error('the process of the providers has ended'))),
    ])
  const port = await nextNumber()
  return {
    url: `http://127.0.0.1:${port}`,
    open() {
      const answer = nextNumber()
      child.send('open')
      return answer
    },
    async stop() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

/** The request's ID, which is its only text. */
const idIn = ({ json }: UpstreamRequest): string => {
  const last = object(list(json.messages ?? json.input).at(-1))
  const { content } = last ?? {}
  return text(content) ?? text(object(isList(content) ? content[0] : undefined)?.text) ?? text(json.input) ?? ''
}

const answer = (request: UpstreamRequest, { percent, gap }: ProviderOptions): Act => {
  if (request.method === 'GET') return { do: 'answer', status: 404, body: { error: { message: 'no list' } } }
  const provider = request.path.split('/')[1] ?? ''
  const id = idIn(request)
  const content: AnswerContent = { text: textOf(id, provider) }
  const fault = faultOf(id, provider, percent)
  const pace = { first: gap, gap: fault === 'slow' ? 4 * gap : gap }
  if (fault === null || fault === 'slow')
    return request.stream
      ? { do: 'stream', pieces: piecesOf(request, content), ...pace }
      : { do: 'answer', body: answerBody(request, content), after: 10 * pace.gap }
  return broken(fault, request, content, pace)
}

const broken = (
  fault: Exclude<Fault, 'slow'>,
  request: UpstreamRequest,
  content: AnswerContent,
  pace: { readonly first: number; readonly gap: number },
): Act => {
  const pieces = request.stream ? piecesOf(request, content) : []
  const half = pieces.slice(0, Math.floor(pieces.length / 2))
  const body = JSON.stringify(answerBody(request, content))
  /** Sends the first half, then this ending. A body that is not a stream has a length it does not reach. */
  const breaks = (ending: 'reset' | 'close' | 'stall'): Act =>
    request.stream
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
      return request.stream
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
      return failWith(request, 500, { type: 'server_error', message: 'it broke' })
    case 'limited':
      return failWith(request, 429, { type: 'rate_limit_error', message: 'slower' }, { 'retry-after': '1' })
    case 'error_event': {
      if (!request.stream) return failWith(request, 503, { type: 'overloaded_error', message: 'too busy' })
      const event = errorBody(request, { type: 'server_error', message: 'it broke' })
      return { do: 'stream', pieces: [...half, `event: error\ndata: ${JSON.stringify(event)}\n\n`], ...pace }
    }
    case 'empty': {
      const nothing: AnswerContent = { text: '', output: 0 }
      return request.stream
        ? { do: 'stream', pieces: piecesOf(request, nothing), ...pace }
        : { do: 'answer', body: answerBody(request, nothing) }
    }
    case 'malformed':
      return request.stream
        ? { do: 'stream', pieces: [...half, 'data: {"half":\n\n', ...pieces.slice(half.length)], ...pace }
        : { do: 'answer', body: body.slice(0, -20) }
    default:
      throw new Error(`unknown fault ${fault satisfies never}`)
  }
}

if (process.argv[1] === import.meta.filename) {
  const options: ProviderOptions = JSON.parse(process.argv[2] ?? '{}')
  const upstream = await startUpstream((request) => answer(request, options), { discardsRecords: true })
  process.on('message', () => process.send?.(upstream.open()))
  process.send?.(upstream.port)
  // The parent process has ended.
  process.on('disconnect', () => process.exit())
}
