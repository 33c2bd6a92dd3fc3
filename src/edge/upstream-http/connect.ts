import { connect as connectPlain, isIP, type OnReadOpts, type Socket } from 'node:net'
import type { SecureContext } from 'node:tls'
import type { Failure } from '../../core/failure.ts'
import { connectFailure, connectTimedOut } from './errors.ts'
import { emptyHeadCache, type HeadCache } from './heads.ts'

/** A connection target with the state that its connections share. */
export type Destination = {
  /** `https://[::1]:8443` */
  readonly origin: string
  /** The value of the `host` header: with the port unless it is the default (RFC 9110, section 7.2). */
  readonly authority: string
  readonly host: string
  readonly port: number
  readonly secure: boolean
  readonly heads: HeadCache
  /** Certificates (PEM) trusted instead of the default ones. */
  readonly ca?: string
  /** The trusted certificates, loaded once: loading takes longer than the rest of a handshake. */
  context?: SecureContext
  /** The last TLS session, for resumption. */
  session?: Buffer
}

/** Loaded with the first TLS connection: an import would add 10 ms to the start (Node 24.21). */
const tls = () => process.getBuiltinModule('node:tls')

/** The destination of a URL. `ca`: certificates (PEM) trusted instead of the default ones. */
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
    heads: emptyHeadCache(),
    ...(ca !== undefined && { ca }),
  }
}

/** A timer that fires this late (ms) means that the event loop was blocked. */
const BLOCKED_LOOP_MS = 20

/**
 * Opens a connection, including TLS, within `allowed` ms (0: no limit). `done` is called once: with null, or with the
 * failure and its error; then the socket is destroyed. `read` receives the bytes in destination of `data` events.
 */
export const connectTo = (
  destination: Destination,
  allowed: number,
  done: (failure: Failure | null, error?: Error) => void,
  read?: OnReadOpts,
): Socket => {
  const { host, port, secure, ca, session } = destination
  if (secure) destination.context ??= tls().createSecureContext(ca === undefined ? {} : { ca })
  const socket = secure
    ? tls().connect({
        host,
        port,
        ...(isIP(host) === 0 && { servername: host }),
        ALPNProtocols: ['http/1.1'],
        // Explicit: NODE_TLS_REJECT_UNAUTHORIZED=0 in the environment must not disable verification.
        rejectUnauthorized: true,
        ...(destination.context && { secureContext: destination.context }),
        ...(session && { session }),
        ...(read && { onread: read }),
      })
    : connectPlain({ host, port, ...(read && { onread: read }) })
  let timer: NodeJS.Timeout | undefined
  const startTimer = (ms: number) => {
    const due = performance.now() + ms
    timer = setTimeout(() => {
      const late = performance.now() - due
      // Extends the timeout by the time in which this process could not handle events.
      if (late >= BLOCKED_LOOP_MS) return startTimer(late)
      finish(connectTimedOut(allowed), new Error('connect timeout'))
      socket.destroy()
    }, ms)
  }
  if (allowed > 0) startTimer(allowed)
  let open = true
  const finish = (failure: Failure | null, error?: Error) => {
    if (!open) return
    open = false
    clearTimeout(timer)
    socket.off('error', failed).off('close', closed)
    // An unhandled `error` event would end the process. A second listener would make Node keep an array for the life of
    // the connection.
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
    socket.on('session', (session: Buffer) => {
      destination.session = session
    })
  return socket
}

const ignored = () => {}
