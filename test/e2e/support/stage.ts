/** Shared helpers of the end-to-end tests: configuration files, requests in every style, and the status page. */
import { connect, type Socket } from 'node:net'
import { after } from 'node:test'
import { type Script, startUpstream, type Upstream } from '../../support/upstream.ts'
import { BELOW, type Started, start } from './process.ts'

export type Style = 'chat' | 'responses'
export const STYLES: readonly Style[] = ['chat', 'responses']
export const PATHS: Readonly<Record<Style, string>> = {
  chat: '/v1/chat/completions',
  responses: '/v1/responses',
}

/** A minimal request of a style. */
export const bodyFor = (style: Style, model: string, stream: boolean, more: object = {}): object => ({
  model,
  stream,
  ...(style === 'chat' ? { messages: [{ role: 'user', content: 'hello' }] } : { input: 'hello' }),
  ...more,
})

/** A provider of the configuration file. */
export type ProviderInput = {
  readonly kind?: string
  readonly baseUrl: string
  readonly keys?: readonly string[]
  readonly models?: readonly string[]
  readonly styles?: readonly string[]
}

export type FileInput = {
  readonly providers: Readonly<Record<string, ProviderInput>>
  readonly routes?: Readonly<
    Record<
      string,
      { readonly targets: readonly string[]; readonly fallback?: readonly string[]; readonly cache?: object }
    >
  >
  /** Settings, by section. */
  readonly [section: string]: unknown
}

/**
 * Configuration as JSON, which is YAML. By default a provider is OpenAI-compatible, has the model `m` and supports both
 * client styles.
 */
export const fileOf = ({ providers, ...rest }: FileInput): string =>
  JSON.stringify({
    ...rest,
    providers: Object.fromEntries(
      Object.entries(providers).map(([name, place]) => [
        name,
        {
          kind: 'openai-compatible',
          models: ['m'],
          keys: [`sk-${name}-one-0123456789`],
          ...(place.kind === undefined && { styles: ['chat', 'responses'] }),
          ...place,
        },
      ]),
    ),
  })

/** Starts the gateway with this file. */
export const startWith = (file: FileInput, env: Readonly<Record<string, string>> = {}): Promise<Started> =>
  start({ env, files: { 'headgate.yaml': fileOf(file) } })

/** Resources of a suite or file, released at its end even if its set-up failed, in reverse order. */
export type Stage = {
  keep(close: () => Promise<unknown> | undefined): void
  /** Starts an upstream. Model lists are answered with 404 and not passed to the script. */
  upstream(script: Script): Promise<Upstream>
  gateway(file: FileInput, env?: Readonly<Record<string, string>>): Promise<Started>
}

export const stage = (): Stage => {
  const closers: (() => Promise<unknown> | undefined)[] = []
  after(async () => {
    const problems: unknown[] = []
    for (const close of closers.reverse())
      try {
        await close()
      } catch (error) {
        // The remaining ones are still released, or the process would not exit.
        problems.push(error)
      }
    if (problems.length > 0) throw problems[0]
  })
  const keep = (close: () => Promise<unknown> | undefined) => void closers.push(close)
  return {
    keep,
    async upstream(script) {
      const made = await startUpstream((request) =>
        request.method === 'GET'
          ? { do: 'answer', status: 404, body: { error: { message: 'no list' } } }
          : script(request),
      )
      keep(() => made.close())
      return made
    },
    async gateway(file, env = {}) {
      const made = await startWith(file, env)
      keep(() => made.stop())
      return made
    },
  }
}

/** The model calls an upstream received. */
export const callsOf = (upstream: Upstream) => upstream.requests.filter(({ method }) => method === 'POST')

// ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────────

export type Answer = {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** ms from the request to the last byte. */
  readonly ms: number
  // biome-ignore lint/suspicious/noExplicitAny: the tests read bodies of every shape
  json(): any
}

export type ChatCall = {
  readonly style: Style
  readonly model: string
  readonly stream: boolean
  /** Further members of the body. */
  readonly more?: object | undefined
  readonly headers?: Readonly<Record<string, string>>
}

