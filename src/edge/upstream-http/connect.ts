import { connect as connectPlain, isIP, type OnReadOpts, type Socket } from 'node:net'
import type { SecureContext } from 'node:tls'
import type { Failure } from '../../core/failure.ts'
import { connectFailure, connectTimedOut } from './errors.ts'
import { type Heads, noHeads } from './heads.ts'

/** Where connections go, and what is remembered for the next one. */
export type Destination = {
  /** `https://[::1]:8443` */
  readonly origin: string
  /** What a request's `host` says: the port where it is not the usual one (RFC 9110, section 7.2). */
  readonly authority: string
  readonly host: string
  readonly port: number
  readonly secure: boolean
  readonly heads: Heads
  /** Certificates (PEM) trusted instead of the usual ones. */
  readonly ca?: string
  /** What every connection there trusts: made once, for it takes longer than a handshake's own work here. */
  context?: SecureContext
  /** The last TLS session, to be resumed. */
  session?: Buffer
}

/** Asked for with the first secure place and not imported: it is a sixth of a start (10 ms, Node 24.21). */
const tls = () => process.getBuiltinModule('node:tls')

export const destinationOf = (url: URL, ca: string | undefined): Destination => {
  const secure = url.protocol === 'https:'
  const host = url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname
  const port = Number(url.port || (secure ? 443 : 80))
  return {
    origin: url.origin,
    authority: url.host,
    host,
    port,
    secure,
    heads: noHeads(),
    ...(ca !== undefined && { ca }),
  }
}

/** A timer that rings so much too late (ms) says that the process stood still. */
const STOOD_STILL = 20

/**
 * A connection, TLS included, within so many ms (0: without limit). `done` is called once, with null or with why there is
 * none and the error itself; the socket is then destroyed. `read`: bytes go there instead of being emitted.
 */
export const connectTo = (
  place: Destination,
  allowed: number,
  done: (failure: Failure | null, error?: Error) => void,
  read?: OnReadOpts,
): Socket => {
  const { host, port, secure, ca, session } = place
  if (secure) place.context ??= tls().createSecureContext(ca === undefined ? {} : { ca })
  const socket = secure
    ? tls().connect({
        host,
        port,
        ...(isIP(host) === 0 && { servername: host }),
        ALPNProtocols: ['http/1.1'],
        // Said, so that NODE_TLS_REJECT_UNAUTHORIZED=0 in the environment cannot turn it off.
        rejectUnauthorized: true,
        ...(place.context && { secureContext: place.context }),
        ...(session && { session }),
        ...(read && { onread: read }),
      })
    : connectPlain({ host, port, ...(read && { onread: read }) })
  let timer: NodeJS.Timeout | undefined
  const within = (ms: number) => {
    const due = performance.now() + ms
    timer = setTimeout(() => {
      const late = performance.now() - due
      // A name, a handshake take several turns of the event loop: for so long it was this process that stood still.
      if (late >= STOOD_STILL) return within(late)
      finish(connectTimedOut(allowed), new Error('connect timeout'))
      socket.destroy()
    }, ms)
  }
  if (allowed > 0) within(allowed)
  let open = true
  const finish = (failure: Failure | null, error?: Error) => {
    if (!open) return
    open = false
    clearTimeout(timer)
    socket.off('error', failed).off('close', closed)
    // Until its owner listens, or where it never does: an error nobody hears ends the process. Two who listen are kept in
    // a list, as long as there is the connection.
    if (socket.listenerCount('error') === 0) socket.on('error', ignored)
    done(failure, error)
  }
  const failed = (error: Error) => finish(connectFailure(error), error)
  const closed = () => {
    const error = Object.assign(new Error('closed while connecting'), { code: 'ECONNRESET' })
    finish(connectFailure(error), error)
  }
  socket.setNoDelay(true)
  socket.setKeepAlive(true, 60_000)
  socket.once(secure ? 'secureConnect' : 'connect', () => finish(null))
  socket.on('error', failed).on('close', closed)
  if (secure)
    socket.on('session', (made: Buffer) => {
      place.session = made
    })
  return socket
}

const ignored = () => {}
