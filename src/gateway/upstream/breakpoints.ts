/** Whether a request to a target receives cache breakpoints. */
import type { ChatRequest } from '../../core/chat.ts'
import type { EncodedText } from '../../core/encoded-text.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { JsonObject } from '../../core/json.ts'
import type { UpstreamProtocol } from '../../core/protocol.ts'
import type { Candidate } from '../../core/target.ts'
import { BREAKPOINTS_HEADER } from '../../core/target-override.ts'
import { estimateTokens } from '../../policy/routing/estimate-tokens.ts'
import { namedSession } from '../../policy/sessions/named-session.ts'

/** A client's request, as far as its breakpoints depend on it. */
type MarkableRequest = {
  readonly request: ChatRequest
  readonly source: EncodedText
  readonly headers: HeaderLookup
  readonly body: JsonObject
}

/** Vendors cache prompts of at least this many tokens. */
const LEAST_TOKENS = 1_024

/** The body with breakpoints, if the target or the client wants them and a later request may use what they write. */
export const breakpointed = (
  body: JsonObject,
  protocol: UpstreamProtocol,
  inbound: MarkableRequest,
  { instance, model, override }: Candidate,
): JsonObject => {
  const { withBreakpoints } = protocol
  if (!withBreakpoints || !instance.provider.takesBreakpoints) return body
  const mode = inbound.headers(BREAKPOINTS_HEADER) ?? override?.cacheBreakpoints
  return mode === 'auto' && mayBeReadAgain(inbound) ? withBreakpoints(body, model) : body
}

/** What is written costs a quarter more, so there must be a reason to expect a further turn. */
const mayBeReadAgain = ({ request, source, headers, body }: MarkableRequest): boolean => {
  // No text has more tokens than bytes.
  if ((source.bytes?.length ?? source.text.length * 3) < LEAST_TOKENS || estimateTokens(request) < LEAST_TOKENS)
    return false
  const hasTurns = request.tools.length > 0 || request.messages.some(({ role }) => role === 'assistant')
  return hasTurns || namedSession(headers, body) !== null
}
