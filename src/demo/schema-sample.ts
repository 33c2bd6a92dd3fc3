/** Generates a JSON value that satisfies a JSON Schema: the tool call arguments of the demo provider. */
import { isObject, type Json, type JsonObject, list, number, object, text } from '../core/json.ts'

/** Maximum depth; deeper and recursive schemas end in null. */
const MAX_DEPTH = 16
/** Maximum items of an array and characters of a string, whatever minimum the schema states. */
const MAX_LENGTH = 64
/** Maximum schemas and members visited: a schema with several recursive references would not end. */
const MAX_VISITED = 20_000

/** A sample for the subset of JSON Schema 2020-12 that tools use: no `pattern`, `not`, `if` or cross-member conditions. */
export const schemaSample = (schema: JsonObject, word = 'demo'): Json => new Sampler(schema, word).value(schema, 0)

class Sampler {
  readonly #root: JsonObject
  readonly #word: string
  #left = MAX_VISITED

  constructor(root: JsonObject, word: string) {
    this.#root = root
    this.#word = word
  }

  value(schema: Json | undefined, depth: number): Json {
    if (depth > MAX_DEPTH || this.#left <= 0) return null
    const here = this.#resolved(schema)
    if (!here) return null
    if (here.const !== undefined) return here.const
    const [listed] = [...list(here.enum), ...list(here.examples)]
    if (listed !== undefined) return listed
    if (here.default !== undefined) return here.default
    const [branch] = [...list(here.anyOf), ...list(here.oneOf)]
    if (branch !== undefined) return this.value(branch, depth + 1)
    switch (this.#typeOf(here)) {
      case 'object':
        return this.#object(here, depth)
      case 'array':
        return this.#array(here, depth)
      case 'string':
        return this.#string(here)
      case 'integer':
      case 'number':
        return lowest(here)
      case 'boolean':
        return true
      default:
        return null
    }
  }

  /** The schema with its `$ref` and `allOf` merged in. */
  #resolved(schema: Json | undefined, hops = 0): JsonObject | undefined {
    const here = object(schema)
    this.#left -= here ? 1 + membersOf(here) : 1
    if (!here || hops > MAX_DEPTH || this.#left <= 0) return here
    const path = text(here.$ref)
    const target = path?.startsWith('#/') ? pointed(this.#root, path) : path === '#' ? this.#root : undefined
    const parts = [target, ...list(here.allOf)].map((part) => this.#resolved(part, hops + 1))
    return parts.reduce<JsonObject>((merged, part) => (part ? mergedSchemas(part, merged) : merged), here)
  }

  #typeOf(schema: JsonObject): string | undefined {
    const named = text(schema.type) ?? text(list(schema.type).find((type) => type !== 'null'))
    if (named !== undefined) return named
    return schema.properties !== undefined ? 'object' : schema.items !== undefined ? 'array' : undefined
  }

  /** The required members, or all if none is required. */
  #object(schema: JsonObject, depth: number): JsonObject {
    const properties = object(schema.properties) ?? {}
    const required = list(schema.required).filter((name) => typeof name === 'string')
    const names = required.length > 0 ? required : Object.keys(properties)
    const members = names.map((name) => [name, this.value(ownMember(properties, name) ?? {}, depth + 1)] as const)
    return Object.fromEntries(members)
  }

  #array(schema: JsonObject, depth: number): Json {
    const count = Math.min(MAX_LENGTH, Math.max(1, number(schema.minItems) ?? 1), number(schema.maxItems) ?? MAX_LENGTH)
    const prefix = list(schema.prefixItems)
    const length = Math.max(count, prefix.length)
    this.#left -= length
    return Array.from({ length }, (_, at) => this.value(prefix[at] ?? schema.items, depth + 1))
  }

  #string({ format, minLength, maxLength }: JsonObject): string {
    const known = text(format) === undefined ? undefined : FORMATS.get(text(format) ?? '')
    if (known !== undefined) return known
    const least = Math.min(MAX_LENGTH, number(minLength) ?? 0)
    return this.#word.padEnd(least, '.').slice(0, number(maxLength) ?? MAX_LENGTH)
  }
}

const FORMATS: ReadonlyMap<string, string> = new Map([
  ['date', '2026-01-31'],
  ['date-time', '2026-01-31T12:00:00Z'],
  ['time', '12:00:00Z'],
  ['duration', 'PT1H'],
  ['email', 'demo@example.com'],
  ['hostname', 'example.com'],
  ['ipv4', '192.0.2.1'],
  ['ipv6', '2001:db8::1'],
  ['uri', 'https://example.com/'],
  ['url', 'https://example.com/'],
  ['uuid', '00000000-0000-4000-8000-000000000000'],
])

/** The smallest allowed number, but 1 if there is no minimum. */
const lowest = (schema: JsonObject): number => {
  const step = number(schema.multipleOf) ?? 1
  const above = number(schema.exclusiveMinimum)
  const least = number(schema.minimum) ?? (above === undefined ? 1 : above + step)
  const most = number(schema.maximum) ?? number(schema.exclusiveMaximum)
  const value = Math.ceil(least / step) * step
  return most !== undefined && value > most ? most : value
}

const membersOf = ({ properties, required }: JsonObject): number =>
  list(required).length + Object.keys(object(properties) ?? {}).length

const ownMember = (from: JsonObject, name: string): Json | undefined =>
  Object.hasOwn(from, name) ? from[name] : undefined

/** Resolves a JSON Pointer (RFC 6901). */
const pointed = (root: JsonObject, path: string): Json | undefined =>
  path
    .slice(2)
    .split('/')
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce<Json | undefined>((at, step) => (isObject(at) ? ownMember(at, step) : list(at)[Number(step)]), root)

const mergedSchemas = (a: JsonObject, b: JsonObject): JsonObject => ({
  ...a,
  ...b,
  ...(a.properties !== undefined && b.properties !== undefined
    ? { properties: { ...object(a.properties), ...object(b.properties) } }
    : {}),
  ...(a.required !== undefined && b.required !== undefined
    ? { required: [...new Set([...list(a.required), ...list(b.required)])] }
    : {}),
})
