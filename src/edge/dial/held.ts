/** A way upstream that keeps count of whole answers while they are read: they are held in memory until they are complete. */
import type { Dial, UpstreamListener } from '../../core/world.ts'
import { turnedAway } from '../../policy/shed.ts'

/** What flows on as it comes is not held, unless all of it is collected. */
const FLOWS = /event-stream|eventstream|ndjson/i

/** Answers of so few bytes are let come to their end, however much is held for others. */
const SMALL = 1_048_576

/** `change`: so many bytes more, or fewer. `room`: whether more may be held at all, for the large ones. */
export const countingDial =
  (dial: Dial, change: (by: number) => void, room: () => boolean): Dial =>
  (call, listener) => {
    let flows = false
    let held = 0
    let over = false
    const release = () => {
      change(-held)
      held = 0
    }
    const counting: UpstreamListener = {
      head(status, headers) {
        flows = call.collected !== true && FLOWS.test(headers('content-type') ?? '')
        listener.head(status, headers)
      },
      bytes(chunk) {
        if (over) return true
        if (!flows) {
          held += chunk.length
          change(chunk.length)
          if (held > SMALL && !room()) {
            over = true
            release()
            ongoing.abort()
            listener.failed(turnedAway('buffered'))
            return true
          }
        }
        return listener.bytes(chunk)
      },
      end() {
        if (over) return
        release()
        listener.end()
      },
      failed(failure) {
        if (over) return
        release()
        listener.failed(failure)
      },
    }
    const ongoing = dial(call, counting)
    return {
      abort() {
        release()
        ongoing.abort()
      },
      resume: () => ongoing.resume(),
    }
  }
