/** Which requests come from the machine of the gateway. */
import { isIP } from 'node:net'
import type { HeaderLookup } from '../core/headers.ts'
import { isLoopbackHost } from '../policy/access.ts'

/** The origin of a request. `address`: the peer of the connection. `hosts`: the value of every Host line. `version`: of HTTP. */
export type RequestOrigin = {
  readonly version: string
  readonly address: string
  readonly hosts: readonly string[]
  readonly headers: HeaderLookup
}

/**
 * Headers by which proxies, tunnels and content delivery networks state the client, its request or themselves. None of
 * them is sent by a client that connects directly.
 */
export const FORWARDING = [
  ...['forwarded', 'via', 'x-forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto'],
  ...['x-forwarded-port', 'x-forwarded-server', 'x-forwarded-by', 'x-forwarded-prefix', 'x-forwarded-scheme'],
  ...['x-forwarded-ssl', 'x-forwarded-path', 'x-forwarded-uri', 'x-forwarded-method', 'x-forwarded-user'],
  ...['x-forwarded-client-cert', 'x-forwarded-context', 'x-original-uri', 'x-envoy-original-path', 'x-request-start'],
  ...['x-original-forwarded-for', 'x-original-host', 'x-original-url', 'x-proxyuser-ip', 'proxy-client-ip'],
  ...['x-real-ip', 'x-real-port', 'x-client-ip', 'x-cluster-client-ip', 'x-remote-ip', 'x-remote-addr', 'client-ip'],
  ...['true-client-ip', 'cf-connecting-ip', 'cf-connecting-ipv6', 'cf-ray', 'cf-visitor', 'cdn-loop'],
  ...[
    'fastly-client-ip',
    'fly-client-ip',
    'x-nf-client-connection-ip',
    'x-vercel-forwarded-for',
    'x-appengine-user-ip',
  ],
  ...['x-azure-clientip', 'x-azure-socketip', 'x-azure-fdid', 'x-arr-log-id', 'x-amzn-trace-id', 'x-amz-cf-id'],
  ...['x-cloud-trace-context', 'x-envoy-external-address', 'x-envoy-attempt-count', 'wl-proxy-client-ip'],
  ...['tailscale-user-login', 'ngrok-auth-user-email', 'front-end-https', 'x-url-scheme', 'x-scheme'],
] as const

/**
 * Whether a request comes from this machine and is for it: a loopback peer that calls a loopback name. A forwarding header
 * means that a local proxy sends it for another client, and so does HTTP/1.0, which nginx speaks by default and clients no
 * longer do. Another proxy that sends no header and changes `Host` cannot be recognised, so in production nothing depends on
 * this.
 */
export const isLocal = ({ version, address, hosts, headers }: RequestOrigin): boolean =>
  version === '1.1' &&
  isLoopback(address) &&
  hosts.length === 1 &&
  isLoopbackHost(hosts[0] ?? '') &&
  FORWARDING.every((name) => headers(name) === undefined)

/** Whether an address or host name is a loopback one; IPv4-mapped IPv6 addresses and brackets included. */
export const isLoopback = (address: string): boolean => {
  const plain = address
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/^::ffff:/, '')
  return plain === 'localhost' || plain === '::1' || (isIP(plain) === 4 && plain.startsWith('127.'))
}
