/** What a frame of a session of the Realtime API costs: checked, and its event recognised. Without sockets. `node bench/realtime-frames.ts` */
import { RealtimeEvents } from '../src/gateway/realtime/realtime-events.ts'
import { FrameReader } from '../src/protocols/framing/web-socket-frames.ts'

const FRAMES = 400_000
/** Of one read of a socket. */
const PER_READ = 4
const MAX = 16 * 1024 * 1024

const event = JSON.stringify({
  type: 'response.output_audio.delta',
  event_id: 'event_AAAAAAAAAAAAAAAAAAAAA',
  response_id: 'resp_AAAAAAAAAAAAAAAAAAAAA',
  delta: Buffer.alloc(2_940).toString('base64'),
})
const payload = Buffer.from(event)
const header = [126, payload.length >> 8, payload.length & 0xff]
const fromUpstream = Buffer.concat(Array(PER_READ).fill(Buffer.concat([Buffer.from([0x81, ...header]), payload])))
const masked = [header[0] as number, ...header.slice(1)].map((byte, at) => (at === 0 ? byte | 0x80 : byte))
const fromClient = Buffer.concat(
  Array(PER_READ).fill(Buffer.concat([Buffer.from([0x81, ...masked, 1, 2, 3, 4]), payload])),
)

const measure = (name: string, read: Uint8Array, reader: FrameReader): void => {
  for (let round = 0; round < 3; round++) {
    const begun = performance.now()
    for (let at = 0; at < FRAMES; at += PER_READ) if (reader.push(read)) throw new Error('a frame is not valid')
    const each = ((performance.now() - begun) / FRAMES) * 1_000
    if (round === 2) process.stdout.write(`${name}: ${each.toFixed(2)} µs a frame of ${payload.length} bytes\n`)
  }
}

const events = new RealtimeEvents({ onBegun() {}, onUsage() {} })
measure('from the provider', fromUpstream, new FrameReader(false, MAX, events))
measure('from the client', fromClient, new FrameReader(true, MAX, null))
