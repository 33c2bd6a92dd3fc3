/** How rules with a service are asked. The code for it is loaded with the first question. */
import type { GuardService } from '../../core/guard.ts'
import type { ServiceOf } from '../../policy/guards/verdict.ts'
import type { ServiceClient, ServiceClientOptions } from './service-client.ts'

/**
 * A client lasts as long as the configuration that has its service: a reload begins without a pause, and forgets what was blocked.
 * Most gateways ask no service, and do not load the code.
 */
export const serviceRules = (options: ServiceClientOptions): ServiceOf => {
  const clients = new WeakMap<GuardService, Promise<ServiceClient>>()
  const open = async (service: GuardService): Promise<ServiceClient> => {
    const { ServiceClient } = await import('./service-client.ts')
    return new ServiceClient(service, options)
  }
  return (rule) => {
    const { service } = rule
    if (!service) return null
    return async (texts, call, about) => {
      const client = clients.get(service) ?? open(service)
      clients.set(service, client)
      return (await client).ask({ rule, call, texts, ...about })
    }
  }
}
