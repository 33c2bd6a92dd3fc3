/** The attempts of a relayed request, for the router. */
import { type OutgoingBody, outgoingBody } from '../../core/encoded-text.ts'
import type { Failure } from '../../core/failure.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import type { JsonObject } from '../../core/json.ts'
import { pathSegment } from '../../core/path-segment.ts'
import type { RelayName, RelayRow, RelaySupport } from '../../core/relay.ts'
import type { Settings } from '../../core/settings.ts'
import type { Candidate, Target } from '../../core/target.ts'
import { wasNotStarted } from '../../policy/retry/retry-safety.ts'
import type { Recorder } from '../call/recorder.ts'
import type { AttemptSpec } from '../routing/attempt-spec.ts'
import type { RouterDeps } from '../routing/route-context.ts'
import { Attempt } from '../upstream/attempt.ts'
import type { AnswerFormat } from '../upstream/body-reader.ts'
import { clientHeadersFor, withheldHeaders } from '../upstream/client-headers.ts'
import { type Compatibility, identityOf, providerHeaders } from '../upstream/outbound-request.ts'
import { asksForEvents, isSentWhole, relayFormat } from './relay-answer.ts'
import type { RelayRequest } from './relay-request.ts'

/** The request for one candidate. */
export type PreparedRelay = Compatibility & { readonly url: string; readonly body: () => OutgoingBody }

type RelayAttemptsInput = {
  readonly name: RelayName
  readonly row: RelayRow
  readonly request: RelayRequest
  readonly received: Pick<IncomingRequest, 'headers' | 'memoryOwner'>
  readonly settings: Settings
  readonly recorder: Recorder
}

export class RelayAttempts implements AttemptSpec<PreparedRelay> {
  readonly hedgesProbes: boolean
  /** The answer is sent when it is complete. */
  readonly isWhole: boolean
  readonly #deps: RouterDeps
  readonly #input: RelayAttemptsInput
  readonly #format: AnswerFormat
  readonly #prepared = new Map<Candidate, PreparedRelay | null>()
  /** The media types of answers, by the target: a probe and another attempt may both answer. */
  readonly #types = new Map<Target, string>()
  /** The last body, because a copy of a large one takes memory. */
  #body: { readonly model: string; readonly body: OutgoingBody } | null = null

  constructor(deps: RouterDeps, input: RelayAttemptsInput) {
    this.#deps = deps
    this.#input = input
    const { row, request } = input
    this.hedgesProbes = !row.isPaidPerAttempt
    this.isWhole = isSentWhole(row, request.body)
    this.#format = relayFormat({ row, isEvents: asksForEvents(row, request.body), units: request.units })
  }

  /** The media type of the answer of a target. */
  typeOf(target: Target): string | undefined {
    return this.#types.get(target)
  }

  prepare({ candidate }: Target): PreparedRelay | null {
    const known = this.#prepared.get(candidate)
    if (known !== undefined) return known
    const prepared = this.#prepare(candidate)
    this.#prepared.set(candidate, prepared)
    return prepared
  }

  #prepare({ instance, model }: Candidate): PreparedRelay | null {
    const { name, row, request, received } = this.#input
    const { relays, quirks } = instance.provider
    const support = relays?.[name]
    if (!support) return null
    const path = (support.path ?? row.path).replace('{model}', () => pathSegment(model))
    return {
      url: instance.baseUrl + (quirks?.path?.(path, model, instance.variables) ?? path),
      body: () => this.#bodyFor(model),
      dropped: [...request.mended, ...withheldHeaders(instance, received.headers)],
      unfit: [...(isReadBy(support, request) ? [] : ['content-type']), ...refusedMembers(support, request.body)],
      droppable: [],
      doubts: [],
    }
  }

  #bodyFor(model: string): OutgoingBody {
    if (this.#body?.model !== model) this.#body = { model, body: outgoingBody(this.#input.request.bodyFor(model)) }
    return this.#body.body
  }

  begin(target: Target, { url, body }: PreparedRelay, traced?: Readonly<Record<string, string>>): Attempt {
    const { row, request, received, settings, recorder } = this.#input
    const { instance } = target.candidate
    const { provider } = instance
    return new Attempt(this.#deps, {
      url,
      headers: {
        'content-type': request.contentType,
        accept: row.answer === 'json' ? 'application/json' : '*/*',
        ...providerHeaders(instance, target.key, provider.auth),
        ...clientHeadersFor(instance, received.headers, false),
      },
      traced,
      identity: identityOf(instance, target.key, provider.auth),
      egress: instance.egress,
      body: body(),
      protocol: this.#format,
      quirks: provider.quirks,
      key: target.key,
      ...(instance.headers && { secrets: Object.values(instance.headers) }),
      translated: null,
      stream: !this.isWhole,
      ...(row.isPaidPerAttempt && { once: true }),
      holdbackMs: this.isWhole ? Number.POSITIVE_INFINITY : 0,
      allowEmptyText: true,
      skipMalformedEvents: false,
      settings: row.body === 'multipart' ? withFile(settings) : settings,
      override: target.candidate.override,
      client: received.memoryOwner,
      ...(recorder.bodies && { bodies: recorder.bodies }),
      onHeaders: (headers) => {
        this.#deps.health.load.recordQuota(target, headers)
        const type = headers('content-type')
        if (type !== undefined) this.#types.set(target, type)
      },
    })
  }

  /** Words of an error that the client has sent do not count as the provider's. */
  sentText(): string {
    return this.#input.request.source.text
  }

  mayFailOver(failure: Failure): boolean {
    return !this.#input.row.isPaidPerAttempt || wasNotStarted(failure)
  }
}

const isReadBy = ({ body }: RelaySupport, { contentType }: RelayRequest): boolean =>
  body === undefined || (body === 'json') === (contentType === 'application/json')

/** The members of a request that a provider refuses. */
const refusedMembers = ({ refuses = {} }: RelaySupport, members: JsonObject): readonly string[] =>
  Object.entries(refuses).flatMap(([name, values]) => {
    const value = members[name]
    return value !== undefined && value !== null && values.test(String(value)) ? [name] : []
  })

/** A file is uploaded, and read by the model, before the headers of an answer arrive: they may take as long as a first content. */
const withFile = (settings: Settings): Settings => {
  const { circuit, timeout } = settings
  const limit =
    circuit.timeout === 0 || timeout.firstContent === 0 ? 0 : Math.max(circuit.timeout, timeout.firstContent)
  return { ...settings, circuit: { ...circuit, timeout: limit } }
}
