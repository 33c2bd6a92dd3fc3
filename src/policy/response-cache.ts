/** Which requests and answers the response cache may use, and the text that identifies a request. */

import type { CacheRules } from '../core/cache-rules.ts'
import type { ChatEvent, ChatRequest, Part } from '../core/chat.ts'
import { isItemReference } from '../core/item-reference.ts'
import { isObject, type Json, type JsonObject, list, object } from '../core/json.ts'
import type { ClientProtocol } from '../core/protocol.ts'
import type { TargetOverride } from '../core/target-override.ts'
import type { Trace } from '../core/trace.ts'
import { canonicalJson, hasDuplicateMembers } from './idempotency-key.ts'
import { hasEffects, TOOLS_BY_NAME } from './retry/retry-safety.ts'

/** `Cache-Control` of a request (RFC 9111, section 5.2.1). */
export type RequestControl = {
  /** An answer from the cache may be sent. */
  readonly read: boolean
  /** The answer may be stored. */
  readonly write: boolean
  /** Maximum age of an answer in s; null: any. */
  readonly maxAge: number | null
  readonly onlyIfCached: boolean
}

const NO_CONTROL: RequestControl = { read: true, write: true, maxAge: null, onlyIfCached: false }

/**
 * Parses `Cache-Control` of a request. Unknown directives are ignored; a `max-age` that is not a whole number counts as 0,
 * which no stored answer satisfies.
 */
export const requestControl = (header: string | undefined): RequestControl => {
  if (header === undefined) return NO_CONTROL
  const directives = new Map(
    header.split(',').map((part) => {
      const [name = '', value = ''] = part.split('=')
      return [name.trim().toLowerCase(), value.trim().replace(/^"(.*)"$/, '$1')]
    }),
  )
  const age = directives.get('max-age')
  const noStore = directives.has('no-store')
  return {
    read: !noStore && !directives.has('no-cache'),
    write: !noStore,
    maxAge: age === undefined ? null : /^\d{1,15}$/.test(age) ? Number(age) : 0,
    onlyIfCached: directives.has('only-if-cached'),
  }
}

/** Why the cache is not used for a request, as in `x-headgate-cache: bypass; why=tools`. */
export type BypassReason =
  | 'no-store'
  | 'too-long'
  | 'duplicate-members'
  | 'metadata'
  | 'background'
  | 'conversation'
  | 'store'
  | 'tools'
  | 'effects'
  | 'media'
  | 'content'
  | 'choices'
  | 'temperature'

/** Characters of the longest body for which a key is computed: about 2 ms. */
const LONGEST = 262_144

/** A request body as received and parsed. */
export type CacheableBody = { readonly source: string; readonly body: JsonObject }

/** Why no key is computed for a body of any kind; null: one may be. */
export const bodyBypass = ({ source, body }: CacheableBody): BypassReason | null => {
  if (source.length > LONGEST) return 'too-long'
  return hasDuplicateMembers(source, body) ? 'duplicate-members' : null
}

/** A chat request for the cache. `stored`: the answer is stored under an ID of its own. */
export type CacheableChat = CacheableBody & { readonly request: ChatRequest; readonly stored: boolean }

/** Why the cache is not used for a chat request; null: it is. */
export const chatBypass = (
  { request, stored, ...received }: CacheableChat,
  rules: Pick<CacheRules, 'tools' | 'anyTemperature'>,
): BypassReason | null => {
  const { body } = received
  const { settings } = request
  if (isSet(body, 'background')) return 'background'
  if (CONVERSATION.some((name) => isSet(body, name)) || list(body.input).some(isReference)) return 'conversation'
  if (stored) return 'store'
  if (hasEffects(request) || isSet(body, 'mcp_servers')) return 'effects'
  if (!rules.tools && (request.tools.length > 0 || TOOL_MEMBERS.some((name) => isSet(body, name)))) return 'tools'
  for (const { content } of request.messages)
    for (const part of content) {
      if (isReferenced(part)) return 'media'
      // A part that only steers does not change the answer, unless its provider reads it.
      if (part.type === 'foreign' && part.instead?.length !== 0) return 'content'
    }
  if ((settings.choices?.value ?? 1) !== 1) return 'choices'
  const isDeterministic = settings.temperature?.value === 0 || settings.seed !== undefined
  if (!isDeterministic && !rules.anyTemperature) return 'temperature'
  return bodyBypass(received)
}

