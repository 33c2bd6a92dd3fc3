/** Serves the endpoints that are routed and not translated (`core/relay.ts`): parse, plan, route, answer, record. */
import type { Config } from '../../core/config.ts'
import type { EncodedText } from '../../core/encoded-text.ts'
import type { IncomingRequest, ResponseWriter } from '../../core/http-exchange.ts'
import { RELAY_ROWS, RELAYS, type RelayName, type RelayRow } from '../../core/relay.ts'
import type { Plan } from '../../core/target.ts'
import { draftFor } from '../../policy/routing/plan-ability.ts'
import { protocols } from '../../protocols/index.ts'
import type { Eventual } from '../accounts/authority.ts'
import { relayDemand } from '../accounts/demand.ts'
import { type RunningCall, runCall } from '../call/call-lifecycle.ts'
import { recordDisconnect, writeAndRecordAnswer, writeAndRecordError } from '../call/recorder.ts'
import { passGuards, withTexts } from '../guards/check-request.ts'
import { guardsFor } from '../guards/choose-guards.ts'
import { keyOrder, type ModelCallDeps, planFor } from '../routing/planner.ts'
import { type Routed, route } from '../routing/router.ts'
import { type PreparedRelay, RelayAttempts } from './relay-attempts.ts'
import { parseRelay, type RelayRequest } from './relay-request.ts'

/** Errors are encoded in OpenAI's format. */
const protocol = protocols['openai-chat']

/** One call of an endpoint. */
type RelayCall = {
  readonly name: RelayName
  readonly received: IncomingRequest
  readonly responseWriter: ResponseWriter
}

/** How the targets of each endpoint are planned. */
const DRAFTS = Object.fromEntries(
  RELAY_ROWS.map(([name]) => [
    name,
    draftFor({
      name,
      modelsOf: ({ relays }) => relays?.[name]?.models,
      // The default is the first of the provider's: names of configured models do not show what they are for.
      isName: () => false,
      remedy: 'The table of providers in /docs/providers shows which have it.',
    }),
  ]),
  // Every endpoint has one.
) as { readonly [name in RelayName]: ReturnType<typeof draftFor> }

/** Serves one call. */
export const serveRelay = (gateway: ModelCallDeps, { name, received, responseWriter }: RelayCall): Promise<void> =>
  runCall({ gateway, protocol, style: name, received, responseWriter }, async (call) => {
    const { cancellation, recorder } = call
    const row: RelayRow = RELAYS[name]
    const config = gateway.config()
    const parsed = await parseRelay(row, received.body, config.settings.limit, gateway.world.turn)
    if (!parsed.ok) return writeAndRecordError(call, parsed.failure, null)
    const { model, body: members, tokens } = parsed.value
    const blocked = recorder.received({ model, stream: false, members })
    if (blocked) return writeAndRecordError(call, blocked, null)
    const plan = planFor(gateway, config, {
      model,
      style: name,
      client: received.client,
      drafting: DRAFTS[name],
    })
    if (!plan.ok) return writeAndRecordError(call, plan.failure, null)
    recorder.account.describe(relayDemand({ members, model, plan: plan.value, ...tokens }))
    const request = await guarded(gateway, { name, row, received, call, plan: plan.value, parsed: parsed.value })
    if (!request) return

    const { settings } = config
    gateway.activeCalls.startDeadline(gateway.world, cancellation, settings.timeout.request)
    try {
      const attempts = new RelayAttempts(gateway, { name, row, request, received, settings, recorder })
      const routed = await route(gateway, contextOf(gateway, call, { received, config, plan: plan.value }), attempts)
      if (cancellation.reason?.kind === 'client_gone') {
        if (routed.ok) routed.permit.release()
        return recordDisconnect(call, cancellation.reason)
      }
      if (!routed.ok) return writeAndRecordError(call, routed.failure, routed.availableIn)
      sendWhole(call, request, routed, attempts.typeOf(routed.target))
    } finally {
      cancellation.clearDeadline()
    }
  })

/** A call that has a plan. */
type GuardableRelay = {
  readonly name: RelayName
  readonly row: RelayRow
  readonly received: IncomingRequest
  readonly call: RunningCall
  readonly plan: Plan
  readonly parsed: RelayRequest
}

/** What targets receive; null: the call has been answered. */
const guarded = (
  gateway: ModelCallDeps,
  { name, row, received, call, plan, parsed }: GuardableRelay,
): Eventual<RelayRequest | null> => {
  const guards = guardsFor(gateway, { received, plan, style: name })
  if (guards.length === 0) return parsed
  const { turn } = gateway.world
  const { limit } = gateway.config().settings
  const parse = (source: EncodedText) => parseRelay(row, source, limit, turn)
  const change = (replace: ReadonlyMap<string, string>) => withTexts(parsed, replace, { parse, turn })
  return passGuards({ guards, request: parsed, own: parsed, reply: call, change })
}

type PlannedRelay = { readonly received: IncomingRequest; readonly config: Config; readonly plan: Plan }

const contextOf = (
  gateway: ModelCallDeps,
  { cancellation, recorder }: RunningCall,
  { received, config, plan }: PlannedRelay,
): Parameters<typeof route>[1] => ({
  id: recorder.id,
  client: received.client,
  plan,
  config,
  deadline: cancellation.until,
  stop: cancellation,
  keysOf: keyOrder(gateway, config, null),
  account: recorder.account,
  note: (event) => recorder.note(event),
})

const sendWhole = (
  call: RunningCall,
  { tokens }: RelayRequest,
  routed: Routed<PreparedRelay>,
  type: string | undefined,
): void => {
  const { recorder } = call
  const { answerStream, permit } = routed
  permit.done()
  const usage = answerStream.usage()
  recorder.used(usage ? { usage } : { usage: tokens, estimated: true })
  recorder.answeredBy(routed)
  const headers = { ...recorder.answerHeaders(), 'content-type': mediaType(type) }
  writeAndRecordAnswer(call, answerStream.whole ?? '', { headers })
}

/** Types of answers. Any other could be run by a browser. */
const TYPE =
  /^(?:application\/(?:json|octet-stream|x-subrip)|text\/(?:plain|vtt))(?:\s*;\s*charset="?[a-z0-9-]{1,20}"?)?$/i

const mediaType = (type: string | undefined): string =>
  type !== undefined && TYPE.test(type.trim()) ? type.trim() : 'application/json'
