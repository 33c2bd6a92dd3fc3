import { isObject, type Json, type JsonObject } from './json.ts'

/** JSON Merge Patch (RFC 7396): null removes a member. */
export const mergePatch = (target: JsonObject, patch: JsonObject): JsonObject => {
  const merged: Record<string, Json | undefined> = { ...target }
  for (const [name, value] of Object.entries(patch)) {
    const before = merged[name]
    if (value === null) delete merged[name]
    else merged[name] = isObject(value) ? mergePatch(isObject(before) ? before : {}, value) : value
  }
  return merged
}

/** The merge patch that makes `before` the same as `after`: members that `after` lacks are null. */
export const patchBetween = (before: JsonObject, after: JsonObject): JsonObject => ({
  ...Object.fromEntries(Object.keys(before).map((name) => [name, null])),
  ...Object.fromEntries(
    Object.entries(after).map(([name, value]) => {
      const old = before[name]
      return [name, isObject(value) && isObject(old) ? patchBetween(old, value) : value]
    }),
  ),
})
