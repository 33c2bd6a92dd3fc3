/**
 * A stream of chat completion chunks as the one answer it would have been. Vendors have members of their own in both, so
 * nothing here knows the names of all: pieces of text are joined, lists go on, and of what is said once the last stands.
 */
import { isList, isObject, type Json, type JsonObject, list, number, object, parseObject } from '../../core/json.ts'
import type { Frame } from '../../core/protocol.ts'
import { exceedsDepth } from '../shared/tool-arguments.ts'

/** Deeper than any answer is; what is deeper could overflow the stack while it is written. */
const DEEPEST = 256

/** Text that names something and comes whole each time it comes, so that it is never joined. */
const NAMES = new Set(['role', 'id', 'type', 'name', 'format', 'call_id'])
/** Of the stream, and of no answer: padding against eavesdroppers on lengths, and the places in lists. */
const OF_CHUNKS = new Set(['obfuscation', 'choices', 'object'])

/** Made here, so it may be changed here: what is joined piece by piece is not made anew with each. */
type Building = { [member: string]: Json | undefined }

/** Null: it tells no choice, or contradicts itself. */
export const gather = (frames: readonly Frame[]): string | null => {
  const joiner = new Joiner()
  const answer: Building = {}
  const choices = new Map<number, Building>()
  for (const { data } of frames) {
    // What comes behind the end is no part of the answer.
    if (data.trim() === '[DONE]') break
    const chunk = read(data)
    if (!chunk) continue
    if (exceedsDepth(chunk, DEEPEST)) return null
    for (const entry of list(chunk.choices)) {
      const choice = object(entry)
      if (!choice) continue
      const index = number(choice.index) ?? 0
      const known = choices.get(index) ?? { index }
      choices.set(index, known)
      joiner.choice(known, choice)
    }
    latest(answer, chunk)
  }
  if (choices.size === 0 || joiner.failed) return null
  const { id, created, model, ...rest } = answer
  const said = [...choices.entries()].sort(([a], [b]) => a - b).map(([, choice]) => finished(choice))
  return JSON.stringify({ id, object: 'chat.completion', created, model, choices: said, ...rest })
}

/** The reader has judged it already: of plain text an event that is no object may be left out. */
const read = (data: string): JsonObject | undefined => (data === '' ? undefined : parseObject(data))

/** Azure's first chunk has an empty id and no time: what is said stands before what is not. */
const says = (value: Json | undefined): boolean => value !== undefined && value !== null && value !== '' && value !== 0

const latest = (answer: Building, said: JsonObject): void => {
  for (const [name, value] of Object.entries(said)) {
    const known = answer[name]
    if (OF_CHUNKS.has(name) || !(says(value) || known === undefined)) continue
    answer[name] = isObject(value) && isObject(known) ? { ...known, ...value } : value
  }
}

class Joiner {
  /** Two pieces did not go together. */
  failed = false
  /** Of each list made here: where the entry of a number is. */
  readonly #places = new WeakMap<Json[], Map<number, number>>()
  /** Lists and objects made here. */
  readonly #own = new WeakSet<object>()

  choice(choice: Building, { delta, message, index: _, logprobs, ...rest }: JsonObject): void {
    choice.message = this.#object(choice.message, object(delta) ?? object(message) ?? {})
    choice.logprobs = isObject(logprobs) ? this.#object(choice.logprobs, logprobs) : (choice.logprobs ?? null)
    latest(choice, rest)
  }

  #join(name: string, known: Json | undefined, piece: Json | undefined): Json {
    if (isObject(piece) && (known === undefined || known === null || isObject(known))) return this.#object(known, piece)
    if (isList(piece) && (known === undefined || known === null || isList(known))) return this.#list(known, piece)
    if (known === undefined || known === null) return piece ?? null
    if (piece === undefined || piece === null) return known
    if (typeof known === 'string' && typeof piece === 'string') return NAMES.has(name) ? piece || known : known + piece
    if (typeof known !== typeof piece || isObject(known) || isList(known)) this.failed = true
    return piece
  }

  #object(known: Json | undefined, piece: JsonObject): JsonObject {
    // The set holds nothing but what was made below.
    const target: Building = isObject(known) && this.#own.has(known) ? (known as Building) : { ...object(known) }
    this.#own.add(target)
    for (const [name, value] of Object.entries(piece)) target[name] = this.#join(name, target[name], value)
    return target
  }

  /** Entries with a place go on where they are; the others follow. */
  #list(known: Json | undefined, piece: readonly Json[]): readonly Json[] {
    const target: Json[] = isList(known) && this.#own.has(known) ? (known as Json[]) : [...list(known)]
    this.#own.add(target)
    const places = this.#places.get(target) ?? new Map<number, number>()
    this.#places.set(target, places)
    for (const entry of piece) {
      const place = isObject(entry) ? number(entry.index) : undefined
      const at = place === undefined ? undefined : places.get(place)
      const begun = at === undefined ? undefined : target[at]
      if (at !== undefined && isObject(begun) && isObject(entry) && goesOn(begun, entry)) {
        target[at] = this.#object(begun, entry)
        continue
      }
      if (place !== undefined) places.set(place, target.length)
      target.push(isObject(entry) ? this.#object(undefined, entry) : entry)
    }
    return target
  }
}

/** Some number every call 0: another id, or another type, begins another entry. */
const goesOn = (known: JsonObject, entry: JsonObject): boolean =>
  ['id', 'type'].every((name) => !says(entry[name]) || !says(known[name]) || entry[name] === known[name])

/** As an answer says it: without the places, and with nothing where only an empty text came. */
const finished = ({ index, message: said, logprobs, finish_reason, ...rest }: Building): JsonObject => {
  // Some say in every piece that there are no calls: `null`.
  const { tool_calls, ...message } = object(said) ?? {}
  const calls = isList(tool_calls) && tool_calls.length > 0 ? tool_calls.map(withoutPlace) : undefined
  const silent = message.content === '' && (calls || says(message.refusal) || isObject(message.function_call))
  return {
    index,
    message: {
      role: 'assistant',
      // OpenAI's schema wants it; most that imitate its streams leave it out there.
      refusal: null,
      ...message,
      content: silent ? null : (message.content ?? null),
      ...(calls && { tool_calls: calls }),
    },
    logprobs,
    // `[DONE]` without a reason is an end the provider meant; an answer has to give one.
    finish_reason: finish_reason ?? (calls ? 'tool_calls' : 'stop'),
    ...rest,
  }
}

const withoutPlace = (call: Json): Json => {
  if (!isObject(call)) return call
  const { index: _, ...rest } = call
  const called = object(rest.function)
  // No arguments at all are `{}`: what a client reads has to be JSON.
  return called && !called.arguments ? { ...rest, function: { ...called, arguments: '{}' } } : rest
}
