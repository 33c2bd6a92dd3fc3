/** TLS for clients: certificates by server name, replaced while connections go on. Loaded only where it is configured. */
import { createPrivateKey, constants as openssl, X509Certificate } from 'node:crypto'
import { createServer, type Server, type Socket } from 'node:net'
import {
  createSecureContext,
  createServer as createTlsServer,
  type SecureContext,
  type SecureContextOptions,
} from 'node:tls'
import type { OpenListener } from './http-server.ts'

/** Contents of files (PEM), with the name of the certificate's file for messages. */
export type TlsPair = { readonly file: string; readonly cert: string; readonly key: string }

/** `clientCa`: PEM; undefined: client certificates are not requested. */
export type TlsFiles = {
  readonly pairs: readonly TlsPair[]
  readonly clientCa: string | undefined
  /** Whether a client without a certificate is refused. */
  readonly clientAuth: 'none' | 'optional' | 'require'
}

/** A pair that can be used. `notAfter`: ms since 1970. */
type ReadyPair = {
  readonly file: string
  readonly names: readonly string[]
  readonly notAfter: number
  readonly context: SecureContext
}

/** A checked set of files. */
export type ReadyTls = {
  readonly pairs: readonly ReadyPair[]
  readonly clientAuth: TlsFiles['clientAuth']
  /** Those of the first pair, for clients that send no server name. */
  readonly options: SecureContextOptions
}

/** RFC 9325, section 4.2: forward secrecy and authenticated encryption; those of TLS 1.3 are all. */
const CIPHERS = [
  ...['TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256', 'TLS_AES_128_GCM_SHA256'],
  ...['ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-RSA-AES128-GCM-SHA256', 'ECDHE-ECDSA-AES256-GCM-SHA384'],
  ...['ECDHE-RSA-AES256-GCM-SHA384', 'ECDHE-ECDSA-CHACHA20-POLY1305', 'ECDHE-RSA-CHACHA20-POLY1305'],
].join(':')

/** Checks files. Throws an error whose message names the file and the problem, and no content. */
export const readyTls = ({ pairs, clientCa, clientAuth }: TlsFiles): ReadyTls => {
  const options: SecureContextOptions = {
    minVersion: 'TLSv1.2',
    ciphers: CIPHERS,
    secureOptions: openssl.SSL_OP_NO_RENEGOTIATION,
    ...(clientAuth !== 'none' && clientCa !== undefined && { ca: clientCa }),
  }
  if (clientAuth !== 'none') readable('clientCa', () => new X509Certificate(clientCa ?? ''))
  const ready = pairs.map((pair) => readyPair(pair, options))
  const [first] = pairs
  return { pairs: ready, clientAuth, options: { ...options, ...(first && { cert: first.cert, key: first.key }) } }
}

const readyPair = ({ file, cert, key }: TlsPair, options: SecureContextOptions): ReadyPair => {
  const leaf = readable(file, () => new X509Certificate(cert))
  const secret = readable(`the key of ${file}`, () => createPrivateKey(key))
  if (!leaf.checkPrivateKey(secret)) throw new Error(`the key of ${file} belongs to another certificate`)
  const names = (leaf.subjectAltName ?? '')
    .split(', ')
    .flatMap((name) => /^DNS:(.+)$/.exec(name)?.[1]?.toLowerCase() ?? [])
  const context = readable(file, () => createSecureContext({ ...options, cert, key }))
  return { file, names, notAfter: Date.parse(leaf.validTo), context }
}

const readable = <Value>(what: string, read: () => Value): Value => {
  try {
    return read()
  } catch {
    // OpenSSL's message may contain a part of the file.
    throw new Error(`${what} is not readable as PEM`)
  }
}

/** The pair for a server name: the first with the name, else with a wildcard for it, else the first of all. */
const contextFor = ({ pairs }: ReadyTls, serverName: string): SecureContext | undefined => {
  const name = serverName.toLowerCase()
  const wildcard = name.replace(/^[^.]+/, '*')
  const found = pairs.find(({ names }) => names.includes(name)) ?? pairs.find(({ names }) => names.includes(wildcard))
  return (found ?? pairs[0])?.context
}

/**
 * Accepts TLS connections. Each set of files has its own TLS server, which listens on nothing: a replacement leaves open
 * connections and handshakes alone, and no session of an earlier client CA is resumed.
 */
export class TlsListener {
  #handshakes: Server | null = null
  #serve: ((socket: Socket) => void) | null = null
  #ready: ReadyTls
  /** ms for a handshake. */
  readonly #timeout: number

  constructor(ready: ReadyTls, timeout: number) {
    this.#ready = ready
    this.#timeout = timeout
  }

  get ready(): ReadyTls {
    return this.#ready
  }

  readonly open: OpenListener = (options, serve) => {
    this.#serve = serve
    this.replace(this.#ready)
    return createServer(options, (socket) => {
      // Until TLS has it.
      socket.on('error', () => {})
      this.#handshakes?.emit('connection', socket)
    })
  }

  /** New connections use these files. */
  replace(ready: ReadyTls): void {
    this.#ready = ready
    const serve = this.#serve
    if (!serve) return
    const { clientAuth, options } = ready
    this.#handshakes = createTlsServer(
      {
        ...options,
        ALPNProtocols: ['http/1.1'],
        handshakeTimeout: this.#timeout,
        requestCert: clientAuth !== 'none',
        // An optional certificate must be valid too.
        rejectUnauthorized: clientAuth === 'require',
        SNICallback: (name, use) => use(null, contextFor(ready, name)),
      },
      (socket) => {
        const isRefused =
          clientAuth === 'optional' && !socket.authorized && Object.keys(socket.getPeerCertificate()).length > 0
        if (isRefused) return void socket.destroy()
        serve(socket)
      },
    )
    // Node leaves the connection open, also after the time for a handshake.
    this.#handshakes.on('tlsClientError', (_, socket) => socket.destroy())
  }
}
