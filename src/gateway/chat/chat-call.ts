/** The attempts of a chat call: the request for each target, and the changes to it after a failure. */

import type { UpstreamProtocolName } from '../../core/chat.ts'
import { outgoingBody } from '../../core/encoded-text.ts'
import type { Failure } from '../../core/failure.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import type { CallBodies } from '../../core/kept-bodies.ts'
import type { UpstreamProtocol } from '../../core/protocol.ts'
import type { Instance } from '../../core/provider.ts'
import type { Settings } from '../../core/settings.ts'
import { ownTurn, PIECE } from '../../core/steps.ts'
import type { Candidate, Target } from '../../core/target.ts'
import { hasEffects, mayFailOver, mayHedge } from '../../policy/retry/retry-safety.ts'
import { comparableMember, optionalMembers, refusedMember } from '../../protocols/errors/refused-member.ts'
import { choicesOf, type MultipleChoices } from '../../protocols/shared/choices.ts'
import type { UpstreamHealth } from '../health/upstream-health.ts'
import type { AttemptSpec, Hedging } from '../routing/attempt-spec.ts'
import type { RouterDeps } from '../routing/route-context.ts'
import { Attempt } from '../upstream/attempt.ts'
import { encodeInTurns } from '../upstream/late-body.ts'
import {
  forcedStream,
  headersFor,
  type InboundRequest,
  identityOf,
  isCompatible,
  type OutboundRequest,
  prepareRequest,
  sameFormat,
} from '../upstream/outbound-request.ts'
import { OutputLimits } from './output-limits.ts'
import { OWN_PARTS, refusesOwnParts, withoutOwnParts } from './own-parts.ts'
import { signaturesIn, signaturesNamed, stripSignatures } from './strip-signatures.ts'
import { truncated } from './truncate.ts'
import type { StoredTurn } from './turn.ts'

/** The parts of a chat call that its attempts need. */
export type ChatAttemptsInput = {
  readonly inbound: InboundRequest
  readonly settings: Settings
  /** The turn of a stored conversation. A target that stores the conversation itself receives only the new turn. */
  readonly turn?: Pick<StoredTurn, 'inboundFor' | 'isExpiredUpstream' | 'storage'> | undefined
  /** The client whose memory quota the answer counts towards. */
  readonly memoryOwner?: string | undefined
  /** Records the bodies of the attempts. */
  readonly bodies?: CallBodies | null | undefined
}

/** The attempts of a chat call, for the router. */
export const chatAttempts = (deps: RouterDeps, input: ChatAttemptsInput): AttemptSpec<OutboundRequest> =>
  new ChatAttempts(deps, input)

/** A candidate's outbound request, and the inbound request it was made from. */
type PreparedRequest = { readonly inbound: InboundRequest; readonly prepared: OutboundRequest | null }

class ChatAttempts implements AttemptSpec<OutboundRequest> {
  readonly hedging?: Hedging
  readonly hedgesProbes: boolean
  readonly isWhole: boolean
  readonly #deps: RouterDeps
  readonly #inbound: InboundRequest
  readonly #settings: Settings
  readonly #turn: ChatAttemptsInput['turn']
  readonly #memoryOwner: string | undefined
  readonly #bodies: CallBodies | null
  readonly #prepared = new Map<Candidate, PreparedRequest[]>()
  /** The request without signatures, by the id of each provider instance that rejected them. */
  #unsigned: Map<string, InboundRequest> | null = null
  #truncated: InboundRequest | null = null
  /** The request without members that a candidate refused, and the request from which it was derived. */
  #adapted: Map<Candidate, { readonly from: InboundRequest; readonly to: InboundRequest }> | null = null
  readonly #outputs: OutputLimits
  /** Refused members that errors only mention. */
  #guesses: { readonly candidate: Candidate; readonly path: string; readonly value: Json | undefined }[] | null = null
  /** Number of retries without a refused member. */
  #retriesWithoutMember = 0
  /** Number of retries without the signatures that an error identified. */
  #retriesWithoutNamed = 0
  /** Protocols that this request found unsupported, by instance. */
  #missing: Map<Instance, Set<UpstreamProtocolName>> | null = null

  constructor(deps: RouterDeps, { inbound, settings, turn, memoryOwner, bodies = null }: ChatAttemptsInput) {
    this.#deps = deps
    this.#inbound = inbound
    this.#settings = settings
    this.#turn = turn
    this.#memoryOwner = memoryOwner
    this.#bodies = bodies
    this.#outputs = new OutputLimits(deps)
    // No client waits for a background response.
    this.hedgesProbes = mayHedge(inbound.request) && !turn?.storage.background
    this.isWhole = !inbound.request.stream
    if (settings.hedge.percent > 0 && this.hedgesProbes) this.hedging = hedging(deps.health, settings, inbound)
  }

