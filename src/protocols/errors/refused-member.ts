/** Finds the member that a provider rejects, if the request keeps its meaning without it. */
import type { Failure } from '../../core/failure.ts'

/** Members that change the request's meaning. They are never dropped; the router tries the next target. */
const ESSENTIAL: ReadonlySet<string> = new Set(
  'model messages input system instructions stream tools tool_choice functions function_call response_format text output_config n previous_response_id conversation prompt role content tool_calls tool_call_id type id call_id name arguments output summary encrypted_content max_tokens max_completion_tokens max_output_tokens'.split(
    ' ',
  ),
)

/** Paths such as `messages[1].foo`, `messages.2.assistant.foo`, `body.store`, `store`. */
const PATH =
  /^(?:body\.)?(?:(messages|input)(?:\[\d{1,6}\]|\.\d{1,6})(?:\.(?:assistant|user|system|tool))?\.)?([a-z][a-z0-9_]{0,60})$/

/** Error messages that contain a member's path or name. Repetitions are bounded: the text is untrusted. */
const MESSAGE_PATTERNS: readonly RegExp[] = [
  /property '([^']{1,200})' is unsupported/i,
  /extra inputs are not permitted, field: '([^']{1,200})'/i,
  /^([a-z0-9_.[\]]{1,200}): extra inputs are not permitted/i,
  /^model .{1,100} does not support parameter ([a-z_]{1,60})/i,
  /^argument not supported on this model: ([a-z_]{1,60})/i,
  /^unknown field: parameter '([^']{1,60})'/i,
]

/** The rejected member: `store`, `messages.foo`, `input.foo`. Undefined if none is named or it is essential. */
export const refusedMember = ({ kind, param, upstream }: Failure): string | undefined => {
  if (kind !== 'incompatible') return undefined
  const message = upstream?.message ?? ''
  const isNamed = upstream?.code === 'unknown_parameter' || upstream?.code === 'unsupported_parameter'
  const path =
    (isNamed ? param : undefined) ?? MESSAGE_PATTERNS.map((pattern) => pattern.exec(message)?.[1]).find(Boolean)
  const [, list, name] = PATH.exec(snakeCase(path ?? '')) ?? []
  if (name === undefined || ESSENTIAL.has(name)) return undefined
  // Groq reports message and member separately: "('messages.1' : property 'foo' is unsupported)".
  const parent = list ?? (/'messages\.\d{1,6}' : property/.test(message) ? 'messages' : undefined)
  return parent === undefined ? name : `${parent}.${name}`
}

/** xAI reports camel case: `presencePenalty`. */
const snakeCase = (path: string): string => path.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
