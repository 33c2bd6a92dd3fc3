/** Messages of Amazon's event stream, as an upstream writes them: for tests that play one. */
import { crc32 } from 'node:zlib'

/** One message of that type: `event`, `exception` or `error`, with text headers and a payload. */
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

/** An event by its name. */
export const event = (name: string, payload: object): Uint8Array =>
  message(
    { ':event-type': name, ':content-type': 'application/json', ':message-type': 'event' },
    JSON.stringify(payload),
  )

/** An exception inside the 200: `throttlingException`. */
export const exception = (name: string, payload: object): Uint8Array =>
  message(
    { ':exception-type': name, ':content-type': 'application/json', ':message-type': 'exception' },
    JSON.stringify(payload),
  )

/** A chunk, `{"<event-type>": {…}}`, as a message; `{"<name>Exception": {…}}` is an exception. */
export const fromChunk = (chunk: string): Uint8Array[] =>
  Object.entries(JSON.parse(chunk)).map(([name, payload]) =>
    (name.endsWith('Exception') ? exception : event)(name, payload as object),
  )
