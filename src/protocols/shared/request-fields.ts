/** Reads the members of a client's request, with one error message for each wrong type. */
import type { Extra } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { isList, isObject, type Json, type JsonObject, sourceOf } from '../../core/json.ts'
import { RETRY_TRIGGERS } from '../../core/retry-triggers.ts'

/**
 * Reads an object of a client's request member by member. Null counts as absent. A member of the wrong type is reported
 * as a problem and read as absent. `unread` returns all members that no call has read, so none is dropped silently.
 */
export type RequestFields = {
  readonly at: string
  /** The path of a member in the client's request. */
  path(name: string): string
  has(name: string): boolean
  string(name: string): string | undefined
  flag(name: string): boolean | undefined
  number(name: string, limits?: NumberLimits): number | undefined
  object(name: string): JsonObject | undefined
  fields(name: string): RequestFields | undefined
  list(name: string): readonly Json[] | undefined
  /** The member with any type. The caller must encode it or report it as lost. */
  any(name: string): Json | undefined
  /** Reports a member with an invalid value; `allowed` completes "it must be …". */
  invalid(name: string, allowed: string): void
  missing(name: string, allowed: string): void
  /** The members that no call has read. */
  unread(essential?: (name: string, value: Json) => boolean): Extra[]
}

type NumberLimits = { readonly least?: number; readonly most?: number; readonly whole?: boolean }
const NO_LIMITS: NumberLimits = {}

/**
 * The first problem found; later problems mostly follow from it. `reshaped`: a part of the body has the shape of another
 * client format, so the body cannot be passed unchanged.
 */
export type Problems = { first?: Failure; reshaped?: true }

/** A reader of `value`; `at` is its path in the request, empty for the body. */
export const requestFields = (value: JsonObject, at: string, problems: Problems): RequestFields =>
  new ObjectFields(value, at, problems)

/**
 * The `model` member, or the first of `models`, with which OpenRouter's clients may replace it. A blank name is reported as missing.
 * `allowed` describes valid values.
 */
export const requestedModel = (
  fields: RequestFields,
  allowed = 'the name of a model, or `auto` for any available model',
): string => {
  const model = fields.string('model') ?? firstModel(fields)
  if (model.trim() === '') fields.missing('model', allowed)
  return model
}

const firstModel = (fields: RequestFields): string => {
  const models = fields.any('models')
  const first = isList(models) ? models[0] : undefined
  return typeof first === 'string' ? first : ''
}

/** Allocated once per message, so it is a class and stores only the names that were read. */
class ObjectFields implements RequestFields {
  readonly at: string
  readonly #value: JsonObject
  readonly #problems: Problems
  /** Names of existing members that were read. */
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
    const member = this.#value[name]
    // Most members are absent. Names of members are no names of Object.prototype, except in a body that is an attack.
    if (member === undefined || !Object.hasOwn(this.#value, name)) return undefined
    this.#read.push(name)
    return member === null ? undefined : member
  }

  has(name: string): boolean {
    return this.any(name) !== undefined
  }

  invalid(name: string, allowed: string): void {
    const path = this.path(name)
    this.#problems.first ??= fail(
      'invalid_value',
      `${quotePath(path)} is ${describeValue(this.#value[name])}; it must be ${allowed}.`,
      { param: path },
    )
  }

  missing(name: string, allowed: string): void {
    const path = this.path(name)
    this.#problems.first ??= fail('missing_parameter', `${quotePath(path)} is missing; it must be ${allowed}.`, {
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

/** A path in an error message. The exact path is in the error's `param`. */
const quotePath = (path: string): string => (RETRY_TRIGGERS.test(path) ? 'A member' : `\`${path}\``)

/** Describes a value without quoting numbers: some clients search error bodies for status codes and retry. */
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
