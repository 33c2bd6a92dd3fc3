/** A way upstream that keeps count of whole answers while they are read: they are held in memory until they are complete. */
import type { Failure } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/protocol.ts'
import type { Dial, Ongoing, UpstreamListener } from '../../core/world.ts'
import { turnedAway } from '../../policy/shed.ts'

/** What flows on as it comes is not held, unless all of it is collected. */
const FLOWS = /event-stream|eventstream|ndjson/i

/** Answers of so few bytes are let come to their end, however much is held for others. */
const SMALL = 1_048_576

/** `change`: so many bytes more, or fewer. `room`: whether more may be held at all, for the large ones. */
export const countingDial = (dial: Dial, change: (by: number) => void, room: () => boolean): Dial => {
  const count: Count = { change, room }
  return (call, listener) => new CountedCall(dial, call, listener, count)
}

type Count = { readonly change: (by: number) => void; readonly room: () => boolean }

class CountedCall implements UpstreamListener, Ongoing {
  readonly #listener: UpstreamListener
  readonly #count: Count
  readonly #collected: boolean
  readonly #ongoing: Ongoing
  #flows = false
  #held = 0
  #over = false

  constructor(dial: Dial, call: Parameters<Dial>[0], listener: UpstreamListener, count: Count) {
    this.#listener = listener
    this.#count = count
    this.#collected = call.collected === true
    // Nothing is heard before this has returned.
    this.#ongoing = dial(call, this)
  }

  head(status: number, headers: HeaderLookup): void {
    this.#flows = !this.#collected && FLOWS.test(headers('content-type') ?? '')
    this.#listener.head(status, headers)
  }

  bytes(chunk: Uint8Array): boolean {
    if (this.#over) return true
    if (!this.#flows) {
      this.#held += chunk.length
      this.#count.change(chunk.length)
      if (this.#held > SMALL && !this.#count.room()) {
        this.#over = true
        this.#release()
        this.#ongoing.abort()
        this.#listener.failed(turnedAway('buffered'))
        return true
      }
    }
    return this.#listener.bytes(chunk)
  }

  end(): void {
    if (this.#over) return
    this.#release()
    this.#listener.end()
  }

  failed(failure: Failure): void {
    if (this.#over) return
    this.#release()
    this.#listener.failed(failure)
  }

  abort(): void {
    this.#release()
    this.#ongoing.abort()
  }

  resume(): void {
    this.#ongoing.resume()
  }

  #release(): void {
    this.#count.change(-this.#held)
    this.#held = 0
  }
}