/** Members that make the answer depend on state outside the request. */
const CONVERSATION = ['previous_response_id', 'conversation', 'container']
const TOOL_MEMBERS = ['functions', ...TOOLS_BY_NAME]

const isSet = (body: JsonObject, name: string): boolean => {
  const value = body[name]
  return value !== undefined && value !== null && value !== false
}

const isReference = (item: Json): boolean => isObject(item) && isItemReference(item)

/** The content at a URL or file ID can change between two requests. */
const isReferenced = (part: Part): boolean =>
  (part.type === 'image' || part.type === 'file') && part.source.kind !== 'data'

/** What the format of a request says of its bodies. */
export type CacheFacts = Pick<ClientProtocol, 'repeatsRequest' | 'steadyBody'>

/** What identifies a request besides its body. */
export type CacheKeyParts = {
  /** Who shares the answer. */
  readonly scope: string
  readonly style: string
  readonly facts: CacheFacts
  readonly path: string
  readonly query: string
  /** Values of the headers that are forwarded; null: not sent. */
  readonly forwarded: readonly (string | null)[]
  /** The first target of the plan, and its address: the model name of the request may have several meanings. */
  readonly target: {
    readonly provider: string
    readonly model: string
    readonly baseUrl: string
    /** What the operator changes in the request. */
    readonly override?: TargetOverride | undefined
  }
  /** Of the guards that requests and answers pass. */
  readonly revisions: readonly string[]
}

/** Changes with the format of stored answers and with the rules of the cache. */
const VERSION = 1

/** The text whose digest is the key of an answer. */
export const cacheKeyText = (
  { scope, style, facts, path, query, forwarded, target, revisions }: CacheKeyParts,
  body: JsonObject,
): string => {
  const { provider, model, baseUrl, override } = target
  const changes = override ? [canonicalJson({ ...override })] : []
  const parts = [VERSION, scope, style, path, query, forwarded, provider, model, baseUrl, ...changes, ...revisions]
  return `${JSON.stringify(parts)}\n${canonicalJson(distinctive(body, facts))}`
}

/** The body without members that do not change the answer. `model`: the target is in the key instead. */
const distinctive = (body: JsonObject, { repeatsRequest, steadyBody }: CacheFacts): JsonObject => {
  const { model: _model, client_metadata: _client, ...rest } = steadyBody?.(body) ?? body
  const options = object(rest.stream_options)
  return {
    ...(repeatsRequest ? rest : without(rest, IDENTIFIERS)),
    ...(options && { stream_options: without(options, ['include_obfuscation']) }),
  }
}

/** Members that identify the client's user or its conversation. */
const IDENTIFIERS = ['user', 'metadata', 'safety_identifier', 'prompt_cache_key']

const without = (value: JsonObject, names: readonly string[]): JsonObject =>
  Object.fromEntries(Object.entries(value).filter(([name]) => !names.includes(name)))

/** Why an answer is not stored. */
export type UnstoredReason = 'unfinished' | 'failure' | 'tool-call' | 'refusal' | 'foreign' | 'finish' | 'changed'

/** Collects from the events of an answer whether it may be stored. */
export class AnswerCheck {
  #problem: UnstoredReason | null = null
  #finished = false

  add(events: readonly ChatEvent[]): void {
    for (const event of events) this.#problem ??= this.#problemOf(event)
  }

  /** Null: the answer is complete and may be stored. */
  get problem(): UnstoredReason | null {
    return this.#problem ?? (this.#finished ? null : 'unfinished')
  }

  #problemOf(event: ChatEvent): UnstoredReason | null {
    if (event.type === 'failure') return 'failure'
    if (event.type === 'open')
      return event.block.type === 'text' || event.block.type === 'reasoning' ? null : event.block.type
    if (event.type !== 'finish') return null
    this.#finished = true
    const { kind } = event.finish
    return kind === 'stop' || kind === 'length' ? null : 'finish'
  }
}

/** Whether the trace shows that the answer is not exactly that of one target: members dropped, or continued elsewhere. */
export const isChanged = (trace: Trace): boolean => trace.some(({ type }) => CHANGES.has(type))

const CHANGES: ReadonlySet<string> = new Set(['dropped', 'dropped_events', 'continued'])
