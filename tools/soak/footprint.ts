/** Measures the memory of one stream: an open stream without traffic, and one whose client does not read. */
import { connect, type Socket } from 'node:net'
import { startUpstream } from '../../test/support/upstream.ts'
import type { ProcessSample } from './probe.ts'
import { startGateway } from './soak.ts'

export type Footprint = {
  readonly streams: number
  /** Bytes per stream after a full garbage collection: objects and buffers. */
  readonly used: number
  /** Resident bytes per stream, including pages that the allocator retains. */
  readonly resident: number
}

const BIG = 50 * 1_048_576

const event = (delta: object): string =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`

/** A few words, then nothing until a side disconnects. */
const FEW = [event({ role: 'assistant', content: '' }), event({ content: 'one moment' })]

function* many(): Generator<string> {
  const words = event({ content: 'w'.repeat(2_000) })
  for (let sent = 0; sent < BIG; sent += words.length) yield words
}

/** `idle`: open streams without traffic. `stalled`: streams of 50 MB whose clients read nothing. */
export const footprint = async (kind: 'idle' | 'stalled', streams: number): Promise<Footprint> => {
  const upstream = await startUpstream(
    (request) =>
      request.method === 'GET'
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
    // The first streams include compilation and table initialisation.
    await open(50)
    const before = await gateway.sample()
    await open(streams)
    const after = await gateway.sample()
    const each = (of: (sample: ProcessSample) => number) => Math.round((of(after) - of(before)) / streams)
    return { streams, used: each(({ heap, external }) => heap + external), resident: each(({ rss }) => rss) }
  } finally {
    for (const socket of sockets) socket.destroy()
    await gateway.stop()
    await upstream.close()
  }
}
