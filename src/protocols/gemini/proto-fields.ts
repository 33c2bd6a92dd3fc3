/** Members of Google's JSON, which has two spellings of each name: `generationConfig` and `generation_config` (proto3). */
import { fail } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject } from '../../core/json.ts'
import { type Problems, type RequestFields, requestFields } from '../shared/request-fields.ts'

/** The name in camel case. Only the members that Google names are given here, never names that the client chose. */
const camelName = (name: string): string =>
  name.includes('_') ? name.replaceAll(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()) : name

/** A reader of an object by the names in camel case, whichever spelling it has. Both spellings of one name are a problem. */
export const protoFields = (value: Json | undefined, at: string, problems: Problems): RequestFields =>
  requestFields(camelMembers(isObject(value) ? value : {}, at, problems), at, problems)

/** A reader of a member that is an object. */
export const protoFieldsIn = (fields: RequestFields, name: string, problems: Problems): RequestFields | undefined => {
  const member = fields.object(name)
  return member && protoFields(member, fields.path(name), problems)
}

/** The same object, if all its names are in camel case. */
const camelMembers = (value: JsonObject, at: string, problems: Problems): JsonObject => {
  const names = Object.keys(value)
  if (!names.some((name) => name.includes('_'))) return value
  for (const name of names)
    if (camelName(name) !== name && value[name] !== undefined && Object.hasOwn(value, camelName(name))) {
      const param = at === '' ? name : `${at}.${name}`
      problems.first ??= fail('invalid_value', `The body has "${name}" in both spellings. Send it once.`, { param })
    }
  return Object.fromEntries(names.map((name) => [camelName(name), value[name]]))
}

/** A member in either spelling. */
export const protoMember = (value: JsonObject | undefined, name: string): Json | undefined =>
  value && (value[name] ?? value[name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)])