  prepare(target: Target): OutboundRequest | null {
    const { candidate } = target
    const { instance } = candidate
    const inbound = this.#inboundFor(target)
    const known = this.#prepared.get(candidate) ?? []
    const before = known.find((one) => one.inbound === inbound)
    if (before) return before.prepared
    const facts = this.#deps.health.limits.factsOf(this.#deps.catalogue, candidate)
    const stated = this.#outputs.of(candidate)
    const asked = withIssuers(forcedStream(inbound, instance), instance, this.#deps.health)
    const limited = stated === undefined ? asked : { ...asked, outputLimit: stated.limit, addsLimit: stated.isAdded }
    const prepared = prepareRequest(limited, candidate, facts, this.#lackingAt(instance))
    known.push({ inbound, prepared })
    this.#prepared.set(candidate, known)
    return prepared
  }

  prepareAhead(targets: Iterable<Target>): Promise<void> | null {
    return this.#inbound.source.text.length > PIECE ? this.#prepareInTurns(targets) : null
  }

  async #prepareInTurns(targets: Iterable<Target>): Promise<void> {
    for (const target of targets) {
      await ownTurn(this.#deps.world.turn)
      const prepared = this.prepare(target)
      if (prepared && isCompatible(prepared)) return
    }
  }

  makeReady({ body }: OutboundRequest): Promise<void> | null {
    return encodeInTurns(body, this.#deps.world.turn)
  }

  sentText({ body }: OutboundRequest): string {
    return body.text
  }

  begin(target: Target, prepared: OutboundRequest): Attempt {
    const { health } = this.#deps
    const { instance } = target.candidate
    const inbound = this.#inbound
    const { protocol, auth, url, body, stream } = prepared
    const choices = severalChoices(inbound, protocol)
    const isTranslated = protocol.name !== inbound.protocol.name || this.#inboundFor(target).reencode !== undefined
    return new Attempt(this.#deps, {
      url,
      headers: headersFor(instance, target.key, inbound, prepared),
      identity: identityOf(instance, target.key, auth),
      body: outgoingBody(body),
      protocol,
      quirks: instance.provider.quirks,
      key: target.key,
      secrets: instance.headers && Object.values(instance.headers),
      translated: isTranslated ? inbound.request : null,
      choices,
      stream,
      once: hasEffects(inbound.request) || undefined,
      holdbackMs: inbound.request.stream ? this.#settings.stream.holdback : Number.POSITIVE_INFINITY,
      skipMalformedEvents: protocol.lenientEvents === true && choices?.passes !== false && isPlainText(inbound),
      settings: this.#settings,
      client: this.#memoryOwner,
      bodies: this.#bodies ?? undefined,
      onHeaders: (headers) => health.load.recordQuota(target, headers),
      onSignature: (signature) => health.issuers.note(signature, instance),
    })
  }

  retrySameTarget(target: Target, failure: Failure): boolean {
    const { id } = target.candidate.instance
    if (this.#turn?.isExpiredUpstream(this.#unadapted(target), failure)) return true
    if (this.#isProtocolMissing(target, failure)) return true
    if (this.#mayLowerOutput(target, failure)) return true
    if (this.#mayReplaceOwnParts(target, failure)) return true
    if (failure.kind === 'incompatible') return this.#mayRetryWithoutMember(target, failure)
    if (failure.kind !== 'unknown_proof' || this.#unsigned?.has(id)) return false
    const unsigned = stripSignatures(this.#truncated ?? this.#inbound)
    if (!unsigned) return false
    if (this.#mayRetryWithoutNamed(target.candidate, failure, signaturesIn(this.#inboundFor(target)))) return true
    this.#unsigned ??= new Map()
    this.#unsigned.set(id, unsigned)
    return true
  }

  /** Whether to retry the same target with a lower output limit. */
  #mayLowerOutput(target: Target, failure: Failure): boolean {
    const { candidate } = target
    const prepared = this.#prepared.get(candidate)?.at(-1)?.prepared ?? null
    if (!this.#outputs.lower(candidate, failure, this.#inboundFor(target).request, prepared)) return false
    this.#prepared.delete(candidate)
    return true
  }

  /** Whether to retry the same target without parts of the format's own kind, which it refused. Remembers the refusal. */
  #mayReplaceOwnParts(target: Target, failure: Failure): boolean {
    const { candidate } = target
    const { refusals } = this.#deps.health
    const inbound = this.#inboundFor(target)
    const used = this.#prepared.get(candidate)?.at(-1)?.prepared?.protocol.name
    if (used !== inbound.protocol.name || refusals.hasMember(candidate, OWN_PARTS)) return false
    if (!refusesOwnParts(inbound, failure)) return false
    refusals.noteMember(candidate, OWN_PARTS)
    this.#adapted?.delete(candidate)
    return true
  }

  /** Remembers the refused signatures. True: the error identifies some but not all, so only those are removed. */
  #mayRetryWithoutNamed(candidate: Candidate, failure: Failure, signatures: readonly string[]): boolean {
    const body = this.#prepared.get(candidate)?.at(-1)?.prepared?.body.text ?? ''
    const named = this.#retriesWithoutNamed < MAX_WITHOUT_NAMED ? signaturesNamed(failure, body, signatures) : []
    const { refusals } = this.#deps.health
    for (const signature of named.length > 0 ? named : signatures) refusals.noteSignature(candidate, signature)
    this.#adapted?.delete(candidate)
    if (named.length === 0 || named.length === signatures.length) return false
    this.#retriesWithoutNamed++
    return true
  }

  reduceRequest(failure: Failure): boolean {
    const shorter = failure.kind === 'context_length' ? truncated(this.#truncated ?? this.#inbound) : null
    if (!shorter) return false
    this.#truncated = shorter
    this.#unsigned = null
    return true
  }

  mayFailOver(failure: Failure): boolean {
    return mayFailOver(this.#inbound.request, failure) && !this.#isOwnFault(failure)
  }

  /** The request for this target, including members that its model refused. */
  #unadapted(target: Target): InboundRequest {
    return (
      this.#unsigned?.get(target.candidate.instance.id) ??
      this.#truncated ??
      this.#turn?.inboundFor(target) ??
      this.#inbound
    )
  }

  /** The request as this target receives it. */
  #inboundFor(target: Target): InboundRequest {
    const inbound = this.#unadapted(target)
    const { candidate } = target
    return this.#deps.health.refusals.hasRecent(candidate) ? this.#adaptedFor(candidate, inbound) : inbound
  }

  /** The request without members that this model refused recently; the same object for the same request. */
  #adaptedFor(candidate: Candidate, inbound: InboundRequest): InboundRequest {
    const before = this.#adapted?.get(candidate)
    if (before?.from === inbound) return before.to
    const { refusals } = this.#deps.health
    const stripped = stripSignatures(inbound, (signature) => refusals.hasSignature(candidate, signature)) ?? inbound
    const known = refusals.hasMember(candidate, OWN_PARTS) ? withoutOwnParts(stripped) : stripped
    const to = { ...known, refused: (path: string, value: Json) => refusals.hasMember(candidate, path, value) }
    this.#adapted ??= new Map()
    this.#adapted.set(candidate, { from: inbound, to })
    return to
  }

  refusedMember({ candidate }: Target, failure: Failure): string | undefined {
    return comparableMember(failure, this.#optionalOf(candidate))
  }

  /** The members that may be left out of the body last sent to the candidate. */
  #optionalOf(candidate: Candidate): JsonObject {
    const sent = this.#prepared.get(candidate)?.at(-1)?.prepared?.body.text
    return sent === undefined ? {} : optionalMembers(sent)
  }

  /** Whether to retry the same target without the member it refused. Remembers the refusal. Never for an essential member. */
  #mayRetryWithoutMember({ candidate }: Target, failure: Failure): boolean {
    const member = refusedMember(failure, this.#optionalOf(candidate))
    if (!member || this.#retriesWithoutMember >= MAX_WITHOUT_MEMBER) return this.#forgetGuesses(candidate)
    const { path, value, certain } = member
    const { refusals } = this.#deps.health
    if (refusals.hasMember(candidate, path, value) || this.#isOwnFault(failure)) return this.#forgetGuesses(candidate)
    if (this.#inbound.request.extras.some(({ at, essential }) => essential && at === path)) return false
    const prepared = this.#prepared.get(candidate)?.at(-1)?.prepared
    if (!prepared?.body.text.includes(`"${path.slice(path.lastIndexOf('.') + 1)}"`)) return false
    this.#retriesWithoutMember++
    refusals.noteMember(candidate, path, value)
    if (!certain) {
      this.#guesses ??= []
      this.#guesses.push({ candidate, path, value })
    }
    this.#adapted?.delete(candidate)
    return true
  }

  /** The model refuses the request without the members that its sentences mentioned, too: they are no longer left out. */
  #forgetGuesses(candidate: Candidate): false {
    for (const guess of this.#guesses ?? [])
      if (guess.candidate === candidate) this.#deps.health.refusals.forgetMember(candidate, guess.path, guess.value)
    return false
  }

  /** Whether a refused value is outside the range that the client's API publishes. */
  #isOwnFault({ kind, param, upstream }: Failure): boolean {
    const { protocol, body } = this.#inbound
    if (kind !== 'incompatible' || !protocol.ranges) return false
    return Object.entries(protocol.ranges).some(([member, [least, most]]) => {
      const value = body[member]
      const isOutside = typeof value === 'number' && (value < least || value > most)
      return isOutside && (param === member || upstream?.message?.includes(member) === true)
    })
  }

  #lackingAt(instance: Instance): ReadonlySet<UpstreamProtocolName> {
    const known = this.#deps.health.refusals.protocolsOf(instance)
    const found = this.#missing?.get(instance) ?? NO_PROTOCOLS
    return known.length === 0 ? found : new Set([...known, ...found])
  }

  /** Whether the failure means that the instance lacks the protocol, and it has another one to try. */
  #isProtocolMissing(target: Target, failure: Failure): boolean {
    const { candidate } = target
    const { instance } = candidate
    const inbound = this.#inboundFor(target)
    const used = this.#prepared.get(candidate)?.find((one) => one.inbound === inbound)?.prepared?.protocol.name
    const missing = this.#missing?.get(instance) ?? new Set()
    const isLast = this.#lackingAt(instance).size + 1 >= instance.speaks.length
    if (!used || isLast || missing.has(used) || !isMissingPath(failure)) return false
    this.#missing ??= new Map()
    this.#missing.set(instance, missing.add(used))
    // An error that mentions a model may be about the model: remembered for this request only.
    if (!/model/i.test(failure.upstream?.message ?? '')) this.#deps.health.refusals.noteProtocol(instance, used)
    this.#prepared.delete(candidate)
    return true
  }
}
/** Maximum retries without a refused member; each removes one more. */
const MAX_WITHOUT_MEMBER = 3
/** Maximum retries without only the identified signatures; then all signatures are removed. */
const MAX_WITHOUT_NAMED = 2

const NO_PROTOCOLS: ReadonlySet<UpstreamProtocolName> = new Set()

const withIssuers = (inbound: InboundRequest, instance: Instance, { issuers }: UpstreamHealth): InboundRequest =>
  issuers.isEmpty
    ? inbound
    : { ...inbound, isEncryptedElsewhere: (encrypted) => issuers.isFromAnother(encrypted, instance) }

const hedging = (health: UpstreamHealth, settings: Settings, { request }: InboundRequest): Hedging => {
  const mode = request.stream ? 'streamed' : 'whole'
  return {
    started: () => health.budgets.earnHedgeCredit(settings),
    after: (candidate) => health.budgets.hedgeAfter(candidate, mode, settings),
    allowed: (late, client) => health.budgets.mayHedge(late, settings, client),
    opened: (candidate, ms) => health.budgets.recordOpeningTime(candidate, mode, ms),
  }
}

/**
 * Whether the path does not exist at the provider, rather than the model: 405, 501, or a 404 either without a structured
 * error or with a message about the address.
 */
const isMissingPath = ({ status, upstream }: Failure): boolean => {
  if (status === 405 || status === 501) return true
  const isStructured = upstream?.type !== undefined || upstream?.code !== undefined
  const isAboutPath = /\b(?:url|path|route|endpoint)\b|cannot post/i.test(upstream?.message ?? '')
  return status === 404 && (!isStructured || isAboutPath)
}

/** Decoding of an answer with several choices in this protocol. Undefined: the request asks for one choice. */
const severalChoices = (inbound: InboundRequest, format: UpstreamProtocol): MultipleChoices | undefined => {
  const count = choicesOf(inbound.request)
  if (count === 1 || !format.choices) return undefined
  const passes = !inbound.hasGuardedAnswer && sameFormat(inbound.protocol, format) !== undefined
  return { format, split: format.choices.split, count, passes }
}

/** Whether a skipped event could lose only text: no tool call and no structured output. */
const isPlainText = ({ request }: InboundRequest): boolean =>
  request.tools.length === 0 && request.settings.format === undefined
