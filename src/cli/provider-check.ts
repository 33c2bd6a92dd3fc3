/** Checks provider keys by fetching the provider's model list, which no provider charges for. */

import { loadProviders } from '../config/catalogue/load-providers.ts'
import { readEnvironment } from '../config/load.ts'
import type { FullConfig } from '../core/config.ts'
import type { Instance, ProviderKey } from '../core/provider.ts'
import { demoUpstream } from '../demo/demo.ts'
import { identityOf, providerHeaders } from '../gateway/upstream/outbound-request.ts'
import { dialer } from '../transport/client/dial.ts'
import { signing } from '../transport/identity/signing.ts'
import type { CliHost } from './cli.ts'

export type KeyCheck = {
  readonly provider: string
  /** The key's ID. */
  readonly key: string
  /** Null: not checked. */
  readonly ok: boolean | null
  readonly detail: string
  /** The provider's clock minus ours in ms; null: unknown. */
  readonly clock: number | null
}

/** Time limit of a call in ms. */
const TIMEOUT = 10_000

/** Checks every key of these providers at the same time. */
export const checkKeys = async (
  { instances, network }: Pick<FullConfig, 'instances' | 'network'>,
  host: CliHost,
): Promise<readonly KeyCheck[]> => {
  const plainDialer = dialer({ inProcess: demoUpstream(), egress: () => network })
  const signed = signing({
    dial: plainDialer.dial,
    environment: async () => readEnvironment({ ...host, providers: await loadProviders() }),
    // The failure of the call contains the reason.
    report: () => {},
  })
  const all = instances.flatMap((instance) => instance.keys.map((key) => checkKey(instance, key, signed.dial)))
  const checks = await Promise.all(all)
  signed.close()
  await plainDialer.close()
  return checks
}

const checkKey = (instance: Instance, key: ProviderKey, dial: ReturnType<typeof dialer>['dial']): Promise<KeyCheck> =>
  new Promise((resolve) => {
    const { models } = instance.provider
    const found = { provider: instance.id, key: key.id, clock: null }
    if (instance.provider.builtin) return resolve({ ...found, ok: null, detail: 'built in' })
    if (!models) return resolve({ ...found, ok: null, detail: 'this provider has no model list to fetch' })
    const begun = performance.now()
    const identity = identityOf(instance, key)
    const finish = (check: Pick<KeyCheck, 'ok' | 'detail' | 'clock'>) => {
      clearTimeout(timer)
      call.abort()
      resolve({ ...found, ...check })
    }
    const call = dial(
      {
        ...(identity && { identity }),
        egress: instance.egress,
        method: 'GET',
        url: instance.baseUrl + models.path,
        headers: { accept: 'application/json', ...providerHeaders(instance, key) },
        connectTimeout: TIMEOUT,
      },
      {
        onHeaders: (status, headers) => {
          const date = Date.parse(headers('date') ?? '')
          const took = Math.round(performance.now() - begun)
          finish({ ...verdict(status, took), clock: Number.isNaN(date) ? null : date - Date.now() })
        },
        onBody: () => true,
        onEnd: () => {},
        onFailure: ({ message }) => finish({ ok: false, detail: message, clock: null }),
      },
    )
    const timer = setTimeout(finish, TIMEOUT, {
      ok: false,
      detail: `no answer within ${TIMEOUT / 1_000} s`,
      clock: null,
    })
  })

const verdict = (status: number, ms: number): Pick<KeyCheck, 'ok' | 'detail'> => {
  if (status >= 200 && status < 300) return { ok: true, detail: `accepted in ${ms} ms` }
  if (status === 401 || status === 403) return { ok: false, detail: `the key is not accepted (status ${status})` }
  if (status === 404 || status === 405) return { ok: null, detail: `no model list at this address (status ${status})` }
  return { ok: false, detail: `status ${status}` }
}
