/**
 * An answer with several readers. The road writes it once, as to any client; it is kept as it is written and played to
 * whoever reads it, from its beginning, as fast as each can.
 *
 * Nobody waits for a slow reader while the answer is kept: what it has not taken yet is in the record. Where the record
 * has outgrown its room only what somebody has still to read is held, the slowest sets the pace, and nobody can join.
 * With one reader it is the same as without: its own fullness holds the road back.
 */
import type { ResponseWriter } from '../../core/http-exchange.ts'
import type { Cancel, World } from '../../core/world.ts'

/** Memory for records, together with those of others. All in bytes. */
export type MemoryQuota = {
  /** Takes so much in any case; answers whether that was still within what may be kept. */
  take(bytes: number): boolean
  give(bytes: number): void
}

export type BroadcastOptions = {
  readonly world: World
  readonly room: MemoryQuota
  /** The largest record. */
  readonly most: number
  /** ms for a reader that has stopped reading; 0 is without limit. */
  readonly patience: number
  /** Nobody reads it any more, and it is not over; also when nobody does and it is kept no longer. */
  readonly deserted: () => void
  /** The last word has been written, or it broke off. */
  readonly over: () => void
}

/** How it ended for a reader: to the end, cut off, or it left. */
export type Leaving = 'read' | 'cut' | 'left'

type Head = { readonly status: number; readonly headers: Readonly<Record<string, string>> }

type Reader = {
  readonly reply: ResponseWriter
  /** Headers of its own, over the answer's. */
  readonly own: Readonly<Record<string, string>>
  readonly done: (how: Leaving) => void
  /** The next piece it is to be given. */
  at: number
  /** Waits for it to take what it was given; null: it has room. */
  full: Cancel | null
}

/** Small pieces that somebody has to catch up with leave together, up to so many characters a write. */
const SLICE = 65_536

export class BroadcastResponse implements ResponseWriter {
  readonly #options: BroadcastOptions
  readonly #readers = new Set<Reader>()
  #head: Head | null = null
  #pieces: string[] = []
  #size = 0
  #whole = true
  #end: 'ended' | 'cut' | null = null
  /** Nobody wants it: whoever writes it, or begins to, is told so. */
  #unwanted = false
  /** The road was told to wait. */
  #held = false
  #onDrain: () => void = () => {}
  #onGone: () => void = () => {}

  constructor(options: BroadcastOptions) {
    this.#options = options
  }

  /** It is all here from the beginning: others may still read it. */
  get whole(): boolean {
    return this.#whole
  }

  get readers(): number {
    return this.#readers.size
  }

  /** The status of an answer that was written to its end; null of any other. */
  get status(): number | null {
    return this.#end === 'ended' ? (this.#head?.status ?? null) : null
  }

