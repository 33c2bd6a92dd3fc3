/**
 * Memory taken by responses that clients have not read. When memory is short, the client with the most unread bytes loses
 * its oldest unread response first, so that no client takes the memory of the others.
 */
import type { HeldBytes } from '../runtime/load.ts'

/** A response with unread bytes. */
export type Unread = {
  /** Breaks the connection. Its bytes count as released from then on. */
  endUnread(bytes: number): void
}

/** The unread bytes of a client, by response; the oldest response comes first. */
type Holder = { bytes: number; readonly answers: Map<Unread, number> }

/** The unread responses of a process. */
export type UnreadAnswers = {
  /** Sets the unread bytes of a response; 0 removes it. `client`: the key's ID, or the network of the address. */
  readonly set: (client: string, answer: Unread, bytes: number) => void
  /** Aborts unread responses until so many bytes fit, unless aborting all of them would not suffice. */
  readonly makeRoom: (bytes: number) => void
}

/** Unread bytes are counted in `held`. `maxBytes`: the limit of `held`. */
export const unreadAnswers = (held: HeldBytes, maxBytes: () => number): UnreadAnswers => {
  const holders = new Map<string, Holder>()
  let total = 0

  const change = (client: string, answer: Unread, bytes: number, isRead: boolean): void => {
    const holder = holders.get(client) ?? { bytes: 0, answers: new Map<Unread, number>() }
    const by = bytes - (holder.answers.get(answer) ?? 0)
    if (bytes > 0) holder.answers.set(answer, bytes)
    else holder.answers.delete(answer)
    holder.bytes += by
    if (holder.answers.size > 0) holders.set(client, holder)
    else holders.delete(client)
    total += by
    held.change(by)
    if (by !== 0) held.changeUnread(client, by, isRead)
    if (by > 0) makeRoom(0)
  }
  const set = (client: string, answer: Unread, bytes: number): void => {
    const before = holders.get(client)?.answers.get(answer) ?? 0
    change(client, answer, bytes, bytes < before)
  }

  const largest = (): readonly [client: string, holder: Holder] | null => {
    let found: readonly [string, Holder] | null = null
    for (const entry of holders) if (!found || entry[1].bytes > found[1].bytes) found = entry
    return found
  }

  const makeRoom = (bytes: number): void => {
    // At least one byte: new calls are refused at the limit itself.
    const isShort = (used: number) => used + Math.max(1, bytes) > maxBytes()
    if (isShort(held.bytes() - total)) return
    while (isShort(held.bytes())) {
      const [client, holder] = largest() ?? []
      const [oldest] = holder?.answers ?? []
      if (client === undefined || !oldest) return
      const [answer, size] = oldest
      change(client, answer, 0, false)
      answer.endUnread(size)
    }
  }

  return { set, makeRoom }
}
