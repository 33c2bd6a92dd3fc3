/**
 * Runs the whole request path without sockets: a gateway in a still world, and a reply that records what it receives.
 */

import { ANONYMOUS } from '../../src/core/accounts.ts'
import type { ClientProtocolName } from '../../src/core/chat.ts'
import type { Catalogue, Config } from '../../src/core/config.ts'
import { type TextOrBytes, textOf } from '../../src/core/encoded-text.ts'
import type { IncomingRequest, ResponseWriter } from '../../src/core/http-exchange.ts'
import type { Instance, Provider } from '../../src/core/provider.ts'
import type { Route } from '../../src/core/route.ts'
import { Secret } from '../../src/core/secret.ts'
import { settingsSchema } from '../../src/core/settings.ts'
import type { GatewayEvent } from '../../src/core/trace.ts'
import { ActiveCalls } from '../../src/gateway/call/cancellation.ts'
import { serveChat } from '../../src/gateway/chat/serve-chat.ts'
import type { Gateway } from '../../src/gateway/gateway.ts'
import { UpstreamHealth } from '../../src/gateway/health/upstream-health.ts'
import { ResponseCache } from '../../src/gateway/sharing/response-cache.ts'
import { priceBook } from '../../src/policy/accounts/price-book.ts'
import { protocols } from '../../src/protocols/index.ts'
import { testAccounts } from './accounts.ts'
import { type ScriptedCall, type StillWorld, stillWorld } from './still-world.ts'
import { type TestStore, testStore } from './stores.ts'

export const provider = (name: string, more: Partial<Provider> = {}): Provider => ({
  name,
  title: name,
  order: 1,
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  ...more,
})

export const instance = (id: string, keys: readonly string[] = ['k1'], more: Partial<Provider> = {}): Instance => {
  const made = provider(id, more)
  return {
    id,
    provider: made,
    baseUrl: `http://${id}.test/v1`,
    keys: keys.map((key) => ({ id: key, secret: new Secret(`sk-${id}-${key}`), weight: 1 })),
    models: ['m'],
    speaks: made.speaks,
    variables: {},
  }
}

/** Settings as in the configuration file. `routes`: the targets of each route, as `provider/model`. */
export type SettingsInput = {
  readonly routes?: Readonly<Record<string, readonly string[]>>
  readonly [section: string]: unknown
}

export type GatewayHarness = {
  readonly gateway: Gateway
  readonly store: TestStore
  readonly world: StillWorld
  readonly events: GatewayEvent[]
  /** Sends a request and returns its reply, which fills as time passes. */
  readonly send: (body: object | string, style?: ClientProtocolName, client?: string) => CapturedReply
}

export const gatewayHarness = (
  instances: readonly Instance[],
  script: (request: ScriptedCall) => void,
  { routes = {}, ...settings }: SettingsInput = {},
  catalogue: Catalogue = () => undefined,
): GatewayHarness => {
  const world = stillWorld(script)
  const events: GatewayEvent[] = []
  const emit = (item: GatewayEvent) => {
    events.push(item)
  }
  const config: Config = {
    settings: settingsSchema.parse(settings),
    instances,
    routes: new Map(Object.entries(routes).map(([name, targets]) => [name, routeOf(name, targets)])),
  }
  const store = testStore()
  const prices = priceBook(catalogue, [])
  const gateway: Gateway = {
    world,
    emit,
    health: new UpstreamHealth(world, emit),
    catalogue,
    prices: () => prices,
    config: () => config,
    lists: () => new Map(),
    activeCalls: new ActiveCalls(),
    responses: store,
    accounts: testAccounts(world, { prices: () => prices }),
    cache: new ResponseCache({ world, fingerprint: (text) => text, limit: () => 67_108_864 }),
    jobs: new Map(),
  }
  let number = 0
  return {
    gateway,
    store,
    world,
    events,
    send: (body, style = 'openai-chat', owner = '') => {
      const protocol = protocols[style]
      const reply = new CapturedReply()
      const received: IncomingRequest = {
        id: `req_test${String.fromCharCode(97 + number++)}`,
        method: 'POST',
        // The path of this format has members of the request; without one they are in the body.
        path: style === 'gemini' ? '' : protocol.path,
        query: style === 'gemini' ? 'alt=sse' : '',
        headers: () => undefined,
        body: { text: typeof body === 'string' ? body : JSON.stringify(body) },
        client: { ...ANONYMOUS, owner },
      }
      reply.done = serveChat(gateway, { protocol, received, responseWriter: reply })
      return reply
    },
  }
}

