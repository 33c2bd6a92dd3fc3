/** What is compared of calls and results: without what differs each time and means nothing. Made once for each, when it is needed. */
import { isList, isObject, type Json, type JsonObject, parseObject } from '../../core/json.ts'
import type { ToolUse } from './agent-turns.ts'

/** Characters at each end of a text. */
const END = 2_048
/** Characters by which results may differ in length that have other times in them. */
const NEAR = 64

export class UseTexts {
  readonly #calls = new Map<ToolUse, string>()
  readonly #results = new Map<ToolUse, string>()
  readonly #errors = new Map<ToolUse, string>()

  /** The same tool with the same arguments. */
  isSameCall(one: ToolUse, other: ToolUse): boolean {
    if (one.tool !== other.tool) return false
    return one.input === other.input || (isJson(one) && isJson(other) && this.#call(one) === this.#call(other))
  }

  /** The same result, but for times. */
  isSameResult(one: ToolUse, other: ToolUse): boolean {
    if (one.isError !== other.isError) return false
    if (one.result === other.result) return true
    if (!mayDifferInTime(one.result, other.result)) return false
    return this.#result(one) === this.#result(other)
  }

  /** The error in a result: its words. */
  errorOf(use: ToolUse): string {
    return once(this.#errors, use, () => wordsOf(use.result))
  }

  /** A command that waits. */
  isSleep({ input }: ToolUse): boolean {
    return input.length < END && SLEEP.test(input)
  }

  #call(use: ToolUse): string {
    return once(this.#calls, use, () => canonical(use.input))
  }

  #result(use: ToolUse): string {
    return once(this.#results, use, () => ends(use.result).replace(TIMES, '#'))
  }
}

const SLEEP = /\b(?:sleep|timeout \/t|Start-Sleep)\s+(?:-\w+\s+)?\d|set[T]imeout|time\.sleep/

const isJson = ({ input }: ToolUse): boolean => input.charCodeAt(0) === 123

const once = (known: Map<ToolUse, string>, use: ToolUse, make: () => string): string => {
  const found = known.get(use)
  if (found !== undefined) return found
  const made = make()
  known.set(use, made)
  return made
}

const ends = (text: string): string => (text.length <= 2 * END ? text : `${text.slice(0, END)}\n${text.slice(-END)}`)

// ── Results ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Dates, times of day, seconds since 1970, and durations. Other numbers are results, such as progress. */
const TIMES =
  /\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?|\b\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?\b|\b1[5-9]\d{8}(?:\d{3})?\b|\b\d+(?:\.\d+)?\s?(?:ms|µs|s|sec|secs|seconds|milliseconds|min|minutes)\b/g

/** Characters around a difference that a time has at most. */
const AROUND = 24

/** Whether texts of about one length first differ in what may be a time: most that differ are seen to do so at once. */
const mayDifferInTime = (one: string, other: string): boolean => {
  if (Math.abs(one.length - other.length) > NEAR) return false
  const most = Math.min(one.length, other.length, END)
  let at = 0
  while (at < most && one.charCodeAt(at) === other.charCodeAt(at)) at++
  if (at === most && one.length > END) return true
  return one.slice(Math.max(0, at - AROUND), at + AROUND).search(TIMES) >= 0
}

// ── Errors ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Characters of an error that are compared, at each end. */
const OF_ERROR = 400
const BETWEEN = /[\s'"`(),:;=<>[\]{}]+/
const FILE = /[\\/]|\.[a-z]{1,5}$/
const HEX = /^(?:0x)?[0-9a-f-]{8,}$/

/** Its words in lower case: paths, identifiers and numbers differ where the error is the same. */
const wordsOf = (result: string): string => {
  const { length } = result
  const cut = length <= 2 * OF_ERROR ? result : `${result.slice(0, OF_ERROR)} ${result.slice(-OF_ERROR)}`
  let words = ''
  for (const word of cut.toLowerCase().split(BETWEEN))
    words += FILE.test(word) ? ' /' : HEX.test(word) ? ' 0' : ` ${word.replace(DIGITS, '0')}`
  return words
}
const DIGITS = /\d+/g

// ── Arguments ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Members that say why or how often a call is made, not what it does. */
const ASIDE =
  /^(?:attempts?|retry|retries|retry_?count|try|iteration|nonce|seq|timestamp|time|ts|(?:request|call|trace|tool_?call)_?id|description|explanation|reason|reasoning|justification|thoughts?)$/i

/** JSON with its members in order and without asides. What is no JSON stays as it is. */
const canonical = (input: string): string => {
  if (input.length > 2 * END) return ends(input)
  const parsed = parseObject(input)
  return parsed ? JSON.stringify(sorted(parsed, true)) : input
}

const sorted = (value: Json, isTop: boolean): Json => {
  if (isList(value)) return value.map((one) => sorted(one, false))
  if (!isObject(value)) return value
  const members: [string, Json][] = []
  for (const name of Object.keys(value).sort()) {
    const member = value[name]
    if (member !== undefined && !(isTop && ASIDE.test(name))) members.push([name, sorted(member, false)])
  }
  return Object.fromEntries(members) as JsonObject
}
