/** Which requests are safe to retry or hedge: repeating a model call costs tokens, repeating a side effect is an error. */
import type { ChatRequest, Extra, Tool } from '../../core/chat.ts'
import type { Failure } from '../../core/failure.ts'
import { isObject, object } from '../../core/json.ts'

/** Whether another attempt may follow this failure: yes, unless the upstream may have started a side effect. */
export const mayFailOver = (request: ChatRequest, failure: Failure): boolean =>
  !hasEffects(request) || wasNotStarted(failure)

/**
 * Whether the request may be hedged, which cancels one of two attempts. Not allowed: side effects, storage that the
 * client requested (`store: true`), tools that the provider runs (they continue and are billed after the cancellation),
 * and several choices, because each attempt costs several answers.
 */
export const mayHedge = (request: ChatRequest): boolean =>
  !hasEffects(request) &&
  request.settings.store?.value !== true &&
  (request.settings.choices?.value ?? 1) === 1 &&
  !request.tools.some(({ kind }) => kind === 'foreign') &&
  !request.extras.some(({ name }) => TOOLS_BY_NAME.has(name))

/** Members that make the provider run a tool: web search of OpenAI and xAI, plugins of OpenRouter. */
export const TOOLS_BY_NAME: ReadonlySet<string> = new Set(['web_search_options', 'search_parameters', 'plugins'])

/** Whether the request changes state outside its answer. */
export const hasEffects = ({ tools, extras }: ChatRequest): boolean => extras.some(extraActs) || tools.some(toolActs)

/**
 * `background`: the response is stored under an id. `conversation`: the response is appended to a stored conversation.
 * `mcp_servers`, `container`: Anthropic's members for the tools below.
 */
const extraActs = ({ name, value }: Extra): boolean => {
  switch (name) {
    case 'background':
      return value === true
    case 'conversation':
      return value !== null
    case 'mcp_servers':
      return Array.isArray(value) && value.length > 0
    case 'container':
      return isNamed(value)
    default:
      return false
  }
}

/**
 * Whether a tool that the provider runs changes state outside the answer: MCP servers (they send mail, file tickets), and
 * code in a persistent container. Search, page fetches, image generation and code in a new container have no side
 * effects. Tools that the client runs are not run by a second attempt.
 */
const toolActs = (tool: Tool): boolean => {
  if (tool.kind !== 'foreign') return false
  const { type, container, environment } = tool.raw
  return (
    (typeof type === 'string' && /^mcp(?:_|$)/.test(type)) ||
    isNamed(container) ||
    object(environment)?.type === 'container_reference'
  )
}

/** Whether the value is a container's id, alone or in an object. `{ type: 'auto' }` requests a new container. */
const isNamed = (value: unknown): boolean =>
  typeof value === 'string' || (isObject(value) && typeof value.id === 'string')

/** Statuses below 500 of an upstream that may have started work. */
const MAY_HAVE_STARTED = new Set([408, 499])
/** Statuses of 500 and above with which a request is rejected before any work. */
const REJECTED = new Set([501, 503, 529])

/** Whether the failure proves that the upstream did no work: it was not reached, or it rejected the request. */
export const wasNotStarted = ({ unsent, status }: Failure): boolean => {
  if (unsent === true) return true
  if (status === undefined) return false
  return status >= 500 ? REJECTED.has(status) : status >= 300 && !MAY_HAVE_STARTED.has(status)
}
