/** Parameters of a function, as OpenAI's formats require them. */
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'

/** Parameters of a function without arguments. */
const NO_PARAMETERS = { type: 'object', properties: {} } as const satisfies JsonObject

/** The same for strict mode, which requires closed objects. */
export const CLOSED_PARAMETERS = { ...NO_PARAMETERS, required: [], additionalProperties: false } as const

/**
 * The parameters as an object schema with `properties`. Anthropic accepts less, and MCP servers write `{"type":"object"}` for
 * a tool without arguments. OpenAI refuses that: "object schema missing properties"
 * (github.com/spring-projects/spring-ai/issues/4776; responses: github.com/everruns/everruns/pull/984, 2026-03-20). OpenAI and
 * DeepSeek refuse a schema without a type (github.com/end-4/dots-hyprland/pull/3640, 2026-09-11, measured). The valid arguments
 * remain the same. Returns the same value if it is complete, or if it is no schema of objects.
 */
export const objectParameters = (parameters: Json | undefined): Json => {
  if (parameters === undefined || parameters === null || parameters === true) return NO_PARAMETERS
  if (!isObject(parameters)) return parameters
  const { type, properties } = parameters
  const allowsObjects =
    type === undefined || type === null || type === 'object' || (isList(type) && type.includes('object'))
  if (!allowsObjects || (type === 'object' && isObject(properties))) return parameters
  return { ...parameters, type: 'object', properties: isObject(properties) ? properties : {} }
}
