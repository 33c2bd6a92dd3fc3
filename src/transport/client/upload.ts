/** Sends a body to a connection as it arrives, at the pace of its server. */
import type { Socket } from 'node:net'
import { type Failure, fail } from '../../core/failure.ts'
import type { Sink } from '../../core/stage.ts'
import type { StreamedBody } from '../../core/streamed-body.ts'

/** What an upload needs of its connection. `failed`: the body is not complete, so neither is the request. */
type UploadConnection = { readonly socket: Socket; failed(failure: Failure): void }

/** The header line that states how long the body is, and the blank line. */
export const framingOf = ({ length }: StreamedBody): string =>
  length === null ? 'transfer-encoding: chunked\r\n\r\n' : `content-length: ${length}\r\n\r\n`

/** One body on its way. */
export class Upload implements Sink<Uint8Array> {
  readonly #body: StreamedBody
  readonly #connection: UploadConnection
  #left: number
  #isOver = false
  #isWaiting = false

  /** Its header block has been written. */
  constructor(body: StreamedBody, connection: UploadConnection) {
    this.#body = body
    this.#connection = connection
    this.#left = body.length ?? Number.POSITIVE_INFINITY
  }

  /** All of it has been written. */
  get isOver(): boolean {
    return this.#isOver
  }

  begin(): void {
    this.#body.pipeTo(this)
  }

  push(part: Uint8Array): boolean {
    if (this.#isOver || part.length === 0) return true
    this.#left -= part.length
    // Bytes behind the stated end would be read as another request.
    if (this.#left < 0) {
      this.end(fail('invalid_request', 'The body is longer than its Content-Length.'))
      return true
    }
    const { socket } = this.#connection
    const isChunked = this.#body.length === null
    if (isChunked) {
      socket.cork()
      socket.write(`${part.length.toString(16)}\r\n`, 'latin1')
    }
    socket.write(part)
    if (isChunked) {
      socket.write('\r\n', 'latin1')
      socket.uncork()
    }
    if (!socket.writableNeedDrain) return true
    this.#awaitDrain()
    return false
  }

  end(failure?: Failure): void {
    if (this.#isOver) return
    if (failure) return this.#connection.failed(failure)
    if (this.#body.length === null) this.#connection.socket.write('0\r\n\r\n', 'latin1')
    else if (this.#left > 0) return this.#connection.failed(fail('invalid_request', 'The body is not complete.'))
    this.#isOver = true
  }

  /** Sends nothing more. */
  stop(): void {
    this.#isOver = true
    this.#body.drop()
  }

  #awaitDrain(): void {
    if (this.#isWaiting) return
    this.#isWaiting = true
    this.#connection.socket.once('drain', () => {
      this.#isWaiting = false
      if (!this.#isOver) this.#body.resume()
    })
  }
}
