/**
 * Which proxy an outgoing connection takes, by the usual variables. The rules are those of curl
 * (https://everything.curl.dev/usingcurl/proxies/env.html). They differ in one point: this machine and the metadata
 * servers of clouds are never reached through a proxy.
 */
import type { ForwardProxy } from '../../core/forward-proxy.ts'
import { Secret } from '../../core/secret.ts'
import { contains, type IpRange, parseIp, parseIpRange } from '../accounts/ip-range.ts'

/** The proxy for each scheme, and the hosts that are reached directly. */
export type ProxyRules = {
  readonly https: ForwardProxy | null
  readonly http: ForwardProxy | null
  readonly direct: readonly DirectRule[]
}

/** Hosts of a domain or of a range of addresses, at every port or at one. */
type DirectRule = { readonly port: string | null } & (
  | { readonly range: IpRange }
  /** Without a leading dot; empty: every host. */
  | { readonly domain: string }
)

/** A value that cannot be used. `found` contains no credentials. */
export type ProxyProblem = { readonly where: string; readonly found: string; readonly allowed: string }

/** The variables for each scheme; the first that is set counts. */
const VARIABLES = {
  https: ['https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY'],
  http: ['http_proxy', 'HTTP_PROXY', 'all_proxy', 'ALL_PROXY'],
} as const
const DIRECT_VARIABLES = ['no_proxy', 'NO_PROXY'] as const

/** `warnings`: values that have no effect. */
export type ReadRules = {
  readonly rules: ProxyRules
  readonly problems: readonly ProxyProblem[]
  readonly warnings: readonly string[]
}

/** Returns undefined for a variable that is not set or empty. */
type LookUp = (name: string) => string | undefined

/** A setting of a proxy: `env`, `none` or an address. `from`: its name or place. */
export type StatedProxy = { readonly value: string; readonly from: string }

const NO_PROXIES: ProxyRules = { https: null, http: null, direct: [] }

/** The rules of the setting of a provider: no list of hosts counts. */
export const ownRules = ({ value, from }: StatedProxy): ReadRules => {
  if (value === 'none') return { rules: NO_PROXIES, problems: [], warnings: [] }
  const parsed = parseProxy(value, from)
  if (!('proxy' in parsed)) return { rules: NO_PROXIES, problems: [{ where: from, ...parsed }], warnings: [] }
  const { proxy } = parsed
  return { rules: { https: proxy, http: proxy, direct: NEVER_PROXIED }, problems: [], warnings: [] }
}

/** The rules of the setting for all connections. `noProxy`: entries beside those of `NO_PROXY`. */
export const statedRules = (stated: StatedProxy, noProxy: readonly string[], lookup: LookUp): ReadRules => {
  if (stated.value === 'env') return proxyRules(lookup, noProxy)
  const own = ownRules(stated)
  if (own.rules.https === null) return own
  const { direct, warnings } = directFrom(lookup, noProxy)
  return { ...own, rules: { ...own.rules, direct }, warnings }
}

/** The rules of the variables. */
export const proxyRules = (lookup: LookUp, noProxy: readonly string[] = []): ReadRules => {
  const problems: ProxyProblem[] = []
  const warnings: string[] = []
  const read = (names: readonly string[], isOptional: boolean): ForwardProxy | null => {
    const name = firstSet(lookup, names)
    if (name === undefined) return null
    const parsed = parseProxy(lookup(name) ?? '', name)
    if ('proxy' in parsed) return parsed.proxy
    if (isOptional && /^all_proxy$/i.test(name))
      warnings.push(`${name} is ${parsed.found}, and not used: http addresses are reached directly. Set HTTP_PROXY.`)
    else if (!problems.some(({ where }) => where === name)) problems.push({ where: name, ...parsed })
    return null
  }
  const { direct, ...listed } = directFrom(lookup, noProxy)
  const isNeverUsed = direct.some((rule) => 'domain' in rule && rule.domain === '' && rule.port === null)
  const https = isNeverUsed ? null : read(VARIABLES.https, false)
  // Desktop proxies set ALL_PROXY to SOCKS beside HTTPS_PROXY (HKUDS/nanobot#5425); most providers use https.
  const http = isNeverUsed ? null : read(VARIABLES.http, https !== null)
  // Without a proxy the list has no effect.
  if (https !== null || http !== null) warnings.push(...listed.warnings)
  return { rules: { https, http, direct }, problems, warnings }
}

const firstSet = (lookup: LookUp, names: readonly string[]) => names.find((name) => lookup(name) !== undefined)

/** The hosts that are reached directly. */
const directFrom = (
  lookup: LookUp,
  noProxy: readonly string[],
): { readonly direct: readonly DirectRule[]; readonly warnings: readonly string[] } => {
  const variable = firstSet(lookup, DIRECT_VARIABLES)
  const inVariable = directRules((variable && lookup(variable)) ?? '')
  const inFile = directRules(noProxy.join(','))
  const warningOf = (from: string | undefined) => (entry: string) =>
    `${from}: the entry ${JSON.stringify(entry.slice(0, 60))} matches no host. Write a domain (example.com), an address or a range of addresses (10.0.0.0/8).`
  return {
    direct: [...NEVER_PROXIED, ...inVariable.rules, ...inFile.rules],
    warnings: [...inVariable.unusable.map(warningOf(variable)), ...inFile.unusable.map(warningOf('network.noProxy'))],
  }
}

