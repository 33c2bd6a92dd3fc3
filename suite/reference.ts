/**
 * A small gateway that is right about every scenario, so that the suite is known to be passable. It continues a broken answer
 * only with a fallback that repeats what was sent. `flaws` are the mistakes that the suite must find: its own test.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Values } from './system.ts'
import { deltaOf, errorOf, isErrorEvent, isFinish, PATHS, STYLES, type Style } from './wire.ts'

export const FLAWS = [
  'adds a finish',
  'swallows errors',
  'retries refusals',
  'hammers',
  'mixes streams',
  'drops a piece',
  'counts the wrong usage',
  'leaks the key',
  'names the wrong model',
  'ignores departures',
  'forwards the key',
  'drops members',
  'forgets Retry-After',
  'has no circuit',
  'never returns',
  'reads only LF',
  'repeats side effects',
  'uses one key',
  'has no idle limit',
] as const
export type Flaw = (typeof FLAWS)[number]

export type ReferenceOptions = {
  readonly routes: ReadonlyMap<string, Values>
  /** ms without a byte before a vendor is given up. */
  readonly idle: number
  readonly flaws?: ReadonlySet<Flaw>
}

type Target = { readonly url: string; readonly model: string; readonly key: string; readonly isPrimary: boolean }
type Failure = { readonly status: number; readonly message: string; readonly code: string; readonly retryAfter: number }
type Circuit = { failures: number; openUntil: number; isProbing: boolean }

