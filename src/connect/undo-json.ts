/** Takes the values of a connection out of a JSON file that its client has rewritten since. */
import { isDeepStrictEqual } from 'node:util'
import { isObject, type Json, type JsonObject } from '../core/json.ts'
import type { ConfigChange } from './clients.ts'
import { readJsonText, removeJson, setJson } from './edit-json.ts'

/** A value that was written, without members of its own. */
export type WrittenValue = { readonly path: readonly string[]; readonly value: Json }

/** The single values of changes: a client may add members to an object that was written. */
export const valuesIn = (changes: readonly ConfigChange[]): readonly WrittenValue[] =>
  changes.flatMap(({ path, value }): readonly WrittenValue[] =>
    isObject(value) && Object.keys(value).length > 0
      ? valuesIn(Object.entries(value).map(([name, inner = null]) => ({ path: [...path, name], value: inner })))
      : [{ path, value }],
  )

const valueAt = (root: JsonObject, path: readonly string[]): Json | undefined =>
  path.reduce<Json | undefined>(
    (value, name) => (isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined),
    root,
  )

/** The text with the values of `original` in place of those that were written. Values that were changed since stay. */
export const undoneJson = (text: string, original: JsonObject, written: readonly WrittenValue[]): string =>
  written.reduce((now, { path, value }) => {
    if (!isDeepStrictEqual(valueAt(readJsonText(now), path), value)) return now
    const before = valueAt(original, path)
    return before === undefined ? withoutEmpty(now, original, path) : setJson(now, path, before)
  }, text)

/** Without the member. Objects around it that are empty then and that `original` does not have become its values, or are removed. */
const withoutEmpty = (text: string, original: JsonObject, path: readonly string[]): string => {
  const removed = removeJson(text, path)
  const parent = path.slice(0, -1)
  const around = parent.length > 0 ? valueAt(readJsonText(removed), parent) : undefined
  if (!isObject(around) || Object.keys(around).length > 0) return removed
  const before = valueAt(original, parent)
  if (before === undefined) return withoutEmpty(removed, original, parent)
  return isObject(before) ? removed : setJson(removed, parent, before)
}
