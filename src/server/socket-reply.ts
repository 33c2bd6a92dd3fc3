/** The response to an upgrade that is relayed: an error, or 101 and then the bytes of a WebSocket. */
import type { Socket } from 'node:net'
import type { TextOrBytes } from '../core/encoded-text.ts'
import type { SocketWriter } from '../core/http-exchange.ts'
import { ConnectionOutput, HeaderTails } from '../transport/server/connection-output.ts'
import { errorText } from '../transport/server/error-text.ts'
import { type ResponseHeaders, sendAndClose } from '../transport/server/http-server.ts'

/** Bytes that a client may send before the handshake is answered, which no client does. */
const MAX_EARLY = 64 * 1024

/** Written instead of a tail: bytes of a WebSocket have none. */
const NO_TAILS = new HeaderTails(0)

const nothing = (): void => {}

export type UpgradedSocket = {
  readonly socket: Socket
  /** Bytes received after the request. */
  readonly first: Buffer
  /** Headers of any response, and of 101. */
  readonly common: ResponseHeaders
  readonly accepting: ResponseHeaders
  /** ms for the client to read the last bytes. */
  readonly linger: number
  readonly onClosed: () => void
}

export class SocketReply implements SocketWriter {
  readonly #upgraded: UpgradedSocket
  readonly #output: ConnectionOutput
  #early: Buffer[]
  #onBytes: ((bytes: Uint8Array) => boolean) | null = null
  #status = 0
  #headers: ResponseHeaders = {}
  #isOver = false
  #isGone = false
  #isDraining = false
  #onDrain = nothing
  #onGone = nothing
  #onDraining = nothing

  constructor(upgraded: UpgradedSocket) {
    const { socket, first, onClosed } = upgraded
    this.#upgraded = upgraded
    this.#early = first.length > 0 ? [first] : []
    this.#output = new ConnectionOutput(socket, NO_TAILS, () => this.#onDrain())
    socket.setNoDelay(true)
    socket.setKeepAlive(true, 30_000)
    socket.on('data', (part: Buffer) => this.#received(part))
    // The client has left; it may keep its half of the connection open.
    socket.on('end', () => this.#left())
    socket.on('close', () => {
      this.#left()
      onClosed()
    })
  }

  writeHead(status: number, headers: ResponseHeaders): void {
    if (this.#isOver || this.#isGone || this.#status !== 0) return
    this.#status = status
    this.#headers = headers
    if (status !== 101) return
    const { socket, common, accepting } = this.#upgraded
    const all = { ...common, ...headers, ...accepting }
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
    socket.write(`HTTP/1.1 101 Switching Protocols\r\n${lines.join('')}\r\n`, 'latin1')
  }

  write(piece: TextOrBytes): boolean {
    if (this.#isOver || this.#isGone || piece.length === 0) return true
    return this.#output.writePart('', typeof piece === 'string' ? Buffer.from(piece) : piece, '')
  }

  end(text = ''): void {
    if (this.#isOver) return
    this.#isOver = true
    const { socket, common, linger } = this.#upgraded
    if (this.#isGone) return void socket.destroy()
    const headers = { ...common, ...this.#headers }
    sendAndClose(socket, this.#status === 101 ? '' : errorText({ status: this.#status, headers, body: text }), linger)
  }

  abort(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#onGone = nothing
    this.#upgraded.socket.destroy()
  }

  /** The gateway begins to shut down. */
  drain(): void {
    this.#isDraining = true
    this.#onDraining()
  }

  onDrain(run: () => void): void {
    this.#onDrain = run
  }

  onDisconnect(run: () => void): void {
    this.#onGone = run
    if (this.#isGone) run()
  }

  onDraining(run: () => void): void {
    this.#onDraining = run
    if (this.#isDraining) run()
  }

  onBytes(run: (bytes: Uint8Array) => boolean): void {
    this.#onBytes = run
    const early = this.#early
    this.#early = []
    for (const part of early) this.#received(part)
  }

  resume(): void {
    this.#upgraded.socket.resume()
  }

  #received(part: Buffer): void {
    if (this.#isOver) return
    if (this.#onBytes) {
      if (!this.#onBytes(part)) this.#upgraded.socket.pause()
      return
    }
    this.#early.push(part)
    if (this.#early.reduce((sum, { length }) => sum + length, 0) > MAX_EARLY) this.#upgraded.socket.destroy()
  }

  #left(): void {
    if (this.#isGone) return
    this.#isGone = true
    this.#onGone()
    this.#upgraded.socket.destroy()
  }
}
