/** Parameters of a function, as OpenAI's formats require them. */
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'
import { NAMED_SCHEMAS } from './json-schema.ts'

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

/**
 * The same, with `items` in every array: OpenAI refuses "array schema missing items"
 * (github.com/sigoden/aichat/pull/1049, 2024-12-11; github.com/tidewave-ai/tidewave_phoenix/pull/224, 2026-02-02). Any item
 * remains valid. Recursion is bounded by the depth limit of request bodies.
 */
export const completeParameters = (parameters: Json | undefined): Json => withItems(objectParameters(parameters))

const SCHEMAS = new Set(['items', 'additionalProperties', 'not', 'anyOf', 'allOf', 'oneOf', 'prefixItems'])

const withItems = (schema: Json): Json => {
  if (isList(schema)) return mapped(schema, withItems)
  if (!isObject(schema)) return schema
  let complete = schema
  for (const keyword in schema) {
    const value = schema[keyword]
    if (typeof value !== 'object' || value === null) continue
    const inner = SCHEMAS.has(keyword)
      ? withItems(value)
      : NAMED_SCHEMAS.has(keyword) && isObject(value)
        ? withItemsEach(value)
        : value
    if (inner !== value) complete = { ...complete, [keyword]: inner }
  }
  const { type, items, prefixItems } = schema
  const isArray = type === 'array' || (isList(type) && type.includes('array'))
  return isArray && items === undefined && prefixItems === undefined ? { ...complete, items: {} } : complete
}

const withItemsEach = (schemas: JsonObject): JsonObject => {
  let complete = schemas
  for (const name in schemas) {
    const value = schemas[name]
    const inner = value === undefined ? value : withItems(value)
    if (inner !== value) complete = { ...complete, [name]: inner }
  }
  return complete
}

const mapped = (list: readonly Json[], change: (value: Json) => Json): readonly Json[] => {
  const changed = list.map(change)
  return changed.every((value, index) => value === list[index]) ? list : changed
}
