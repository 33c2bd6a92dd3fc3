/** How connections leave this machine: the section `network`, and what providers state instead. No I/O. */
import { createHash, createPrivateKey, X509Certificate } from 'node:crypto'
import type { Egress, EgressTls, ProviderNetwork } from '../core/egress.ts'
import type { Instance } from '../core/provider.ts'
import { Secret } from '../core/secret.ts'
import type { Settings } from '../core/settings.ts'
import { ownRules, proxyFor, type ReadRules, statedRules } from '../policy/egress/proxy-rules.ts'
import type { Env } from './env.ts'
import { variable } from './environment.ts'
import type { ProviderEntry } from './file-schema.ts'
import { type Problem, quote, type Sourced } from './problem.ts'
import { ALLOWED_FILE, type SecretFiles } from './secret-files.ts'
import { commaList } from './text-values.ts'

/** What one provider states, and where. */
export type NetworkDraft = {
  readonly proxy?: Sourced<string>
  readonly ca?: Sourced<readonly string[]>
  readonly caOnly?: Sourced<boolean>
  readonly clientCert?: Sourced<{ readonly cert: string; readonly key: string }>
  readonly serverName?: Sourced<string>
}

/** `<PROVIDER>_PROXY` and `<PROVIDER>_CA`. */
export const networkVariables = (env: Env, prefix: string): NetworkDraft => {
  const [proxy, ca] = [variable(env, `${prefix}_PROXY`), variable(env, `${prefix}_CA`)]
  return {
    ...(proxy !== undefined && { proxy: { value: proxy, from: `${prefix}_PROXY` } }),
    ...(ca !== undefined && { ca: { value: commaList(ca), from: `${prefix}_CA` } }),
  }
}

/** The members of an entry of the file. `place`: of one of its members. */
export const networkMembers = (
  { proxy, ca, caOnly, clientCert, serverName }: ProviderEntry,
  place: (member: string) => string,
): NetworkDraft => ({
  ...(proxy !== undefined && { proxy: { value: proxy, from: place('proxy') } }),
  ...(ca !== undefined && { ca: { value: [ca].flat(), from: place('ca') } }),
  ...(caOnly !== undefined && { caOnly: { value: caOnly, from: place('caOnly') } }),
  ...(clientCert && { clientCert: { value: clientCert, from: place('clientCert') } }),
  ...(serverName !== undefined && { serverName: { value: serverName, from: place('serverName') } }),
})

/** The paths of all files with certificates. `file`: the parsed file, which may be invalid. */
export const certificatePaths = (env: Env, file: unknown): readonly string[] => {
  const member = (value: unknown, name: string): unknown =>
    typeof value === 'object' && value !== null && Object.hasOwn(value, name) ? Reflect.get(value, name) : undefined
  const providers = member(file, 'providers')
  const written = [
    member(member(file, 'network'), 'ca'),
    ...Object.values(typeof providers === 'object' && providers !== null ? providers : {}).flatMap((entry) => [
      member(entry, 'ca'),
      member(member(entry, 'clientCert'), 'cert'),
      member(member(entry, 'clientCert'), 'key'),
    ]),
    ...Object.keys(env).flatMap((name) => (name.endsWith('_CA') ? commaList(env[name] ?? '') : [])),
  ]
  return [...new Set(written.flat())].filter((path) => typeof path === 'string' && path !== '') as string[]
}

type EgressSources = {
  readonly settings: Settings['network']
  readonly env: Env
  /** The place of a member of `network` in the file. */
  readonly place: (member: string) => string
  readonly instances: readonly Instance[]
  readonly networks: ReadonlyMap<string, NetworkDraft>
  /** Without an entry: not read, and not checked. */
  readonly certificates: SecretFiles
}

export type ResolvedEgress = {
  readonly network: Egress
  readonly instances: readonly Instance[]
  readonly problems: readonly Problem[]
  readonly warnings: readonly string[]
}

export const resolveEgress = (sources: EgressSources): ResolvedEgress => {
  const { settings, env, place, networks } = sources
  const problems: Problem[] = []
  const files = certificateReader(sources.certificates, problems)
  const from = (name: string, member: string) => (variable(env, name) === undefined ? place(member) : name)
  const rules = statedRules({ value: settings.proxy, from: from('NETWORK_PROXY', 'proxy') }, settings.noProxy, (name) =>
    variable(env, name),
  )
  problems.push(...rules.problems)
  const ca = files.trusted({ value: settings.ca, from: from('NETWORK_CA', 'ca') })
  const shared = { ...settings, tls: { ca, caOnly: settings.caOnly, client: null, serverName: null } }
  const network = egressOf(rules, shared)
  const instances = sources.instances.map((instance): Instance => {
    const draft = networks.get(instance.id)
    if (instance.provider.builtin) return instance
    if (!draft || Object.keys(draft).length === 0) return withProxy(instance, network)
    const own = draft.proxy ? ofProvider(draft.proxy, rules, env) : rules
    if (own !== rules) problems.push(...own.problems)
    const egress = egressOf(own, { ...shared, tls: files.tlsOf(draft, shared.tls) })
    if (draft.proxy && own.rules.https && !egress.proxyFor(new URL(instance.baseUrl)))
      problems.push({
        where: draft.proxy.from,
        found: `a proxy for ${new URL(instance.baseUrl).host}, which is reached directly: it is this machine or a metadata server`,
        allowed: 'a base URL of another machine, or none',
      })
    return { ...withProxy(instance, egress), network: statedBy(draft), egress }
  })
  return { network, instances, problems, warnings: [...rules.warnings, ...withoutEffect(env, settings)] }
}