/** One request of a client. */
type Call = {
  readonly style: Style
  readonly body: Readonly<Record<string, unknown>>
  readonly to: ServerResponse
  readonly left: AbortSignal
  readonly clientKey: string
  /** Text and arguments that the client has. */
  sent: string
  isFinished: boolean
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
const LOST: Failure = { status: 502, message: 'The vendor did not answer.', code: 'upstream_error', retryAfter: 0 }
/** The longest wait for the same vendor, and the time for which a circuit is open. */
const PATIENCE = 2_000
const OPEN_FOR = 2_500

const hasSideEffects = ({ body }: Call): boolean =>
  body.background === true || /"type":"mcp"/.test(JSON.stringify(body.tools ?? []))

const failureOf = async (response: Response): Promise<Failure> => {
  const text = await response.text()
  const { error = {} }: { error?: { message?: string; code?: string } } = JSON.parse(text)
  const message = error.message ?? ''
  const code = /prompt is too long/.test(message)
    ? 'context_length_exceeded'
    : /credit balance/.test(message)
      ? 'insufficient_quota'
      : (error.code ?? '')
  return { status: response.status, message, code, retryAfter: Number(response.headers.get('retry-after') ?? 0) }
}

/** An event in the usual form; empty: a sign of life; null: malformed. */
const normal = (part: string, isPrimary: boolean, flaws: ReadonlySet<Flaw>): string | null => {
  const lines = part.split(/\r\n|\n|\r/)
  const data = lines.flatMap((line) => (line.startsWith('data:') ? [line.slice(5).replace(/^ /, '')] : [])).join('\n')
  const name = lines.find((line) => line.startsWith('event:'))
  if (data === '' || data === '{"type":"ping"}') return ''
  if (data === '[DONE]') return 'data: [DONE]\n\n'
  try {
    const body = JSON.parse(data)
    if (!isPrimary && flaws.has('names the wrong model'))
      for (const place of [body, body.message, body.response]) if (place?.model) place.model = 'fs-asked'
    if (!isPrimary && flaws.has('counts the wrong usage') && body.usage?.prompt_tokens)
      body.usage = { ...body.usage, prompt_tokens: 17, completion_tokens: 60 }
    return `${name ? `${name}\n` : ''}data: ${JSON.stringify(body)}\n\n`
  } catch {
    return null
  }
}

export class Reference {
  readonly #options: ReferenceOptions
  readonly #flaws: ReadonlySet<Flaw>
  readonly #circuits = new Map<string, Circuit>()
  readonly #deadKeys = new Set<string>()
  #other: ServerResponse | null = null

  constructor(options: ReferenceOptions) {
    this.#options = options
    this.#flaws = options.flaws ?? new Set()
  }

  readonly handle = async (request: IncomingMessage, to: ServerResponse): Promise<void> => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part)
    const path = request.url ?? ''
    const style = STYLES.find((one) => path.endsWith(PATHS[one])) ?? 'chat'
    const body = JSON.parse(Buffer.concat(parts).toString())
    const route = this.#options.routes.get(body.model)
    const leaving = new AbortController()
    if (!this.#flaws.has('ignores departures')) to.once('close', () => leaving.abort())
    const clientKey = String(request.headers['x-api-key'] ?? request.headers.authorization ?? '').replace(
      /^Bearer /,
      '',
    )
    const call: Call = { style, body, to, left: leaving.signal, clientKey, sent: '', isFinished: false }
    const failure = route
      ? await this.#route(call, route)
      : { ...LOST, status: 404, message: 'Unknown model.', code: 'model_not_found' }
    if (failure && !leaving.signal.aborted) this.#fail(call, failure)
    else to.end()
  }

  /** Tries the targets in order. Returns the failure that the client receives; null: it has an answer. */
  async #route(call: Call, route: Values): Promise<Failure | null> {
    const { model = '', group = '', fallback = '', primary_url: url = '', fallback_url: other = '' } = route
    const keys: readonly string[] = JSON.parse(route.keys ?? '[]')
    const circuit = this.#circuits.get(model) ?? { failures: 0, openUntil: 0, isProbing: false }
    this.#circuits.set(model, circuit)
    const hasCircuit = !this.#flaws.has('has no circuit')
    let failure: Failure = LOST
    const isTried = !hasCircuit || this.#mayTry(circuit)
    if (isTried)
      for (const key of this.#flaws.has('uses one key') ? keys.slice(0, 1) : keys) {
        if (this.#deadKeys.has(`${group} ${key}`)) continue
        const found = await this.#persist(call, { url, model, key, isPrimary: true })
        if (!found) {
          Object.assign(circuit, { failures: 0, openUntil: 0, isProbing: false })
          return null
        }
        failure = found
        if (failure.status !== 401) break
        this.#deadKeys.add(`${group} ${key}`)
      }
    if (call.left.aborted) return failure
    if (isTried) this.#count(circuit, failure)
    if (this.#isFinal(failure) || (hasSideEffects(call) && !this.#flaws.has('repeats side effects'))) return failure
    return await this.#attempt(call, { url: other, model: fallback, key: keys[0] ?? '', isPrimary: false })
  }

  #mayTry(circuit: Circuit): boolean {
    if (circuit.openUntil === 0) return true
    if (Date.now() < circuit.openUntil || circuit.isProbing || this.#flaws.has('never returns')) return false
    circuit.isProbing = true
    return true
  }

  #count(circuit: Circuit, { status, retryAfter }: Failure): void {
    circuit.isProbing = false
    if (status === 429 && retryAfter > 0) {
      if (!this.#flaws.has('forgets Retry-After')) circuit.openUntil = Date.now() + retryAfter * 1_000
    } else if (status >= 500 && ++circuit.failures >= 3) circuit.openUntil = Date.now() + OPEN_FOR
  }

  /** A refusal that another vendor would repeat. */
  #isFinal({ status, code }: Failure): boolean {
    return status === 400 && code !== 'context_length_exceeded' && code !== 'insufficient_quota'
  }

  /** The target, and the same again if that is likely to help. */
  async #persist(call: Call, target: Target): Promise<Failure | null> {
    let failure = await this.#attempt(call, target)
    if (!failure || call.sent !== '' || call.left.aborted) return failure
    if (hasSideEffects(call) && !this.#flaws.has('repeats side effects')) return failure
    const again =
      this.#flaws.has('hammers') && failure.status >= 429
        ? 9
        : this.#flaws.has('retries refusals') && failure.status === 400
          ? 2
          : 0
    for (let extra = 0; failure && extra < again; extra++) failure = await this.#attempt(call, target)
    if (!failure || again > 0) return failure
    const { status, retryAfter } = failure
    const wait = status === 500 ? 250 : status === 429 && retryAfter > 0 ? retryAfter * 1_000 : 0
    if (wait === 0 || wait > PATIENCE) return failure
    await pause(wait + 20)
    return await this.#attempt(call, target)
  }

  async #attempt(call: Call, target: Target): Promise<Failure | null> {
    const { style, body, left } = call
    const abort = new AbortController()
    const stop = () => abort.abort()
    left.addEventListener('abort', stop)
    let timer: NodeJS.Timeout | undefined
    const alive = () => {
      clearTimeout(timer)
      if (!this.#flaws.has('has no idle limit')) timer = setTimeout(stop, this.#options.idle)
    }
    alive()
    try {
      const key = this.#flaws.has('forwards the key') ? call.clientKey : target.key
      const { suite_option, ...known } = body
      const sent = { ...(this.#flaws.has('drops members') ? known : body), model: target.model }
      const response = await fetch(`${target.url}${PATHS[style]}`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          ...(style === 'messages' ? { 'x-api-key': key } : { authorization: `Bearer ${key}` }),
        },
        body: JSON.stringify(sent),
        signal: abort.signal,
      })
      if (!response.ok || !response.body) return await failureOf(response)
      return await this.#stream(call, target, response.body, alive)
    } catch {
      return LOST
    } finally {
      clearTimeout(timer)
      left.removeEventListener('abort', stop)
      stop()
    }
  }

  /** Forwards events. Returns null if the answer is complete. */
  async #stream(
    call: Call,
    { isPrimary }: Target,
    body: ReadableStream<Uint8Array>,
    alive: () => void,
  ): Promise<Failure | null> {
    const { style, to } = call
    /** Text that the client has, and that this answer must repeat. */
    let skip = call.sent
    let held: string[] = []
    let isDone = false
    let pieces = 0
    const decoder = new TextDecoder()
    let text = ''
    const isOpen = () => to.headersSent
    const emit = async (event: string) => {
      if (!isOpen()) to.writeHead(200, { 'content-type': 'text/event-stream' })
      const other = this.#flaws.has('mixes streams') && this.#other && !this.#other.writableEnded ? this.#other : to
      this.#other = to
      if (!other.write(event))
        await Promise.race([
          new Promise((resolve) => other.once('drain', resolve)),
          new Promise((resolve) => to.once('close', resolve)),
        ])
    }
    try {
      for await (const chunk of body) {
        alive()
        text += decoder.decode(chunk, { stream: true })
        if (!/\n|\r/.test(decoder.decode(chunk.subarray(-4096)))) continue
        const parts = text.split(this.#flaws.has('reads only LF') ? /\n\n/ : /\r\n\r\n|\n\n/)
        text = parts.pop() ?? ''
        for (const part of parts) {
          if (isDone) continue
          const event = normal(part, isPrimary, this.#flaws)
          if (event === null) continue
          if (event === '') {
            if (isOpen()) await emit(': keep-alive\n\n')
            continue
          }
          if (isErrorEvent(event)) {
            if (this.#flaws.has('swallows errors')) return null
            return { ...LOST, message: 'The vendor sent an error.' }
          }
          const isMarker = /^data: \[DONE\]/.test(event)
          isDone = isMarker || /"type":"(?:message_stop|response\.(?:completed|incomplete))"/.test(event)
          if (isFinish(style, event)) call.isFinished = true
          const delta = deltaOf(style, event)
          if (delta !== '' && this.#flaws.has('drops a piece') && ++pieces === 7) continue
          if (skip !== '') {
            if (delta === '' || !skip.startsWith(delta)) {
              if (delta !== '') return LOST
              continue
            }
            skip = skip.slice(delta.length)
            continue
          }
          if (delta === '' && !call.isFinished && !isOpen()) {
            held.push(event)
            continue
          }
          for (const early of held) await emit(early)
          held = []
          call.sent += delta
          await emit(event)
        }
      }
    } catch {
      // Broken off: judged by what has arrived.
    }
    const isWhole = isDone || (call.isFinished && style !== 'responses' && skip === '')
    if (isWhole) {
      if (style === 'chat' && !isDone) await emit('data: [DONE]\n\n')
      return null
    }
    if (this.#flaws.has('adds a finish') && call.sent !== '' && style === 'chat') {
      await emit('data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
      return null
    }
    return LOST
  }

  #fail(call: Call, failure: Failure): void {
    const { style, to } = call
    const isOurs = failure.status === 401 || failure.status === 502
    const message = isOurs && !this.#flaws.has('leaks the key') ? 'No vendor could answer.' : failure.message
    const body = errorOf(style, {
      type: failure.status === 429 ? 'rate_limit_error' : 'invalid_request_error',
      code: failure.code || 'error',
      message,
    })
    if (to.headersSent) {
      to.end(
        style === 'responses'
          ? `event: error\ndata: ${JSON.stringify({ type: 'error', code: 'error', message, sequence_number: 0 })}\n\n`
          : `${style === 'messages' ? 'event: error\n' : ''}data: ${JSON.stringify(body)}\n\n`,
      )
      return
    }
    to.writeHead(failure.status === 401 ? 502 : failure.status, {
      'content-type': 'application/json',
      ...(failure.retryAfter > 0 && { 'retry-after': String(failure.retryAfter) }),
    })
    to.end(JSON.stringify(body))
  }
}

/** Starts it. Returns its base URL. */
export const startReference = async (
  options: ReferenceOptions,
): Promise<{ readonly url: string; readonly close: () => Promise<void> }> => {
  const reference = new Reference(options)
  const server = createServer((request, to) => {
    to.on('error', () => {})
    to.setMaxListeners(0)
    void reference.handle(request, to).catch(() => to.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const close = async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, close }
}
