/** Streams an export of usage to the client. */
import { createGzip } from 'node:zlib'
import type { ResponseWriter } from '../../core/http-exchange.ts'
import type { UsageExport } from '../../usage/reading/usage-reader.ts'

/** Writes an export as it is read; a slow client slows the reading. */
export const writeExport = async (first: string | null, source: UsageExport, reply: ResponseWriter, gzip: boolean) => {
  let wake = () => {}
  let left = false
  const zip = gzip ? createGzip({ level: 1 }) : null
  let isFull = false
  const write = (piece: string | Uint8Array) => {
    isFull = !reply.write(piece)
  }
  reply.onDisconnect(() => {
    left = true
    zip?.destroy()
    wake()
  })
  reply.onDrain(() => {
    isFull = false
    wake()
  })
  const drained = async () => {
    while (isFull && !left) await new Promise<void>((resolve) => (wake = resolve))
  }
  zip?.on('data', write)
  for (let text = first; text !== null && !left; ) {
    if (zip) await new Promise<void>((resolve) => zip.write(text, () => resolve()))
    else write(text)
    await drained()
    const next = await source.read()
    // The head has been sent: an incomplete body is the only sign of a failure.
    if (!next.ok) return reply.abort()
    text = next.value
  }
  if (left) return
  if (zip) {
    await new Promise<void>((resolve) => zip.once('end', resolve).end())
  }
  reply.end()
}
