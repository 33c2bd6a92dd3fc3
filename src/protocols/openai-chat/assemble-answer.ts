/**
 * Assembles a stream of chat completion chunks into one non-streaming answer. Providers add members of their own, so the
 * rules are generic: texts are concatenated, lists are extended, and other values are replaced by later ones.
 */
import { isList, isObject, type Json, type JsonObject, list, number, object, parseObject } from '../../core/json.ts'
import type { Frame } from '../../core/protocol.ts'
import { exceedsDepth } from '../shared/tool-arguments.ts'

/** Maximum nesting of a chunk; deeper values could overflow the stack when stringified. */
const MAX_CHUNK_DEPTH = 256

/** Identifiers, which are always sent complete and are not concatenated. */
const IDENTIFIERS = new Set(['role', 'id', 'type', 'name', 'format', 'call_id'])
/** Members that only chunks have: padding that hides lengths, and the choices. */
const CHUNK_MEMBERS = new Set(['obfuscation', 'choices', 'object'])

/** An object owned by the assembly, which may be mutated instead of copied per chunk. */
type MutableObject = { [member: string]: Json | undefined }

/** The answer as JSON text; null if the stream has no choice or contradicts itself. */
export const assembleAnswer = (frames: readonly Frame[]): string | null => {
  const joiner = new Joiner()
  const answer: MutableObject = {}
  const choices = new Map<number, MutableObject>()
  for (const { data } of frames) {
    // Chunks after the end are ignored.
    if (data.trim() === '[DONE]') break
    const chunk = parseChunk(data)
    if (!chunk) continue
    if (exceedsDepth(chunk, MAX_CHUNK_DEPTH)) return null
    for (const entry of list(chunk.choices)) {
      const choice = object(entry)
      if (!choice) continue
      const index = number(choice.index) ?? 0
      const known = choices.get(index) ?? { index }
      choices.set(index, known)
      joiner.choice(known, choice)
    }
    mergeLatest(answer, chunk)
  }
  if (choices.size === 0 || joiner.failed) return null
  const { id, created, model, ...rest } = answer
  const assembled = [...choices.entries()].sort(([a], [b]) => a - b).map(([, choice]) => finishChoice(choice))
  return JSON.stringify({ id, object: 'chat.completion', created, model, choices: assembled, ...rest })
}

/** Invalid chunks are skipped; the decoder has reported them already. */
const parseChunk = (data: string): JsonObject | undefined => (data === '' ? undefined : parseObject(data))

/** Azure's first chunk has an empty ID and no time: non-empty values take precedence. */
const hasValue = (value: Json | undefined): boolean =>
  value !== undefined && value !== null && value !== '' && value !== 0

const mergeLatest = (answer: MutableObject, update: JsonObject): void => {
  for (const [name, value] of Object.entries(update)) {
    const known = answer[name]
    if (CHUNK_MEMBERS.has(name) || !(hasValue(value) || known === undefined)) continue
    answer[name] = isObject(value) && isObject(known) ? { ...known, ...value } : value
  }
}

class Joiner {
  /** Two fragments had incompatible types. */
  failed = false
  /** For each list owned by the assembly: the position of the entry with an index. */
  readonly #positions = new WeakMap<Json[], Map<number, number>>()
  /** Lists and objects owned by the assembly. */
  readonly #own = new WeakSet<object>()

  choice(choice: MutableObject, { delta, message, index: _, logprobs, ...rest }: JsonObject): void {
    choice.message = this.#object(choice.message, object(delta) ?? object(message) ?? {})
    choice.logprobs = isObject(logprobs) ? this.#object(choice.logprobs, logprobs) : (choice.logprobs ?? null)
    mergeLatest(choice, rest)
  }

  #join(name: string, known: Json | undefined, fragment: Json | undefined): Json {
    if (isObject(fragment) && (known === undefined || known === null || isObject(known)))
      return this.#object(known, fragment)
    if (isList(fragment) && (known === undefined || known === null || isList(known))) return this.#list(known, fragment)
    if (known === undefined || known === null) return fragment ?? null
    if (fragment === undefined || fragment === null) return known
    if (typeof known === 'string' && typeof fragment === 'string')
      return IDENTIFIERS.has(name) ? fragment || known : known + fragment
    if (typeof known !== typeof fragment || isObject(known) || isList(known)) this.failed = true
    return fragment
  }

  #object(known: Json | undefined, fragment: JsonObject): JsonObject {
    // The set contains only objects created below.
    const target: MutableObject =
      isObject(known) && this.#own.has(known) ? (known as MutableObject) : { ...object(known) }
    this.#own.add(target)
    for (const [name, value] of Object.entries(fragment)) target[name] = this.#join(name, target[name], value)
    return target
  }

  /** Entries with a known index are extended; others are appended. */
  #list(known: Json | undefined, fragment: readonly Json[]): readonly Json[] {
    const target: Json[] = isList(known) && this.#own.has(known) ? (known as Json[]) : [...list(known)]
    this.#own.add(target)
    const places = this.#positions.get(target) ?? new Map<number, number>()
    this.#positions.set(target, places)
    for (const entry of fragment) {
      const place = isObject(entry) ? number(entry.index) : undefined
      const at = place === undefined ? undefined : places.get(place)
      const begun = at === undefined ? undefined : target[at]
      if (at !== undefined && isObject(begun) && isObject(entry) && continuesEntry(begun, entry)) {
        target[at] = this.#object(begun, entry)
        continue
      }
      if (place !== undefined) places.set(place, target.length)
      target.push(isObject(entry) ? this.#object(undefined, entry) : entry)
    }
    return target
  }
}

/** Some providers use index 0 for every call: a new ID or type starts a new entry. */
const continuesEntry = (known: JsonObject, entry: JsonObject): boolean =>
  ['id', 'type'].every((name) => !hasValue(entry[name]) || !hasValue(known[name]) || entry[name] === known[name])

/** The final form of a choice: without indices of calls, and with null for empty content. */
const finishChoice = ({ index, message: assembled, logprobs, finish_reason, ...rest }: MutableObject): JsonObject => {
  // Some providers send `tool_calls: null` in every chunk.
  const { tool_calls, ...message } = object(assembled) ?? {}
  const calls = isList(tool_calls) && tool_calls.length > 0 ? tool_calls.map(withoutIndex) : undefined
  const isEmpty = message.content === '' && (calls || hasValue(message.refusal) || isObject(message.function_call))
  return {
    index,
    message: {
      role: 'assistant',
      // Required by OpenAI's schema; most compatible servers omit it in streams.
      refusal: null,
      ...message,
      content: isEmpty ? null : (message.content ?? null),
      ...(calls && { tool_calls: calls }),
    },
    logprobs,
    // A stream may end with `[DONE]` and no finish reason, which an answer requires.
    finish_reason: finish_reason ?? (calls ? 'tool_calls' : 'stop'),
    ...rest,
  }
}

const withoutIndex = (call: Json): Json => {
  if (!isObject(call)) return call
  const { index: _, ...rest } = call
  const called = object(rest.function)
  // Clients parse arguments as JSON, so empty ones are written as `{}`.
  return called && !called.arguments ? { ...rest, function: { ...called, arguments: '{}' } } : rest
}
