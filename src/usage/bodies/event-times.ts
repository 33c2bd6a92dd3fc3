/** Time, size and type of each event of a stream, without its text. */
import type { TextOrBytes } from '../../core/encoded-text.ts'
import type { KeptEvents } from './recorded-calls.ts'

/** Events of one stream, and different types of them, that are recorded. */
const MAX_EVENTS = 2_000
const MAX_TYPES = 32
/** Bytes of one recorded event in memory, about. */
const EVENT_SIZE = 40
/** Bytes of an event without end, after which nothing more is recorded. */
const MAX_OPEN = 1_048_576

const END = /\r?\n\r?\n/g
const NAME = /^event: ?([\w.-]{1,60})\r?$/m
const DONE = /^data: ?\[DONE\]/m
/** The kind of an event that has no name is in its JSON. */
const KIND = /"(?:type|object)": ?"([\w.-]{1,60})"/
/** Characters of an event in which its type is searched. */
const HEAD = 512

export class EventTimes {
  /** Reserves memory. */
  readonly #take: (bytes: number) => boolean
  readonly #types: string[] = []
  readonly #list: [number, number, number][] = []
  #omitted = 0
  /** An event whose end has not been written. One character is one byte. */
  #open = ''

  constructor(take: (bytes: number) => boolean) {
    this.#take = take
  }

  /** Adds what is written at a time, in ms since the request was received. */
  add(piece: TextOrBytes, ms: number): void {
    if (this.#open.length > MAX_OPEN) return
    const bytes =
      typeof piece === 'string' ? Buffer.from(piece) : Buffer.from(piece.buffer, piece.byteOffset, piece.length)
    const text = this.#open + bytes.toString('latin1')
    let from = 0
    for (const { 0: end, index } of text.matchAll(END)) {
      const next = index + end.length
      this.#event(text.slice(from, from + HEAD < index ? from + HEAD : index), next - from, ms)
      from = next
    }
    this.#open = text.slice(from)
  }

  result(): KeptEvents {
    return { types: this.#types, list: this.#list, omitted: this.#omitted }
  }

  #event(head: string, bytes: number, ms: number): void {
    if (this.#list.length >= MAX_EVENTS || !this.#take(EVENT_SIZE)) {
      this.#omitted++
      return
    }
    this.#list.push([Math.round(ms * 10) / 10, bytes, this.#typeAt(typeOf(head))])
  }

  /** The index of a type. */
  #typeAt(type: string): number {
    const known = this.#types.indexOf(type)
    if (known >= 0) return known
    if (this.#types.length > MAX_TYPES) return MAX_TYPES
    return this.#types.push(this.#types.length === MAX_TYPES ? 'other' : type) - 1
  }
}

const typeOf = (head: string): string => {
  if (head.startsWith(':')) return 'comment'
  if (DONE.test(head)) return '[DONE]'
  return NAME.exec(head)?.[1] ?? KIND.exec(head)?.[1] ?? 'data'
}
