/** The tools a model may call, and how freely. */
import type { ChatRequest, Tool, ToolChoice } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject } from '../../core/json.ts'
import { freeInput } from '../arguments.ts'
import { permitted } from '../carry.ts'
import { type Losses, loseAll } from '../losses.ts'
import { toolName } from '../openai-responses/names.ts'
import { allowsStrict } from '../openai-responses/strict.ts'

export type EncodedTools = { readonly tools: readonly JsonObject[]; readonly choice?: Json }

export const encodeTools = ({ tools, settings: { toolChoice } }: ChatRequest, losses: Losses): EncodedTools => {
  const choice = toolChoice?.value
  const offered = permitted(tools, choice)
  const written = offered.flatMap((tool) => encodeTool(tool, losses))
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

const encodeTool = (tool: Tool, losses: Losses): JsonObject[] => {
  switch (tool.kind) {
    case 'function':
      return encodeFunction(tool, losses)
    case 'custom': {
      const { name, description } = tool
      return [declared({ name: toolName(name), ...described(description), parameters: freeInput(tool, losses) })]
    }
    case 'foreign':
      losses.unfit(tool.at)
      return []
    default:
      throw new Error(`unknown tool ${JSON.stringify(tool satisfies never)}`)
  }
}

const encodeFunction = (tool: Tool & { kind: 'function' }, losses: Losses): JsonObject[] => {
  const { at, name, description, parameters = NOTHING, strict, extras } = tool
  loseAll(extras, losses)
  if (!isObject(parameters)) {
    losses.unfit(at)
    return []
  }
  // Where a schema does not keep the rules of strict mode, the other formats do not enforce it either.
  const exact = strict === true && allowsStrict(parameters)
  return [declared({ name: toolName(name), ...described(description), parameters, ...(exact && { strict: true }) })]
}

/** `parameters` is required here; a function without arguments has an object without members. */
const NOTHING: JsonObject = { type: 'object', properties: {} }

const described = (description: string | undefined): JsonObject => (description === undefined ? {} : { description })

const declared = (it: JsonObject): JsonObject => ({ type: 'function', function: it })
