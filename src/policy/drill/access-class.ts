/**
 * Classes of clients with the same access and data policy, as the text under which shapes are stored. It has lists of the
 * configuration, and no key, team or person.
 */
import { type Access, FULL_ACCESS } from '../../core/accounts.ts'
import { type Json, list, object, parseObject } from '../../core/json.ts'

/** `access`: of the owners, which must all allow a target. `require`: as the header states it; null: nothing. */
export type ReachClass = { readonly access: readonly Access[]; readonly require: string | null }

/** The class of clients that may use everything. */
export const FREE_CLASS = ''
/** The class of clients whose lists are too long to be stored: nothing is known of them. */
export const LONG_CLASS = '?'
const MAX_TEXT = 500

/** The text of a class. A request that has reached its route may use it, so lists of routes and styles are left out. */
export const classText = ({ access, require }: ReachClass): string => {
  const lists = access.flatMap(({ models, providers }) =>
    models === null && providers === null ? [] : [{ models, providers }],
  )
  if (lists.length === 0 && require === null) return FREE_CLASS
  const text = JSON.stringify({ lists, require })
  return text.length > MAX_TEXT ? LONG_CLASS : text
}

/** Parses the text of a class. Undefined: it is malformed, or its lists were too long. */
export const parseClass = (text: string): ReachClass | undefined => {
  if (text === FREE_CLASS) return { access: [], require: null }
  const found = parseObject(text)
  if (!found) return undefined
  const { lists, require = null } = found
  const access = list(lists).map(accessOf)
  return require === null || typeof require === 'string' ? { access, require } : undefined
}

const accessOf = (value: Json): Access => {
  const { models, providers } = object(value) ?? {}
  return { ...FULL_ACCESS, models: namesOf(models), providers: namesOf(providers) }
}

const namesOf = (value: Json | undefined): readonly string[] | null =>
  value === null || value === undefined ? null : list(value).filter((name) => typeof name === 'string')
