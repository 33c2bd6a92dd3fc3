/** The output of a client connection: header blocks and bodies, each written in as few calls as possible. */
import type { Socket } from 'node:net'
import { joinMessage, WriteBuffer } from '../net/write-buffer.ts'

/** A client that does not read keeps one buffer: small, since most answers and chunks are. */
const writeBuffer = new WriteBuffer({ head: 4 * 1024, body: 16 * 1024 })

/** The last header lines of every response: date and connection. Formatted once a second. */
export class HeaderTails {
  readonly #keepAlive: string
  #second = 0
  #date = ''

  constructor(keepAlive: number) {
    this.#keepAlive = `connection: keep-alive\r\nkeep-alive: timeout=${Math.floor(keepAlive / 1000)}\r\n\r\n`
  }

  of(keeps: boolean): string {
    const now = Date.now()
    const second = Math.floor(now / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#date = `date: ${new Date(now).toUTCString()}\r\n`
    }
    return this.#date + (keeps ? this.#keepAlive : 'connection: close\r\n\r\n')
  }
}

export class ConnectionOutput {
  readonly #socket: Socket
  readonly #tails: HeaderTails
  readonly #onDrain: () => void
  #hasDrainListener = false

  /** `onDrain`: the client reads again, after a write has returned false. */
  constructor(socket: Socket, tails: HeaderTails, onDrain: () => void) {
    this.#socket = socket
    this.#tails = tails
    this.#onDrain = onDrain
  }

  get unsent(): number {
    return this.#socket.writableLength
  }

  /** The last header lines of a response. */
  tail(keepAlive: boolean): string {
    return this.#tails.of(keepAlive)
  }

  /** `ascii`: of the body. False: the client is slow. */
  write(head: string, body: string, ascii: boolean): boolean {
    const socket = this.#socket
    if (!socket.writable) return true
    if (writeBuffer.join(socket, head, body, '')) return this.#hasRoom(!socket.writableNeedDrain)
    let room: boolean
    if (ascii) room = this.#socket.write(head + body, 'latin1')
    else if (head === '' || Buffer.byteLength(head) === head.length) room = this.#socket.write(head + body)
    else {
      this.#socket.cork()
      this.#socket.write(head, 'latin1')
      room = this.#socket.write(body)
      this.#socket.uncork()
    }
    return this.#hasRoom(room)
  }

  /** `head` and `tail` are Latin-1. */
  writePart(head: string, part: Uint8Array, tail: string): boolean {
    const socket = this.#socket
    if (!socket.writable) return true
    if (writeBuffer.join(socket, head, part, tail)) return this.#hasRoom(!socket.writableNeedDrain)
    return this.#hasRoom(socket.write(joinMessage(head, part, tail)))
  }

  #hasRoom(room: boolean): boolean {
    if (!room && !this.#hasDrainListener) {
      this.#hasDrainListener = true
      this.#socket.on('drain', this.#onDrain)
    }
    return room
  }
}
