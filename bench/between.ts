/**
 * The part of the gateway between the sockets: the real code with an upstream and a client that are functions, with the log
 * and the metrics. For benchmarks.
 */
import { ANONYMOUS, type Client } from '../src/core/accounts.ts'
import type { ClientProtocolName } from '../src/core/chat.ts'
import type { Catalogue } from '../src/core/config.ts'
import type { IncomingRequest, ResponseWriter } from '../src/core/http-exchange.ts'
import type { Dial } from '../src/core/world.ts'
import type { AccountsOptions } from '../src/gateway/accounts/accounts.ts'
import { serveChat } from '../src/gateway/chat/serve-chat.ts'
import type { Gateway } from '../src/gateway/gateway.ts'
import { UpstreamHealth } from '../src/gateway/health/upstream-health.ts'
import { openLog } from '../src/observe/log.ts'
import { createMetrics } from '../src/observe/metrics.ts'
import { protocols } from '../src/protocols/index.ts'
import { realWorld } from '../src/runtime/world.ts'
import { testAccounts } from '../test/support/accounts.ts'
import { gatewayHarness, instance } from '../test/support/gateway.ts'
import { testStore } from '../test/support/stores.ts'

const bytes = (text: string) => Buffer.from(text)
const prompt = (size: number) =>
  'Tell me of the gates, "quoted" and plain. '.repeat(Math.ceil(size / 42)).slice(0, size)
const history = (size: number) => {
  const turns = Math.max(1, Math.round(size / 1000))
  return Array.from({ length: turns }, (_, at) => ({
    role: at % 2 === 0 ? 'user' : 'assistant',
    content: prompt(Math.floor(size / turns)),
  }))
}
const chatBody = (size: number, stream: boolean) =>
  JSON.stringify({
    model: 'm',
    messages: history(size),
    temperature: 0.7,
    stream,
    ...(stream && { stream_options: { include_usage: true } }),
  })

