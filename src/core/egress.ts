import type { ForwardProxy } from './forward-proxy.ts'
import { Secret } from './secret.ts'

/** Which certificates are trusted, and which one is shown. */
export type EgressTls = {
  /** Trusted certificates (PEM) beside those of Node; empty: none. */
  readonly ca: string
  /** `ca` replaces those of Node. */
  readonly caOnly: boolean
  /** The client's certificate with its chain, and its key (PEM). Null: none. */
  readonly client: { readonly cert: string; readonly key: Secret } | null
  /** The name for SNI, and in the server's certificate. Null: that of the URL. */
  readonly serverName: string | null
}

/** How connections leave this machine: the section `network`, or a provider with settings of its own. Resolved and checked. */
export type Egress = {
  /** A digest of all values: connections and their pools are shared where it is equal. */
  readonly id: string
  /** The proxy for a URL; null: it is reached directly. */
  readonly proxyFor: (url: URL) => ForwardProxy | null
  /** All that `proxyFor` may return. */
  readonly proxies: readonly ForwardProxy[]
  readonly tls: EgressTls
  readonly addresses: 'auto' | 'ipv4' | 'ipv6'
  /** How long an answer of the name server is used, and for how much longer while it fails (ms). */
  readonly dns: { readonly keep: number; readonly stale: number }
  /** ms after which a connection is used for no further call; 0: no limit. */
  readonly maxConnectionAge: number
}

/** Without a proxy, and as Node does. */
export const DIRECT: Egress = {
  id: '',
  proxyFor: () => null,
  proxies: [],
  tls: { ca: '', caOnly: false, client: null, serverName: null },
  addresses: 'auto',
  dns: { keep: 0, stale: 0 },
  maxConnectionAge: 0,
}

/** How one address is reached, as plain data for another thread. It contains a password: never part of a message. */
export type PlainEgress = Omit<Egress, 'proxyFor' | 'proxies' | 'tls'> & {
  readonly proxy: (Omit<ForwardProxy, 'authorization'> & { readonly authorization: string | null }) | null
  readonly tls: Pick<EgressTls, 'ca' | 'caOnly'>
}

/** `ca`: trusted instead of all others; null: as others. */
export const plainEgress = (egress: Egress, url: string, ca: string | null): PlainEgress => {
  const { id, addresses, dns, maxConnectionAge, tls } = egress
  const proxy = egress.proxyFor(new URL(url))
  return {
    ...{ id, addresses, dns, maxConnectionAge },
    proxy: proxy && { ...proxy, authorization: proxy.authorization?.reveal() ?? null },
    tls: ca === null ? { ca: tls.ca, caOnly: tls.caOnly } : { ca, caOnly: true },
  }
}

export const egressFrom = ({ proxy: plain, tls, ...rest }: PlainEgress): Egress => {
  const proxy = plain && {
    ...plain,
    authorization: plain.authorization === null ? null : new Secret(plain.authorization),
  }
  return {
    ...rest,
    proxyFor: () => proxy,
    proxies: proxy ? [proxy] : [],
    tls: { ...tls, client: null, serverName: null },
  }
}

/** What the operator states for one provider. */
export type ProviderNetwork = {
  /** `env`, `none` or an address. Absent: as in `network`. */
  readonly proxy?: Secret
  /** Paths. */
  readonly ca?: readonly string[]
  readonly caOnly?: boolean
  readonly clientCert?: { readonly cert: string; readonly key: string }
  readonly serverName?: string
}

/** Every way in which a configuration connects. */
export const egressesOf = ({
  network,
  instances,
}: {
  readonly network: Egress
  readonly instances: readonly { readonly egress?: Egress }[]
}): readonly Egress[] => [network, ...instances.flatMap(({ egress }) => egress ?? [])]
