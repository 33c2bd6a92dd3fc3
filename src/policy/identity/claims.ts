/** Values of claims. */
import type { Json, JsonObject } from '../../core/json.ts'

/** Members of a list that are read. */
const MAX_VALUES = 1_000

/** The value at a claim: a name, or a JSON pointer (RFC 6901) if it begins with a slash. */
export const claimAt = (claims: JsonObject, path: string): unknown => {
  if (!path.startsWith('/')) return memberOf(claims, path)
  let value: unknown = claims
  for (const step of path.slice(1).split('/')) value = memberOf(value, step.replaceAll('~1', '/').replaceAll('~0', '~'))
  return value
}

const memberOf = (value: unknown, name: string): unknown => {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
  return (value as { readonly [name: string]: Json })[name]
}

/** The texts of a claim: of a list all of its members. Numbers and booleans are texts as JSON writes them. */
export const claimTexts = (value: unknown): readonly string[] =>
  (Array.isArray(value) ? value.slice(0, MAX_VALUES) : [value]).flatMap((one) => textOf(one) ?? [])

/** A claim with one text; undefined: it has none, or several. */
export const claimText = (value: unknown): string | undefined => {
  const [only, another] = claimTexts(value)
  return another === undefined ? only : undefined
}

const textOf = (value: unknown): string | undefined => {
  if (typeof value === 'string') return value
  // A number that a double cannot represent would name another subject.
  if (typeof value === 'number') return Number.isSafeInteger(value) ? String(value) : undefined
  return typeof value === 'boolean' ? String(value) : undefined
}
