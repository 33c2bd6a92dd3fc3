/**
 * The counters of one budget in one period, by owner. Clients name the end users whose counters are separate, so their number
 * is limited, and shared: when all are in use, a client with less than its share takes the place of the least spent ones of
 * the client that has most. New owners of a client that has its share are refused, whatever others do.
 */
import type { Nano } from '../../core/money.ts'

/**
 * `client`: the ID of the key that has used the counter first; empty: unknown, as of those that were restored. `isDropped`:
 * another counter takes its place for later requests.
 */
export type OwnerCell = { readonly owner: string; client: string; isDropped: boolean; used: Nano; held: Nano }

/** The part of all counters that is dropped at once: each time, all are looked through. */
const PART = 100

export class OwnerCells<Cell extends OwnerCell> {
  readonly #cells = new Map<string, Cell>()
  /** Number of counters, by client. */
  readonly #clients = new Map<string, number>()
  readonly #most: number
  /** Calls for which no idle counter is looked for, after there was none. */
  #pause = 0

  /** `most`: of all clients together. */
  constructor(most: number) {
    this.#most = most
  }

  values(): IterableIterator<Cell> {
    return this.#cells.values()
  }

  /** The counter of an owner. One without a client becomes a counter of this one. */
  get(owner: string, client: string): Cell | undefined {
    const cell = this.#cells.get(owner)
    if (cell && client !== '' && cell.client === '') {
      this.#count('', -1)
      this.#count(client, 1)
      cell.client = client
    }
    return cell
  }

  add(cell: Cell): void {
    this.#cells.set(cell.owner, cell)
    this.#count(cell.client, 1)
  }

  /** Whether there is room for one more counter of this client; others may be dropped for it. */
  hasRoom(client: string): boolean {
    if (this.#cells.size < this.#most) return true
    if (this.#pause > 0) this.#pause--
    else this.#dropIdle()
    if (this.#cells.size < this.#most) return true
    const own = this.#clients.get(client) ?? 0
    const clients = this.#clients.size + (own === 0 ? 1 : 0)
    if (own >= Math.floor(this.#most / clients)) return false
    this.#dropLeast(this.#largest())
    return this.#cells.size < this.#most
  }

  #dropIdle(): void {
    for (const cell of this.#cells.values()) if (cell.used === 0 && cell.held === 0) this.#drop(cell)
    if (this.#cells.size >= this.#most) this.#pause = Math.ceil(this.#most / PART)
  }

  #largest(): string {
    let [client, most] = ['', 0]
    for (const [one, count] of this.#clients) if (count > most) [client, most] = [one, count]
    return client
  }

  /** Drops those of a client that have spent least. Attempts in progress keep their counters. */
  #dropLeast(client: string): void {
    const own = [...this.#cells.values()].filter((cell) => cell.client === client && cell.held === 0)
    own.sort((one, other) => one.used - other.used)
    for (const cell of own.slice(0, Math.ceil(this.#most / PART))) this.#drop(cell)
  }

  #drop(cell: Cell): void {
    cell.isDropped = true
    this.#cells.delete(cell.owner)
    this.#count(cell.client, -1)
  }

  #count(client: string, change: 1 | -1): void {
    const count = (this.#clients.get(client) ?? 0) + change
    if (count === 0) this.#clients.delete(client)
    else this.#clients.set(client, count)
  }
}
