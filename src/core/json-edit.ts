/** Changes to JSON bodies that return the same object where nothing changes, so that it can pass byte for byte. */
import type { Json, JsonObject } from './json.ts'

/** The list with each item changed, or left out (undefined); the same list if nothing changed. */
export const mapList = (
  items: readonly Json[],
  change: (item: Json, index: number) => Json | undefined,
): readonly Json[] => {
  const all = items.map(change)
  return all.every((item, index) => item === items[index]) ? items : all.filter((item) => item !== undefined)
}

/** The object without these members; the same object if it has none of them. */
export const withoutMember = (body: JsonObject, ...members: readonly string[]): JsonObject => {
  if (!members.some((member) => body[member] !== undefined)) return body
  return Object.fromEntries(Object.entries(body).filter(([member]) => !members.includes(member)))
}
