/**
 * The wall: two vendors that break on purpose, in the styles of chat completions, messages and responses. The model of a
 * request names the scenario; every attempt is logged. Answers are numbered words that begin with the nonce of the request.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { applyFault, type FaultyResponse, parseFaults } from './faults.ts'
import { type Answer, bodyOf, errorOf, eventsOf, PATHS, STYLES, type Style } from './wire.ts'

export type VendorName = 'primary' | 'backup'

/** The keys of the vendors. None may reach a client. */
export const VENDOR_KEYS = ['sk-wall-one-2f6d81a7', 'sk-wall-two-9c04b3e5'] as const

export type LoggedAttempt = {
  /** ms since the wall started. */
  readonly at: number
  readonly vendor: VendorName
  readonly style: Style
  readonly model: string
  readonly nonce: string
  /** Of this model at this vendor, from 1. */
  readonly attempt: number
  readonly key: string
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: string
  /** ms since the wall started; null: the response is not over. */
  closed: number | null
  /** The gateway closed the connection before the end. */
  aborted: boolean
  done: string
}

/** How a vendor answers an attempt. Absent members: a whole right answer. */
export type Behaviour = {
  /** In the vocabulary of `faults.ts`. */
  readonly fault?: string
  readonly error?: { readonly status: number; readonly type: string; readonly code: string; readonly message: string }
  readonly headers?: Readonly<Record<string, string>>
  /** Changes the answer, the response, or the way of its bytes. */
  readonly answer?: (answer: Answer) => Answer
  readonly response?: (response: FaultyResponse, style: Style) => FaultyResponse
  readonly gzip?: true
  /** ms between events; 1 if absent. */
  readonly pace?: number
}

export type Script = (attempt: LoggedAttempt, sinceFirst: number) => Behaviour

/** Numbered words: a word that is missing, doubled, of another answer or of a cache shows. */
export const wordsOf = (nonce: string, count = 60): readonly string[] =>
  Array.from({ length: count }, (_, index) => `${nonce}-${String(index + 1).padStart(2, '0')}`)
export const piecesOf = (words: readonly string[]): readonly string[] =>
  words.map((word, index) => (index ? ` ${word}` : word))

/** Usage by vendor, so that the usage of another attempt shows. */
export const USAGE = { primary: { input: 17, output: 60 }, backup: { input: 23, output: 61 } } as const

export type Wall = {
  readonly urls: { readonly [vendor in VendorName | 'refused']: string }
  readonly log: LoggedAttempt[]
  readonly now: () => number
  readonly close: () => Promise<void>
}

const NONCE = /nonce ([a-z0-9]{8})/

const readBody = async (request: IncomingMessage): Promise<string> => {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part)
  return Buffer.concat(parts).toString()
}

const keyOf = ({ headers }: IncomingMessage): string =>
  String(headers['x-api-key'] ?? headers.authorization ?? '').replace(/^Bearer /, '')

/** The text of the last message, if it is the assistant's: the beginning of an answer that is to be continued. */
const prefillOf = (body: unknown): string | undefined => {
  const { messages } = (body ?? {}) as { readonly messages?: readonly { role?: string; content?: unknown }[] }
  const last = messages?.at(-1)
  if (last?.role !== 'assistant') return undefined
  const parts =
    typeof last.content === 'string' ? [{ text: last.content }] : ((last.content ?? []) as { text?: string }[])
  return parts.map(({ text = '' }) => text).join('')
}

/** The words after those that the request already has. */
const continued = (pieces: readonly string[], prefill: string): readonly string[] => {
  const whole = pieces.join('')
  if (prefill === '' || !whole.startsWith(prefill.trimEnd())) return pieces
  const rest = whole.slice(prefill.trimEnd().length)
  return rest === '' ? [] : [rest]
}

const COUNTER = { requests: 0 }

const answerFor = (attempt: LoggedAttempt, prefill: string): Answer => ({
  id: `${attempt.style}${++COUNTER.requests}`,
  model: attempt.model,
  pieces: continued(piecesOf(wordsOf(attempt.nonce)), prefill),
  calls: [],
  usage: USAGE[attempt.vendor],
})

