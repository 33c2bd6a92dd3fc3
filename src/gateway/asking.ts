/** What is asked of targets, one after another, until one answers; and how a model's answer is. */
import type { UpstreamProtocolName } from '../core/chat.ts'
import type { Failure } from '../core/failure.ts'
import type { Instance } from '../core/provider.ts'
import type { Settings } from '../core/settings.ts'
import type { Candidate, Target } from '../core/target.ts'
import { factsOf } from '../policy/models.ts'
import { hasEffects, mayAskElsewhere, mayAskTwo } from '../policy/repeat.ts'
import { Attempt } from './attempt.ts'
import type { Board } from './board.ts'
import type { Tools } from './first-to-open.ts'
import { asAsked, type Fitness, headersFor, identityOf, type Prepared, prepare, type Question } from './prepare.ts'
import { withoutProofs } from './proofs.ts'
import { shortened } from './shorten.ts'
import type { Turn } from './turn.ts'

/** `Ready`: what a target would be sent. */
export type Asking<Ready extends Fitness> = {
  /** Null: it speaks nothing the question could be asked in. The same target may be asked for it again. */
  readonly prepare: (target: Target) => Ready | null
  readonly begin: (target: Target, ready: Ready) => Attempt
  /** The failure is no more than a word that the target has to be asked otherwise: then that is done at once. */
  readonly otherwise?: (target: Target, failure: Failure) => boolean
  /** Nobody is left who could answer: whether everybody can be asked for less. */
  readonly less?: (failure: Failure) => boolean
  /** Whether the same may be asked of another. Absent: always. */
  readonly mayGoElsewhere?: (failure: Failure) => boolean
  /** How a second provider is asked while the first keeps the client waiting. Absent: never. */
  readonly hedging?: Hedging
}

/** The first that opens is taken, the other let go. */
export type Hedging = {
  /** The request is asked from now on: it pays its share toward hedges. */
  readonly begun: () => void
  /** ms after which an answer from there is late. */
  readonly after: (candidate: Candidate) => number
  /** Whether what this provider keeps waiting may be asked of another as well; takes what it costs if so. */
  readonly allowed: (late: Instance, client: string) => boolean
  /** An answer opened there so many ms after it was asked for. */
  readonly opened: (candidate: Candidate, ms: number) => void
}

type Asked = {
  readonly question: Question
  readonly settings: Settings
  /** The turn of a conversation it is: some targets are asked in other words. */
  readonly turn?: Pick<Turn, 'questionFor' | 'forgotten' | 'kept'> | undefined
}

export const askModel = (tools: Tools, { question, settings, turn }: Asked): Asking<Prepared> => {
  const { world, board } = tools
  const bodies = new Map<Question, Map<Candidate, Prepared | null>>()
  /** For providers that do not know the seals in the conversation: the question without them. */
  const unsealed = new Map<string, Question>()
  let short: Question | null = null
  /** Formats that this request has found missing where a provider should have them. */
  const missing = new Map<Instance, Set<UpstreamProtocolName>>()
  const lackingAt = (instance: Instance): ReadonlySet<UpstreamProtocolName> => {
    const known = board.lacking(instance)
    const found = missing.get(instance)
    return known.length === 0 ? (found ?? NONE) : new Set([...known, ...(found ?? [])])
  }
  /** Whether a failure says that the format is not spoken at this address, and another may be. */
  const isAbsent = (target: Target, failure: Failure): boolean => {
    const { candidate } = target
    const { instance } = candidate
    const asked = bodies.get(askedOf(target))?.get(candidate)?.protocol.name
    const found = missing.get(instance) ?? new Set()
    const isLast = lackingAt(instance).size + 1 >= instance.speaks.length
    if (!asked || isLast || found.has(asked) || !tellsOfPath(failure)) return false
    missing.set(instance, found.add(asked))
    // What speaks of a model may be about the model: that is seen in the other format.
    if (!/model/i.test(failure.upstream?.message ?? '')) board.lacks(instance, asked)
    for (const made of bodies.values()) made.delete(candidate)
    return true
  }
  const askedOf = (target: Target): Question =>
    unsealed.get(target.candidate.instance.id) ?? short ?? turn?.questionFor(target) ?? question
  return {
    prepare: (target) => {
      const { candidate } = target
      const asked = askedOf(target)
      const made = bodies.get(asked) ?? new Map<Candidate, Prepared | null>()
      bodies.set(asked, made)
      const known = made.get(candidate)
      if (known !== undefined) return known
      const facts = factsOf(tools.catalogue, candidate.instance, candidate.model)
      const body = prepare(asAsked(asked, candidate.instance), candidate, facts, lackingAt(candidate.instance))
      made.set(candidate, body)
      return body
    },
    begin: (target, prepared) => {
      const { instance } = target.candidate
      return new Attempt(world, {
        url: prepared.url,
        headers: headersFor(instance, target.key, question, prepared),
        identity: identityOf(instance, target.key, prepared.auth),
        body: prepared.body,
        ...(prepared.raw && { source: prepared.raw }),
        protocol: prepared.protocol,
        quirks: instance.provider.quirks,
        key: target.key,
        translated:
          prepared.protocol.name === question.protocol.name && !askedOf(target).anew ? null : question.request,
        stream: prepared.stream,
        ...(hasEffects(question.request) && { once: true }),
        hold: question.request.stream ? settings.stream.holdback : Number.POSITIVE_INFINITY,
        forgiving: prepared.protocol.looseEvents === true && isPlainText(question),
        settings,
        heard: (headers) => board.heard(target, headers),
      })
    },
    otherwise: (target, failure) => {
      const { id } = target.candidate.instance
      if (turn?.forgotten(askedOf(target), failure) || isAbsent(target, failure)) return true
      if (failure.kind !== 'unknown_proof' || unsealed.has(id)) return false
      const open = withoutProofs(short ?? question)
      if (open) unsealed.set(id, open)
      return open !== null
    },
    less: (failure) => {
      const less = failure.kind === 'context_length' ? shortened(short ?? question) : null
      if (!less) return false
      short = less
      unsealed.clear()
      return true
    },
    mayGoElsewhere: (failure) => mayAskElsewhere(question.request, failure),
    // Nobody waits for what is answered in the background.
    ...(settings.hedge.percent > 0 &&
      mayAskTwo(question.request) &&
      !turn?.kept.background && { hedging: hedging(board, settings, question) }),
  }
}

const NONE: ReadonlySet<UpstreamProtocolName> = new Set()

const hedging = (board: Board, settings: Settings, { request }: Question): Hedging => {
  const way = request.stream ? 'streamed' : 'whole'
  return {
    begun: () => board.payForHedges(settings),
    after: (candidate) => board.hedgeAfter(candidate, way, settings),
    allowed: (late, client) => board.mayHedge(late, settings, client),
    opened: (candidate, ms) => board.waited(candidate, way, ms),
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

/** Neither a call nor a document that a missing piece would make another one. */
const isPlainText = ({ request }: Question): boolean =>
  request.tools.length === 0 && request.settings.format === undefined
