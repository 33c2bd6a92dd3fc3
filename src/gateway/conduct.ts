/** The frame around every call: it can be stopped from outside, it is written down, and a bug of ours ends it as an error. */
import type { Received, Reply } from '../core/call.ts'
import { fail } from '../core/failure.ts'
import type { ClientProtocol } from '../core/protocol.ts'
import { statusOf } from '../policy/verdict.ts'
import type { Gateway } from './handle.ts'
import { Recorder, refuse } from './record.ts'
import { Stop } from './stop.ts'

export type Call = {
  readonly gateway: Gateway
  /** The client's format. */
  readonly protocol: ClientProtocol
  /** The kind of call, as the log calls it. */
  readonly style: string
  readonly received: Received
  readonly reply: Reply
}

export const conduct = (
  { gateway, protocol, style, received, reply }: Call,
  serve: (stop: Stop, record: Recorder) => Promise<void>,
): Promise<void> => {
  const stop = new Stop()
  const record = new Recorder(gateway, received, style)
  gateway.live.add(stop)
  reply.onGone(() => stop.now(fail('client_gone', 'the client left before the end')))
  return concluded({ gateway, protocol, reply, stop, record }, serve(stop, record))
}

type Conducted = Pick<Call, 'gateway' | 'protocol' | 'reply'> & { readonly stop: Stop; readonly record: Recorder }

/** Apart from what began it, since it lasts as long as the answer: whatever it names is kept in memory until then. */
const concluded = (conducted: Conducted, served: Promise<void>): Promise<void> =>
  // Not awaited: a function that waits keeps half a KB for it.
  served.then(
    () => over(conducted),
    (error) => {
      try {
        mistaken(conducted, error)
      } finally {
        over(conducted)
      }
    },
  )

const mistaken = ({ gateway, protocol, reply, record }: Conducted, error: unknown): void => {
  gateway.tell({ event: 'error', id: record.id, error })
  const failure = fail('internal', 'The gateway made a mistake of its own; it is in its log under this request id.')
  if (record.over) return
  if (record.begun) reply.cut()
  else refuse(protocol, reply, record, failure, 0)
  record.end('refused', statusOf(failure), failure)
}

const over = ({ gateway, stop }: Conducted): void => {
  gateway.live.delete(stop)
  stop.means(nothing)
}

const nothing = (): void => {}
