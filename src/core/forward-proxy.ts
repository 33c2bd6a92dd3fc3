import type { Secret } from './secret.ts'

/** An HTTP proxy for outgoing connections. */
export type ForwardProxy = {
  /** Host and port, such as `proxy.corp:3128`: its name in messages, logs and circuits. Contains no credentials. */
  readonly name: string
  readonly host: string
  readonly port: number
  /** Connections to the proxy itself use TLS. */
  readonly secure: boolean
  /** The value of `proxy-authorization`. */
  readonly authorization: Secret | null
  /** The variable that contains its address, such as `HTTPS_PROXY`. */
  readonly variable: string
}
