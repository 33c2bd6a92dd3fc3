/** What is asked of targets, one after another, until one answers; and how a model's answer is. */

import type { UpstreamProtocolName } from '../../core/chat.ts'
import type { Failure } from '../../core/failure.ts'
import type { UpstreamProtocol } from '../../core/protocol.ts'
import type { Instance } from '../../core/provider.ts'
import type { Settings } from '../../core/settings.ts'
import { ownTurn, PIECE } from '../../core/steps.ts'
import type { Candidate, Target } from '../../core/target.ts'
import { hasEffects, mayFailOver, mayHedge } from '../../policy/retry/retry-safety.ts'
import { factsOf } from '../../policy/routing/models.ts'
import { refusedMember } from '../../protocols/errors/refused-member.ts'
import { choicesOf, type MultipleChoices } from '../../protocols/shared/choices.ts'
import type { RouterDeps } from '../gateway.ts'
import type { UpstreamHealth } from '../health/upstream-health.ts'
import type { AttemptSpec, Hedging } from '../routing/attempt-spec.ts'
import { Attempt } from '../upstream/attempt.ts'
import { writeInTurns } from '../upstream/late-body.ts'
import {
  forcedStream,
  headersFor,
  type InboundRequest,
  identityOf,
  type OutboundRequest,
  prepareRequest,
  sameFormat,
} from '../upstream/outbound-request.ts'
import { sealsNamed, signaturesIn, stripSignatures } from './strip-signatures.ts'
import { truncated } from './truncate.ts'
import type { Turn } from './turn.ts'

type Asked = {
  readonly question: InboundRequest
  readonly settings: Settings
  /** The turn of a conversation it is: some targets are asked in other words. */
  readonly turn?: Pick<Turn, 'questionFor' | 'isExpiredUpstream' | 'kept'> | undefined
  /** Whose share of memory the answer takes. */
  readonly holder?: string | undefined
}

export const chatAttempts = (tools: RouterDeps, asked: Asked): AttemptSpec<OutboundRequest> =>
  new ChatAttempts(tools, asked)

/** What a candidate would be sent, and what it was made of: a question may be put otherwise to some, or later on. */
type Made = { readonly question: InboundRequest; readonly prepared: OutboundRequest | null }

class ChatAttempts implements AttemptSpec<OutboundRequest> {
  readonly hedging?: Hedging
  readonly #tools: RouterDeps
  readonly #question: InboundRequest
  readonly #settings: Settings
  readonly #turn: Asked['turn']
  readonly #holder: string | undefined
  readonly #made = new Map<Candidate, Made[]>()
  /** For providers that do not know the seals in the conversation: the question without them. */
  #unsealed: Map<string, InboundRequest> | null = null
  #short: InboundRequest | null = null
  /** The question as it is put to a candidate that has refused something of it, and the question that was made from. */
  #adapted: Map<Candidate, { readonly from: InboundRequest; readonly to: InboundRequest }> | null = null
  /** How often this request was repeated without a refused member. */
  #repeatedWithout = 0
  /** How often it was repeated without only the seals that a refusal named. */
  #sealsNamed = 0
  /** Formats that this request has found missing where a provider should have them. */
  #missing: Map<Instance, Set<UpstreamProtocolName>> | null = null

  constructor(tools: RouterDeps, { question, settings, turn, holder }: Asked) {
    this.#tools = tools
    this.#question = question
    this.#settings = settings
    this.#turn = turn
    this.#holder = holder
    // Nobody waits for what is answered in the background.
    if (settings.hedge.percent > 0 && mayHedge(question.request) && !turn?.kept.background)
      this.hedging = hedging(tools.health, settings, question)
  }

