/** Small things more than one wire format needs. */
import type { Extra } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { isList, isObject, type Json, type JsonObject, sourceOf } from '../../core/json.ts'
import { RETRY_TRIGGERS } from '../errors/openai-error.ts'

/** Adds all of a list, however long: `push(...more)` is a call with so many arguments, which overflows the stack at some 100,000. */
export const append = <T>(to: T[], more: readonly T[]): void => {
  for (const one of more) to.push(one)
}

/**
 * An object of a client's request, read member by member. A member of the wrong type is a problem and reads as absent;
 * null is absent; a member nobody asked for comes out of `rest`, so that nothing is forgotten by not being thought of.
 */
export type RequestFields = {
  readonly at: string
  /** The client's path to a member. */
  path(name: string): string
  has(name: string): boolean
  string(name: string): string | undefined
  flag(name: string): boolean | undefined
  number(name: string, limits?: NumberLimits): number | undefined
  object(name: string): JsonObject | undefined
  fields(name: string): RequestFields | undefined
  list(name: string): readonly Json[] | undefined
  /** Whatever it is. Reading it is a promise to carry it or to say that it is lost. */
  any(name: string): Json | undefined
  /** Says that a member is wrong: what was found, what is allowed. */
  invalid(name: string, allowed: string): void
  missing(name: string, allowed: string): void
  /** What nobody has read. */
  unread(essential?: (name: string, value: Json) => boolean): Extra[]
}

type NumberLimits = { readonly least?: number; readonly most?: number; readonly whole?: boolean }
const NO_LIMITS: NumberLimits = {}

/** The first problem met while reading; later ones are mostly its consequences. */
export type Problems = { first?: Failure }

export const requestFields = (value: JsonObject, at: string, problems: Problems): RequestFields =>
  new Members(value, at, problems)

/** The model a request names; a blank name is none. */
export const requestedModel = (
  fields: RequestFields,
  what = 'the name of a model, or `auto` for whichever works',
): string => {
  const model = fields.string('model') ?? ''
  if (model.trim() === '') fields.missing('model', what)
  return model
}

/** A class, and no list of absent names: every request is read through a few of these, every message through one. */
class Members implements RequestFields {
  readonly at: string
  readonly #value: JsonObject
  readonly #problems: Problems
  /** Those there are and that have been asked for. */
  readonly #read: string[] = []

  constructor(value: JsonObject, at: string, problems: Problems) {
    this.#value = value
    this.at = at
    this.#problems = problems
  }

  path(name: string): string {
    return this.at === '' ? name : `${this.at}.${name}`
  }

