/**
 * The way through a proxy. An https destination is reached by a tunnel (CONNECT, RFC 9110, section 9.3.6), in which TLS is
 * spoken with the destination itself. An http request is sent to the proxy in absolute form (RFC 9112, section 3.2.2).
 */
import type { Socket } from 'node:net'
import { type Failure, fail } from '../../core/failure.ts'
import type { ForwardProxy } from '../../core/forward-proxy.ts'

/** Maximum size of the header block of a proxy's response, in bytes. */
const MAX_HEAD = 16 * 1024

/** The state of the way to a destination when a failure occurs. */
export type ProxyStage =
  /** Connecting to the proxy. */
  | 'proxy'
  /** Connected to it, and waiting for its connection to the destination. */
  | 'tunnel'

const failure = (message: string, endpointOnly = false): Failure =>
  fail('proxy', message, { unsent: true, ...(endpointOnly && { endpointOnly }) })

/** The proxy itself cannot be reached. `why`: a sentence. */
const unreachable = ({ name, variable }: ForwardProxy, why: string): Failure =>
  failure(`The proxy ${name} (${variable}) cannot be reached. ${why}`)

/** A network error on the way. `why`: a sentence. */
export const brokenHop = (proxy: ForwardProxy, stage: ProxyStage, target: string, why: string): Failure =>
  stage === 'proxy' ? unreachable(proxy, why) : closedTunnel(proxy, target)

/** The proxy has closed the connection before its response was complete. */
const closedTunnel = ({ name }: ForwardProxy, target: string): Failure =>
  failure(`The proxy ${name} closed the connection before it was connected to ${target}.`, true)

/** No connection after `ms`. A proxy that accepts connections may wait for a destination that does not answer. */
export const proxyTimedOut = (proxy: ForwardProxy, stage: ProxyStage, target: string, ms: number): Failure =>
  stage === 'proxy'
    ? unreachable(proxy, `Connecting took longer than ${ms} ms.`)
    : failure(`The proxy ${proxy.name} was not connected to ${target} within ${ms} ms.`, true)

/** The failure for a response of the proxy that is not a success. `schemes`: the value of `proxy-authenticate`. */
export const refusedByProxy = (proxy: ForwardProxy, status: number, target: string, schemes: string): Failure => {
  const { name, variable, authorization } = proxy
  if (status !== 407) return failure(`The proxy ${name} opens no connection to ${target} (${status}).`, true)
  const others = OTHER_SCHEMES.filter((scheme) => schemes.toLowerCase().includes(scheme.toLowerCase()))
  if (others.length > 0 && !/\bbasic\b/i.test(schemes))
    return failure(
      `The proxy ${name} asks for credentials (407) by ${others.join(' or ')}, which is not supported. Run a local proxy that signs in there, such as px or cntlm, and set ${variable} to its address.`,
    )
  return failure(
    authorization === null
      ? `The proxy ${name} asks for credentials (407). Set ${variable}=http://USER:PASSWORD@${name}.`
      : `The proxy ${name} does not accept the credentials in ${variable} (407).`,
  )
}

const OTHER_SCHEMES = ['NTLM', 'Negotiate', 'Kerberos', 'Digest']

/**
 * The request for a tunnel to `target`, which is a host with its port. Some proxies refuse one without a user agent
 * (psf/requests#2708, anthropics/claude-code#72879), and older ones end the connection without `proxy-connection`.
 */
const tunnelRequest = ({ authorization }: ForwardProxy, target: string): string =>
  `CONNECT ${target} HTTP/1.1\r\nhost: ${target}\r\nuser-agent: headgate\r\nproxy-connection: keep-alive\r\n${
    authorization ? `proxy-authorization: ${authorization.reveal()}\r\n` : ''
  }\r\n`

/**
 * Opens a tunnel on a connection to the proxy. `done` is called at most once. After a success the socket is paused, and
 * has the bytes that followed the proxy's response. The caller watches errors, the end of the connection and the time.
 */
export const openTunnel = (
  socket: Socket,
  proxy: ForwardProxy,
  target: string,
  done: (failure: Failure | null) => void,
): void => {
  let received: Buffer = Buffer.alloc(0)
  const finish = (result: Failure | null) => {
    socket.off('data', read).off('end', ended)
    done(result)
  }
  const ended = () => finish(closedTunnel(proxy, target))
  const read = (chunk: Buffer) => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk])
    const length = received.indexOf('\r\n\r\n')
    if (length > MAX_HEAD || (length === -1 && received.length > MAX_HEAD))
      return finish(failure(`The response of the proxy ${proxy.name} has a header block above 16 KiB.`))
    const head = received.toString('latin1', 0, length === -1 ? Math.min(received.length, STATUS_LINE) : length)
    if (!STATUS_START.startsWith(head.slice(0, STATUS_START.length)) || (length !== -1 && !STATUS.test(head)))
      return finish(failure(`The proxy ${proxy.name} (${proxy.variable}) did not answer with HTTP.`))
    if (length === -1) return
    const status = Number(STATUS.exec(head)?.[1])
    if (status < 200) {
      // An interim response: the final one follows.
      const rest = received.subarray(length + 4)
      received = Buffer.alloc(0)
      if (rest.length > 0) read(rest)
      return
    }
    if (status >= 300) return finish(refusedByProxy(proxy, status, target, authenticateIn(head)))
    socket.pause()
    if (received.length > length + 4) socket.unshift(received.subarray(length + 4))
    finish(null)
  }
  socket.on('data', read).on('end', ended)
  socket.write(tunnelRequest(proxy, target), 'latin1')
}

const STATUS_START = 'HTTP/1.'
const STATUS_LINE = 16
const STATUS = /^HTTP\/1\.[01] ([1-9][0-9]{2})(?: |\r|$)/

const authenticateIn = (head: string): string =>
  head
    .split('\r\n')
    .filter((line) => /^proxy-authenticate:/i.test(line))
    .join()
