/** How a drill plans for a class of clients, and encodes for a target. */
import { ANONYMOUS, type Client } from '../../core/accounts.ts'
import type { ChatRequest } from '../../core/chat.ts'
import type { Config } from '../../core/config.ts'
import { REQUIRE_HEADER } from '../../core/data-policy.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import type { ClientProtocol } from '../../core/protocol.ts'
import type { Plan } from '../../core/target.ts'
import type { ReachClass } from '../../policy/drill/access-class.ts'
import { type Planner, planFor } from '../routing/planner.ts'
import type { InboundRequest } from '../upstream/outbound-request.ts'

/** The plan of a route for a class of clients; null: it may use no target now. */
export const classPlan = (planner: Planner, config: Config, model: string, reach: ReachClass): Plan | null => {
  const client: Client = { ...ANONYMOUS, access: reach.access }
  const headers = (name: string) => (name === REQUIRE_HEADER ? (reach.require ?? undefined) : undefined)
  const planned = planFor(planner, config, {
    ...{ model, client, headers, style: 'chat', members: {}, shape: null, isExpected: true },
  })
  return planned.ok ? planned.value : null
}

/** A request that has a canonical form only: it is encoded for its target as a request of another style is. */
export const canonicalRequest = (
  protocol: ClientProtocol,
  request: ChatRequest,
  source: IncomingRequest['body'] = { text: '' },
): InboundRequest => ({
  ...{ protocol, request, source, body: {}, members: [], headers: () => undefined },
  reencode: { without: [] },
})