  any(name: string): Json | undefined {
    if (!Object.hasOwn(this.#value, name)) return undefined
    this.#read.push(name)
    const member = this.#value[name]
    return member === null ? undefined : member
  }

  has(name: string): boolean {
    return this.any(name) !== undefined
  }

  invalid(name: string, allowed: string): void {
    const path = this.path(name)
    this.#problems.first ??= fail(
      'invalid_value',
      `${say(path)} is ${describeValue(this.#value[name])}; it must be ${allowed}.`,
      { param: path },
    )
  }

  missing(name: string, allowed: string): void {
    const path = this.path(name)
    this.#problems.first ??= fail('missing_parameter', `${say(path)} is missing; it must be ${allowed}.`, {
      param: path,
    })
  }

  string(name: string): string | undefined {
    const member = this.any(name)
    if (member === undefined || typeof member === 'string') return member
    this.invalid(name, 'a string')
    return undefined
  }

  flag(name: string): boolean | undefined {
    const member = this.any(name)
    if (member === undefined || typeof member === 'boolean') return member
    this.invalid(name, 'true or false')
    return undefined
  }

  list(name: string): readonly Json[] | undefined {
    const member = this.any(name)
    if (member === undefined || isList(member)) return member
    this.invalid(name, 'a list')
    return undefined
  }

  object(name: string): JsonObject | undefined {
    const member = this.any(name)
    if (member === undefined || isObject(member)) return member
    this.invalid(name, 'an object')
    return undefined
  }

  fields(name: string): RequestFields | undefined {
    const member = this.object(name)
    return member && requestFields(member, this.path(name), this.#problems)
  }

  number(name: string, { least, most, whole }: NumberLimits = NO_LIMITS): number | undefined {
    const member = this.any(name)
    if (member === undefined) return undefined
    const source = typeof member === 'number' ? undefined : sourceOf(member)
    const amount = source === undefined ? member : Number(source)
    if (
      typeof amount === 'number' &&
      Number.isFinite(amount) &&
      (!whole || Number.isInteger(amount)) &&
      (least === undefined || amount >= least) &&
      (most === undefined || amount <= most)
    )
      return amount
    const bounds = least === undefined ? '' : most === undefined ? ` of at least ${least}` : ` from ${least} to ${most}`
    this.invalid(name, (whole ? 'a whole number' : 'a number') + bounds)
    return undefined
  }

  unread(essential?: (name: string, value: Json) => boolean): Extra[] {
    const extras: Extra[] = []
    for (const name of Object.keys(this.#value)) {
      const value = this.#value[name]
      if (value === undefined || value === null || this.#read.includes(name)) continue
      extras.push({ at: this.path(name), name, value, essential: essential?.(name, value) ?? false })
    }
    return extras
  }
}

/**
 * Groq's word for the effort a model makes without one: as a request it says nothing. Vendors have further words of their
 * own; those pass in the same style and are named as lost in another.
 */
export const DEFAULT_EFFORT = 'default'

/** A path in a sentence; the exact one is the error's `param`. */
const say = (path: string): string => (RETRY_TRIGGERS.test(path) ? 'A member' : `\`${path}\``)

/** What a value is, without repeating a number: clients search error bodies for those of a status. */
export const describeValue = (value: Json | undefined): string => {
  if (value === undefined) return 'missing'
  if (value === null) return 'null'
  if (isList(value)) return value.length === 0 ? 'an empty list' : 'a list'
  if (sourceOf(value) !== undefined) return 'a very large number'
  switch (typeof value) {
    case 'string':
      if (value === '') return 'an empty string'
      return value.length <= 40 && /^[\w .:/-]+$/.test(value) && !RETRY_TRIGGERS.test(value)
        ? `the string "${value}"`
        : 'a string'
    case 'boolean':
      return String(value)
    case 'number':
      if (!Number.isFinite(value)) return 'not a finite number'
      if (value < 0) return 'a negative number'
      if (value === 0) return 'zero'
      return Number.isInteger(value) ? 'a positive number' : 'a fraction'
    default:
      return 'an object'
  }
}

/** 53 bits of a text; the seed makes independent ones. Two multiplied lanes, mixed at the end. */
const hash53 = (text: string, seed: number): number => {
  let a = 0xdeadbeef ^ seed
  let b = 0x41c6ce57 ^ seed
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    a = Math.imul(a ^ code, 2_654_435_761)
    b = Math.imul(b ^ code, 1_597_334_677)
  }
  a = Math.imul(a ^ (a >>> 16), 2_246_822_507) ^ Math.imul(b ^ (b >>> 13), 3_266_489_909)
  b = Math.imul(b ^ (b >>> 16), 2_246_822_507) ^ Math.imul(a ^ (a >>> 13), 3_266_489_909)
  return 4_294_967_296 * (2_097_151 & b) + (a >>> 0)
}

/** 40 letters and digits that stand for a text: the same for the same text, everywhere and always. */
export const digest = (text: string): string =>
  [1, 2, 3, 4].map((seed) => hash53(text, seed).toString(36).padStart(11, '0').slice(-10)).join('')

/** A tool call's id where ids have a longest length: itself, or one made from it. Never cut, since two could become one. */
export const shortId = (id: string, longest = 64): string =>
  id.length <= longest ? id : `call_${digest(id).slice(0, longest - 'call_'.length)}`

/** An id for a call whose maker gave it none: from the answer and the call's place in it. */
export const derivedCallId = (...of: readonly (string | number | undefined)[]): string =>
  `call_${digest(JSON.stringify(of)).slice(0, 24)}`

/** A count of tokens; undefined for what cannot be one. Beyond 2^53 sums are no longer exact, and nobody wrote so much. */
export const tokenCount = (value: Json | undefined): number | undefined => {
  if (typeof value !== 'number' || !(value >= 0 && value <= Number.MAX_SAFE_INTEGER / 1_024)) return undefined
  return Math.floor(value)
}

/** s since 1970 of a time as ISO 8601 writes it. */
export const unixSeconds = (time: Json | undefined): number | undefined => {
  const ms = typeof time === 'string' ? Date.parse(time) : Number.NaN
  return Number.isNaN(ms) ? undefined : Math.floor(ms / 1_000)
}