const usage = { prompt_tokens: 200, completion_tokens: 150, total_tokens: 350 }
const answer = bytes(
  JSON.stringify({
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1_800_000_000,
    model: 'm',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: prompt(600), refusal: null },
        logprobs: null,
        finish_reason: 'stop',
      },
    ],
    usage,
  }),
)
const head = {
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1_800_000_000,
  model: 'm',
  system_fingerprint: 'fp_1',
}
const chunkOf = (delta: object, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason }], usage: null })}\n\n`
/** Chunks with content of a streamed answer. */
export const CHUNKS = 200
const chunks = [
  chunkOf({ role: 'assistant', content: '', refusal: null }),
  ...Array.from({ length: CHUNKS }, (_, at) => chunkOf({ content: `word ${at} and some more of it, é ` })),
  chunkOf({}, 'stop'),
  `data: ${JSON.stringify({ ...head, choices: [], usage })}\n\n`,
  'data: [DONE]\n\n',
].map(bytes)
const anthropicChunks = [
  `event: message_start\ndata: ${JSON.stringify({ type: 'message_start', message: { id: 'msg_1', type: 'message', role: 'assistant', model: 'm', content: [], stop_reason: null, usage: { input_tokens: 200, output_tokens: 1 } } })}\n\n`,
  `event: content_block_start\ndata: ${JSON.stringify({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } })}\n\n`,
  ...Array.from(
    { length: CHUNKS },
    (_, at) =>
      `event: content_block_delta\ndata: ${JSON.stringify({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: `word ${at} and some more of it, é ` } })}\n\n`,
  ),
  `event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n`,
  `event: message_delta\ndata: ${JSON.stringify({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 150 } })}\n\n`,
  `event: message_stop\ndata: {"type":"message_stop"}\n\n`,
].map(bytes)

export type InProcessLoad = {
  readonly name: string
  readonly style: ClientProtocolName
  readonly upstream: 'openai-chat' | 'anthropic-messages'
  readonly body: string
  readonly chunks: readonly Uint8Array[]
  /** Events that one read brings. */
  readonly perRead?: number
}
/** Groups events into reads. */
const reads = (events: readonly Uint8Array[], perRead: number): readonly Uint8Array[] =>
  Array.from({ length: Math.ceil(events.length / perRead) }, (_, at) =>
    Buffer.concat(events.slice(at * perRead, (at + 1) * perRead)),
  )
const responsesBody = JSON.stringify({ model: 'm', input: prompt(1000), stream: true, store: false })
export const workloads: readonly InProcessLoad[] = [
  { name: 'chat-1k', style: 'openai-chat', upstream: 'openai-chat', body: chatBody(700, false), chunks: [answer] },
  { name: 'chat-30k', style: 'openai-chat', upstream: 'openai-chat', body: chatBody(30_000, false), chunks: [answer] },
  { name: 'stream', style: 'openai-chat', upstream: 'openai-chat', body: chatBody(700, true), chunks },
  { name: 'burst', style: 'openai-chat', upstream: 'openai-chat', body: chatBody(700, true), chunks, perRead: 20 },
  { name: 'responses-from-chat', style: 'openai-responses', upstream: 'openai-chat', body: responsesBody, chunks },
  {
    name: 'chat-from-anthropic',
    style: 'openai-chat',
    upstream: 'anthropic-messages',
    body: chatBody(700, true),
    chunks: anthropicChunks,
  },
]

/** Answers each call with the chunks of a workload. */
const dialFor =
  ({ chunks, perRead = 1 }: InProcessLoad): Dial =>
  (_call, listener) => {
    let live = true
    queueMicrotask(() => {
      const type = chunks.length > 1 ? 'text/event-stream' : 'application/json'
      listener.onHeaders(200, (name) => (name === 'content-type' ? type : undefined))
      const [first, ...rest] = reads(chunks, perRead)
      const send = (some: readonly Uint8Array[]) => {
        for (const chunk of some) if (live) listener.onBody(chunk)
        if (live) listener.onEnd()
      }
      if (rest.length === 0) return send(first ? [first] : [])
      // The first content commits the target; later chunks arrive after the client's stream has begun.
      for (const chunk of [first, rest[0]]) if (live && chunk) listener.onBody(chunk)
      setImmediate(send, rest.slice(1))
    })
    return {
      abort() {
        live = false
      },
      resume() {},
    }
  }

/** $2.50 and $10 for a million tokens. */
const catalogue: Catalogue = () => ({ prices: { input: 2_500, cacheRead: 1_250, output: 10_000 } })

/** A gateway with one provider, which answers with this workload. */
export const gatewayFor = (workload: InProcessLoad, accounts: Partial<AccountsOptions> = {}): Gateway => {
  const speaks = [{ protocol: workload.upstream }]
  const upstream = instance(workload.upstream, ['k1'], { speaks })
  const { gateway } = gatewayHarness([upstream], () => {}, {}, catalogue)
  const { prices } = gateway
  const world = realWorld({ dial: dialFor(workload) })
  const sink = { write: () => true, writableLength: 0, on() {}, off() {} }
  const log = openLog({ out: sink, level: 'info', format: 'json' })
  const metrics = createMetrics({ version: '0', started: 0 })
  const emit: Gateway['emit'] = (event) => {
    log.record(event)
    metrics.record(event)
  }
  const lists = new Map<string, readonly string[]>()
  return {
    ...gateway,
    world,
    health: new UpstreamHealth(world, emit),
    emit,
    lists: () => lists,
    responses: testStore(1_000_000),
    accounts: testAccounts(world, { prices, ...accounts }),
  }
}

let number = 0
/** Serves one request of a workload. */
export const serveOne = async (
  gateway: Gateway,
  { style, body }: InProcessLoad,
  client: Client = ANONYMOUS,
): Promise<void> => {
  const protocol = protocols[style]
  const responseWriter: ResponseWriter = {
    writeHead() {},
    write: () => true,
    end() {},
    abort() {},
    onDrain() {},
    onDisconnect() {},
  }
  const received: IncomingRequest = {
    id: `req_${number++}`,
    method: 'POST',
    path: protocol.path,
    query: '',
    headers: () => undefined,
    body: { text: body },
    client,
  }
  await serveChat(gateway, { protocol, received, responseWriter })
}

const sum = ({ user, system }: NodeJS.CpuUsage): number => user + system
/** CPU time of the main thread, and of the process with garbage collector and compiler, in µs. */
export const spentCpu = (): { readonly thread: number; readonly all: number } => ({
  thread: sum(process.threadCpuUsage()),
  all: sum(process.cpuUsage()),
})
