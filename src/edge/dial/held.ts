/** A way upstream that keeps count of whole answers while they are read: they are held in memory until they are complete. */
import type { Dial, UpstreamListener } from '../../core/world.ts'

/** What flows on as it comes is not held, unless all of it is collected. */
const FLOWS = /event-stream|eventstream|ndjson/i

/** `change`: so many bytes more, or fewer. */
export const countingDial =
  (dial: Dial, change: (by: number) => void): Dial =>
  (call, listener) => {
    let flows = false
    let held = 0
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
        if (!flows) {
          held += chunk.length
          change(chunk.length)
        }
        return listener.bytes(chunk)
      },
      end() {
        release()
        listener.end()
      },
      failed(failure) {
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
