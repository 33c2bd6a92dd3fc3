/**
 * The JSON Schema this format enforces (Cohere, Structured Outputs, "Schema constraints" and "Unsupported schema
 * features"): an object at the top, in every object something required, and no bounds. A bound is moved into the
 * description, where the model reads it.
 */
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'

export type Fitted = {
  readonly schema: JsonObject
  /** Paths of what is only described now, no longer enforced. */
  readonly described: readonly string[]
  /** Paths of what cannot be said at all. */
  readonly impossible: readonly string[]
}

const KEPT = new Set(['type', 'enum', 'const', 'description', 'title', 'default', 'required', '$ref'])
const NAMED_SCHEMAS = new Set(['properties', '$defs', 'definitions'])
/** Says nothing about values. */
const REMARKS = new Set(['$schema', '$id', '$comment', 'examples', 'deprecated', 'readOnly', 'writeOnly', '$anchor'])
const FORMATS: ReadonlySet<Json> = new Set(['date-time', 'uuid', 'date', 'time'])
const IMPOSSIBLE = new Set(['allOf', 'oneOf', 'not', 'if', 'patternProperties', 'prefixItems'])

/** The schema as this format takes it, and what that took. */
export const fitSchema = (schema: JsonObject): Fitted => {
  const described: string[] = []
  const impossible: string[] = schema.type === 'object' ? [] : ['']
  // An object goes in, so one comes out.
  return { schema: fitted(schema, '', described, impossible) as JsonObject, described, impossible }
}

const fitted = (schema: Json, at: string, described: string[], impossible: string[]): Json => {
  // `true`: anything at all, which nothing has to be enforced of.
  if (!isObject(schema)) return schema
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
    else if (keyword === 'anyOf' && isList(value))
      kept.anyOf = value.map((one, index) => inner(one, `${path}[${index}]`))
    else if (keyword === 'items' || keyword === 'additionalProperties') kept[keyword] = inner(value, path)
    else if (keyword === 'format' && FORMATS.has(value)) kept.format = value
    // Anchors and looking ahead are not understood.
    else if (keyword === 'pattern' && typeof value === 'string' && !/[\^$]|\?[=!]/.test(value)) kept.pattern = value
    else if (IMPOSSIBLE.has(keyword)) impossible.push(path)
    else {
      bounds.push(`${keyword}: ${JSON.stringify(value)}`)
      described.push(path)
    }
  }
  if (isObjectSchema(schema) && !(isList(schema.required) && schema.required.length > 0))
    impossible.push(`${at}.required`)
  if (bounds.length > 0)
    kept.description = `${typeof kept.description === 'string' ? `${kept.description}\n\n` : ''}(${bounds.join(', ')})`
  return kept
}

const isObjectSchema = (schema: JsonObject): boolean =>
  schema.type === 'object' || (isList(schema.type) && schema.type.includes('object')) || isObject(schema.properties)

/** How many members the objects of a schema have together. */
export const fieldsIn = (schema: Json | undefined): number => {
  if (isList(schema)) return schema.reduce<number>((sum, one) => sum + fieldsIn(one), 0)
  if (!isObject(schema)) return 0
  const own = isObject(schema.properties) ? Object.keys(schema.properties).length : 0
  return own + Object.values(schema).reduce<number>((sum, one) => sum + fieldsIn(one), 0)
}
