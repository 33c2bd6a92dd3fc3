/** Which member of a body a vendor's refusal names, where the request means the same without it. */
import type { Failure } from '../../core/failure.ts'

/** Without these a request asks something else, or nothing: the next vendor is tried instead. */
const ESSENTIAL: ReadonlySet<string> = new Set(
  'model messages input system instructions stream tools tool_choice functions function_call response_format text output_config n previous_response_id conversation prompt role content tool_calls tool_call_id type id call_id name arguments output summary encrypted_content max_tokens max_completion_tokens max_output_tokens'.split(
    ' ',
  ),
)

/** Paths by their ends: `messages[1].foo`, `messages.2.assistant.foo`, `body.store`, `store`. */
const PATH =
  /^(?:body\.)?(?:(messages|input)(?:\[\d{1,6}\]|\.\d{1,6})(?:\.(?:assistant|user|system|tool))?\.)?([a-z][a-z0-9_]{0,60})$/

/** Each finds a path, or the bare name of a member. Bounded, since they run over text of unknown origin. */
const SENTENCES: readonly RegExp[] = [
  /property '([^']{1,200})' is unsupported/i,
  /extra inputs are not permitted, field: '([^']{1,200})'/i,
  /^([a-z0-9_.[\]]{1,200}): extra inputs are not permitted/i,
  /^model .{1,100} does not support parameter ([a-z_]{1,60})/i,
  /^argument not supported on this model: ([a-z_]{1,60})/i,
  /^unknown field: parameter '([^']{1,60})'/i,
]

/** `store`, `messages.foo`, `input.foo`; undefined: it names none, or one the request cannot do without. */
export const refusedMember = ({ kind, param, upstream }: Failure): string | undefined => {
  if (kind !== 'incompatible') return undefined
  const message = upstream?.message ?? ''
  const isNamed = upstream?.code === 'unknown_parameter' || upstream?.code === 'unsupported_parameter'
  const said = (isNamed ? param : undefined) ?? SENTENCES.map((sentence) => sentence.exec(message)?.[1]).find(Boolean)
  const [, list, name] = PATH.exec(snake(said ?? '')) ?? []
  if (name === undefined || ESSENTIAL.has(name)) return undefined
  // Groq names the message beside the member: "('messages.1' : property 'foo' is unsupported)".
  const within = list ?? (/'messages\.\d{1,6}' : property/.test(message) ? 'messages' : undefined)
  return within === undefined ? name : `${within}.${name}`
}

/** xAI's names are in camel case: `presencePenalty`. */
const snake = (path: string): string => path.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