const send = (response: FaultyResponse, to: ServerResponse, gzip: boolean, done: (how: string) => void): void => {
  const { head, pieces, end } = response
  const socket = to.socket
  to.setMaxListeners(0)
  const finish = () => {
    done(end)
    if (end === 'complete') to.end()
    else if (end === 'reset') socket?.resetAndDestroy()
    else if (end === 'closed') socket?.destroy()
  }
  if (!head) return void (end === 'open' ? done(end) : finish())
  socket?.setNoDelay(true)
  const write = async () => {
    if (head.after > 0) await pause(head.after)
    to.writeHead(head.status, head.headers)
    to.flushHeaders()
    if (gzip) to.write(gzipSync(pieces.map(({ data }) => data).join('')))
    else
      for (const { after, data } of pieces) {
        if (after > 0) await pause(after)
        if (to.destroyed) return
        if (!to.write(data)) await Promise.race([once(to, 'drain'), once(to, 'close')])
      }
    // What was written must leave before the connection breaks.
    if (end !== 'complete') await pause(30)
    if (!to.destroyed) finish()
  }
  void write()
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
const once = (emitter: ServerResponse, name: string) =>
  new Promise<void>((resolve) => emitter.once(name, () => resolve()))

/** Responds as the behaviour says. */
const respond = (
  attempt: LoggedAttempt,
  { fault, error, headers, answer, response, gzip, pace = 1 }: Behaviour,
  to: ServerResponse,
  stream: boolean,
): void => {
  const { style } = attempt
  const whole =
    answer?.(answerFor(attempt, prefillOf(parse(attempt.body)) ?? '')) ??
    answerFor(attempt, prefillOf(parse(attempt.body)) ?? '')
  const texts = error
    ? [JSON.stringify(errorOf(style, error))]
    : stream
      ? eventsOf(style, whole)
      : [JSON.stringify(bodyOf(style, whole))]
  const type = error || !stream ? 'application/json' : 'text/event-stream; charset=utf-8'
  const zipped = gzip === true && /\bgzip\b/.test(String(attempt.headers['accept-encoding'] ?? ''))
  let played: FaultyResponse = {
    head: {
      after: 0,
      status: error?.status ?? 200,
      headers: { 'content-type': type, ...headers, ...(zipped && { 'content-encoding': 'gzip' }) },
    },
    pieces: texts.map((data, index) => ({ after: index ? pace : 0, data })),
    end: 'complete',
  }
  if (fault !== undefined) {
    const parsed = parseFaults(fault)
    if (!parsed.ok) throw new Error(parsed.problem)
    for (const one of parsed.faults) played = applyFault(one, played)
  }
  send(response?.(played, style) ?? played, to, zipped, (how) => {
    attempt.done = how
  })
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const listen = async (server: Server, port: number): Promise<number> => {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
  return (server.address() as AddressInfo).port
}

/** Starts the wall. `scripts`: by the first part of a model's name, `fs-NAME-…`. `port`: of the primary; the next ones follow. */
export const startWall = async (scripts: ReadonlyMap<string, Script>, port = 0): Promise<Wall> => {
  const begun = performance.now()
  const now = () => performance.now() - begun
  const log: LoggedAttempt[] = []
  const counts = new Map<string, { attempts: number; readonly first: number }>()
  const handle = async (vendor: VendorName, request: IncomingMessage, to: ServerResponse) => {
    const path = (request.url ?? '').split('?')[0] ?? ''
    const style = STYLES.find((one) => path.endsWith(PATHS[one]))
    const text = await readBody(request)
    const body = parse(text) as { readonly model?: string; readonly stream?: boolean } | undefined
    const model =
      String(body?.model ?? '')
        .split('/')
        .at(-1) ?? ''
    const script = scripts.get(/^fs-([a-z0-9]+)/.exec(model)?.[1] ?? '')
    if (!style || !script || request.method !== 'POST') {
      to.writeHead(404, { 'content-type': 'application/json' })
      to.end(
        JSON.stringify(errorOf('chat', { type: 'not_found_error', code: 'model_not_found', message: `No ${path}.` })),
      )
      return
    }
    const at = now()
    const count = counts.get(`${vendor} ${model}`) ?? { attempts: 0, first: at }
    counts.set(`${vendor} ${model}`, count)
    count.attempts++
    const attempt: LoggedAttempt = {
      at,
      vendor,
      style,
      model,
      nonce: NONCE.exec(text)?.[1] ?? '',
      attempt: count.attempts,
      key: keyOf(request),
      headers: request.headers,
      body: text.slice(0, 20_000),
      closed: null,
      aborted: false,
      done: '',
    }
    log.push(attempt)
    to.once('close', () => {
      attempt.closed = now()
      attempt.aborted = !to.writableFinished && attempt.done === ''
    })
    respond(attempt, script(attempt, at - count.first), to, body?.stream === true)
  }
  const start = (vendor: VendorName) =>
    createServer({ keepAliveTimeout: 60_000 }, (request, to) => {
      // A gateway that leaves breaks the connection at any place.
      to.on('error', () => {})
      void handle(vendor, request, to).catch(() => to.destroy())
    })
  const [primary, backup, refused] = [start('primary'), start('backup'), createServer()]
  const ports = [
    await listen(primary, port),
    await listen(backup, port && port + 1),
    await listen(refused, port && port + 2),
  ]
  await new Promise((resolve) => refused.close(resolve))
  const url = (index: number) => `http://127.0.0.1:${ports[index]}/v1`
  const close = async () => {
    for (const server of [primary, backup]) {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    }
  }
  return { urls: { primary: url(0), backup: url(1), refused: url(2) }, log, now, close }
}
