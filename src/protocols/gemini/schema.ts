import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'

/** The words of JSON Schema this format holds an answer to; it reads over all others. */
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
/** Says nothing about values. */
const REMARKS = new Set([
  '$schema',
  '$id',
  '$anchor',
  '$comment',
  'title',
  'description',
  'default',
  'examples',
  'deprecated',
  'readOnly',
  'writeOnly',
])
const OF_SCHEMAS = new Set(['anyOf', 'oneOf', 'prefixItems'])
const NAMED_SCHEMAS = new Set(['properties', '$defs'])

/** Paths of what a schema says and nothing will hold the answer to. */
export const unenforced = (schema: JsonObject): readonly string[] => {
  const found: string[] = []
  look(schema, '', found)
  return found
}

const look = (schema: Json | undefined, at: string, found: string[]): void => {
  if (!isObject(schema)) return
  for (const [keyword, value] of Object.entries(schema)) {
    const path = `${at}.${keyword}`
    if (value === undefined || REMARKS.has(keyword)) continue
    if (!ENFORCED.has(keyword)) found.push(path)
    else if (NAMED_SCHEMAS.has(keyword) && isObject(value))
      for (const [name, inner] of Object.entries(value)) look(inner, `${path}.${name}`, found)
    else if (OF_SCHEMAS.has(keyword) && isList(value))
      for (const [index, inner] of value.entries()) look(inner, `${path}[${index}]`, found)
    else if (keyword === 'items' || keyword === 'additionalProperties') look(value, path, found)
  }
}
