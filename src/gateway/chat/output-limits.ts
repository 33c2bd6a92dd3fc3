/** Lowers the output limit of a request to what a target states in its refusal. */
import type { ChatRequest } from '../../core/chat.ts'
import { type Failure, type FailureKind, rowOf } from '../../core/failure.ts'
import type { Candidate } from '../../core/target.ts'
import { LEAST_ROOM, roomAfterRefusal } from '../../policy/routing/output-room.ts'
import { affordableOutput, outputLimitIn } from '../../protocols/errors/output-limit.ts'
import type { RouterDeps } from '../routing/route-context.ts'
import type { OutboundRequest } from '../upstream/outbound-request.ts'

/** Most attempts at one target with a lower limit. */
const MAX_TRIES = 2

/** The most output tokens to request. `isAdded`: the request has no output limit of its own. */
type StatedLimit = { readonly limit: number; readonly isAdded: boolean }

/** The output limits that targets have stated for one request. */
export class OutputLimits {
  readonly #deps: Pick<RouterDeps, 'health' | 'catalogue'>
  readonly #stated = new Map<Candidate, StatedLimit & { readonly tries: number }>()

  constructor(deps: Pick<RouterDeps, 'health' | 'catalogue'>) {
    this.#deps = deps
  }

  /** The limit for this candidate. Undefined: it has stated none. */
  of(candidate: Candidate): StatedLimit | undefined {
    return this.#stated.get(candidate)
  }

  /** Whether the request can be sent to the candidate again with a lower limit. What it states about the model is learned. */
  lower(candidate: Candidate, failure: Failure, request: ChatRequest, prepared: OutboundRequest | null): boolean {
    const tries = this.#stated.get(candidate)?.tries ?? 0
    const isOfRequest = rowOf(failure).side === 'client'
    // What an account or a minute has left changes with every request, so it is tried once.
    if (tries === MAX_TRIES || (!isOfRequest && (tries > 0 || !LEFT.has(failure.kind)))) return false
    const sent = limitIn(prepared?.body.text ?? '')
    const limit = isOfRequest ? this.#limitAfter(candidate, failure, request, sent) : affordableOutput(failure, sent)
    if (limit === undefined || limit < LEAST_ROOM) return false
    this.#stated.set(candidate, { limit, isAdded: sent === undefined, tries: tries + 1 })
    return true
  }

  #limitAfter(candidate: Candidate, failure: Failure, request: ChatRequest, sent?: number): number | undefined {
    if (sent === undefined) return undefined
    const { health, catalogue } = this.#deps
    if (failure.kind === 'context_length') {
      const { window: stated } = failure.overflow ?? {}
      if (stated !== undefined) health.limits.learn(candidate, { contextWindow: stated })
      const window = stated ?? health.limits.windowOf(catalogue, candidate)
      return roomAfterRefusal(request, { ...failure.overflow, ...(window !== undefined && { window }) }, sent)
    }
    const limit = outputLimitIn(failure, sent)
    if (limit !== undefined) health.limits.learn(candidate, { maxOutputTokens: limit })
    return limit
  }
}

/** Refusals that may state how much is left of an account or of a minute's limit. */
const LEFT: ReadonlySet<FailureKind> = new Set(['quota', 'token_rate'])

/** The output limit in a request body of any format. A quotation in a text has a backslash before its quotes. */
const limitIn = (body: string): number | undefined => {
  const [, digits] = LIMIT.exec(body) ?? []
  return digits === undefined ? undefined : Number(digits)
}

const LIMIT =
  /"(?:max_tokens|max_completion_tokens|max_output_tokens|maxOutputTokens|maxTokens|num_predict)":\s{0,8}([0-9]{1,9})\b/
