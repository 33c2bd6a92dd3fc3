/**
 * Amazon's event stream (`application/vnd.amazon.eventstream`, Smithy's specification of that name): binary messages, each
 * with a prelude (length of the whole, length of the headers, CRC-32 of both), headers, payload, and a CRC-32 of all that.
 */
import type { Frame, Framing } from '../../core/protocol.ts'
import type { Stage } from '../../core/stage.ts'

/** Lengths and the checksum of both. */
const PRELUDE = 12
/** The checksum of the whole message, behind the payload. */
const TRAILER = 4

/** Begins the `event` of a message that is no event: what follows is the exception's type, or the error's code. */
export const EXCEPTION = 'exception:'
export const ERROR = 'error:'

/** What stands for a message that is damaged: text no codec takes for JSON, and no event's name. */
const DAMAGED: Frame = { data: '(a damaged message)' }

/**
 * Bytes in, messages out, whatever the slices are. A message whose lengths or checksums are wrong gives `DAMAGED`, one
 * longer than `most` bytes an `oversized` frame; behind either the stage is deaf, since nobody knows where the next one
 * begins. A message the end cuts gives nothing: that the answer is not complete the codec knows.
 */
export const eventFrames = (most: number): Stage<Uint8Array, Frame> => {
  const prelude = new Uint8Array(PRELUDE)
  /** The message being read, once its length is known and proven by the prelude's own checksum. */
  let message: Uint8Array | undefined
  let filled = 0
  let deaf = false

  const last = (frame: Frame): Frame => {
    deaf = true
    message = undefined
    return frame
  }

  /** The prelude is whole: what it announces, or why nothing follows. */
  const announce = (): Frame | undefined => {
    const view = viewOf(prelude)
    if (crc32(prelude, 0, PRELUDE - 4) !== view.getUint32(PRELUDE - 4)) return last(DAMAGED)
    const length = view.getUint32(0)
    if (length > most) return last({ data: '', oversized: true })
    if (length < PRELUDE + TRAILER + view.getUint32(4)) return last(DAMAGED)
    message = new Uint8Array(length)
    message.set(prelude)
    return undefined
  }

  return {
    push(slice) {
      const out: Frame[] = []
      let at = 0
      while (at < slice.length && !deaf) {
        const into: Uint8Array = message ?? prelude
        const taken = Math.min(into.length - filled, slice.length - at)
        into.set(slice.subarray(at, at + taken), filled)
        filled += taken
        at += taken
        if (filled < into.length) break
        if (into === prelude) {
          const refused = announce()
          if (refused) out.push(refused)
          continue
        }
        filled = 0
        message = undefined
        out.push(frameOf(into) ?? last(DAMAGED))
      }
      return out
    },
    end() {
      deaf = true
      return []
    },
  }
}

/** How the streams of Bedrock come. */
export const eventStream: Framing = { mediaType: 'application/vnd.amazon.eventstream', frames: eventFrames }

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)

/** What a whole message says; undefined: its checksum is wrong, or its headers do not fit their length. */
const frameOf = (message: Uint8Array): Frame | undefined => {
  const view = viewOf(message)
  const end = message.length - TRAILER
  if (crc32(message, 0, end) !== view.getUint32(end)) return undefined
  const payload = PRELUDE + view.getUint32(4)
  const headers = headersIn(message, PRELUDE, payload)
  if (!headers) return undefined
  const data = utf8.decode(message.subarray(payload, end))
  const code = headers.get(':error-code')
  if (headers.get(':message-type') === 'error')
    return { event: `${ERROR}${code ?? ''}`, data: JSON.stringify({ message: headers.get(':error-message') ?? '' }) }
  const exception = headers.get(':exception-type')
  if (headers.get(':message-type') === 'exception') return { event: `${EXCEPTION}${exception ?? ''}`, data }
  const event = headers.get(':event-type')
  return { ...(event && { event }), data }
}

const utf8 = new TextDecoder()

/** Bytes of a header's value by its type, where they do not say it themselves: true, false, 8 to 64 bits, time, UUID. */
const FIXED: { readonly [type: number]: number } = { 0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16 }
const TEXT = 7
const BYTES = 6

/** The headers that are texts, by name. Undefined when one reaches beyond the end, or is of no known type. */
const headersIn = (message: Uint8Array, start: number, end: number): ReadonlyMap<string, string> | undefined => {
  const view = viewOf(message)
  const found = new Map<string, string>()
  let at = start
  while (at < end) {
    const name = at + 1
    at = name + view.getUint8(at)
    if (at >= end) return undefined
    const key = utf8.decode(message.subarray(name, at))
    const type = view.getUint8(at)
    at++
    let length = FIXED[type]
    if (type === TEXT || type === BYTES) {
      if (at + 2 > end) return undefined
      length = view.getUint16(at)
      at += 2
    }
    if (length === undefined || at + length > end) return undefined
    if (type === TEXT) found.set(key, utf8.decode(message.subarray(at, at + length)))
    at += length
  }
  return found
}

/** CRC-32 as gzip has it (ISO 3309), a table's row for each byte. */
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let row = byte
  for (let bit = 0; bit < 8; bit++) row = row & 1 ? (row >>> 1) ^ 0xedb88320 : row >>> 1
  return row
})

const crc32 = (bytes: Uint8Array, start: number, end: number): number => {
  let crc = 0xffffffff
  for (let at = start; at < end; at++) {
    // Both indices are within their arrays.
    crc = (crc >>> 8) ^ (TABLE[(crc ^ (bytes[at] as number)) & 0xff] as number)
  }
  return (crc ^ 0xffffffff) >>> 0
}
