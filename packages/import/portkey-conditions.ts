/** Queries of Portkey's conditional router, as names of routes and conditions of targets. */
import { isEffort } from '../../src/core/chat.ts'
import { isMembers, listOf, membersOf, type SourceMembers } from './source.ts'

/** What must hold. `names`: of the model; null: any. `when`: null: nothing else. */
export type Condition = { readonly names: readonly string[] | null; readonly when: SourceMembers | null }

/** Alternatives, of which one must hold. A text: why there is no counterpart. */
export type Alternatives = readonly Condition[] | string

const ANY: Condition = { names: null, when: null }
const MOST_ALTERNATIVES = 16

/** API styles by path. */
const STYLES: Readonly<Record<string, string>> = {
  '/v1/chat/completions': 'chat',
  '/v1/messages': 'messages',
  '/v1/responses': 'responses',
  '/v1/completions': 'completions',
  '/v1/embeddings': 'embeddings',
}

const isName = (value: unknown): value is string =>
  typeof value === 'string' && value !== '' && value.length <= 399 && !value.startsWith('!') && !value.includes('*')

/** The texts of `$eq`, `$in`, `$ne` or `$nin`; undefined: another operator, or other values. */
const textsOf = (value: unknown): { readonly texts: readonly string[]; readonly excludes: boolean } | undefined => {
  const [only, more] = isMembers(value) ? Object.entries(value) : [['$eq', value] as const]
  if (!only || more || !['$eq', '$in', '$ne', '$nin'].includes(only[0])) return undefined
  const texts = Array.isArray(only[1]) ? only[1] : [only[1]]
  if (texts.length === 0 || texts.length > 100 || !texts.every(isName)) return undefined
  return { texts, excludes: only[0] === '$ne' || only[0] === '$nin' }
}

const readField = (field: string, value: unknown): Alternatives => {
  const found = textsOf(value)
  if (!found) return `${field}: only $eq, $in, $ne and $nin of texts have a counterpart`
  const { texts, excludes } = found
  const patterns = excludes ? texts.map((text) => `!${text}`) : texts
  if (field.startsWith('metadata.')) {
    const name = field.slice('metadata.'.length)
    return [{ names: null, when: name === '_user' ? { user: patterns } : { tag: { [name]: patterns } } }]
  }
  const styles = texts.flatMap((text) => (Object.hasOwn(STYLES, text) ? [STYLES[text]] : []))
  if (field === 'url.pathname' && styles.length === texts.length)
    return [{ names: null, when: { style: styles.map((style) => `${excludes ? '!' : ''}${style}`) } }]
  if (field === 'params.model' && !excludes) return [{ names: texts, when: null }]
  if (field === 'params.reasoning_effort' && !excludes && texts.every(isEffort))
    return [{ names: null, when: { effort: texts } }]
  return `${field} is no fact of a condition`
}

/** Both conditions; undefined: they name one fact twice. */
const both = (one: Condition, other: Condition): Condition | undefined => {
  const when: Record<string, unknown> = { ...one.when }
  for (const [fact, value] of membersOf(other.when)) {
    const before = when[fact]
    if (before === undefined) when[fact] = value
    else if (!isMembers(before) || !isMembers(value) || Object.keys(value).some((name) => Object.hasOwn(before, name)))
      return undefined
    else when[fact] = { ...before, ...value }
  }
  const names = one.names && other.names ? one.names.filter((name) => other.names?.includes(name)) : null
  return { names: names ?? one.names ?? other.names, when: one.when || other.when ? when : null }
}

const allOf = (parts: readonly Alternatives[]): Alternatives => {
  let found: readonly Condition[] = [ANY]
  for (const part of parts) {
    if (typeof part === 'string') return part
    const joined = found.flatMap((one) => part.map((other) => both(one, other)))
    if (joined.length > MOST_ALTERNATIVES) return `more than ${MOST_ALTERNATIVES} alternatives`
    found = joined.filter((one) => one !== undefined)
    if (found.length < joined.length) return 'a condition has each fact once'
  }
  return found
}

const anyOf = (parts: readonly Alternatives[]): Alternatives => {
  const found: Condition[] = []
  for (const part of parts) {
    if (typeof part === 'string') return part
    found.push(...part)
  }
  return found.length > MOST_ALTERNATIVES ? `more than ${MOST_ALTERNATIVES} alternatives` : found
}

/** Reads a query, `depth` levels below the first. */
export const readQuery = (query: unknown, depth = 0): Alternatives => {
  const members = membersOf(query)
  if (members.length === 0 || depth > 8) return 'a query without fields, or nested too deeply'
  return allOf(
    members.map(([name, value]) => {
      if (name !== '$and' && name !== '$or') return readField(name, value)
      const parts = listOf(value).map((part) => readQuery(part, depth + 1))
      if (parts.length === 0) return `${name} without a list`
      return name === '$and' ? allOf(parts) : anyOf(parts)
    }),
  )
}
