/** Checks each proxy by one connection through it to the first provider that it leads to. Nothing is requested there. */
import type { ForwardProxy } from '../core/forward-proxy.ts'
import type { Instance } from '../core/provider.ts'
import type { ProxyRules } from '../policy/egress/proxy-rules.ts'
import { connectTo, destinationOf } from '../transport/client/connect.ts'

/** A finding for `doctor`. */
export type ProxyFinding = { readonly status: 'ok' | 'warning' | 'failed'; readonly detail: string }

/** Time limit of a connection in ms. */
const TIMEOUT = 10_000

export const checkProxies = async (
  { https, http }: ProxyRules,
  instances: readonly Instance[],
): Promise<readonly ProxyFinding[]> => {
  // One proxy for both schemes is checked with the https one, which more providers use.
  const all = [https, http]
    .filter((proxy) => proxy !== null)
    .filter((proxy, at, list) => list.findIndex(({ name }) => name === proxy.name) === at)
  if (all.length === 0) return [{ status: 'ok', detail: 'none is configured' }]
  const checks = await Promise.all(all.map((proxy) => checkProxy(proxy, instances)))
  const direct = instances.filter(({ proxy, provider }) => proxy === undefined && !provider.builtin)
  const missed = https === null ? direct.filter(({ baseUrl }) => baseUrl.startsWith('https:')) : []
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

const idsOf = (instances: readonly Instance[]): string => instances.map(({ id }) => id).join(', ')

const checkProxy = (proxy: ForwardProxy, instances: readonly Instance[]): Promise<ProxyFinding> =>
  new Promise((resolve) => {
    const users = instances.filter((instance) => instance.proxy === proxy.name)
    const name = `${proxy.name} (${proxy.variable})`
    const [first] = users
    if (!first) return resolve({ status: 'warning', detail: `${name} leads to no provider` })
    const destination = destinationOf(new URL(first.baseUrl), undefined, proxy)
    const begun = performance.now()
    connectTo(destination, { allowed: TIMEOUT }, (failure, socket) => {
      socket.destroy()
      const took = Math.round(performance.now() - begun)
      if (!failure) resolve({ status: 'ok', detail: `${name} connects in ${took} ms, for ${idsOf(users)}` })
      else resolve({ status: 'failed', detail: `${name}, for ${idsOf(users)}: ${failure.message}` })
    })
  })
