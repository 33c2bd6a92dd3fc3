/** Encodes messages of Amazon's event stream format, for tests that play an upstream. */
import { crc32 } from 'node:zlib'

/** Encodes one message (`event`, `exception` or `error`) with text headers and a payload. */
export const message = (headers: Readonly<Record<string, string>>, payload: string): Uint8Array => {
  const parts = Object.entries(headers).flatMap(([name, value]) => {
    const text = Buffer.from(value)
    const length = Buffer.alloc(2)
    length.writeUInt16BE(text.length)
    return [Buffer.from([Buffer.byteLength(name)]), Buffer.from(name), Buffer.from([7]), length, text]
  })
  const head = Buffer.concat(parts)
  const body = Buffer.from(payload)
  const prelude = Buffer.alloc(12)
  prelude.writeUInt32BE(16 + head.length + body.length, 0)
  prelude.writeUInt32BE(head.length, 4)
  prelude.writeUInt32BE(crc32(prelude.subarray(0, 8)), 8)
  const all = Buffer.concat([prelude, head, body])
  const trailer = Buffer.alloc(4)
  trailer.writeUInt32BE(crc32(all))
  return new Uint8Array(Buffer.concat([all, trailer]))
}

/** An event with this name. */
export const event = (name: string, payload: object): Uint8Array =>
  message(
    { ':event-type': name, ':content-type': 'application/json', ':message-type': 'event' },
    JSON.stringify(payload),
  )

/** An exception inside a 200 response, such as `throttlingException`. */
export const exception = (name: string, payload: object): Uint8Array =>
  message(
    { ':exception-type': name, ':content-type': 'application/json', ':message-type': 'exception' },
    JSON.stringify(payload),
  )

/** Encodes a chunk `{"<event-type>": {…}}` as an event message, or `{"<name>Exception": {…}}` as an exception. */
export const fromChunk = (chunk: string): Uint8Array[] =>
  Object.entries(JSON.parse(chunk)).map(([name, payload]) =>
    (name.endsWith('Exception') ? exception : event)(name, payload as object),
  )
