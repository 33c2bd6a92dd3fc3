/**
 * Measures the cost of a request and a chunk without sockets: the real gateway code with an upstream and a client that are
 * functions. CPU time of the main thread, and of the process with garbage collector and compiler:
 * `node bench/middle.ts [--only chat-1k,stream] [--seconds 4]`.
 */
import { parseArgs } from 'node:util'
import type { ClientProtocolName } from '../src/core/chat.ts'
import type { IncomingRequest, ResponseWriter } from '../src/core/http-exchange.ts'
import type { Dial } from '../src/core/world.ts'
import { openLog } from '../src/edge/observe/log.ts'
import { createMetrics } from '../src/edge/observe/metrics.ts'
import { realWorld } from '../src/edge/process/world.ts'
import { serveChat } from '../src/gateway/chat/serve-chat.ts'
import { UpstreamHealth } from '../src/gateway/health/upstream-health.ts'
import { protocols } from '../src/protocols/index.ts'
import { gatewayHarness, instance } from '../test/support/gateway.ts'
import { testStore } from '../test/support/stores.ts'

const { values } = parseArgs({ options: { only: { type: 'string' }, seconds: { type: 'string', default: '3' } } })

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
const CHUNKS = 200
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

type Workload = {
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
const workloads: readonly Workload[] = [
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

let workload: Workload = workloads[0] as Workload
const dial: Dial = (_call, listener) => {
  let live = true
  queueMicrotask(() => {
    const stream = workload.chunks.length > 1
    const type = stream ? 'text/event-stream' : 'application/json'
    listener.onHeaders(200, (name) => (name === 'content-type' ? type : undefined))
    const { chunks, perRead = 1 } = workload
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

const world = realWorld({ dial })
const openai = gatewayHarness([instance('openai')], () => {})
const anthropic = gatewayHarness(
  [instance('anthropic', ['k1'], { speaks: [{ protocol: 'anthropic-messages' }] })],
  () => {},
)
const sink = { write: () => true, writableLength: 0, on() {}, off() {} }
const log = openLog({ out: sink, level: 'info', format: 'json' })
const metrics = createMetrics({ version: '0', started: 0 })
const emit = (event: Parameters<typeof log.record>[0]) => {
  log.record(event)
  metrics.record(event)
}
const health = new UpstreamHealth(world, emit)
const lists = new Map<string, readonly string[]>()
const gatewayOf = (one: typeof openai) => ({
  ...one.gateway,
  world,
  health,
  emit,
  lists: () => lists,
  responses: testStore(1_000_000),
})
const gateways = { 'openai-chat': gatewayOf(openai), 'anthropic-messages': gatewayOf(anthropic) }

let number = 0
const once = async (): Promise<void> => {
  const protocol = protocols[workload.style]
  const reply: ResponseWriter = {
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
    body: { text: workload.body },
    local: true,
    client: '',
  }
  await serveChat(gateways[workload.upstream], { protocol, received, responseWriter: reply })
}

const sum = ({ user, system }: NodeJS.CpuUsage): number => user + system
/** CPU time of the main thread and of the process in µs. */
const spent = (): readonly [number, number] => [sum(process.threadCpuUsage()), sum(process.cpuUsage())]
/** Runs 32 concurrent requests at a time for `ms`, with a turn of the event loop in between. */
const during = async (
  ms: number,
): Promise<{ readonly calls: number; readonly thread: number; readonly all: number }> => {
  const until = performance.now() + ms
  const [thread, all] = spent()
  let calls = 0
  while (performance.now() < until) {
    await Promise.all(Array.from({ length: 32 }, once))
    calls += 32
    await new Promise((resolve) => setImmediate(resolve))
  }
  const [threadNow, allNow] = spent()
  return { calls, thread: threadNow - thread, all: allNow - all }
}

const only = values.only?.split(',')
for (workload of workloads.filter(({ name }) => only?.includes(name) ?? true)) {
  await during(Number(values.seconds) * 1000)
  const runs: Awaited<ReturnType<typeof during>>[] = []
  for (let round = 0; round < 3; round++) runs.push(await during((Number(values.seconds) * 1000) / 3))
  const median = (of: (run: (typeof runs)[number]) => number): number => runs.map(of).sort((a, b) => a - b)[1] ?? 0
  const thread = median((run) => run.thread / run.calls)
  const all = median((run) => run.all / run.calls)
  const per =
    workload.chunks.length > 1 ? `   ${(thread / CHUNKS).toFixed(2)} (${(all / CHUNKS).toFixed(2)}) per chunk` : ''
  process.stdout.write(
    `${workload.name.padEnd(22)} ${thread.toFixed(1)} µs (process ${all.toFixed(1)}) per request${per}\n`,
  )
}
process.exit(0)
