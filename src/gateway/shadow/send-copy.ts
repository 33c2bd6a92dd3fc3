/** Sends one copy of a request to the target of its shadow, reads the answer, and compares the two. */
import type { Client, Team } from '../../core/accounts.ts'
import { isOwnLimit } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import { timeLetters } from '../../core/request-time.ts'
import type { Route } from '../../core/route.ts'
import type { LeftOut, ShadowPair, ShadowSide } from '../../core/shadow.ts'
import type { Candidate } from '../../core/target.ts'
import { BREAKPOINTS_HEADER, type TargetOverride } from '../../core/target-override.ts'
import type { Trace } from '../../core/trace.ts'
import { summaryOf } from '../../core/trace-summary.ts'
import { ComparedAnswer, copyConfig, SHADOW_TAG, SHADOW_TEAM, shadowName } from '../../policy/routing/shadow.ts'
import { chatShape } from '../../policy/routing/when.ts'
import type { ActiveCalls } from '../call/cancellation.ts'
import { randomLetters } from '../call/ids.ts'
import { ownClient, runOwnCall } from '../chat/own-call.ts'
import type { ChatDeps, PlannedCall } from '../chat/plan-call.ts'
import type { UpstreamHealth } from '../health/upstream-health.ts'
import { planFor } from '../routing/planner.ts'

/** ms for a whole copy. */
const LONGEST = 300_000

export type CopyDeps = {
  readonly gateway: ChatDeps
  /** Of copies alone. */
  readonly health: UpstreamHealth
  readonly activeCalls: ActiveCalls
  readonly team: Team
}

/** `answer`: what is compared of the client's own. */
export type CopiedRequest = {
  readonly call: PlannedCall
  readonly route: Route
  readonly answer: Pick<ShadowSide, 'tools' | 'characters' | 'finish'>
  readonly trace: Trace
}

/** `isUnpriced`: it has answered, and its cost is unknown. */
export type CopyOutcome = { readonly leftOut: LeftOut } | { readonly pair: ShadowPair; readonly isUnpriced: boolean }

export const sendCopy = async (deps: CopyDeps, copied: CopiedRequest): Promise<CopyOutcome> => {
  const { gateway, health, activeCalls } = deps
  const { call, route, answer, trace } = copied
  const { world } = gateway
  const config = copyConfig(call.config, route)
  const { inbound, received, protocol, request } = call
  const planned = planFor(gateway, config, {
    model: request.model,
    style: protocol.style,
    client: received.client,
    headers: received.headers,
    members: inbound.body,
    shape: chatShape(inbound.request),
    session: null,
  })
  if (!planned.ok) return { leftOut: 'forbidden' }
  // Further models of the request are no targets of its copy.
  const [first] = planned.value.candidates.filter((one) => one.isShadow)
  if (!first) return { leftOut: 'forbidden' }
  const candidate = call.turn ? unstored(first) : first
  const priced = { instance: candidate.instance, model: candidate.model, at: world.date() }
  const prices = gateway.prices()
  const isBuiltIn = candidate.instance.provider.builtin === true
  if (!isBuiltIn && prices.blendedPrice(priced) === undefined) return { leftOut: 'unpriced' }
  // What clients may not use now, copies do not use either; and what copies have found to be down.
  const keys = candidate.instance.keys.filter((key) =>
    [gateway.health, health].every((known) => known.refuses({ candidate, key }, config.settings, 'normal') === null),
  )
  if (keys.length === 0) return { leftOut: 'unavailable' }

  const plan = { ...planned.value, candidates: [candidate] }
  const copy = receivedCopy(deps, copied)
  if (await gateway.accounts.refusal(copy, STYLE, { members: {}, plan })) return { leftOut: 'budget' }
  const compared = new ComparedAnswer()
  const bodies = {
    open: (received: IncomingRequest) =>
      call.recorder.bodies === null ? null : (gateway.bodies?.open(received) ?? null),
  }
  const ended = await runOwnCall(
    { gateway, health, activeCalls, bodies },
    {
      ...{ protocol, style: STYLE, received: copy, plan, config },
      keysOf: () => keys,
      sent: { ...call.sent, headers: copy.headers },
      within: LONGEST,
      onEvents: (events) => compared.push(events),
    },
  )
  const other = sideOf(ended, compared.facts)
  if (other.provider === null) return { leftOut: isOwnLimit(other.failure ?? '') ? 'budget' : 'unavailable' }
  const pair = {
    id: copy.id,
    copy: copy.ownId ?? copy.id,
    at: world.date(),
    style: protocol.style,
    stream: request.stream,
    own: sideOf(trace, answer),
    other,
  }
  return { pair, isUnpriced: other.failure === null && other.cost === null }
}

/** The kind of call in the ledger. */
const STYLE = 'shadow'

/** The answer is not stored at the provider: a format with stored turns stores answers by default. */
const unstored = (candidate: Candidate): Candidate => {
  const override: TargetOverride = { ...candidate.override, default: { store: false, ...candidate.override?.default } }
  return { ...candidate, override }
}

/**
 * The request of the copy: of the team for shadows, and with the headers of its format alone, since others may be credentials. The
 * ledger has the client's request as the one that it was made for.
 */
const receivedCopy = ({ gateway, team }: CopyDeps, { call, route }: CopiedRequest): IncomingRequest => {
  const { received, sent } = call
  const { world } = gateway
  const headers: HeaderLookup = (name) => (KEPT.has(name) ? received.headers(name) : undefined)
  return {
    id: received.ownId ?? received.id,
    ownId: `req_${timeLetters(world.date())}${randomLetters(world, 13)}`,
    method: 'POST',
    path: received.path,
    query: received.query,
    headers,
    body: sent.source,
    client: shadowClient(team, route, call.recorder.bodies !== null),
  }
}

const KEPT: ReadonlySet<string> = new Set([
  'anthropic-beta',
  'anthropic-version',
  'openai-beta',
  'x-headgate-no-log',
  BREAKPOINTS_HEADER,
])

const shadowClient = (team: Team, { name }: Route, logBodies: boolean): Client =>
  ownClient(team, { name: SHADOW_TEAM, tags: { [SHADOW_TAG]: shadowName(name) }, logBodies })

const sideOf = (trace: Trace, facts: Pick<ShadowSide, 'tools' | 'characters' | 'finish'>): ShadowSide => {
  const { provider, upstreamModel, status, outcome, failure, usage, ...summary } = summaryOf(trace)
  return {
    provider: provider ?? null,
    model: upstreamModel ?? null,
    status,
    failure: outcome === 'answered' ? null : (failure?.kind ?? outcome),
    firstContentMs: summary.firstContentMs,
    totalMs: summary.totalMs,
    inputTokens: usage?.input ?? null,
    outputTokens: usage?.output ?? null,
    isEstimated: summary.estimated === true,
    cost: summary.isPriceAssumed ? null : (summary.cost ?? null),
    ...facts,
  }
}
