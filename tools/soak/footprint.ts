/** What one stream costs in memory: one that is open and says little, and one whose client does not read. */
import { connect, type Socket } from 'node:net'
import { startUpstream } from '../../test/support/upstream.ts'
import type { Held } from './probe.ts'
import { startGateway } from './soak.ts'

export type Footprint = {
  readonly streams: number
  /** Bytes a stream, after a full collection: objects and buffers. */
  readonly kept: number
  /** Bytes a stream of resident memory, in which there are pages kept for later. */
  readonly resident: number
}

const BIG = 50 * 1_048_576

const event = (delta: object): string =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`

/** A few words, and then nothing until somebody leaves. */
const FEW = [event({ role: 'assistant', content: '' }), event({ content: 'one moment' })]

function* many(): Generator<string> {
  const words = event({ content: 'w'.repeat(2_000) })
  for (let sent = 0; sent < BIG; sent += words.length) yield words
}

/** `idle`: streams that are open and quiet. `stalled`: streams of 50 MB whose clients read nothing. */
export const footprint = async (kind: 'idle' | 'stalled', streams: number): Promise<Footprint> => {
  const upstream = await startUpstream(
    (asked) =>
      asked.method === 'GET'
        ? { do: 'answer', status: 404, body: {} }
        : { do: 'stream', pieces: kind === 'idle' ? FEW : many(), ending: 'stall' },
    { discardsRecords: true },
  )
  const gateway = await startGateway(
    JSON.stringify({
      providers: {
        a: { kind: 'openai-compatible', baseUrl: `${upstream.url}/v1`, keys: ['sk-a-0123456789'], models: ['m'] },
      },
    }),
  )
  const sockets: Socket[] = []
  const open = async (count: number) => {
    const { hostname, port } = new URL(gateway.url)
    const body = JSON.stringify({ model: 'm', stream: true, messages: [{ role: 'user', content: 'hello' }] })
    for (let at = 0; at < count; at++) {
      const socket = connect(Number(port), hostname)
      socket.on('error', () => {})
      if (kind === 'idle') socket.resume()
      else socket.pause()
      await new Promise((resolve) => socket.once('connect', resolve))
      socket.write(
        `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      )
      sockets.push(socket)
    }
    await new Promise((resolve) => setTimeout(resolve, 5_000))
  }
  try {
    // The first ones pay for code that is compiled and tables that are made.
    await open(50)
    const before = await gateway.held()
    await open(streams)
    const after = await gateway.held()
    const each = (of: (held: Held) => number) => Math.round((of(after) - of(before)) / streams)
    return { streams, kept: each(({ heap, external }) => heap + external), resident: each(({ rss }) => rss) }
  } finally {
    for (const socket of sockets) socket.destroy()
    await gateway.stop()
    await upstream.close()
  }
}