/** The proxy for a URL; null: it is reached directly. Decides by the name in the URL, before it is resolved. */
export const proxyFor = (rules: ProxyRules, url: URL): ForwardProxy | null => {
  const isSecure = url.protocol === 'https:'
  const proxy = isSecure ? rules.https : rules.http
  if (!proxy) return null
  const host = bareHost(url.hostname)
  const ip = parseIp(host)
  const port = url.port || (isSecure ? '443' : '80')
  const isDirect = rules.direct.some((rule) => {
    if (rule.port !== null && rule.port !== port) return false
    if ('range' in rule) return ip !== undefined && contains(rule.range, ip)
    return rule.domain === '' || host === rule.domain || host.endsWith(`.${rule.domain}`)
  })
  return isDirect ? null : proxy
}

/** Without brackets and without the dot at the end of an absolute name. */
const bareHost = (host: string): string => (host.startsWith('[') ? host.slice(1, -1) : host.replace(/\.$/, ''))

/** The entries of `NO_PROXY`: separated by commas or white space. */
const directRules = (text: string): { readonly rules: readonly DirectRule[]; readonly unusable: readonly string[] } => {
  const entries = text
    .toLowerCase()
    .split(/[\s,]+/)
    .filter((entry) => entry !== '')
  const rules = entries.map((entry) => directRule(entry))
  return {
    rules: rules.filter((rule) => rule !== null),
    unusable: entries.filter((_, at) => rules[at] === null),
  }
}

const directRule = (entry: string): DirectRule | null => {
  if (entry === '*') return { domain: '', port: null }
  // Some clients need a scheme here (BerriAI/litellm#2127).
  const { host, port } = splitPort(entry.replace(/^https?:\/\//, '').replace(/\/$/, ''))
  const range = parseIpRange(host)
  if (range) return { range, port }
  const domain = host.replace(/^\*?\./, '').replace(/\.$/, '')
  // Names of other scripts are compared in the form in which URLs have them.
  const address = `http://${domain}`
  return domain === '' || /[*/:?#@]/.test(domain) || !URL.canParse(address)
    ? null
    : { domain: bareHost(new URL(address).hostname), port }
}

/** `host:port` and `[address]:port`. An address with several colons and no brackets is IPv6 without a port. */
const splitPort = (entry: string): { readonly host: string; readonly port: string | null } => {
  const [, address, bits = '', addressPort] = /^\[([^\]]*)\](\/[0-9]+)?(?::([0-9]+))?$/.exec(entry) ?? []
  if (address !== undefined) return { host: address + bits, port: addressPort ?? null }
  const [, host, port] = /^([^:]+):([0-9]+)$/.exec(entry) ?? []
  return host === undefined || port === undefined ? { host: entry, port: null } : { host, port: String(Number(port)) }
}

/**
 * This machine, and the metadata servers of clouds: they give credentials to any client that connects, so a proxy would receive
 * those of its own machine (https://cloud.google.com/compute/docs/metadata/overview; the link-local addresses and
 * `fd00:ec2::` are those of AWS, Azure and Google).
 */
const NEVER_PROXIED = directRules(
  'localhost 127.0.0.0/8 ::1 0.0.0.0 :: 169.254.0.0/16 fe80::/10 fd00:ec2::/32 metadata.google.internal',
).rules

const EXAMPLE = 'the address of an HTTP proxy, such as http://proxy.example:3128'

type Parsed = { readonly proxy: ForwardProxy } | Pick<ProxyProblem, 'found' | 'allowed'>

/**
 * Parses `http://user:password@proxy.example:3128`. The scheme may be absent (http), and so may the port (80 or 443). The
 * password may contain any character: its end is the last `@`.
 */
const parseProxy = (text: string, variable: string): Parsed => {
  const schemeEnd = text.indexOf('://')
  const scheme = schemeEnd === -1 ? 'http' : text.slice(0, schemeEnd).toLowerCase()
  const rest = schemeEnd === -1 ? text : text.slice(schemeEnd + 3)
  const at = rest.lastIndexOf('@')
  const [address = '', path = ''] = rest.slice(at + 1).split(/[/?#](.*)/s)
  if (/^socks/.test(scheme))
    return {
      found: 'the address of a SOCKS proxy',
      allowed: `${EXAMPLE}; for SOCKS run a local HTTP proxy in front of it, such as privoxy, and set its address`,
    }
  if (scheme.startsWith('pac') || /\.(?:pac|dat)$/i.test(path))
    return {
      found: 'the address of a proxy auto-configuration file (PAC)',
      allowed: `${EXAMPLE}; to use a PAC file run a local proxy that reads it, such as px or alpaca, and set its address`,
    }
  if (scheme !== 'http' && scheme !== 'https')
    return { found: `an address with the scheme ${JSON.stringify(scheme.slice(0, 20))}`, allowed: EXAMPLE }
  const bare = `${scheme}://${address}`
  const url = URL.canParse(bare) ? new URL(bare) : null
  if (!url || url.hostname === '' || url.port === '0')
    return {
      found: at === -1 ? `${JSON.stringify(text.slice(0, 60))}` : 'an address that is not valid',
      allowed: EXAMPLE,
    }
  const port = Number(url.port || (scheme === 'https' ? 443 : 80))
  return {
    proxy: {
      name: `${url.hostname}:${port}`,
      host: bareHost(url.hostname),
      port,
      secure: scheme === 'https',
      authorization: at > 0 ? basic(rest.slice(0, at)) : null,
      variable,
    },
  }
}

/** `Basic` credentials of a user part (RFC 7617). Both halves are percent-decoded. */
const basic = (userInfo: string): Secret => {
  const colon = userInfo.indexOf(':')
  const user = colon === -1 ? userInfo : userInfo.slice(0, colon)
  const password = colon === -1 ? '' : userInfo.slice(colon + 1)
  const bytes = new TextEncoder().encode(`${decoded(user)}:${decoded(password)}`)
  return new Secret(`Basic ${btoa(String.fromCharCode(...bytes))}`)
}

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    // A password with a plain percent sign.
    return text
  }
}
