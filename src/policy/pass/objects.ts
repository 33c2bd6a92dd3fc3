/** The IDs of objects in passed calls and their answers, and whose they are. */
import { isList, isObject, type Json, type JsonObject, text } from '../../core/json.ts'
import type { PassOwner } from '../../core/pass-objects.ts'
import type { PassThrough } from '../../core/pass-through.ts'
import { isPathWord } from './template.ts'

/** The last segment of a name or an address: `files/abc` and `https://host/v1beta/files/abc` are `abc`. */
export const objectId = (name: string): string => name.slice(name.lastIndexOf('/') + 1)

/** Most IDs that one call may name. */
export const MAX_IDS = 5_000

/** What could be an ID: not a sentence. */
const ID = /^[\w.:/~@=+-]{3,300}$/

/** Members whose value is the ID of an object, so that one that is not known is refused. */
const OBJECT_MEMBERS: ReadonlySet<string> = new Set([
  ...[
    'assistant_id',
    'batch_id',
    'cachedContent',
    'cached_content',
    'container_id',
    'eval_id',
    'file_id',
    'file_ids',
    'fileName',
  ],
  ...[
    'fileUri',
    'file_uri',
    'input_file_id',
    'message_batch_id',
    'output_file_id',
    'previous_interaction_id',
    'skill_id',
    'thread_id',
  ],
  ...['training_file', 'upload_id', 'validation_file', 'vector_store_id', 'vector_store_ids', 'vector_store_names'],
])

/** The objects that a call names. `certain`: they must be known; `possible`: texts that must not be the ID of an object of others. */
export type NamedObjects = { readonly certain: ReadonlySet<string>; readonly possible: ReadonlySet<string> }

/** The IDs in a path. Names of models are none, unless one is deleted. */
export const idsInPath = (method: string, path: string): readonly string[] => {
  const segments = path.split('/').slice(1)
  return segments.flatMap((segment, at) => {
    const id = segment.replace(/:[A-Za-z]{1,40}$/, '')
    if (id === '' || isPathWord(id)) return []
    return segments[at - 1] === 'models' && method !== 'DELETE' ? [] : [decodeURIComponent(id)]
  })
}

/** The objects that a call names: in its path, its query, and its body of JSON. */
export const namedObjects = (
  { method, path, query }: { readonly method: string; readonly path: string; readonly query: string },
  members: JsonObject,
): NamedObjects => {
  const certain = new Set(idsInPath(method, path))
  const possible = new Set<string>()
  for (const [name, value] of new URLSearchParams(query))
    if (ID.test(value)) (OBJECT_MEMBERS.has(name) ? certain : possible).add(objectId(value))
  collect(members, false, (value, isCertain) => (isCertain ? certain : possible).add(objectId(value)))
  return { certain, possible }
}

const collect = (value: Json, isCertain: boolean, add: (text: string, isCertain: boolean) => void): void => {
  // A stack: JSON of clients is nested as deep as they like.
  const waiting: (readonly [value: Json, isCertain: boolean])[] = [[value, isCertain]]
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const [one, certain] = next
    if (typeof one === 'string') {
      if (ID.test(one)) add(one, certain)
    } else if (isList(one)) for (const item of one) waiting.push([item, certain])
    else if (isObject(one))
      for (const [name, member] of Object.entries(one))
        if (member !== undefined) waiting.push([member, OBJECT_MEMBERS.has(name)])
  }
}

/** Whether an object is of this client, as the instance separates them. */
export const isOwn = (owner: PassOwner | undefined, own: PassOwner, isolate: PassThrough['isolate']): boolean =>
  owner !== undefined && owner.team === own.team && (isolate === 'team' || owner.key === own.key)

/** Members of an answer that name objects which it has made, or made known. */
const MADE: readonly string[] = [
  'id',
  'name',
  'output_file_id',
  'error_file_id',
  'fine_tuned_model',
  'file_id',
  'vector_store_id',
]
/** Members with another answer of this kind. */
const INNER: readonly string[] = ['file', 'response', 'metadata', 'dest', 'output', 'tunedModel']

/** The IDs of the objects that an answer to this client has made or made known. */
export const madeObjects = (answer: JsonObject): readonly string[] => {
  const found = new Set<string>()
  for (const object of [answer, ...INNER.flatMap((name) => (isObject(answer[name]) ? [answer[name]] : []))]) {
    for (const name of MADE) {
      const value = text(object[name])
      // A name without a slash is one that people have chosen.
      if (value !== undefined && ID.test(value) && (name !== 'name' || value.includes('/'))) found.add(objectId(value))
    }
    const { result_files: files, fileName } = object
    for (const file of [fileName, ...(isList(files) ? files : [])])
      if (typeof file === 'string' && ID.test(file)) found.add(objectId(file))
  }
  return [...found]
}

/** The IDs that the query of an address in an answer names, such as that of an upload that has begun. */
export const objectsInAddress = (address: string): readonly string[] => {
  const query = address.indexOf('?')
  if (query === -1) return []
  return [...new URLSearchParams(address.slice(query))].flatMap(([name, value]) =>
    OBJECT_MEMBERS.has(name) && ID.test(value) ? [objectId(value)] : [],
  )
}

/** The list of objects in an answer; null: it is none. */
export const listIn = (answer: JsonObject): { readonly name: string; readonly ids: readonly string[] } | null => {
  for (const [name, value] of Object.entries(answer)) {
    if (!isList(value) || value.length === 0) continue
    const ids = value.map((item) => (isObject(item) ? (text(item.id) ?? text(item.name)) : undefined))
    if (ids.every((id) => id !== undefined)) return { name, ids: ids.map(objectId) }
  }
  return null
}

/** An answer with those entries of its list that are the client's. */
export const filteredList = (
  answer: JsonObject,
  { name, ids }: { readonly name: string; readonly ids: readonly string[] },
  isKept: (id: string) => boolean,
): JsonObject => {
  const items = answer[name]
  if (!isList(items)) return answer
  const kept = ids.filter(isKept)
  const edges = {
    ...('first_id' in answer && { first_id: kept[0] ?? null }),
    ...('last_id' in answer && { last_id: kept.at(-1) ?? null }),
  }
  return { ...answer, [name]: items.filter((_, at) => isKept(ids[at] ?? '')), ...edges }
}

/** Whether a call lists objects of all clients: it reads, and names none. Models belong to everyone. */
export const listsAll = (method: string, path: string): boolean =>
  method === 'GET' && idsInPath(method, path).length === 0 && !/\/models\/?$/.test(path)
