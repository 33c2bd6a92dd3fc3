/** Changes values of a YAML text. Comments, order and empty lines stay; only the spacing inside of lines may change. */
import { isMap, isSeq, parseDocument } from 'yaml'
import type { Json } from '../core/json.ts'
import type { ConfigChange } from './clients.ts'

/** Thrown for a text that cannot be changed. */
export class YamlTextError extends Error {
  override name = 'YamlTextError'
}

/** A list whose dashes are not indented below its name. */
const FLAT_LIST = /^( *)[\w-]+:[ \t]*\n\1- /m

/** Returns the text with the changes. */
export const setYaml = (text: string, changes: readonly ConfigChange[]): string => {
  const document = parseDocument(text)
  const [error] = document.errors
  if (error) throw new YamlTextError(error.message.split('\n')[0] ?? 'it is not YAML')
  if (document.contents !== null && !isMap(document.contents)) throw new YamlTextError('it has no names at the top')
  for (const { path, value, entryBy } of changes) {
    if (entryBy === undefined) document.setIn(path, value)
    else
      document.setIn(
        path,
        withEntry(document.getIn(path), value, entryBy, (json) => document.createNode(json)),
      )
  }
  return document.toString({ lineWidth: 0, indentSeq: !FLAT_LIST.test(text) })
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
