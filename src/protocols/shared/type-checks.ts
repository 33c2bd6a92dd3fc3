/**
 * What an answer says stands in members of certain types. One that is absent or null says nothing; one of another type
 * says something that cannot be read, and skipping it would make half an answer of a whole one. So every format has a
 * table of the members that carry its content, and an answer that does not fit is `malformed`.
 */
import { isList, isObject, type Json } from '../../core/json.ts'

/** Says whether a value is as it has to be. Absent and null always are. */
export type TypeCheck = (value: Json | undefined) => boolean

const absent = (value: Json | undefined): value is null | undefined => value === undefined || value === null

export const optionalString: TypeCheck = (value) => typeof value === 'string' || absent(value)
export const optionalBoolean: TypeCheck = (value) => typeof value === 'boolean' || absent(value)
export const optionalNumber: TypeCheck = (value) => typeof value === 'number' || absent(value)

/** It has to be there: what has no name cannot be called. */
export const nonEmptyString: TypeCheck = (value) => typeof value === 'string' && value !== ''

/** An object whose members, of these, fit. */
export const optionalObject = (members: { readonly [name: string]: TypeCheck } = {}): TypeCheck => {
  const shapes = Object.entries(members)
  return (value) => {
    if (absent(value)) return true
    if (!isObject(value)) return false
    for (const [name, fits] of shapes) if (!fits(value[name])) return false
    return true
  }
}

/** An object whose `type` says which members it has; those of a type nobody here knows may be anything. */
export const byType = (types: { readonly [type: string]: TypeCheck }): TypeCheck => {
  const known = new Map(Object.entries(types))
  return (value) => {
    if (absent(value)) return true
    if (!isObject(value) || !optionalString(value.type)) return false
    return known.get(typeof value.type === 'string' ? value.type : '')?.(value) ?? true
  }
}

export const optionalList =
  (each: TypeCheck): TypeCheck =>
  (value) => {
    if (absent(value)) return true
    if (!isList(value)) return false
    for (const inner of value) if (!each(inner)) return false
    return true
  }

export const anyOf =
  (one: TypeCheck, other: TypeCheck): TypeCheck =>
  (value) =>
    one(value) || other(value)

/** A call's arguments: text, or the object itself. Never a list or a number: no function has those for arguments. */
export const optionalArguments: TypeCheck = anyOf(optionalString, optionalObject())
