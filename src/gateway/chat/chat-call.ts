/** The attempts of a chat call: the request for each target, and the changes to it after a failure. */

import { outgoingBody } from '../../core/encoded-text.ts'
import type { Failure } from '../../core/failure.ts'
import type { JsonObject } from '../../core/json.ts'
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
import type { TapedCall } from '../upstream/tape.ts'
import { MissingProtocols } from './missing-protocols.ts'
import { OutputLimits } from './output-limits.ts'
import { OWN_PARTS, refusesOwnParts } from './own-parts.ts'
import { RefusalRetries } from './refusal-retries.ts'
import { RequestVariants } from './request-variants.ts'
import { signaturesIn, signaturesNamed } from './strip-signatures.ts'
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
  readonly #deps: TapedDeps
  readonly #inbound: InboundRequest
  readonly #settings: Settings
  readonly #turn: ChatAttemptsInput['turn']
  readonly #memoryOwner: string | undefined
  readonly #bodies: CallBodies | null
  readonly #prepared = new Map<Candidate, PreparedRequest[]>()
  readonly #outputs: OutputLimits
  readonly #variants: RequestVariants
  readonly #missing: MissingProtocols
  readonly #refused: RefusalRetries

  constructor(deps: RouterDeps, { inbound, settings, turn, memoryOwner, bodies = null }: ChatAttemptsInput) {
    const taped = deps.tape?.chat(inbound)
    this.#deps = taped ? { ...deps, taped } : deps
    this.#inbound = inbound
    this.#settings = settings
    this.#turn = turn
    this.#memoryOwner = memoryOwner
    this.#bodies = bodies
    this.#outputs = new OutputLimits(deps)
    const { refusals } = deps.health
    this.#variants = new RequestVariants({ inbound, turn, refusals })
    this.#missing = new MissingProtocols(refusals)
    this.#refused = new RefusalRetries(refusals)
    // No client waits for a background response.
    this.hedgesProbes = mayHedge(inbound.request) && !turn?.storage.background
    this.isWhole = !inbound.request.stream
    if (settings.hedge.percent > 0 && this.hedgesProbes) this.hedging = hedging(deps.health, settings, inbound)
  }

  prepare(target: Target): OutboundRequest | null {
    const { candidate } = target
    const { instance } = candidate
    const inbound = this.#variants.of(target)
    const known = this.#prepared.get(candidate) ?? []
    const before = known.find((one) => one.inbound === inbound)
    if (before) return before.prepared
    const facts = this.#deps.health.limits.factsOf(this.#deps.catalogue, candidate)
    const stated = this.#outputs.of(candidate)
    const asked = withIssuers(forcedStream(inbound, instance), instance, this.#deps.health)
    const limited = stated === undefined ? asked : { ...asked, outputLimit: stated.limit, addsLimit: stated.isAdded }
    const own = prepareRequest(limited, candidate, facts, this.#missing.at(instance))
    const prepared = own && this.#deps.taped ? this.#deps.taped.prepared(own, target) : own
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

  begin(target: Target, prepared: OutboundRequest, traced?: Readonly<Record<string, string>>): Attempt {
    const { health } = this.#deps
    const { instance } = target.candidate
    const inbound = this.#inbound
    const { protocol, auth, url, body, stream } = prepared
    const choices = severalChoices(inbound, protocol)
    const isTranslated = protocol.name !== inbound.protocol.name || this.#variants.of(target).reencode !== undefined
    return new Attempt(attemptDeps(this.#deps, target, prepared), {
      url,
      headers: headersFor(instance, target.key, inbound, prepared),
      traced,
      identity: identityOf(instance, target.key, auth),
      egress: instance.egress,
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
      override: target.candidate.override,
      client: this.#memoryOwner,
      bodies: this.#bodies ?? undefined,
      onHeaders: (headers) => {
        health.load.recordQuota(target, headers)
        health.sticky.caches.noteOwner(target, headers)
      },
      onSignature: (signature) => health.issuers.note(signature, instance),
    })
  }

  retrySameTarget(target: Target, failure: Failure): boolean {
    const { id } = target.candidate.instance
    if (this.#turn?.isExpiredUpstream(this.#variants.unadapted(target), failure)) return true
    if (this.#isProtocolMissing(target, failure)) return true
    if (this.#mayLowerOutput(target, failure)) return true
    if (this.#mayReplaceOwnParts(target, failure)) return true
    if (failure.kind === 'incompatible') return this.#mayRetryWithoutMember(target, failure)
    if (failure.kind !== 'unknown_proof' || this.#variants.isUnsigned(id)) return false
    const unsigned = this.#variants.withoutSignatures()
    if (!unsigned) return false
    if (this.#mayRetryWithoutNamed(target.candidate, failure, signaturesIn(this.#variants.of(target)))) return true
    this.#variants.sendUnsigned(id, unsigned)
    return true
  }

  /** Whether to retry the same target with a lower output limit. */
  #mayLowerOutput(target: Target, failure: Failure): boolean {
    const { candidate } = target
    const prepared = this.#prepared.get(candidate)?.at(-1)?.prepared ?? null
    if (!this.#outputs.lower(candidate, failure, this.#variants.of(target).request, prepared)) return false
    this.#prepared.delete(candidate)
    return true
  }

  /** Whether to retry the same target without parts of the format's own kind, which it refused. Remembers the refusal. */
  #mayReplaceOwnParts(target: Target, failure: Failure): boolean {
    const { candidate } = target
    const { refusals } = this.#deps.health
    const inbound = this.#variants.of(target)
    const used = this.#prepared.get(candidate)?.at(-1)?.prepared?.protocol.name
    if (used !== inbound.protocol.name || refusals.hasMember(candidate, OWN_PARTS)) return false
    if (!refusesOwnParts(inbound, failure)) return false
    refusals.noteMember(candidate, OWN_PARTS)
    this.#variants.refusedMore(candidate)
    return true
  }

  /** Remembers the refused signatures. True: the error identifies some but not all, so only those are removed. */
  #mayRetryWithoutNamed(candidate: Candidate, failure: Failure, signatures: readonly string[]): boolean {
    const body = this.#prepared.get(candidate)?.at(-1)?.prepared?.body.text ?? ''
    const named = this.#refused.maySeparate ? signaturesNamed(failure, body, signatures) : []
    this.#variants.refusedMore(candidate)
    return this.#refused.leaveOutSignatures(candidate, named, signatures)
  }

  reduceRequest(failure: Failure): boolean {
    return failure.kind === 'context_length' && this.#variants.shorten()
  }

  mayFailOver(failure: Failure): boolean {
    return mayFailOver(this.#inbound.request, failure) && !isOwnFault(this.#inbound, failure)
  }

  /** Whether the instance lacks the protocol and has another one. */
  #isProtocolMissing(target: Target, failure: Failure): boolean {
    const { candidate } = target
    const inbound = this.#variants.of(target)
    const used = this.#prepared.get(candidate)?.find((one) => one.inbound === inbound)?.prepared?.protocol.name
    if (!this.#missing.note(candidate.instance, used, failure)) return false
    this.#prepared.delete(candidate)
    return true
  }

  /** Whether to retry the same target without the betas or the member that it refused. Never for an essential member. */
  #mayRetryWithoutMember({ candidate }: Target, failure: Failure): boolean {
    if (this.#refused.leaveOutBetas(candidate, failure, this.#prepared.get(candidate)?.at(-1)?.prepared?.betas)) {
      this.#variants.refusedMore(candidate)
      return true
    }
    const member = refusedMember(failure, optionalIn(this.#prepared.get(candidate)))
    if (!member || !this.#refused.mayLeaveOut(candidate, member) || isOwnFault(this.#inbound, failure))
      return this.#refused.forgetGuesses(candidate)
    const { path } = member
    if (this.#inbound.request.extras.some(({ at, essential }) => essential && at === path)) return false
    const prepared = this.#prepared.get(candidate)?.at(-1)?.prepared
    if (!prepared?.body.text.includes(`"${path.slice(path.lastIndexOf('.') + 1)}"`)) return false
    this.#refused.leaveOut(candidate, member)
    this.#variants.refusedMore(candidate)
    return true
  }

  refusedMember({ candidate }: Target, failure: Failure): string | undefined {
    return comparableMember(failure, optionalIn(this.#prepared.get(candidate)))
  }
}

/** `taped`: the recordings of this call. */
type TapedDeps = RouterDeps & { readonly taped?: TapedCall }

const attemptDeps = (
  deps: TapedDeps,
  target: Target,
  prepared: OutboundRequest,
): ConstructorParameters<typeof Attempt>[0] =>
  deps.taped ? { ...deps, world: { ...deps.world, dial: deps.taped.dial(target, prepared) } } : deps

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

/** The members that may be left out of the body last sent. */
const optionalIn = (sent: readonly PreparedRequest[] | undefined): JsonObject => {
  const body = sent?.at(-1)?.prepared?.body.text
  return body === undefined ? {} : optionalMembers(body)
}

/** Whether a refused value is outside the range that the client's API publishes. */
const isOwnFault = ({ protocol, body }: InboundRequest, { kind, param, upstream }: Failure): boolean => {
  if (kind !== 'incompatible' || !protocol.ranges) return false
  return Object.entries(protocol.ranges).some(([member, [least, most]]) => {
    const value = body[member]
    const isOutside = typeof value === 'number' && (value < least || value > most)
    return isOutside && (param === member || upstream?.message?.includes(member) === true)
  })
}
