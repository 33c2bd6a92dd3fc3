/**
 * The JSON Schema this format enforces: a part of the standard. Objects are closed, and bounds on numbers, lengths and
 * counts do not exist (400 otherwise). A bound is moved into the description, where the model reads it.
 */
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'

export type FittedSchema = {
  readonly schema: Json
  /** Paths of what is only described now, no longer enforced. */
  readonly described: readonly string[]
  /** Paths of what cannot be said at all: maps with open keys, values of any type. */
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
const NAMED_SCHEMAS = new Set(['properties', '$defs', 'definitions'])
/** Says nothing about values. */
const REMARKS = new Set(['$schema', '$id', '$comment', 'examples', 'deprecated', 'readOnly', 'writeOnly', '$anchor'])
const FORMATS = new Set(['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'uri', 'ipv4', 'ipv6', 'uuid'])

/** The schema as this format takes it, and what that took. */
export const fitSchema = (schema: Json): FittedSchema => {
  const described: string[] = []
  const impossible: string[] = []
  return { schema: fitted(schema, '', described, impossible), described, impossible }
}

const fitted = (schema: Json, at: string, described: string[], impossible: string[]): Json => {
  if (!isObject(schema) || isAnything(schema)) {
    impossible.push(at)
    return schema
  }
  const kept: { [keyword: string]: Json } = {}
  const bounds: string[] = []
  const inner = (value: Json, path: string) => fitted(value, path, described, impossible)
  for (const [keyword, value] of Object.entries(schema)) {
    if (value === undefined || REMARKS.has(keyword)) continue
    const path = `${at}.${keyword}`
    if (KEPT.has(keyword)) kept[keyword] = value
    else if (NAMED_SCHEMAS.has(keyword) && isObject(value))
      kept[keyword] = Object.fromEntries(
        Object.entries(value).map(([name, one]) => [name, inner(one ?? null, `${path}.${name}`)]),
      )
    else if (OF_SCHEMAS.has(keyword) && isList(value))
      kept[keyword] = value.map((one, index) => inner(one, `${path}[${index}]`))
    else if (keyword === 'oneOf' && isList(value) && !schema.anyOf)
      kept.anyOf = value.map((one, index) => inner(one, `${path}[${index}]`))
    else if (keyword === 'items' && isObject(value)) kept.items = inner(value, path)
    else if (keyword === 'minItems' && (value === 0 || value === 1)) kept.minItems = value
    else if (keyword === 'format' && typeof value === 'string' && FORMATS.has(value)) kept.format = value
    else if (keyword === 'patternProperties') impossible.push(path)
    else {
      bounds.push(`${keyword}: ${JSON.stringify(value)}`)
      described.push(path)
    }
  }
  if (isObjectSchema(schema)) {
    const open = schema.additionalProperties
    // Closing an object narrows the answers, which all still fit. A map, closed, could only be empty.
    if (isObject(open) || !isObject(schema.properties)) {
      if (open !== false) impossible.push(`${at}.additionalProperties`)
    }
    kept.additionalProperties = false
  }
  if (bounds.length > 0)
    kept.description = `${typeof kept.description === 'string' ? `${kept.description}\n\n` : ''}(${bounds.join(', ')})`
  return kept
}

const isObjectSchema = (schema: JsonObject): boolean =>
  schema.type === 'object' ||
  (isList(schema.type) && schema.type.includes('object')) ||
  (schema.type === undefined && isObject(schema.properties))

/** A schema without anything that says of which kind its values are. */
const isAnything = (schema: JsonObject): boolean =>
  !['type', 'enum', 'const', 'anyOf', 'allOf', 'oneOf', '$ref', 'properties'].some(
    (keyword) => schema[keyword] !== undefined,
  )

/** Whether every object in the schema says that it has no other members than those named. */
export const isClosed = (schema: Json | undefined): boolean =>
  everyObject(schema, ({ additionalProperties }) => additionalProperties === false)

/** Whether every object is closed and requires all it has: what `strict` means in the other formats. */
export const isStrict = (schema: Json | undefined): boolean =>
  everyObject(schema, ({ additionalProperties, properties, required }) => {
    const names = isObject(properties) ? Object.keys(properties) : []
    return additionalProperties === false && names.every((name) => isList(required) && required.includes(name))
  })

const everyObject = (schema: Json | undefined, holds: (schema: JsonObject) => boolean): boolean => {
  if (isList(schema)) return schema.every((one) => everyObject(one, holds))
  if (!isObject(schema)) return true
  if (isObjectSchema(schema) && !holds(schema)) return false
  return Object.entries(schema).every(([keyword, value]) => {
    if (NAMED_SCHEMAS.has(keyword) && isObject(value))
      return Object.values(value).every((one) => everyObject(one, holds))
    return keyword === 'items' || OF_SCHEMAS.has(keyword) || keyword === 'oneOf' ? everyObject(value, holds) : true
  })
}

/** A tool's parameters as an object at the top. Undefined where that cannot be had without changing what the tool takes. */
export const objectSchema = (parameters: Json | undefined): JsonObject | undefined => {
  if (parameters === undefined || parameters === null) return { type: 'object', properties: {} }
  if (!isObject(parameters)) return undefined
  const { type } = parameters
  const objects = type === undefined || type === 'object' || (isList(type) && type.includes('object'))
  if (!objects || (parameters.properties !== undefined && !isObject(parameters.properties))) return undefined
  return type === 'object' ? parameters : { ...parameters, type: 'object' }
}

/** "input_schema does not support oneOf, allOf, or anyOf at the top level". */
export const hasTopLevelUnion = (parameters: Json | undefined): boolean =>
  isObject(parameters) && Boolean(parameters.anyOf || parameters.oneOf || parameters.allOf)
