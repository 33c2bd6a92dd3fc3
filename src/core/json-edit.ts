/**
 * Edits of JSON bodies that return the same object if nothing changes, so that an unchanged body is forwarded byte for
 * byte.
 */
import { isList, type Json, type JsonObject } from './json.ts'

/** Maps each item of the list `body[member]`; undefined removes it. Returns the same object if nothing changes. */
export const mapMember = (
  body: JsonObject,
  member: string,
  change: (item: Json, index: number) => Json | undefined,
): JsonObject => {
  const items = body[member]
  if (!isList(items)) return body
  let all: Json[] | undefined
  // A closure and an iterator would be allocated for each list, most of which stay as they are.
  for (let index = 0; index < items.length; index++) {
    const item = items[index] ?? null
    const changed = change(item, index)
    if (changed !== item) all ??= items.slice(0, index)
    if (changed !== undefined) all?.push(changed)
  }
  return all ? { ...body, [member]: all } : body
}

/** Removes these members. Returns the same object if it has none of them. */
export const withoutMember = (body: JsonObject, ...members: readonly string[]): JsonObject => {
  if (!members.some((member) => body[member] !== undefined)) return body
  return Object.fromEntries(Object.entries(body).filter(([member]) => !members.includes(member)))
}