  /** Plays it to this reply, from its beginning. `done` is called once. */
  read(reply: ResponseWriter, own: Readonly<Record<string, string>>, done: (how: Leaving) => void): void {
    if (!this.#whole) throw new Error('an answer without its beginning is read')
    const reader: Reader = { reply, own, done, at: 0, full: null }
    this.#readers.add(reader)
    reply.onGone(() => this.#leave(reader, 'left'))
    if (!this.#readers.has(reader)) return
    if (this.#head) reply.head(this.#head.status, { ...this.#head.headers, ...own })
    if (this.#end === 'cut') this.#cutOff(reader)
    else this.#play(reader)
    this.#goOn()
  }

  /** Nobody will join any more: nothing is held but what its readers have still to read. */
  release(): void {
    this.#whole = false
    this.#trim()
  }

  /** As if its client had left: whoever writes it is let go. */
  abandon(): void {
    if (this.#end || this.#unwanted) return
    this.#unwanted = true
    this.#onGone()
  }

  // ── What the road writes ───────────────────────────────────────────────────────────────────────────────────────

  head(status: number, headers: Readonly<Record<string, string>>): void {
    if (this.#head) return
    this.#head = { status, headers }
    for (const { reply, own } of this.#readers) reply.head(status, { ...headers, ...own })
  }

  write(text: string): boolean {
    if (this.#end || text === '') return true
    this.#add(text)
    this.#held = !this.#hasRoom()
    return !this.#held
  }

  end(text = ''): void {
    if (this.#end) return
    this.#end = 'ended'
    this.#add(text)
    this.#options.over()
  }

  cut(): void {
    if (this.#end) return
    this.#end = 'cut'
    for (const reader of [...this.#readers]) this.#cutOff(reader)
    this.#options.over()
  }

  onDrain(run: () => void): void {
    this.#onDrain = run
  }

  onGone(run: () => void): void {
    this.#onGone = run
    if (this.#unwanted) run()
  }

  // ── What the readers get ───────────────────────────────────────────────────────────────────────────────────────

  #add(text: string): void {
    if (text !== '') {
      const bytes = bytesOf(text)
      this.#pieces.push(text)
      this.#size += bytes
      const allowed = this.#options.room.take(bytes) && this.#size <= this.#options.most
      if (!allowed) this.#whole = false
    }
    for (const reader of [...this.#readers]) this.#play(reader)
    this.#trim()
    if (!this.#whole && !this.#end && this.#readers.size === 0) this.#options.deserted()
  }

  /** Gives it what it has not had yet, until it is full. */
  #play(reader: Reader): void {
    const { reply } = reader
    while (!reader.full && this.#readers.has(reader)) {
      const text = this.#next(reader)
      if (this.#end === 'ended' && reader.at === this.#pieces.length) {
        reply.end(text)
        return this.#leave(reader, 'read')
      }
      if (text === '') return
      if (!reply.write(text)) this.#wait(reader)
    }
  }

  #next(reader: Reader): string {
    const from = reader.at
    let to = from
    let length = 0
    while (to < this.#pieces.length) {
      length += this.#pieces[to]?.length ?? 0
      // A long piece leaves whole, as it came; only small ones are put together.
      if (to > from && length > SLICE) break
      to++
    }
    reader.at = to
    return to === from + 1 ? (this.#pieces[from] ?? '') : this.#pieces.slice(from, to).join('')
  }

  #wait(reader: Reader): void {
    const { world, patience } = this.#options
    const giveUp = () => this.#cutOff(reader, 'left')
    reader.full = patience > 0 ? world.later(patience, giveUp) : () => {}
    reader.reply.onDrain(() => {
      reader.full?.()
      reader.full = null
      this.#play(reader)
      this.#trim()
      this.#goOn()
    })
  }

  #cutOff(reader: Reader, how: Leaving = 'cut'): void {
    reader.reply.cut()
    this.#leave(reader, how)
  }

  #leave(reader: Reader, how: Leaving): void {
    if (!this.#readers.delete(reader)) return
    reader.full?.()
    reader.reply.onGone(() => {})
    reader.done(how)
    this.#trim()
    if (this.#end) return
    if (this.#readers.size === 0) this.#options.deserted()
    this.#goOn()
  }

  /** While it is kept, as soon as somebody can take more; then, as soon as everybody can. */
  #hasRoom(): boolean {
    if (this.#readers.size === 0) return true
    const readers = [...this.#readers]
    return this.#whole ? readers.some(({ full }) => !full) : readers.every(({ full }) => !full)
  }

  #goOn(): void {
    if (!this.#held || this.#end || !this.#hasRoom()) return
    this.#held = false
    this.#onDrain()
  }

  /** Lets go of what everybody has read, once nobody else can. */
  #trim(): void {
    if (this.#whole) return
    const read = Math.min(this.#pieces.length, ...[...this.#readers].map(({ at }) => at))
    if (read === 0) return
    const bytes = this.#pieces.splice(0, read).reduce((sum, piece) => sum + bytesOf(piece), 0)
    for (const reader of this.#readers) reader.at -= read
    this.#size -= bytes
    this.#options.room.give(bytes)
  }
}

/** At most what a text takes in V8: a byte a character where all are Latin, else two, and what every string has around it. */
export const bytesOf = (text: string): number => (/[^\0-\xff]/.test(text) ? 2 : 1) * text.length + 48
