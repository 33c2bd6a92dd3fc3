/** Synchronous reads and writes on a socket's descriptor, past Node's stream. */
import { readSync, writeSync } from 'node:fs'
import type { Socket } from 'node:net'

/** Bytes of a direct write. A longer text would be copied twice: the kernel rarely accepts so much at once. */
const MAX_WRITE = 64 * 1024

/** A socket's file descriptor; -1 where it has none. */
export const descriptorOf = (socket: Socket): number => {
  // Not in Node's types. Without it all writes go through the stream.
  const { _handle: handle } = socket as { readonly _handle?: { readonly fd?: unknown } | null }
  return typeof handle?.fd === 'number' ? handle.fd : -1
}

/**
 * Writes Latin-1 text to a socket with an empty queue, and returns how many bytes the kernel accepted. The stream's state,
 * request object and callback cost a tenth of a chunk. The caller writes the rest to the stream, which also reports errors.
 */
export const writeDirectly = (descriptor: number, text: string): number => {
  if (descriptor === -1 || text === '' || text.length > MAX_WRITE) return 0
  try {
    return writeSync(descriptor, text, null, 'latin1')
  } catch {
    // Full or broken: the stream meets the same error and handles it.
    return 0
  }
}

const PAGE = Buffer.allocUnsafeSlow(MAX_WRITE)

/** Like `writeDirectly`, for bytes between two Latin-1 texts. */
export const writePartDirectly = (descriptor: number, head: string, part: Uint8Array, tail: string): number => {
  const end = head.length + part.length
  const length = end + tail.length
  if (descriptor === -1 || length > MAX_WRITE) return 0
  PAGE.write(head, 'latin1')
  PAGE.set(part, head.length)
  PAGE.write(tail, end, 'latin1')
  try {
    return writeSync(descriptor, PAGE, 0, length)
  } catch {
    // Full or broken: the stream meets the same error and handles it.
    return 0
  }
}

const EARLY = Buffer.allocUnsafeSlow(16 * 1024)

/** Bytes that a client sent before its connection was accepted, mostly its whole request; null: none. */
export const readEarly = (descriptor: number): Buffer | null => {
  if (descriptor === -1) return null
  try {
    const length = readSync(descriptor, EARLY, 0, EARLY.length, null)
    return length === 0 ? null : Buffer.from(EARLY.subarray(0, length))
  } catch {
    // Nothing to read, or broken: the stream meets the same error.
    return null
  }
}