  prepare(target: Target): OutboundRequest | null {
    const { candidate } = target
    const { instance, model } = candidate
    const question = this.#askedOf(target)
    const made = this.#made.get(candidate) ?? []
    const before = made.find((one) => one.question === question)
    if (before) return before.prepared
    const facts = factsOf(this.#tools.catalogue, instance, model)
    const prepared = prepareRequest(forcedStream(question, instance), candidate, facts, this.#lackingAt(instance))
    made.push({ question, prepared })
    this.#made.set(candidate, made)
    return prepared
  }

  prepareAhead(targets: Iterable<Target>): Promise<void> | null {
    return this.#question.source.length > PIECE ? this.#prepareInTurns(targets) : null
  }

  async #prepareInTurns(targets: Iterable<Target>): Promise<void> {
    for (const target of targets) {
      await ownTurn(this.#tools.world.turn)
      const made = this.prepare(target)
      if (made && [made.unfit, made.droppable, made.doubts].every(({ length }) => length === 0)) return
    }
  }

  makeReady({ late }: OutboundRequest): Promise<void> | null {
    return writeInTurns(late, this.#tools.world.turn)
  }

  begin(target: Target, prepared: OutboundRequest): Attempt {
    const { health: board } = this.#tools
    const { instance } = target.candidate
    const question = this.#question
    const { protocol, auth, url, late, stream } = prepared
    const raw = late?.source ?? prepared.raw
    const choices = severalOf(question, protocol)
    return new Attempt(this.#tools, {
      url,
      headers: headersFor(instance, target.key, question, prepared),
      identity: identityOf(instance, target.key, auth),
      body: late ? late.source.text : prepared.body,
      ...(raw && { source: raw }),
      protocol,
      quirks: instance.provider.quirks,
      key: target.key,
      translated: protocol.name === question.protocol.name && !this.#askedOf(target).reencode ? null : question.request,
      ...(choices && { choices }),
      stream,
      ...(hasEffects(question.request) && { once: true }),
      holdbackMs: question.request.stream ? this.#settings.stream.holdback : Number.POSITIVE_INFINITY,
      skipMalformedEvents: protocol.lenientEvents === true && choices?.passes !== false && isPlainText(question),
      settings: this.#settings,
      client: this.#holder,
      onHeaders: (headers) => board.recordQuota(target, headers),
    })
  }

  retrySameTarget(target: Target, failure: Failure): boolean {
    const { id } = target.candidate.instance
    if (this.#turn?.isExpiredUpstream(this.#questionAt(target), failure) || this.#isAbsent(target, failure)) return true
    if (failure.kind === 'incompatible') return this.#learns(target, failure)
    if (failure.kind !== 'unknown_proof' || this.#unsealed?.has(id)) return false
    const open = stripSignatures(this.#short ?? this.#question)
    if (!open) return false
    if (this.#leavesOutNamed(target.candidate, failure, signaturesIn(this.#askedOf(target)))) return true
    this.#unsealed ??= new Map()
    this.#unsealed.set(id, open)
    return true
  }

  /** Notes the seals that are refused, and whether those alone are left out: the refusal names them and not all of them. */
  #leavesOutNamed(candidate: Candidate, failure: Failure, seals: readonly string[]): boolean {
    const body = this.#made.get(candidate)?.at(-1)?.prepared?.body ?? ''
    const named = this.#sealsNamed < MOST_NAMED ? sealsNamed(failure, body, seals) : []
    const { refusals } = this.#tools.health
    for (const seal of named.length > 0 ? named : seals) refusals.noteSignature(candidate, seal)
    this.#adapted?.delete(candidate)
    if (named.length === 0 || named.length === seals.length) return false
    this.#sealsNamed++
    return true
  }

  reduceRequest(failure: Failure): boolean {
    const less = failure.kind === 'context_length' ? truncated(this.#short ?? this.#question) : null
    if (!less) return false
    this.#short = less
    this.#unsealed = null
    return true
  }

  mayFailOver(failure: Failure): boolean {
    return mayFailOver(this.#question.request, failure)
  }

  /** The question for this target, before what its model has refused is left out. */
  #questionAt(target: Target): InboundRequest {
    return (
      this.#unsealed?.get(target.candidate.instance.id) ??
      this.#short ??
      this.#turn?.questionFor(target) ??
      this.#question
    )
  }

  /** The question as it is put there. */
  #askedOf(target: Target): InboundRequest {
    const question = this.#questionAt(target)
    const { candidate } = target
    return this.#tools.health.refusals.hasRecent(candidate) ? this.#adaptedFor(candidate, question) : question
  }

  /** Without what this model has refused of late; the same object for the same question. */
  #adaptedFor(candidate: Candidate, question: InboundRequest): InboundRequest {
    const before = this.#adapted?.get(candidate)
    if (before?.from === question) return before.to
    const { refusals } = this.#tools.health
    const open = stripSignatures(question, (seal) => refusals.hasSignature(candidate, seal)) ?? question
    const to = { ...open, refused: (path: string) => refusals.hasMember(candidate, path) }
    this.#adapted ??= new Map()
    this.#adapted.set(candidate, { from: question, to })
    return to
  }

  /** Whether to repeat the request at the same target without the member it refused: only one that is not essential. */
  #learns({ candidate }: Target, failure: Failure): boolean {
    const path = refusedMember(failure)
    const { refusals } = this.#tools.health
    if (path === undefined || refusals.hasMember(candidate, path) || this.#repeatedWithout >= MOST_LEFT_OUT)
      return false
    if (this.#question.request.extras.some(({ at, essential }) => essential && at === path)) return false
    const made = this.#made.get(candidate)?.at(-1)?.prepared
    const body = made?.late?.source.text ?? made?.body
    if (!body?.includes(`"${path.slice(path.indexOf('.') + 1)}"`)) return false
    this.#repeatedWithout++
    refusals.noteMember(candidate, path)
    this.#adapted?.delete(candidate)
    return true
  }

  #lackingAt(instance: Instance): ReadonlySet<UpstreamProtocolName> {
    const known = this.#tools.health.lacking(instance)
    const found = this.#missing?.get(instance) ?? NONE
    return known.length === 0 ? found : new Set([...known, ...found])
  }

  /** Whether a failure says that the format is not spoken at this address, and another may be. */
  #isAbsent(target: Target, failure: Failure): boolean {
    const { candidate } = target
    const { instance } = candidate
    const question = this.#askedOf(target)
    const asked = this.#made.get(candidate)?.find((one) => one.question === question)?.prepared?.protocol.name
    const found = this.#missing?.get(instance) ?? new Set()
    const isLast = this.#lackingAt(instance).size + 1 >= instance.speaks.length
    if (!asked || isLast || found.has(asked) || !tellsOfPath(failure)) return false
    this.#missing ??= new Map()
    this.#missing.set(instance, found.add(asked))
    // What speaks of a model may be about the model: that is seen in the other format.
    if (!/model/i.test(failure.upstream?.message ?? '')) this.#tools.health.lacks(instance, asked)
    this.#made.delete(candidate)
    return true
  }
}
/** A request is repeated so often at most, each time without one member more. */
const MOST_LEFT_OUT = 3
/** And so often without the seals that a refusal names; after that without any seal. */
const MOST_NAMED = 2

const NONE: ReadonlySet<UpstreamProtocolName> = new Set()

const hedging = (board: UpstreamHealth, settings: Settings, { request }: InboundRequest): Hedging => {
  const way = request.stream ? 'streamed' : 'whole'
  return {
    started: () => board.earnHedgeCredit(settings),
    after: (candidate) => board.hedgeAfter(candidate, way, settings),
    allowed: (late, client) => board.mayHedge(late, settings, client),
    opened: (candidate, ms) => board.recordOpeningTime(candidate, way, ms),
  }
}

/**
 * That there is no such path, and not that there is no such model: no such method here, not implemented, or not found
 * and either said without an error of the style's own shape or with words about the address.
 */
const tellsOfPath = ({ status, upstream }: Failure): boolean => {
  if (status === 405 || status === 501) return true
  const shaped = upstream?.type !== undefined || upstream?.code !== undefined
  return status === 404 && (!shaped || /\b(?:url|path|route|endpoint)\b|cannot post/i.test(upstream?.message ?? ''))
}

/** How an answer with several choices is read there; undefined: the request asks for one. */
const severalOf = (question: InboundRequest, format: UpstreamProtocol): MultipleChoices | undefined => {
  const count = choicesOf(question.request)
  if (count === 1 || !format.choices) return undefined
  return { format, split: format.choices.split, count, passes: sameFormat(question.protocol, format) !== undefined }
}

/** Neither a call nor a document that a missing piece would make another one. */
const isPlainText = ({ request }: InboundRequest): boolean =>
  request.tools.length === 0 && request.settings.format === undefined
