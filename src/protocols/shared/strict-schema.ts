import { isList, isObject, type Json, list } from '../../core/json.ts'

/**
 * Whether a schema follows the rules of strict mode: every object is closed and requires all its properties. A missing
 * schema does. Recursion is bounded by the depth limit of request bodies.
 */
export const allowsStrict = (schema: Json | undefined): boolean => {
  if (schema === undefined) return true
  if (isList(schema)) return schema.every(allowsStrict)
  if (!isObject(schema)) return true
  if (schema.type === 'object' || isObject(schema.properties)) {
    const required = new Set(list(schema.required))
    if (schema.additionalProperties !== false) return false
    if (!Object.keys(isObject(schema.properties) ? schema.properties : {}).every((name) => required.has(name)))
      return false
  }
  return Object.entries(schema).every(([word, inner]) => {
    if (inner === undefined) return true
    if (SCHEMAS.has(word)) return allowsStrict(inner)
    if (!SCHEMAS_BY_NAME.has(word) || !isObject(inner)) return true
    return Object.values(inner).every(allowsStrict)
  })
}

const SCHEMAS = new Set(['items', 'anyOf', 'allOf', 'oneOf', 'not', 'prefixItems'])
const SCHEMAS_BY_NAME = new Set(['properties', '$defs', 'definitions'])
