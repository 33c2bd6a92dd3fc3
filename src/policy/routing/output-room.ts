/** How many output tokens a request may ask for beside its prompt. */
import type { ChatRequest } from '../../core/chat.ts'
import type { ContextOverflow } from '../../core/failure.ts'
import type { ModelLimits } from '../../core/provider.ts'
import { estimateTokens } from './estimate-tokens.ts'

/** The estimate of a prompt may be too low, and servers add tokens of their template. */
const MARGIN = 1.25
const RESERVE = 512
/** Share of the window from which an estimated room is used. In a smaller one, the refusal's own figures are better. */
const LEAST_SHARE = 0.25
/** The smallest room in tokens for which a request is lowered. With less, the prompt counts as too long. */
export const LEAST_ROOM = 64

/**
 * The output limit to request from a model with these limits, if the client's does not fit. `length`: characters of the body,
 * an upper bound of its tokens that saves most estimates. Undefined: the client's fits, or what fits is not known.
 */
export const fittingOutput = (
  request: ChatRequest,
  { contextWindow = Number.POSITIVE_INFINITY, maxOutputTokens = Number.POSITIVE_INFINITY }: ModelLimits,
  length: number,
): number | undefined => {
  const wanted = request.settings.maxOutputTokens?.value
  if (wanted === undefined) return undefined
  const most = Math.min(wanted, maxOutputTokens)
  const room = length + most <= contextWindow ? most : contextWindow - promptOf(request)
  const fitting = room >= contextWindow * LEAST_SHARE ? Math.min(most, room) : most
  return fitting < wanted ? fitting : undefined
}

/**
 * The output limit to request after a refusal because prompt and output exceed the window. `sent`: the requested output.
 * Undefined: the prompt does not fit, or the requested output is not the reason.
 */
export const roomAfterRefusal = (
  request: ChatRequest,
  { window, promptTokens, requestedOutput }: ContextOverflow,
  sent: number,
): number | undefined => {
  if (window === undefined) return undefined
  // vLLM counts a long prompt only up to what is left ("at least 180225 input tokens"): its figure says nothing.
  const isBound = promptTokens !== undefined && promptTokens + sent <= window + 1 && (requestedOutput ?? sent) === sent
  const room = window - (promptTokens === undefined || isBound ? promptOf(request) : promptTokens)
  const fitting = isBound ? Math.min(room, Math.floor(sent / 2)) : room
  return fitting >= LEAST_ROOM && fitting < sent ? fitting : undefined
}

const promptOf = (request: ChatRequest): number => Math.ceil(estimateTokens(request) * MARGIN) + RESERVE
