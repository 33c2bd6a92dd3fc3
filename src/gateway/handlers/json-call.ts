/**
 * A call whose answer is one JSON body instead of text: a token count, embeddings. It is routed like every other call
 * (`routing/router.ts`); only its request and the reading of its answer differ.
 */
import type { Usage } from '../../core/chat.ts'
import type { Config } from '../../core/config.ts'
import { type EncodedText, outgoingBody } from '../../core/encoded-text.ts'
import { type Failure, fail, type Outcome } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import type { Json } from '../../core/json.ts'
import type { UpstreamProtocol } from '../../core/protocol.ts'
import type { Auth, ProviderKey, Quirks } from '../../core/provider.ts'
import type { Settings } from '../../core/settings.ts'
import type { Candidate, Plan, Target } from '../../core/target.ts'
import type { RunningCall } from '../call/call-lifecycle.ts'
import { type RoutingDeps, routeContextOf } from '../routing/route-context.ts'
import { type NotRouted, type Routed, route } from '../routing/router.ts'
import { Attempt } from '../upstream/attempt.ts'
import { batchedDial, PARTS_IN_FLIGHT } from '../upstream/batched-call.ts'
import type { AnswerFormat } from '../upstream/body-reader.ts'
import { encodeInTurns } from '../upstream/late-body.ts'
import { type Compatibility, identityOf } from '../upstream/outbound-request.ts'

/** The request for one candidate, and how its answer is read. */
export type JsonRequest<T> = Compatibility & {
  readonly url: string
  readonly headers: (key: ProviderKey) => Readonly<Record<string, string>>
  readonly auth: Auth
  readonly body: EncodedText
  /** Bodies of several calls instead of `body`. `read` receives the list of their answers. */
  readonly parts?: readonly EncodedText[]
  readonly read: (body: Json) => Outcome<JsonAnswer<T>>
  readonly decodeFailure: UpstreamProtocol['decodeFailure']
  /** The provider's error table. */
  readonly quirks: Pick<Quirks, 'errors'> | undefined
}

/** The decoded answer. */
export type JsonAnswer<T> = { readonly value: T; readonly usage?: Usage }

/** One JSON call, for the router. */
export type JsonCall<T> = {
  readonly received: Pick<IncomingRequest, 'client' | 'headers' | 'memoryOwner'>
  readonly running: Pick<RunningCall, 'cancellation' | 'recorder'>
  readonly plan: Plan
  readonly config: Config
  /** ms; 0: unlimited. */
  readonly timeout: number
  readonly keysOf: (candidate: Candidate) => Iterable<ProviderKey>
  readonly prepare: (candidate: Candidate) => JsonRequest<T> | null
  /** The request to send to the same target after a failure. Null or absent: none. */
  readonly adapt?: (candidate: Candidate, failure: Failure) => JsonRequest<T> | null
  /** Receives the header block of each target's response. */
  readonly onHeaders: (target: Target, headers: HeaderLookup) => void
}

/** `value`: the decoded answer; `answerStream.whole` is its text. The caller ends the permit. */
export type JsonRouted<T> = Routed<JsonRequest<T>> & { readonly value: T }

/** Routes the call and decodes its answer. */
export const routeJson = async <T>(deps: RoutingDeps, call: JsonCall<T>): Promise<JsonRouted<T> | NotRouted> => {
  const { activeCalls } = deps
  const tape = deps.tape?.json(call.received.headers)
  const { plan, config, timeout, keysOf, onHeaders } = call
  const { client, memoryOwner } = call.received
  const { cancellation, recorder } = call.running
  const { settings } = config
  const requests = new Map<Candidate, JsonRequest<T> | null>()
  const prepare = ({ candidate }: Target): JsonRequest<T> | null => {
    const known = requests.get(candidate)
    if (known !== undefined) return known
    const request = call.prepare(candidate)
    requests.set(candidate, request)
    return request
  }
  /** By the target that answered: a probe and its hedge may both answer. */
  const decoded = new Map<Target, JsonAnswer<T>>()
  const begin = (target: Target, request: JsonRequest<T>, traced?: Readonly<Record<string, string>>): Attempt => {
    const { url, headers, auth, body, parts, read, decodeFailure, quirks } = request
    const { instance } = target.candidate
    const world = tape ? { ...deps.world, dial: tape.dial(target, null) } : deps.world
    const sending = { activeCalls, world: parts ? { ...world, dial: batchedDial(world.dial, parts) } : world }
    return new Attempt(sending, {
      url,
      headers: headers(target.key),
      traced,
      identity: identityOf(instance, target.key, auth),
      egress: instance.egress,
      body: outgoingBody(body),
      protocol: formatOf(decodeFailure, (answer) => {
        const outcome = read(answer)
        if (outcome.ok) decoded.set(target, outcome.value)
        return outcome
      }),
      quirks,
      key: target.key,
      ...(instance.headers && { secrets: Object.values(instance.headers) }),
      translated: null,
      stream: false,
      holdbackMs: Number.POSITIVE_INFINITY,
      allowEmptyText: true,
      skipMalformedEvents: false,
      settings: parts ? withRounds(settings, Math.ceil(parts.length / PARTS_IN_FLIGHT)) : settings,
      override: target.candidate.override,
      client: memoryOwner,
      ...(recorder.bodies && { bodies: recorder.bodies }),
      onHeaders: (headers) => onHeaders(target, headers),
    })
  }
  const retrySameTarget = ({ candidate }: Target, failure: Failure): boolean => {
    const adapted = call.adapt?.(candidate, failure) ?? null
    if (adapted) requests.set(candidate, adapted)
    return adapted !== null
  }
  activeCalls.startDeadline(deps.world, cancellation, timeout)
  try {
    const routed = await route(deps, routeContextOf({ client, plan, config, keysOf, running: call.running }), {
      prepare,
      makeReady: ({ body }) => encodeInTurns(body, deps.world.turn),
      begin,
      sentText: ({ body }) => body.text,
      retrySameTarget,
      hedgesProbes: true,
    })
    if (!routed.ok) return routed
    const answer = decoded.get(routed.target)
    if (!answer) throw new Error('the answer of this JSON call was not decoded')
    return { ...routed, value: answer.value }
  } finally {
    cancellation.clearDeadline()
  }
}

/** Parts that are sent one after another take as much time as that many calls. */
const withRounds = (settings: Settings, rounds: number): Settings => ({
  ...settings,
  circuit: { ...settings.circuit, timeout: settings.circuit.timeout * rounds },
})

/** The answer as events for the attempt: its usage and its end. */
const formatOf = (
  decodeFailure: UpstreamProtocol['decodeFailure'],
  read: (body: Json) => Outcome<JsonAnswer<unknown>>,
): AnswerFormat => ({
  decodeFailure,
  decodeAnswer: (body) => {
    const outcome = read(body)
    if (!outcome.ok) return [{ type: 'failure', failure: outcome.failure }]
    const { usage } = outcome.value
    return [
      ...(usage ? [{ type: 'usage', usage } as const] : []),
      { type: 'finish', finish: { kind: 'stop', raw: null } },
    ]
  },
  decodeStream: () => ({
    push: () => [],
    end: () => [{ type: 'failure', failure: fail('malformed', 'the upstream answered with a stream instead of JSON') }],
  }),
})
