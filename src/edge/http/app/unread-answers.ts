/**
 * Answers that their clients have not read, and what they take in memory. When memory is short, the client that holds the
 * most loses its oldest unread answer first, so that no client takes the memory from the others.
 */
import type { HeldBytes } from '../../process/load.ts'

/** An answer that waits to be read. */
export type Unread = {
  /** Breaks the connection. Its bytes count as released from then on. */
  endUnread(bytes: number): void
}

/** Bytes by answer; the one that has waited longest comes first. */
type Holder = { bytes: number; readonly answers: Map<Unread, number> }

export type UnreadAnswers = {
  /** Bytes of this answer that the client has not taken; 0: none are left. `client`: its key's digest, else its address. */
  readonly set: (client: string, answer: Unread, bytes: number) => void
  /** Ends unread answers until there is room for so many bytes, unless ending all of them would not be enough. */
  readonly makeRoom: (bytes: number) => void
}

/** `most`: bytes that may be held in all. The bytes set here are counted in `held`. */
export const unreadAnswers = (held: HeldBytes, most: () => number): UnreadAnswers => {
  const holders = new Map<string, Holder>()
  let total = 0

  const change = (client: string, answer: Unread, bytes: number, given: boolean): void => {
    const holder = holders.get(client) ?? { bytes: 0, answers: new Map<Unread, number>() }
    const by = bytes - (holder.answers.get(answer) ?? 0)
    if (bytes > 0) holder.answers.set(answer, bytes)
    else holder.answers.delete(answer)
    holder.bytes += by
    if (holder.answers.size > 0) holders.set(client, holder)
    else holders.delete(client)
    total += by
    held.change(by)
    if (by !== 0) held.changeUnread(client, by, given)
    if (by > 0) makeRoom(0)
  }
  const set = (client: string, answer: Unread, bytes: number): void => {
    const before = holders.get(client)?.answers.get(answer) ?? 0
    change(client, answer, bytes, bytes < before)
  }

  const largest = (): readonly [client: string, holder: Holder] | null => {
    let found: readonly [string, Holder] | null = null
    for (const one of holders) if (!found || one[1].bytes > found[1].bytes) found = one
    return found
  }

  const makeRoom = (bytes: number): void => {
    // New calls are refused at the limit itself.
    const isShort = (used: number) => used + Math.max(1, bytes) > most()
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