/** Sends a chat request and reads the whole answer. */
export const sendChat = async (
  gateway: Pick<Started, 'url'>,
  { style, model, stream, more = {}, headers = {} }: ChatCall,
): Promise<Answer> => {
  const begun = performance.now()
  const response = await fetch(gateway.url + PATHS[style], {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(bodyFor(style, model, stream, more)),
    signal: AbortSignal.timeout(120_000),
  })
  const text = await response.text()
  return {
    status: response.status,
    headers: response.headers,
    text,
    ms: performance.now() - begun,
    json: () => JSON.parse(text),
  }
}

/** The text of an answer, whole or streamed, in any style. */
export const textIn = (style: Style, stream: boolean, text: string): string => {
  if (!stream) {
    const body = JSON.parse(text)
    return style === 'chat'
      ? (body.choices[0].message.content ?? '')
      : body.output.map((item: { content?: { text: string }[] }) => item.content?.[0]?.text ?? '').join('')
  }
  return eventsIn(text)
    .map((event) =>
      style === 'chat'
        ? (event.choices?.[0]?.delta?.content ?? '')
        : event.type?.endsWith('text.delta')
          ? event.delta
          : '',
    )
    .join('')
}

/** The JSON of every event of a stream, in order, without `[DONE]`. */
// biome-ignore lint/suspicious/noExplicitAny: the tests read events of every shape
export const eventsIn = (text: string): any[] =>
  text.split(/\r?\n/).flatMap((line) => (/^data: ?\{/.test(line) ? [JSON.parse(line.slice(5))] : []))

/** Whether a stream has the regular end of its style. */
export const isComplete = (style: Style, text: string): boolean =>
  /data: ?\[DONE\](\r?\n){2}$/.test(text) &&
  !text.includes('"error":{') &&
  (style === 'chat' || /event: response\.(completed|incomplete)\r?\n/.test(text))

// ── Raw client ───────────────────────────────────────────────────────────────────────────────────────────────────

export type RawClient = {
  readonly socket: Socket
  /** All bytes received so far, header block and framing included. */
  text(): string
  /** When the last bytes arrived. */
  closed(): boolean
}

/** Connects and sends these bytes. */
export const rawClient = async (url: string, bytes: string | Uint8Array, allowHalfOpen = false): Promise<RawClient> => {
  const { hostname, port } = new URL(url)
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen })
  let text = ''
  let closed = false
  socket.setEncoding('utf8')
  socket.on('data', (piece: string) => {
    text += piece
  })
  socket.on('error', () => {})
  socket.on('close', () => {
    closed = true
  })
  await new Promise((resolve) => socket.once('connect', resolve))
  socket.write(bytes)
  return { socket, text: () => text, closed: () => closed }
}

/** A request as bytes. */
export const rawRequest = (path: string, body: string, headers: Readonly<Record<string, string>> = {}): string => {
  const lines = Object.entries({ host: 'localhost', 'content-length': String(Buffer.byteLength(body)), ...headers })
  return `POST ${BELOW}${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body}`
}

// ── Gateway status ───────────────────────────────────────────────────────────────────────────────────────────────

export type ProviderStatus = {
  readonly id: string
  readonly status: string
  readonly circuit: {
    readonly state: string
    readonly failures: number
    readonly successes: number
    readonly error_rate: number
    readonly opened_at: string | null
    readonly retry_at: string | null
  }
  readonly keys: readonly {
    readonly id: string
    readonly status: string
    readonly requests: number
    readonly in_flight: number
    readonly until: string | null
  }[]
  readonly models: readonly {
    readonly id: string
    readonly status: string
    readonly circuit: { readonly state: string; readonly retry_at: string | null }
  }[]
  readonly last_error: { readonly kind: string; readonly code: string; readonly status: number | null } | null
}

export const statusPage = async (gateway: Pick<Started, 'url'>): Promise<ReadonlyMap<string, ProviderStatus>> => {
  const page = (await (await fetch(`${gateway.url}/providers/status`)).json()) as { data: ProviderStatus[] }
  return new Map(page.data.map((one) => [one.id, one]))
}

export const statusOf = async (gateway: Pick<Started, 'url'>, id: string): Promise<ProviderStatus> => {
  const found = (await statusPage(gateway)).get(id)
  if (!found) throw new Error(`no provider ${id} on the status page`)
  return found
}

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
