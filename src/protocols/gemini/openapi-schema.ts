/** Google's `Schema`, a subset of OpenAPI 3.0, as JSON Schema: types in lower case, `nullable` as a type, counts as numbers. */
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'

/** Keywords with one schema, and with a list of them. `properties` has schemas by names that the client chose. */
const ONE = new Set(['items', 'additionalProperties'])
const MANY = new Set(['anyOf', 'prefixItems'])
const COUNTS = new Set(['minItems', 'maxItems', 'minLength', 'maxLength', 'minProperties', 'maxProperties'])
const KEYWORDS = new Set([...ONE, ...MANY, ...COUNTS, 'propertyOrdering'])

/** The depth of a body is limited before, so the recursion is too. */
export const openapiToJsonSchema = (schema: JsonObject): JsonObject => {
  const converted: { [keyword: string]: Json | undefined } = {}
  let order: readonly Json[] = []
  let isNullable = false
  for (const [written, value] of Object.entries(schema)) {
    const keyword = spelled(written)
    if (value === undefined || value === null) continue
    if (keyword === 'nullable') isNullable = value === true
    // The order of the properties is what it states.
    else if (keyword === 'propertyOrdering') order = isList(value) ? value : []
    else if (keyword === 'type') converted.type = lowerType(value)
    else if (keyword === 'properties' && isObject(value)) converted.properties = mapped(value)
    else if (ONE.has(keyword) && isObject(value)) converted[keyword] = openapiToJsonSchema(value)
    else if (MANY.has(keyword) && isList(value)) converted[keyword] = value.map(inner)
    // Google's JSON has 64-bit integers as texts.
    else if (COUNTS.has(keyword) && typeof value === 'string' && /^\d{1,15}$/.test(value))
      converted[keyword] = Number(value)
    else converted[keyword] = value
  }
  if (isObject(converted.properties) && order.length > 0) converted.properties = ordered(converted.properties, order)
  if (converted.type === undefined) delete converted.type
  return isNullable ? nullable(converted) : converted
}

const spelled = (keyword: string): string => {
  const camel = keyword.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
  return KEYWORDS.has(camel) ? camel : keyword
}

const inner = (value: Json): Json => (isObject(value) ? openapiToJsonSchema(value) : value)

const mapped = (properties: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, value && inner(value)]))

const lowerType = (type: Json): Json | undefined => {
  if (isList(type)) return type.map((one) => (typeof one === 'string' ? one.toLowerCase() : one))
  if (typeof type !== 'string') return type
  return type === 'TYPE_UNSPECIFIED' ? undefined : type.toLowerCase()
}

const ordered = (properties: JsonObject, order: readonly Json[]): JsonObject => {
  const first = order.flatMap((name) => (typeof name === 'string' && Object.hasOwn(properties, name) ? [name] : []))
  const names = new Set([...first, ...Object.keys(properties)])
  return Object.fromEntries([...names].map((name) => [name, properties[name]]))
}

const nullable = (schema: JsonObject): JsonObject => {
  const { type, anyOf, enum: values } = schema
  const withNull = isList(values) ? { enum: [...values, null] } : {}
  if (typeof type === 'string') return { ...schema, ...withNull, type: [type, 'null'] }
  return isList(anyOf) ? { ...schema, anyOf: [...anyOf, { type: 'null' }] } : schema
}
