/**
 * Names of tools this format does not take are replaced by ones it does, and come back in the answer. Each is a function
 * of the original alone: a call in an earlier turn has the same name as its tool, without any state.
 *
 * And this format's own ways to name a tool, which no other has: in a namespace (a call of it has a `namespace` beside
 * its `name`), and by the kind of item that calls it (the search for tools that the client runs). Elsewhere both are
 * functions with one name, made from the request alone.
 */
import type { ChatEvent, ChatRequest } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import type { Stage } from '../../core/stage.ts'
import { digest } from './call-ids.ts'

const NAME = /^[a-zA-Z0-9_-]{1,64}$/

/** The name as this format takes it: letters, digits, `_` and `-`, at most 64. */
export const toolName = (name: string): string =>
  NAME.test(name) ? name : `${name.replaceAll(/[^a-zA-Z0-9_-]/g, '_').slice(0, 23)}_${digest(name)}`

/** Gives calls in an answer the names the client knows. Undefined when none had to change. */
export const restoreToolNames = (request: ChatRequest): Stage<ChatEvent, ChatEvent> | undefined => {
  const changed = new Map(
    request.tools.flatMap((tool) =>
      tool.kind !== 'foreign' && toolName(tool.name) !== tool.name ? [[toolName(tool.name), tool.name]] : [],
    ),
  )
  if (changed.size === 0) return undefined
  return {
    push(event) {
      if (event.type !== 'open' || event.block.type !== 'tool-call') return [event]
      const name = changed.get(event.block.name)
      return name === undefined ? [event] : [{ type: 'open', block: { ...event.block, name } }]
    },
    end: () => [],
  }
}

// ── Tools this format names in its own ways ──────────────────────────────────────────────────────────────────────

/** The item that calls the client's own search for tools, and the one that tells what it found. */
export const SEARCH_CALL = 'tool_search_call'
export const SEARCH_OUTPUT = 'tool_search_output'

/** Whether it is the client that runs this search: then it is a function like any other. */
export const isClientSearch = ({ type, execution }: JsonObject): boolean =>
  (type === 'tool_search' || type === SEARCH_CALL || type === SEARCH_OUTPUT) && execution === 'client'

/** Tools a search has found: from then on the model may call them, and the client does not list them again. */
export const foundTools = (input: Json | undefined): readonly { readonly at: number; readonly tools: Json }[] =>
  list(input).flatMap((item, at) => {
    const found = object(item)
    return found?.type === SEARCH_OUTPUT && isClientSearch(found) ? [{ at, tools: found.tools ?? [] }] : []
  })

/** A tool as a call in this format names it. */
export type QualifiedTool =
  | { readonly kind: 'member'; readonly namespace: string; readonly name: string }
  | { readonly kind: 'search' }

export type ToolNames = {
  /** The one name of a tool of a namespace; without a namespace, its own. */
  flat(namespace: string | undefined, name: string): string
  /** The name of the function that is the client's search for tools. */
  readonly search: string
  /** What a call by this name is in this format, if it is more than a name. */
  called(name: string): QualifiedTool | undefined
}

/**
 * Two names as one, the way models know them from MCP. A function that stands alone and was found by a search is called
 * with its own name as its namespace (recording: openai-tool-search-1): that is one name already.
 */
export const joinNames = (namespace: string | undefined, name: string): string =>
  namespace && namespace !== name ? `${namespace}__${name}` : name

/** The names of a request's tools. A made one that is somebody's own name already gets a mark of what it was made from. */
export const toolNames = ({ tools, input }: JsonObject): ToolNames => {
  const all = [tools ?? [], ...foundTools(input).map((found) => found.tools)].flatMap((some) =>
    list(some).filter(isObject),
  )
  const taken = new Set(
    all.flatMap(({ type, name }) => (type === 'function' || type === 'custom' ? (text(name) ?? []) : [])),
  )
  const called = new Map<string, QualifiedTool>()
  const made = new Map<string, string>()
  const make = (preferred: string, of: QualifiedTool): string => {
    const key = JSON.stringify(of)
    const known = made.get(key)
    if (known !== undefined) return known
    const name = taken.has(preferred) ? `${preferred}_${digest(key)}` : preferred
    taken.add(name)
    made.set(key, name)
    called.set(name, of)
    return name
  }
  const search = make('tool_search', { kind: 'search' })
  // In their order, so that the same request gives the same names, whatever is asked for first.
  for (const { type, name, tools: members } of all) {
    const namespace = type === 'namespace' ? text(name) : undefined
    if (namespace)
      for (const member of list(members)) {
        const name = text(object(member)?.name) ?? ''
        make(joinNames(namespace, name), { kind: 'member', namespace, name })
      }
  }
  const flat = (namespace: string | undefined, name: string): string => {
    if (!namespace) return name
    const of: QualifiedTool = { kind: 'member', namespace, name }
    // Of a namespace nobody has declared only what was said in an earlier turn can be.
    return made.get(JSON.stringify(of)) ?? (namespace === name ? name : make(joinNames(namespace, name), of))
  }
  return { flat, search, called: (name) => called.get(name) }
}
