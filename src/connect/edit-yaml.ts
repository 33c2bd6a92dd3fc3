/** Changes values of a YAML text. Comments, order and empty lines stay; only the spacing inside of lines may change. */
import { isDeepStrictEqual } from 'node:util'
import { isMap, isSeq, parseDocument } from 'yaml'
import { isObject, type Json } from '../core/json.ts'
import type { ConfigChange } from './clients.ts'

/** Thrown for a text that cannot be changed. */
export class YamlTextError extends Error {
  override name = 'YamlTextError'
}

/** A list whose dashes are not indented below its name. */
const FLAT_LIST = /^( *)[\w-]+:[ \t]*\n\1- /m

const documentOf = (text: string) => {
  const document = parseDocument(text)
  const [error] = document.errors
  if (error) throw new YamlTextError(error.message.split('\n')[0] ?? 'it is not YAML')
  if (document.contents !== null && !isMap(document.contents)) throw new YamlTextError('it has no names at the top')
  return document
}

const textOf = (document: ReturnType<typeof documentOf>, text: string): string =>
  document.toString({ lineWidth: 0, indentSeq: !FLAT_LIST.test(text) })

/** Returns the text with the changes. */
export const setYaml = (text: string, changes: readonly ConfigChange[]): string => {
  const document = documentOf(text)
  for (const { path, value, entryBy } of changes) {
    if (entryBy === undefined) document.setIn(path, value)
    else
      document.setIn(
        path,
        withEntry(document.getIn(path), value, entryBy, (json) => document.createNode(json)),
      )
  }
  return textOf(document, text)
}

/** The list with the entry, which replaces one with the same value of `by`. */
const withEntry = (list: unknown, entry: Json, by: string, create: (json: Json) => unknown): unknown => {
  if (!isSeq(list)) return create([entry])
  const node = create(entry)
  const wanted = isMap(node) ? node.get(by) : undefined
  const at = list.items.findIndex((item) => isMap(item) && item.get(by) === wanted)
  if (at === -1) list.items.push(node)
  else list.items[at] = node
  return list
}

/** The place of the value that a change wrote: in a list that of the entry with the same name. */
const placeIn = (root: unknown, { path, value, entryBy }: ConfigChange): readonly (string | number)[] => {
  if (entryBy === undefined) return path
  const list = valueAt(root, path)
  const wanted = isObject(value) ? value[entryBy] : undefined
  const at = Array.isArray(list) ? list.findIndex((one) => isObject(one) && one[entryBy] === wanted) : -1
  return [...path, at]
}

const valueAt = (root: unknown, path: readonly (string | number)[]): unknown =>
  path.reduce<unknown>((value, name) => (typeof value === 'object' ? Reflect.get(value ?? {}, name) : undefined), root)

/** The text with the values of `original` in place of those that were written. Values that were changed since stay. */
export const undoYaml = (text: string, original: string, changes: readonly ConfigChange[]): string => {
  const [document, before] = [documentOf(text), documentOf(original).toJS() ?? {}]
  let isUndone = false
  for (const change of changes) {
    const now = document.toJS() ?? {}
    const place = placeIn(now, change)
    if (!isDeepStrictEqual(valueAt(now, place), change.value)) continue
    isUndone = true
    const old = valueAt(before, placeIn(before, change))
    if (old !== undefined) document.setIn(place, old)
    else document.deleteIn(place)
    const list = document.getIn(change.path)
    if (isSeq(list) && list.items.length === 0 && valueAt(before, change.path) === undefined)
      document.deleteIn(change.path)
  }
  return isUndone ? textOf(document, text) : text
}
