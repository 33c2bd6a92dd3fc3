/**
 * The subset of JSON Schema that Cohere enforces (Structured Outputs, "Schema constraints" and "Unsupported schema
 * features"): an object at the top level, at least one required member in every object, and no bounds. A bound moves into
 * the description, where the model reads it.
 */
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'
import { ANNOTATIONS, describeBounds, NAMED_SCHEMAS } from '../shared/json-schema.ts'

/** A schema within Cohere's subset, with the paths of the constraints that changed. */
export type CohereSchema = {
  readonly schema: JsonObject
  /** Paths of constraints that moved into descriptions and are no longer enforced. */
  readonly described: readonly string[]
  /** Paths of constraints that cannot be expressed. */
  readonly impossible: readonly string[]
}

const KEPT = new Set(['type', 'enum', 'const', 'description', 'title', 'default', 'required', '$ref'])
const FORMATS: ReadonlySet<Json> = new Set(['date-time', 'uuid', 'date', 'time'])
const IMPOSSIBLE = new Set(['allOf', 'oneOf', 'not', 'if', 'patternProperties', 'prefixItems'])

/** Converts a schema to Cohere's subset. */
export const fitSchema = (schema: JsonObject): CohereSchema => {
  const described: string[] = []
  const impossible: string[] = schema.type === 'object' ? [] : ['']
  // `convert` returns an object for an object.
  return { schema: convert(schema, '', described, impossible) as JsonObject, described, impossible }
}

const convert = (schema: Json, at: string, described: string[], impossible: string[]): Json => {
  // `true` allows any value.
  if (!isObject(schema)) return schema
  const result: { [keyword: string]: Json } = {}
  const bounds: string[] = []
  const inner = (value: Json, path: string) => convert(value, path, described, impossible)
  for (const [keyword, value] of Object.entries(schema)) {
    if (value === undefined || ANNOTATIONS.has(keyword)) continue
    const path = `${at}.${keyword}`
    if (KEPT.has(keyword)) result[keyword] = value
    else if (NAMED_SCHEMAS.has(keyword) && isObject(value))
      result[keyword] = Object.fromEntries(
        Object.entries(value).map(([name, entry]) => [name, inner(entry ?? null, `${path}.${name}`)]),
      )
    else if (keyword === 'anyOf' && isList(value))
      result.anyOf = value.map((entry, index) => inner(entry, `${path}[${index}]`))
    else if (keyword === 'items' || keyword === 'additionalProperties') result[keyword] = inner(value, path)
    else if (keyword === 'format' && FORMATS.has(value)) result.format = value
    // Cohere does not support anchors and lookaheads.
    else if (keyword === 'pattern' && typeof value === 'string' && !/[\^$]|\?[=!]/.test(value)) result.pattern = value
    else if (IMPOSSIBLE.has(keyword)) impossible.push(path)
    else {
      bounds.push(`${keyword}: ${JSON.stringify(value)}`)
      described.push(path)
    }
  }
  if (isObjectSchema(schema) && !(isList(schema.required) && schema.required.length > 0))
    impossible.push(`${at}.required`)
  if (bounds.length > 0) result.description = describeBounds(result.description, bounds)
  return result
}

const isObjectSchema = (schema: JsonObject): boolean =>
  schema.type === 'object' || (isList(schema.type) && schema.type.includes('object')) || isObject(schema.properties)

/** The number of members of all objects in a schema. */
export const fieldsIn = (schema: Json | undefined): number => {
  if (isList(schema)) return schema.reduce<number>((sum, entry) => sum + fieldsIn(entry), 0)
  if (!isObject(schema)) return 0
  const own = isObject(schema.properties) ? Object.keys(schema.properties).length : 0
  return own + Object.values(schema).reduce<number>((sum, entry) => sum + fieldsIn(entry), 0)
}
