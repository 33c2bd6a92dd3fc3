/**
 * The subset of JSON Schema that Claude enforces. Objects must be closed; bounds on numbers, lengths and counts are
 * rejected (400). A bound moves into the description, where the model reads it.
 */
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'
import { ANNOTATIONS, describeBounds, NAMED_SCHEMAS } from './json-schema.ts'

/** A schema within Claude's subset, with the paths of the constraints that changed. */
export type FittedSchema = {
  readonly schema: Json
  /** Paths of constraints that moved into descriptions and are no longer enforced. */
  readonly described: readonly string[]
  /** Paths of constraints that cannot be expressed: maps with open keys, values of any type. */
  readonly impossible: readonly string[]
}

const KEPT = new Set([
  'type',
  'enum',
  'const',
  'description',
  'title',
  'default',
  'required',
  '$ref',
  'additionalProperties',
])
const OF_SCHEMAS = new Set(['anyOf', 'allOf'])
const FORMATS = new Set(['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'uri', 'ipv4', 'ipv6', 'uuid'])

/** Converts a schema to Claude's subset. */
export const fitSchema = (schema: Json): FittedSchema => {
  const described: string[] = []
  const impossible: string[] = []
  return { schema: convert(schema, '', described, impossible), described, impossible }
}

const convert = (schema: Json, at: string, described: string[], impossible: string[]): Json => {
  if (!isObject(schema) || isAnything(schema)) {
    impossible.push(at)
    return schema
  }
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
    else if (OF_SCHEMAS.has(keyword) && isList(value))
      result[keyword] = value.map((entry, index) => inner(entry, `${path}[${index}]`))
    else if (keyword === 'oneOf' && isList(value) && !schema.anyOf)
      result.anyOf = value.map((entry, index) => inner(entry, `${path}[${index}]`))
    else if (keyword === 'items' && isObject(value)) result.items = inner(value, path)
    else if (keyword === 'minItems' && (value === 0 || value === 1)) result.minItems = value
    else if (keyword === 'format' && typeof value === 'string' && FORMATS.has(value)) result.format = value
    else if (keyword === 'patternProperties') impossible.push(path)
    else {
      bounds.push(`${keyword}: ${JSON.stringify(value)}`)
      described.push(path)
    }
  }
  if (isObjectSchema(schema)) {
    const open = schema.additionalProperties
    // Closing an object only narrows the valid answers. A closed map could only be empty.
    if (isObject(open) || !isObject(schema.properties)) {
      if (open !== false) impossible.push(`${at}.additionalProperties`)
    }
    result.additionalProperties = false
  }
  if (bounds.length > 0) result.description = describeBounds(result.description, bounds)
  return result
}

const isObjectSchema = (schema: JsonObject): boolean =>
  schema.type === 'object' ||
  (isList(schema.type) && schema.type.includes('object')) ||
  (schema.type === undefined && isObject(schema.properties))

/** A schema that does not constrain the type of its values. */
const isAnything = (schema: JsonObject): boolean =>
  !['type', 'enum', 'const', 'anyOf', 'allOf', 'oneOf', '$ref', 'properties'].some(
    (keyword) => schema[keyword] !== undefined,
  )

/** Whether every object in the schema has `additionalProperties: false`. */
export const isClosed = (schema: Json | undefined): boolean =>
  everyObject(schema, ({ additionalProperties }) => additionalProperties === false)

/** Whether every object is closed and requires all its properties: `strict` in the other formats. */
export const isStrict = (schema: Json | undefined): boolean =>
  everyObject(schema, ({ additionalProperties, properties, required }) => {
    const names = isObject(properties) ? Object.keys(properties) : []
    return additionalProperties === false && names.every((name) => isList(required) && required.includes(name))
  })

const everyObject = (schema: Json | undefined, holds: (schema: JsonObject) => boolean): boolean => {
  if (isList(schema)) return schema.every((entry) => everyObject(entry, holds))
  if (!isObject(schema)) return true
  if (isObjectSchema(schema) && !holds(schema)) return false
  return Object.entries(schema).every(([keyword, value]) => {
    if (NAMED_SCHEMAS.has(keyword) && isObject(value))
      return Object.values(value).every((entry) => everyObject(entry, holds))
    return keyword === 'items' || OF_SCHEMAS.has(keyword) || keyword === 'oneOf' ? everyObject(value, holds) : true
  })
}

/** A tool's parameters with an object at the top level. Undefined if that would change which arguments are valid. */
export const objectSchema = (parameters: Json | undefined): JsonObject | undefined => {
  if (parameters === undefined || parameters === null) return { type: 'object', properties: {} }
  if (!isObject(parameters)) return undefined
  const { type } = parameters
  const objects = type === undefined || type === 'object' || (isList(type) && type.includes('object'))
  if (!objects || (parameters.properties !== undefined && !isObject(parameters.properties))) return undefined
  return type === 'object' ? parameters : { ...parameters, type: 'object' }
}

/** Claude rejects it: "input_schema does not support oneOf, allOf, or anyOf at the top level". */
export const hasTopLevelUnion = (parameters: Json | undefined): boolean =>
  isObject(parameters) && Boolean(parameters.anyOf || parameters.oneOf || parameters.allOf)
