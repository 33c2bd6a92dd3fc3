/**
 * Amazon's event stream (`application/vnd.amazon.eventstream`, Smithy specification). Each binary message has a prelude
 * (total length, header length, CRC-32 of both), headers, a payload, and a CRC-32 of everything before it.
 */
import type { Frame, Framing } from '../../core/protocol.ts'
import type { Stage } from '../../core/stage.ts'

/** Bytes of the prelude. */
const PRELUDE = 12
/** Bytes of the checksum after the payload. */
const TRAILER = 4

/** Prefix of the `event` of an exception message, before the exception's type. */
export const EXCEPTION = 'exception:'
/** Prefix of the `event` of an error message, before the error's code. */
export const ERROR = 'error:'

/** Replaces a damaged message: not JSON, without an event name. */
const DAMAGED: Frame = { data: '(a damaged message)' }

/**
 * Reads messages from bytes, sliced in any way. A message with wrong lengths or checksums gives `DAMAGED`, one longer than
 * `limit` bytes an `oversized` frame. After either, input is ignored, since the next message cannot be located. A message
 * truncated by the end of input is dropped; the codec detects the incomplete answer.
 */
export const eventFrames = (limit: number): Stage<Uint8Array, Frame> => {
  const prelude = new Uint8Array(PRELUDE)
  /** The message being read, allocated after the prelude's checksum was verified. */
  let message: Uint8Array | undefined
  let filled = 0
  let stopped = false

  const stopAfter = (frame: Frame): Frame => {
    stopped = true
    message = undefined
    return frame
  }

  /** Allocates the message that a complete prelude describes, or returns the frame that ends reading. */
  const beginMessage = (): Frame | undefined => {
    const view = viewOf(prelude)
    if (crc32(prelude, 0, PRELUDE - 4) !== view.getUint32(PRELUDE - 4)) return stopAfter(DAMAGED)
    const length = view.getUint32(0)
    if (length > limit) return stopAfter({ data: '', oversized: true })
    if (length < PRELUDE + TRAILER + view.getUint32(4)) return stopAfter(DAMAGED)
    message = new Uint8Array(length)
    message.set(prelude)
    return undefined
  }

  return {
    push(slice) {
      const out: Frame[] = []
      let at = 0
      while (at < slice.length && !stopped) {
        const into: Uint8Array = message ?? prelude
        const taken = Math.min(into.length - filled, slice.length - at)
        into.set(slice.subarray(at, at + taken), filled)
        filled += taken
        at += taken
        if (filled < into.length) break
        if (into === prelude) {
          const failure = beginMessage()
          if (failure) out.push(failure)
          continue
        }
        filled = 0
        message = undefined
        out.push(frameOf(into) ?? stopAfter(DAMAGED))
      }
      return out
    },
    end() {
      stopped = true
      return []
    },
  }
}

/** The framing of Bedrock's streams. */
export const eventStream: Framing = { mediaType: 'application/vnd.amazon.eventstream', frames: eventFrames }

/** The bytes of text headers, in this order. Names have at most 255 bytes, values 64 KiB. */
export const eventHeaders = (headers: Readonly<Record<string, string>>): Uint8Array => {
  const parts = Object.entries(headers).flatMap(([name, value]) => {
    const [key, content] = [encoder.encode(name), encoder.encode(value)]
    return [key.length, ...key, TEXT, content.length >> 8, content.length & 0xff, ...content]
  })
  return Uint8Array.from(parts)
}

/** Writes a message. `headers`: as of `eventHeaders`. */
export const writeEventMessage = (headers: Uint8Array, payload: string): Uint8Array => {
  const body = encoder.encode(payload)
  const message = new Uint8Array(PRELUDE + headers.length + body.length + TRAILER)
  const view = viewOf(message)
  view.setUint32(0, message.length)
  view.setUint32(4, headers.length)
  view.setUint32(PRELUDE - 4, crc32(message, 0, PRELUDE - 4))
  message.set(headers, PRELUDE)
  message.set(body, PRELUDE + headers.length)
  view.setUint32(message.length - TRAILER, crc32(message, 0, message.length - TRAILER))
  return message
}

const encoder = new TextEncoder()

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)

/** Decodes a complete message; undefined if its checksum or header lengths are wrong. */
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

/** Length of a header value by type, for types of fixed length: true, false, 8 to 64 bits, time, UUID. */
const FIXED: { readonly [type: number]: number } = { 0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16 }
const TEXT = 7
const BYTES = 6

/** The string headers by name. Undefined if a header exceeds the end or has an unknown type. */
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

/** Lookup table of CRC-32 (ISO 3309, as in gzip). */
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let row = byte
  for (let bit = 0; bit < 8; bit++) row = row & 1 ? (row >>> 1) ^ 0xedb88320 : row >>> 1
  return row
})

const crc32 = (bytes: Uint8Array, start: number, end: number): number => {
  let crc = 0xffffffff
  for (let at = start; at < end; at++) {
    // Both indices are in range.
    crc = (crc >>> 8) ^ (TABLE[(crc ^ (bytes[at] as number)) & 0xff] as number)
  }
  return (crc ^ 0xffffffff) >>> 0
}
