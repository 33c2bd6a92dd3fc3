/** Uses of `auth.admin` where people sign in: the way in when the issuer is down, and a trace of each other use. */

import type { Gateway } from '../../gateway/gateway.ts'
import { addressGroup } from '../../policy/health/shed.ts'
import type { RunOperation } from '../../records/store/record-operations.ts'
import type { AdminRequest } from '../admin-request.ts'
import { BOOTSTRAP } from './actor.ts'
import { SESSION_CONTEXT } from './sessions.ts'

/** ms in which uses from one address are one entry: a script makes thousands. */
const ONE_USE = 600_000
const MAX_ADDRESSES = 1_000

export class BreakGlass {
  readonly #run: RunOperation
  readonly #emit: Gateway['emit']
  readonly #now: () => number
  /** The last entry of each address. */
  readonly #noted = new Map<string, number>()

  constructor(run: RunOperation, { emit, world }: Pick<Gateway, 'emit' | 'world'>) {
    this.#run = run
    this.#emit = emit
    this.#now = world.date
  }

  /** Notes a use in the audit log, for the log and for alerts. What cannot be noted is logged by the store, and prevents nothing. */
  used({ address, id, method, path }: Pick<AdminRequest, 'address' | 'id' | 'method' | 'path'>): void {
    const network = addressGroup(address)
    const now = this.#now()
    if (now - (this.#noted.get(network) ?? Number.NEGATIVE_INFINITY) < ONE_USE) return
    this.#noted.delete(network)
    this.#noted.set(network, now)
    const [oldest] = this.#noted.keys()
    if (this.#noted.size > MAX_ADDRESSES && oldest !== undefined) this.#noted.delete(oldest)
    this.#emit({ event: 'break_glass', id, address })
    const { kind, id: actor, name } = BOOTSTRAP
    const context = { ...SESSION_CONTEXT, actor: { kind, id: actor, name }, from: address, requestId: id }
    void this.#run({ do: 'note', action: 'breakglass.use', object: actor, details: { method, path } }, context)
  }
}
