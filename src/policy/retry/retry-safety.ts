/** What may be asked a second time, or of two at once: asking a model twice costs tokens, having something done twice is an error. */
import type { ChatRequest, Extra, Tool } from '../../core/chat.ts'
import type { Failure } from '../../core/failure.ts'
import { isObject, object } from '../../core/json.ts'

/** Whether a failed attempt may be followed by one elsewhere: always, unless the upstream may have begun what has effects. */
export const mayFailOver = (request: ChatRequest, failure: Failure): boolean =>
  !hasEffects(request) || wasNotStarted(failure)

/**
 * Whether two providers may be asked at once, of which one will be let go: nothing of it has effects, nothing is to be
 * kept there by the client's own word, and no tool runs at the provider, which goes on and is paid for unseen. Several
 * choices cost several answers, so they are requested from one provider.
 */
export const mayHedge = (request: ChatRequest): boolean =>
  !hasEffects(request) &&
  request.settings.store?.value !== true &&
  (request.settings.choices?.value ?? 1) === 1 &&
  !request.tools.some(({ kind }) => kind === 'foreign') &&
  !request.extras.some(({ name }) => TOOLS_BY_NAME.has(name))

/** Members that have the provider run a tool: OpenAI's search, xAI's, OpenRouter's. */
export const TOOLS_BY_NAME: ReadonlySet<string> = new Set(['web_search_options', 'search_parameters', 'plugins'])

/** Answering does more than answer: it changes something that is there before and after. */
export const hasEffects = ({ tools, extras }: ChatRequest): boolean => extras.some(extraActs) || tools.some(toolActs)

/**
 * `background`: an answer somebody will ask for by its id. `conversation`: each answer is put behind the last.
 * `mcp_servers`, `container`: the same as the tools below, in Anthropic's words.
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
 * Of the tools a provider runs, those that change something outside the answer: a server of somebody else's (MCP: mail
 * is sent, tickets are filed), and code in a container that is there before and after. Searching, fetching a page, making
 * an image and code in a container of its own leave nothing behind. What the client runs is not run by asking twice.
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

/** A container by its id, alone or in an object; `{ type: 'auto' }` is a new one. */
const isNamed = (value: unknown): boolean =>
  typeof value === 'string' || (isObject(value) && typeof value.id === 'string')

/** Statuses of an upstream that had begun, or may have, when it gave up. */
const MAY_HAVE_STARTED = new Set([408, 499])
/** Statuses of 500 and above with which a request is turned away before anything of it is done. */
const REJECTED = new Set([501, 503, 529])

/** It proves that the upstream has done nothing of it: never reached, or refused. */
const wasNotStarted = ({ unsent, status }: Failure): boolean => {
  if (unsent === true) return true
  if (status === undefined) return false
  return status >= 500 ? REJECTED.has(status) : status >= 300 && !MAY_HAVE_STARTED.has(status)
}