const ofProvider = (proxy: Sourced<string>, network: ReadRules, env: Env): ReadRules => {
  if (proxy.value !== 'env') return ownRules(proxy)
  const rules = statedRules(proxy, [], (name) => variable(env, name))
  // Problems of the variables are stated once.
  return network.problems.length > 0 ? { ...rules, problems: [] } : rules
}

const withProxy = (instance: Instance, egress: Egress): Instance => {
  const proxy = egress.proxyFor(new URL(instance.baseUrl))
  return proxy ? { ...instance, proxy: proxy.name } : instance
}

const statedBy = ({ proxy, ca, caOnly, clientCert, serverName }: NetworkDraft): ProviderNetwork => ({
  ...(proxy && { proxy: new Secret(proxy.value) }),
  ...(ca && { ca: ca.value }),
  ...(caOnly && { caOnly: caOnly.value }),
  ...(clientCert && { clientCert: clientCert.value }),
  ...(serverName && { serverName: serverName.value }),
})

const egressOf = (
  { rules }: ReadRules,
  { tls, addresses, dns, maxConnectionAge }: Pick<Egress, 'tls' | 'addresses' | 'dns' | 'maxConnectionAge'>,
): Egress => {
  const proxies = [rules.https, rules.http].filter((proxy) => proxy !== null)
  const values = [
    rules,
    proxies.map(({ authorization }) => authorization?.reveal()),
    tls,
    tls.client?.key.reveal(),
    [addresses, dns, maxConnectionAge],
  ]
  return {
    id: createHash('sha256').update(JSON.stringify(values)).digest('base64url'),
    proxyFor: (url) => proxyFor(rules, url),
    proxies,
    tls,
    addresses,
    dns,
    maxConnectionAge,
  }
}

/** Reads certificates and keys, and adds what is wrong with them to the problems. */
const certificateReader = (files: SecretFiles, problems: Problem[]) => {
  const textOf = (path: string, from: string): string => {
    const file = files.get(path)
    if (!file) return ''
    if ('text' in file) return `${file.text}\n`
    problems.push({ where: from, found: `${quote(path)}, which ${file.fault}`, allowed: ALLOWED_FILE })
    return ''
  }
  const check = (
    path: string,
    { from, allowed }: { readonly from: string; readonly allowed: string },
    run: () => boolean,
  ) => {
    try {
      if (run()) return
    } catch {}
    problems.push({ where: from, found: quote(path), allowed })
  }
  const trusted = ({ value, from }: Sourced<readonly string[]>): string =>
    value
      .map((path) => {
        const text = textOf(path, from)
        if (text !== '') check(path, { from, allowed: 'a file with certificates in PEM' }, () => isPem(text))
        return text
      })
      .join('')
  const clientOf = ({ value: { cert, key }, from }: NonNullable<NetworkDraft['clientCert']>): EgressTls['client'] => {
    const [certText, keyText] = [textOf(cert, from), textOf(key, from)]
    if (certText === '' || keyText === '') return null
    check(cert, { from, allowed: 'a file with a certificate in PEM' }, () => isPem(certText))
    const allowed = 'a file with the key of the certificate, in PEM and without a passphrase'
    check(key, { from, allowed }, () => new X509Certificate(certText).checkPrivateKey(createPrivateKey(keyText)))
    return { cert: certText, key: new Secret(keyText) }
  }
  const tlsOf = ({ ca, caOnly, clientCert, serverName }: NetworkDraft, shared: EgressTls): EgressTls => {
    if (caOnly?.value && !ca) problems.push({ where: caOnly.from, found: 'caOnly without ca', allowed: 'ca as well' })
    if (serverName)
      check(serverName.value, { from: serverName.from, allowed: 'a host name' }, () => isName(serverName.value))
    const own = ca ? trusted(ca) : ''
    return {
      ca: caOnly?.value ? own : shared.ca + own,
      caOnly: caOnly?.value ?? shared.caOnly,
      client: clientCert ? clientOf(clientCert) : null,
      serverName: serverName?.value ?? null,
    }
  }
  return { trusted, tlsOf }
}

const CERTIFICATE = /-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----[^-]+-----END (?:TRUSTED |X509 )?CERTIFICATE-----/g

const isPem = (text: string): boolean => {
  const found = text.match(CERTIFICATE) ?? []
  return found.length > 0 && found.every((one) => new X509Certificate(one).serialNumber !== '')
}

const isName = (text: string): boolean => /^[a-z0-9_](?:[a-z0-9._-]*[a-z0-9])?$/i.test(text)

/** Verification cannot be turned off. */
const withoutEffect = (env: Env, { ca, caOnly }: Settings['network']): readonly string[] => [
  ...(variable(env, 'NODE_TLS_REJECT_UNAUTHORIZED') === '0'
    ? [
        'NODE_TLS_REJECT_UNAUTHORIZED=0 has no effect: certificates are verified. Add those that are missing to network.ca.',
      ]
    : []),
  ...(caOnly && ca.length === 0 ? ['network.caOnly (NETWORK_CA_ONLY) has no effect without network.ca.'] : []),
]
