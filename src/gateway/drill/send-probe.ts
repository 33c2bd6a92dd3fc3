/** Sends the smallest request of a shape to one target, as a call of the gateway's own. */
import type { Team } from '../../core/accounts.ts'
import { type ChatEvent, fold } from '../../core/chat.ts'
import type { Config } from '../../core/config.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import type { Nano } from '../../core/money.ts'
import { timeLetters } from '../../core/request-time.ts'
import type { Candidate, Plan } from '../../core/target.ts'
import { summaryOf } from '../../core/trace-summary.ts'
import type { ProbeOutcome } from '../../policy/drill/cover.ts'
import { DRILL_TEAM, probeOutcome } from '../../policy/drill/live-rules.ts'
import type { Shape } from '../../policy/drill/shape.ts'
import { smallestRequest } from '../../policy/drill/smallest.ts'
import { oneAttempt } from '../../policy/retry/one-attempt.ts'
import { shadowName } from '../../policy/routing/shadow.ts'
import { clientProtocolByStyle } from '../../protocols/index.ts'
import { textDemand } from '../accounts/demand.ts'
import type { ActiveCalls } from '../call/cancellation.ts'
import { randomLetters } from '../call/ids.ts'
import { ownClient, runOwnCall } from '../chat/own-call.ts'
import type { ChatDeps } from '../chat/plan-call.ts'
import { UpstreamHealth } from '../health/upstream-health.ts'
import { canonicalRequest } from './class-plan.ts'

/** ms for a live check. */
const LONGEST = 60_000
/** The kind of call in the ledger. */
const STYLE = 'drill'

export type ProbeDeps = {
  readonly gateway: ChatDeps
  readonly activeCalls: ActiveCalls
  readonly team: Team
}

export type Probe = { readonly route: string; readonly candidate: Candidate; readonly shape: Shape }

/** `estimate`: what it is expected to cost; null: unknown, so it is not sent. `send`: `own`: a limit of the gateway refused it. */
export type ReadyProbe = {
  readonly estimate: Nano | null
  readonly send: () => Promise<{ readonly outcome: ProbeOutcome | 'own'; readonly cost: Nano | null }>
}

/** Null: the target has no key that may be used now. */
export const readyProbe = (deps: ProbeDeps, { route, candidate, shape }: Probe): ReadyProbe | null => {
  const { gateway, activeCalls, team } = deps
  const { world, catalogue } = gateway
  const settings = oneAttempt(gateway.config().settings)
  const config: Config = { ...gateway.config(), settings }
  const protocol = clientProtocolByStyle.get(shape.style)
  const keys = candidate.instance.keys.filter(
    (key) => gateway.health.refuses({ candidate, key }, settings, 'normal') === null,
  )
  if (!protocol || keys.length === 0) return null
  // What it learns is not kept: a refusal must not keep the next check from being sent, nor a request of a client.
  const health = new UpstreamHealth(world, () => {})
  const facts = gateway.health.limits.factsOf(catalogue, candidate)
  const request = smallestRequest(shape, candidate.model, facts?.capabilities?.includes('reasoning') === true)
  const id = `req_${timeLetters(world.date())}${randomLetters(world, 13)}`
  const received: IncomingRequest = {
    ...{ id, method: 'POST', path: protocol.path, query: '', headers: () => undefined },
    body: { text: JSON.stringify(request) },
    client: ownClient(team, { name: DRILL_TEAM, tags: { [DRILL_TEAM]: shadowName(route) } }),
  }
  const sent = canonicalRequest(protocol, request, received.body)
  const plan: Plan = { by: 'route', route, candidates: [candidate], skipped: [] }
  const demand = textDemand({ request, members: {}, body: received.body, plan })
  const priced = { instance: candidate.instance, model: candidate.model, at: world.date() }
  const isPriced = gateway.prices().blendedPrice(priced) !== undefined
  const send = async () => {
    const events: ChatEvent[] = []
    const trace = await runOwnCall(
      { gateway, health, activeCalls, bodies: { open: () => null } },
      {
        ...{ protocol, style: STYLE, received, plan, config, sent, within: LONGEST },
        keysOf: () => keys,
        onEvents: (more) => void events.push(...more),
      },
    )
    const { outcome, failure, cost = null, isPriceAssumed } = summaryOf(trace)
    const { finish, usage } = fold(events)
    const isWhole = outcome === 'answered' && finish !== undefined && usage !== undefined
    const isSpent = OUTPUT_SPENT.test(failure?.upstream?.message ?? '')
    const kind = isWhole ? null : isSpent ? 'truncated' : (failure?.kind ?? 'truncated')
    return { outcome: probeOutcome(kind), cost: isPriceAssumed ? null : cost }
  }
  return {
    estimate: isPriced
      ? gateway.accounts.estimate(received, demand, { candidate, modelMaximum: facts?.maxOutputTokens })
      : null,
    send,
  }
}

/**
 * A model reasons although the catalogue does not say so, and the output limit left it no room: it has taken the request. Source:
 * weave-os/router#589 (OpenAI answers with 400).
 */
const OUTPUT_SPENT = /max_tokens or model output limit was reached/i
