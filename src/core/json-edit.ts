/**
 * Edits of JSON bodies that return the same object if nothing changes, so that an unchanged body is forwarded byte for
 * byte.
 */
import type { Json, JsonObject } from './json.ts'

/** Maps each item; undefined removes it. Returns the same list if nothing changes. */
export const mapList = (
  items: readonly Json[],
  change: (item: Json, index: number) => Json | undefined,
): readonly Json[] => {
  const all = items.map(change)
  return all.every((item, index) => item === items[index]) ? items : all.filter((item) => item !== undefined)
}

/** Removes these members. Returns the same object if it has none of them. */
export const withoutMember = (body: JsonObject, ...members: readonly string[]): JsonObject => {
  if (!members.some((member) => body[member] !== undefined)) return body
  return Object.fromEntries(Object.entries(body).filter(([member]) => !members.includes(member)))
}
