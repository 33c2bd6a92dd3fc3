/** The tools a model may call, and how freely. */
import type { ChatRequest, ToolChoice } from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import type { Losses } from '../shared/losses.ts'
import { allowedTools, type DeclareFunction, toolsAsFunctions } from '../shared/setting-encoders.ts'
import { allowsStrict } from '../shared/strict-schema.ts'
import { toolName } from '../shared/tool-names.ts'

export type EncodedTools = { readonly tools: readonly JsonObject[]; readonly choice?: Json }

export const encodeTools = ({ tools, settings: { toolChoice } }: ChatRequest, losses: Losses): EncodedTools => {
  const choice = toolChoice?.value
  const offered = allowedTools(tools, choice)
  const written = toolsAsFunctions(offered, declared, losses)
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

/** `parameters` is required here; a function without arguments has an object without members. */
const NOTHING: JsonObject = { type: 'object', properties: {} }

const declared: DeclareFunction = (tool, parameters = NOTHING) => {
  const { name, description } = tool
  // Where a schema does not keep the rules of strict mode, the other formats do not enforce it either.
  const exact = tool.kind === 'function' && tool.strict === true && allowsStrict(parameters)
  return {
    type: 'function',
    function: {
      name: toolName(name),
      ...(description !== undefined && { description }),
      parameters,
      ...(exact && { strict: true }),
    },
  }
}
