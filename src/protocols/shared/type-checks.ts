/**
 * Type checks of answers. Each format has a table of the members that carry content. An absent or null member is valid;
 * a member of another type makes the answer `malformed`, since skipping it would lose content silently.
 */
import { isList, isObject, type Json } from '../../core/json.ts'

/** Whether a value has the expected type. Absent and null are valid unless stated otherwise. */
export type TypeCheck = (value: Json | undefined) => boolean

const absent = (value: Json | undefined): value is null | undefined => value === undefined || value === null

/** A string. */
export const optionalString: TypeCheck = (value) => typeof value === 'string' || absent(value)
/** A boolean. */
export const optionalBoolean: TypeCheck = (value) => typeof value === 'boolean' || absent(value)
/** A number. */
export const optionalNumber: TypeCheck = (value) => typeof value === 'number' || absent(value)

/** A required, non-empty string: a call needs a name. */
export const nonEmptyString: TypeCheck = (value) => typeof value === 'string' && value !== ''

/** An object whose listed members are valid. */
export const optionalObject = (members: { readonly [name: string]: TypeCheck } = {}): TypeCheck => {
  const shapes = Object.entries(members)
  return (value) => {
    if (absent(value)) return true
    if (!isObject(value)) return false
    for (const [name, fits] of shapes) if (!fits(value[name])) return false
    return true
  }
}

/** An object whose `type` selects the check; objects of unknown types are valid. */
export const byType = (types: { readonly [type: string]: TypeCheck }): TypeCheck => {
  const known = new Map(Object.entries(types))
  return (value) => {
    if (absent(value)) return true
    if (!isObject(value) || !optionalString(value.type)) return false
    return known.get(typeof value.type === 'string' ? value.type : '')?.(value) ?? true
  }
}

/** A list whose entries are valid. */
export const optionalList =
  (each: TypeCheck): TypeCheck =>
  (value) => {
    if (absent(value)) return true
    if (!isList(value)) return false
    for (const inner of value) if (!each(inner)) return false
    return true
  }

/** Valid by either check. */
export const anyOf =
  (first: TypeCheck, second: TypeCheck): TypeCheck =>
  (value) =>
    first(value) || second(value)

/** Arguments of a call: text or an object, never a list or a number. */
export const optionalArguments: TypeCheck = anyOf(optionalString, optionalObject())
