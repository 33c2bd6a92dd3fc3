/** The address of a client whose requests pass proxies. */
import type { HeaderLookup } from '../../core/headers.ts'
import { contains, type IpRange, parseIp, parseIpRange } from './ip-range.ts'

/** Addresses in `X-Forwarded-For` that are looked at, from its end. */
const MAX_HOPS = 32

/** The address of every peer of a Unix socket, and its name in `trustedProxies`. */
export const UNIX_PEER = 'unix'
/** An address without groups, which equals no address of IP. */
const UNIX_RANGE: IpRange = { address: [], bits: 0 }

/** Parses `trustedProxies`. Entries that are no ranges are left out: the configuration has refused them. */
export const proxyRanges = (proxies: readonly string[]): readonly IpRange[] =>
  proxies
    .map((proxy) => (proxy === UNIX_PEER ? UNIX_RANGE : parseIpRange(proxy)))
    .filter((range) => range !== undefined)

/**
 * The last address that is not a trusted proxy: first the peer of the connection, then `X-Forwarded-For` from its end, to
 * which each proxy appends the address that it received the request from. A client can write only what is before.
 */
export const clientAddress = (peer: string, forwarded: string | undefined, proxies: readonly IpRange[]): string => {
  if (proxies.length === 0 || forwarded === undefined || !isTrusted(peer, proxies)) return peer
  const hops = forwarded.split(',').slice(-MAX_HOPS)
  let address = peer
  for (const hop of hops.toReversed()) {
    const text = withoutPort(hop.trim())
    // An unreadable entry ends the search: what is before it cannot be trusted.
    if (!parseIp(text)) return address
    address = text
    if (!isTrusted(text, proxies)) return address
  }
  return address
}

/**
 * Whether the client used https, by `X-Forwarded-Proto`. Each proxy may append its own entry; the first one is of the proxy
 * nearest to the client. A client can write it too, so it decides only about what that client receives: the name and
 * `Secure` of its own cookie, and the scheme of addresses it is shown.
 */
export const isForwardedHttps = (forwarded: string | undefined): boolean =>
  forwarded?.split(',', 1)[0]?.trim().toLowerCase() === 'https'

/** Whether the client used https, also by `Origin`, where the proxy does not forward the scheme. */
export const usesHttps = (headers: HeaderLookup): boolean =>
  headers('origin')?.startsWith('https://') === true || isForwardedHttps(headers('x-forwarded-proto'))

/** Whether an address is that of a trusted proxy. */
export const isTrusted = (address: string, proxies: readonly IpRange[]): boolean => {
  const ip = address === UNIX_PEER ? UNIX_RANGE.address : parseIp(address)
  return ip !== undefined && proxies.some((range) => contains(range, ip))
}

/** Some proxies append the port: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
const withoutPort = (text: string): string =>
  /^\[([^\]]+)\](?::[0-9]+)?$/.exec(text)?.[1] ?? /^([0-9.]+):[0-9]+$/.exec(text)?.[1] ?? text
