/** Checks each proxy by one connection through it to the first provider that it leads to. Nothing is requested there. */
import type { FullConfig } from '../core/config.ts'
import { type Egress, egressesOf } from '../core/egress.ts'
import type { ForwardProxy } from '../core/forward-proxy.ts'
import type { Instance } from '../core/provider.ts'
import { connectTo, destinationOf } from '../transport/client/connect.ts'

/** A finding for `doctor`. */
export type ProxyFinding = { readonly status: 'ok' | 'warning' | 'failed'; readonly detail: string }

/** Time limit of a connection in ms. */
const TIMEOUT = 10_000

export const checkProxies = async (
  config: Pick<FullConfig, 'instances' | 'network'>,
): Promise<readonly ProxyFinding[]> => {
  const { network, instances } = config
  const all = egressesOf(config)
    .flatMap(({ proxies }) => proxies)
    .filter((proxy, at, list) => list.findIndex(({ name }) => name === proxy.name) === at)
  if (all.length === 0) return [{ status: 'ok', detail: 'none is configured' }]
  const checks = await Promise.all(all.map((proxy) => checkProxy(proxy, config)))
  const direct = instances.filter(({ proxy, provider }) => proxy === undefined && !provider.builtin)
  const [http] = network.proxies
  // A proxy for http addresses only.
  const missed = http && !network.proxyFor(ANYWHERE) ? direct.filter(isMissed) : []
  return [
    ...checks,
    ...(missed.length > 0 && http
      ? [
          {
            status: 'warning' as const,
            detail: `${http.variable} does not apply to https addresses: ${idsOf(missed)} would be reached directly. Set HTTPS_PROXY.`,
          },
        ]
      : []),
    ...(direct.length > missed.length
      ? [
          {
            status: 'ok' as const,
            detail: `reached directly, by NO_PROXY or as this machine: ${idsOf(direct.filter((one) => !missed.includes(one)))}`,
          },
        ]
      : []),
  ]
}

/** An address that no list of hosts names. */
const ANYWHERE = new URL('https://headgate.invalid')

const isMissed = ({ baseUrl, network }: Instance): boolean =>
  baseUrl.startsWith('https:') && network?.proxy === undefined

const idsOf = (instances: readonly Instance[]): string => instances.map(({ id }) => id).join(', ')

const wayOf = ({ tls }: Egress) => ({ trust: { tls } })

const checkProxy = (
  proxy: ForwardProxy,
  { instances, network }: Pick<FullConfig, 'instances' | 'network'>,
): Promise<ProxyFinding> =>
  new Promise((resolve) => {
    const users = instances.filter((instance) => instance.proxy === proxy.name)
    const name = `${proxy.name} (${proxy.variable})`
    const [first] = users
    if (!first) return resolve({ status: 'warning', detail: `${name} leads to no provider` })
    const destination = destinationOf(new URL(first.baseUrl), wayOf(first.egress ?? network), proxy)
    const begun = performance.now()
    connectTo(destination, { allowed: TIMEOUT }, (failure, socket) => {
      socket.destroy()
      const took = Math.round(performance.now() - begun)
      if (!failure) resolve({ status: 'ok', detail: `${name} connects in ${took} ms, for ${idsOf(users)}` })
      else resolve({ status: 'failed', detail: `${name}, for ${idsOf(users)}: ${failure.message}` })
    })
  })
