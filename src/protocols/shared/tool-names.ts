/**
 * Names of tools. A name that a format rejects is replaced, and restored in the answer by `toolRestorer`. A replacement
 * depends on the original only, so calls in earlier turns match their tools without state.
 *
 * The responses format also has tools in namespaces (`namespace` beside `name`) and client-run tool search. In the
 * canonical form both are functions with one name, derived from the request alone.
 */
import { isObject, type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import { DIGEST_LENGTH, digest } from './call-ids.ts'

/** The tool names that a format accepts. */
export type ToolNameRule = {
  readonly valid: RegExp
  /** Each match in a rejected name becomes `_`; an empty match inserts one. A global expression. */
  readonly replaced: RegExp
  /** In characters. */
  readonly maxLength: number
}

/** A function that returns valid names unchanged. It shortens other names and appends a digest. */
export const validToolName =
  ({ valid, replaced, maxLength }: ToolNameRule) =>
  (name: string): string =>
    valid.test(name)
      ? name
      : `${name.replaceAll(replaced, '_').slice(0, maxLength - DIGEST_LENGTH - 1)}_${digest(name)}`

/** OpenAI's and Mistral's rule: letters, digits, `_` and `-`, at most 64 characters. */
export const toolName = validToolName({
  valid: /^[a-zA-Z0-9_-]{1,64}$/,
  replaced: /[^a-zA-Z0-9_-]/g,
  maxLength: 64,
})

// ── Namespaces and tool search ───────────────────────────────────────────────────────────────────────────────────

/** The item types of a client-run tool search: its call and its result. */
export const SEARCH_CALL = 'tool_search_call'
export const SEARCH_OUTPUT = 'tool_search_output'

/** Whether the client runs this search: then it is an ordinary function. */
export const isClientSearch = ({ type, execution }: JsonObject): boolean =>
  (type === 'tool_search' || type === SEARCH_CALL || type === SEARCH_OUTPUT) && execution === 'client'

/** An item with tools of the request, which Codex sends instead of `tools` (github.com/10/chatgpt-codex-proxy/issues/9). */
export const ADDITIONAL_TOOLS = 'additional_tools'

/** The items of the input whose tools the model may call: results of searches, and additional tools. */
export const toolItems = (input: Json | undefined): readonly { readonly at: number; readonly item: JsonObject }[] =>
  list(input).flatMap((value, at) => {
    const item = object(value)
    const hasTools = item?.type === ADDITIONAL_TOOLS || (item?.type === SEARCH_OUTPUT && isClientSearch(item))
    return item && hasTools ? [{ at, item }] : []
  })

/** The identity of a namespaced tool or of the tool search in the responses format. */
export type QualifiedTool =
  | { readonly kind: 'member'; readonly namespace: string; readonly name: string }
  | { readonly kind: 'search' }

/** Maps the tools of a request to function names and back. */
export type ToolNames = {
  /** The function name of a tool in a namespace; without a namespace, the name itself. */
  flat(namespace: string | undefined, name: string): string
  /** The function name of the tool that a choice names. A choice without a namespace may name the only member of this name. */
  chosen(namespace: string | undefined, name: string): string
  /** The function name of the client-run tool search. */
  readonly search: string
  /** The namespaced tool or tool search with this function name; undefined for ordinary tools. */
  called(name: string): QualifiedTool | undefined
}

/**
 * Joins namespace and name as MCP clients do. A single function found by a search is called with its own name as the
 * namespace (recording: openai-tool-search-1) and keeps that name.
 */
export const joinNames = (namespace: string | undefined, name: string): string =>
  namespace && namespace !== name ? `${namespace}__${name}` : name

/** Assigns the function names of a request's tools. A name that is already taken gets a digest as a suffix. */
export const toolNames = ({ tools, input }: JsonObject): ToolNames => {
  const all = [tools ?? [], ...toolItems(input).map(({ item }) => item.tools ?? [])].flatMap((some) =>
    list(some).filter(isObject),
  )
  const declared: ReadonlySet<string> = new Set(
    all.flatMap(({ type, name }) => (type === 'function' || type === 'custom' ? (text(name) ?? []) : [])),
  )
  const taken = new Set(declared)
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
  // Assigned in request order: names must not depend on the order of lookups.
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
    // An undeclared namespace can only come from an earlier turn.
    return made.get(JSON.stringify(of)) ?? (namespace === name ? name : make(joinNames(namespace, name), of))
  }
  const chosen = (namespace: string | undefined, name: string): string => {
    if (namespace || declared.has(name)) return flat(namespace, name)
    const members = [...called].filter(([, of]) => of.kind === 'member' && of.name === name)
    const [only] = members
    return only && members.length === 1 ? only[0] : name
  }
  return { flat, chosen, search, called: (name) => called.get(name) }
}