const routeOf = (name: string, targets: readonly string[]): Route => ({
  name,
  targets: targets.map((target) => {
    const [provider = '', ...model] = target.split('/')
    return { provider, model: model.join('/'), weight: 1 }
  }),
  fallback: [],
})

export class CapturedReply implements ResponseWriter {
  status: number | null = null
  headers: Readonly<Record<string, string>> = {}
  written: string[] = []
  ending: 'ended' | 'cut' | null = null
  /** The result of `write`: false simulates a slow client. */
  writable = true
  done: Promise<void> = Promise.resolve()
  #drain: () => void = () => {}
  #gone: () => void = () => {}

  writeHead(status: number, headers: Readonly<Record<string, string>>): void {
    if (this.status !== null) throw new Error('header block written twice')
    this.status = status
    this.headers = headers
  }
  write(piece: TextOrBytes): boolean {
    if (this.status === null || this.ending) throw new Error('write in the wrong state')
    this.written.push(textOf(piece))
    return this.writable
  }
  end(text?: string): void {
    if (this.status === null || this.ending) throw new Error('end in the wrong state')
    if (text) this.written.push(text)
    this.ending = 'ended'
  }
  abort(): void {
    this.ending ??= 'cut'
  }
  onDrain(run: () => void): void {
    this.#drain = run
  }
  onDisconnect(run: () => void): void {
    this.#gone = run
  }

  get text(): string {
    return this.written.join('')
  }
  /** The body, as the JSON it should be. */
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into bodies of every shape
  get json(): any {
    return JSON.parse(this.text)
  }
  drain(): void {
    this.writable = true
    this.#drain()
  }
  disconnect(): void {
    this.#gone()
  }
}

/** Answer bodies and chunks of a chat completions upstream. */
export const chatAnswer = {
  whole: (content: string, more: object = {}) =>
    JSON.stringify({
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: 1,
      model: 'm',
      choices: [
        {
          index: 0,
          message: { roleChunk: 'assistant', content, refusal: null },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage: { prompt_tokens: 3, completion_tokens: content === '' ? 0 : 2, total_tokens: content === '' ? 3 : 5 },
      ...more,
    }),
  chunk: (delta: object, finish: string | null = null) =>
    `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }] })}\n\n`,
  role: () => chatAnswer.chunk({ role: 'assistant', content: '' }),
  done: 'data: [DONE]\n\n',
  stream: (...words: readonly string[]) =>
    [
      chatAnswer.role(),
      ...words.map((content) => chatAnswer.chunk({ content })),
      chatAnswer.chunk({}, 'stop'),
      chatAnswer.done,
    ].join(''),
}

/** Sends a complete response at once. */
export const respondWith = {
  raw: (request: ScriptedCall, status: number, headers: Readonly<Record<string, string>>, text = '') => {
    request.head(status, headers)
    if (text !== '') request.send(text)
    request.end()
  },
  json: (request: ScriptedCall, status: number, body: string, headers: Readonly<Record<string, string>> = {}) => {
    request.head(status, { 'content-type': 'application/json', ...headers })
    request.send(body)
    request.end()
  },
  stream: (request: ScriptedCall, text: string) => {
    request.head(200, { 'content-type': 'text/event-stream' })
    request.send(text)
    request.end()
  },
  error: (request: ScriptedCall, status: number, error: object = {}, headers: Readonly<Record<string, string>> = {}) =>
    respondWith.json(
      request,
      status,
      JSON.stringify({ error: { message: 'it did not work', type: 'x', code: null, param: null, ...error } }),
      headers,
    ),
}
