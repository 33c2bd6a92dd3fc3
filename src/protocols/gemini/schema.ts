import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'
import { ANNOTATIONS } from '../shared/json-schema.ts'

/** Keywords of JSON Schema that Gemini enforces. It ignores others. */
const ENFORCED = new Set([
  'type',
  'format',
  'enum',
  'items',
  'prefixItems',
  'minItems',
  'maxItems',
  'minimum',
  'maximum',
  'anyOf',
  'oneOf',
  'properties',
  'additionalProperties',
  'required',
  '$ref',
  '$defs',
  'propertyOrdering',
])
/** Keywords that do not constrain values. */
const IGNORED = new Set([...ANNOTATIONS, 'title', 'description', 'default'])
const OF_SCHEMAS = new Set(['anyOf', 'oneOf', 'prefixItems'])
const NAMED_SCHEMAS = new Set(['properties', '$defs'])

/** The paths of the constraints in a schema that Gemini does not enforce. */
export const unenforced = (schema: JsonObject): readonly string[] => {
  const found: string[] = []
  collect(schema, '', found)
  return found
}

const collect = (schema: Json | undefined, at: string, found: string[]): void => {
  if (!isObject(schema)) return
  for (const [keyword, value] of Object.entries(schema)) {
    const path = `${at}.${keyword}`
    if (value === undefined || IGNORED.has(keyword)) continue
    if (!ENFORCED.has(keyword)) found.push(path)
    else if (NAMED_SCHEMAS.has(keyword) && isObject(value))
      for (const [name, inner] of Object.entries(value)) collect(inner, `${path}.${name}`, found)
    else if (OF_SCHEMAS.has(keyword) && isList(value))
      for (const [index, inner] of value.entries()) collect(inner, `${path}[${index}]`, found)
    else if (keyword === 'items' || keyword === 'additionalProperties') collect(value, path, found)
  }
}
