/** Plays a recorded answer to an attempt, as the HTTP client would deliver it. */
import { applyFault, type Fault, type FaultyResponse } from '../../suite/faults.ts'
import { fail } from '../core/failure.ts'
import type { OngoingCall, UpstreamListener, World } from '../core/world.ts'
import { type TapeAnswer, textOfBytes } from './tape-file.ts'

/** `pace`: share of the recorded times; 0: at once. */
export type PlayOptions = { readonly later: World['later']; readonly pace: number; readonly fault: Fault | undefined }

/** Events passed before other work has a turn. */
const AT_ONCE = 64

/** Starts in a later turn of the event loop: the caller receives the call first. */
export const play = (recorded: TapeAnswer, listener: UpstreamListener, options: PlayOptions): OngoingCall => {
  const { later, pace, fault } = options
  const response = responseOf(recorded, pace)
  const { head, pieces, end } = fault ? applyFault(fault, response) : response
  let [next, isOver, isPaused] = [0, false, false]
  let cancel = () => {}
  const after = (ms: number, run: () => void) => {
    cancel = later(ms, run)
  }
  const finish = (): void => {
    if (end === 'open') return
    isOver = true
    if (end === 'complete') listener.onEnd()
    else listener.onFailure(fail('reset', 'The connection was closed, as x-headgate-fault requests.'))
  }
  const pass = (): void => {
    for (let passed = 0; !isOver && !isPaused; passed++) {
      const piece = pieces[next]
      if (!piece) return finish()
      const wait = passed === 0 ? 0 : piece.after
      if (wait > 0 || passed >= AT_ONCE) return after(wait, pass)
      next++
      // A copy: receivers may keep or change what they get.
      if (!listener.onBody(Buffer.from(piece.data))) isPaused = true
    }
  }
  after(head?.after ?? 0, () => {
    if (!head) return finish()
    listener.onHeaders(head.status, (name) => head.headers[name])
    if (isOver) return
    const first = pieces[0]?.after ?? 0
    if (first > 0) after(first, pass)
    else pass()
  })
  return {
    abort() {
      isOver = true
      cancel()
    },
    resume() {
      if (!isPaused || isOver) return
      isPaused = false
      after(pieces[next]?.after ?? 0, pass)
    },
  }
}

const responseOf = ({ status, headers, ms, events }: TapeAnswer, pace: number): FaultyResponse => ({
  head: { after: ms * pace, status, headers },
  pieces: events.map((event, at) => ({
    after: (event.ms - (events[at - 1]?.ms ?? 0)) * pace,
    data: textOfBytes(event.bytes) ?? event.bytes,
  })),
  end: 'complete',
})
