import { readSync, writeSync } from 'node:fs'
import type { Socket } from 'node:net'

/** Longer texts would be copied for the system, which hardly takes so much at once, and the rest once more for the stream. */
const MOST = 64 * 1024

/** A socket's descriptor; -1 where there is none to write to. */
export const descriptorOf = (socket: Socket): number => {
  // No type tells of it. Where Node should cease to have it, everything goes through the stream as before.
  const { _handle: handle } = socket as { readonly _handle?: { readonly fd?: unknown } | null }
  return typeof handle?.fd === 'number' ? handle.fd : -1
}

/**
 * Writes to a socket that has nothing waiting what the system takes at once, past Node's stream, whose state, request
 * object and callback cost as much as a tenth of a chunk; answers how many bytes. What it did not take, and whatever is
 * wrong with the connection, is the stream's. `text` is Latin-1.
 */
export const writeDirectly = (descriptor: number, text: string): number => {
  if (descriptor === -1 || text === '' || text.length > MOST) return 0
  try {
    return writeSync(descriptor, text, null, 'latin1')
  } catch {
    // Full, or broken: the stream finds out the same, and knows what is to be done.
    return 0
  }
}

const PAGE = Buffer.allocUnsafeSlow(MOST)

/** The same of bytes between two texts. */
export const writePartDirectly = (descriptor: number, head: string, part: Uint8Array, tail: string): number => {
  const end = head.length + part.length
  const length = end + tail.length
  if (descriptor === -1 || length > MOST) return 0
  PAGE.write(head, 'latin1')
  PAGE.set(part, head.length)
  PAGE.write(tail, end, 'latin1')
  try {
    return writeSync(descriptor, PAGE, 0, length)
  } catch {
    // As above.
    return 0
  }
}

const EARLY = Buffer.allocUnsafeSlow(16 * 1024)

/** What a client has said by the time its connection is accepted, mostly all of its question; null: nothing yet. */
export const readEarly = (descriptor: number): Buffer | null => {
  if (descriptor === -1) return null
  try {
    const length = readSync(descriptor, EARLY, 0, EARLY.length, null)
    return length === 0 ? null : Buffer.from(EARLY.subarray(0, length))
  } catch {
    // Nothing is there, or it is broken: the stream finds out the same.
    return null
  }
}
