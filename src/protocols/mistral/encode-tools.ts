/** Encodes tools and tool choice. */
import type { ChatRequest, ToolChoice } from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import type { Losses } from '../shared/losses.ts'
import { allowedTools, type DeclareFunction, toolsAsFunctions } from '../shared/setting-encoders.ts'
import { allowsStrict } from '../shared/strict-schema.ts'
import { toolName } from '../shared/tool-names.ts'

/** `tools` and `tool_choice` of a request. */
export type MistralTools = { readonly tools: readonly JsonObject[]; readonly choice?: Json }

/** Encodes the tools of a request and reports a required choice without tools. */
export const encodeTools = ({ tools, settings: { toolChoice } }: ChatRequest, losses: Losses): MistralTools => {
  const choice = toolChoice?.value
  const offered = allowedTools(tools, choice)
  const written = toolsAsFunctions(offered, declareFunction, losses)
  if (written.length === 0) {
    if (toolChoice && choice?.kind !== 'auto' && choice?.kind !== 'none') losses.lose(toolChoice.at)
    return { tools: [] }
  }
  return { tools: written, ...(choice && { choice: encodeChoice(choice) }) }
}

const encodeChoice = (choice: ToolChoice): Json => {
  switch (choice.kind) {
    case 'auto':
    case 'none':
      return choice.kind
    case 'required':
      return 'any'
    case 'tool':
      return { type: 'function', function: { name: toolName(choice.name) } }
    case 'allowed':
      return choice.mode === 'required' ? 'any' : 'auto'
    default:
      throw new Error(`unknown choice ${JSON.stringify(choice satisfies never)}`)
  }
}

/** `parameters` is required, so a function without arguments gets an empty object. */
const NO_PARAMETERS: JsonObject = { type: 'object', properties: {} }

const declareFunction: DeclareFunction = (tool, parameters = NO_PARAMETERS) => {
  const { name, description } = tool
  // A schema outside the rules of strict mode is not enforced by other formats either.
  const isStrict = tool.kind === 'function' && tool.strict === true && allowsStrict(parameters)
  return {
    type: 'function',
    function: {
      name: toolName(name),
      ...(description !== undefined && { description }),
      parameters,
      ...(isStrict && { strict: true }),
    },
  }
}
