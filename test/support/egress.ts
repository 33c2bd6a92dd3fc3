import { DIRECT, type Egress } from '../../src/core/egress.ts'
import { proxyFor, proxyRules } from '../../src/policy/egress/proxy-rules.ts'

/** Trusts these certificates only, and has these proxies. */
export const egressWith = ({
  ca,
  env = {},
}: {
  readonly ca?: string
  readonly env?: { readonly [name: string]: string }
}): Egress => {
  const { rules } = proxyRules((name) => env[name])
  return {
    ...DIRECT,
    proxyFor: (url) => proxyFor(rules, url),
    proxies: [rules.https, rules.http].filter((proxy) => proxy !== null),
    ...(ca !== undefined && { tls: { ...DIRECT.tls, ca, caOnly: true } }),
  }
}
