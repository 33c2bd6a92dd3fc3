/** Changes values of a TOML text: top-level values and whole tables. All other characters stay as they are. */
import { isObject, type Json } from '../core/json.ts'

/** A statement with its line end: a table header, a value, or a line without either. */
type Statement = { readonly kind: 'header' | 'pair' | 'other'; readonly name: string; readonly text: string }

/** Thrown for a text that cannot be changed safely. */
export class TomlTextError extends Error {}

const OPENINGS = ['"""', "'''", '"', "'"] as const

/** The position after the string that starts here. */
const endOfString = (text: string, start: number): number => {
  const quote = OPENINGS.find((one) => text.startsWith(one, start)) ?? '"'
  for (let at = start + quote.length; at < text.length; at++) {
    if (text[at] === '\\' && quote.startsWith('"')) at++
    else if (text.startsWith(quote, at)) return at + quote.length
    else if (text[at] === '\n' && quote.length === 1) break
  }
  throw new TomlTextError(`the string in line ${text.slice(0, start).split('\n').length} has no end`)
}

/** The position after the statement that starts here: its line end, outside of strings and brackets. */
const endOfStatement = (text: string, start: number): number => {
  let depth = 0
  for (let at = start; at < text.length; at++) {
    const char = text[at] ?? ''
    if (char === '#') {
      const end = text.indexOf('\n', at)
      at = end === -1 ? text.length : end - 1
    } else if (char === '"' || char === "'") at = endOfString(text, at) - 1
    else if (char === '[' || char === '{') depth++
    else if (char === ']' || char === '}') depth--
    else if (char === '\n' && depth <= 0) return at + 1
  }
  return text.length
}

const unquoted = (name: string): string =>
  name
    .split('.')
    .map((part) => part.trim())
    .join('.')
    .replaceAll(/["']/g, '')
    .trim()

const statementsOf = (text: string): readonly Statement[] => {
  const found: Statement[] = []
  for (let at = 0; at < text.length; ) {
    const end = endOfStatement(text, at)
    const statement = text.slice(at, end)
    const header = /^\s*\[{1,2}([^\]]+)\]/.exec(statement)?.[1]
    const pair = /^\s*((?:[\w-]+|"[^"\n]*"|'[^'\n]*')(?:\s*\.\s*(?:[\w-]+|"[^"\n]*"|'[^'\n]*'))*)\s*=/.exec(
      statement,
    )?.[1]
    const kind = header !== undefined ? 'header' : pair !== undefined ? 'pair' : 'other'
    found.push({ kind, name: unquoted(header ?? pair ?? ''), text: statement })
    at = end
  }
  return found
}

const BARE = /^[\w-]+$/

const tomlValue = (value: Json): string => {
  if (isObject(value))
    return `{ ${Object.entries(value)
      .map(([name, inner]) => `${BARE.test(name) ? name : JSON.stringify(name)} = ${tomlValue(inner ?? '')}`)
      .join(', ')} }`
  return Array.isArray(value) ? `[${value.map(tomlValue).join(', ')}]` : JSON.stringify(value)
}

/** Returns the text with the value at the path: a table for an object below another name, otherwise a top-level value. */
export const setToml = (text: string, path: readonly string[], value: Json): string => {
  const newline = text.includes('\r\n') ? '\r\n' : '\n'
  const statements = statementsOf(text === '' || text.endsWith('\n') ? text : text + newline)
  return path.length > 1 && isObject(value)
    ? setTable(statements, path, value, newline)
    : setTopLevel(statements, path.join('.'), tomlValue(value), newline)
}

const joined = (statements: readonly Statement[]): string => statements.map(({ text }) => text).join('')

const setTopLevel = (statements: readonly Statement[], name: string, value: string, newline: string): string => {
  const firstHeader = statements.findIndex(({ kind }) => kind === 'header')
  const top = firstHeader === -1 ? statements : statements.slice(0, firstHeader)
  const line = `${name} = ${value}${newline}`
  const at = top.findIndex((one) => one.kind === 'pair' && one.name === name)
  if (at !== -1) return joined(statements.slice(0, at)) + line + joined(statements.slice(at + 1))
  const last = top.findLastIndex(({ kind }) => kind === 'pair')
  const gap = last === -1 && statements.length > 0 ? newline : ''
  // Without a value at the top the line comes first: after a header it would belong to that table.
  return joined(statements.slice(0, last + 1)) + line + gap + joined(statements.slice(last + 1))
}

const setTable = (
  statements: readonly Statement[],
  path: readonly string[],
  value: { readonly [name: string]: Json | undefined },
  newline: string,
): string => {
  const name = path.join('.')
  const [root = ''] = path
  const isInline = statements.some(
    (one) => one.kind === 'pair' && (one.name === root || one.name.startsWith(`${root}.`)),
  )
  if (isInline) throw new TomlTextError(`${root} is written as a value; write it as a table [${name}]`)
  const lines = Object.entries(value).map(([key, inner]) => `${key} = ${tomlValue(inner ?? '')}${newline}`)
  const table = `[${name}]${newline}${lines.join('')}`
  const at = statements.findIndex((one) => one.kind === 'header' && one.name === name)
  if (at === -1) {
    const before = joined(statements)
    return before + (before.trim() === '' ? '' : newline) + table
  }
  const isNext = (one: Statement) => one.kind === 'header' && !one.name.startsWith(`${name}.`)
  const next = statements.findIndex((one, index) => index > at && isNext(one))
  const end = next === -1 ? statements.length : next
  // Comments and empty lines above the next table belong to it.
  const last = statements.findLastIndex((one, index) => index < end && one.kind !== 'other')
  return joined(statements.slice(0, at)) + table + joined(statements.slice(last + 1))
}

/** Whether the statement still has this value; the user may have added a comment. */
const hasValue = ({ kind, name, text }: Statement, wanted: string, value: string): boolean => {
  const rest = text.trim().slice(`${wanted} = ${value}`.length).trim()
  return kind === 'pair' && name === wanted && text.trim().startsWith(`${wanted} = ${value}`) && /^(?:#|$)/.test(rest)
}

const topOf = (statements: readonly Statement[]): readonly Statement[] => {
  const first = statements.findIndex(({ kind }) => kind === 'header')
  return first === -1 ? statements : statements.slice(0, first)
}

/** The place of a table without its subtables; null: there is none. */
const tableAt = (statements: readonly Statement[], name: string) => {
  const at = statements.findIndex((one) => one.kind === 'header' && one.name === name)
  if (at === -1) return null
  const next = statements.findIndex((one, index) => index > at && one.kind === 'header')
  return { at, end: next === -1 ? statements.length : next }
}

const withLineEnd = (text: string): string => (text === '' || text.endsWith('\n') ? text : `${text}\n`)

/** The text with the value of `original` in place of one that `setToml` wrote. A value that was changed since stays. */
export const undoToml = (text: string, original: string, path: readonly string[], value: Json): string => {
  const [now, before] = [text, original].map((one) => statementsOf(withLineEnd(one)))
  if (!now || !before) return text
  const name = path.join('.')
  if (path.length > 1 && isObject(value)) return undoTable(now, before, name, value)
  const at = topOf(now).findIndex((one) => hasValue(one, name, tomlValue(value)))
  if (at === -1) return text
  const old = topOf(before).find((one) => one.kind === 'pair' && one.name === name)
  return joined(now.slice(0, at)) + (old?.text ?? '') + joined(now.slice(at + 1))
}

const undoTable = (
  now: readonly Statement[],
  before: readonly Statement[],
  name: string,
  value: { readonly [name: string]: Json | undefined },
): string => {
  const [place, old] = [tableAt(now, name), tableAt(before, name)]
  if (!place) return joined(now)
  const oldPairs = old ? before.slice(old.at + 1, old.end) : []
  const body = now.slice(place.at + 1, place.end).flatMap((one) => {
    const written = value[one.name]
    const isOurs = written !== undefined && hasValue(one, one.name, tomlValue(written))
    return isOurs ? oldPairs.filter(({ kind, name: pair }) => kind === 'pair' && pair === one.name) : [one]
  })
  const rest = joined(now.slice(place.end))
  const isEmpty = body.every(({ kind }) => kind === 'other')
  if (!isEmpty || old) return joined(now.slice(0, place.at + 1)) + joined(body) + rest
  // The empty line above the table was written with it.
  const start = now[place.at - 1]?.text.trim() === '' && rest === '' ? place.at - 1 : place.at
  return joined(now.slice(0, start)) + joined(body) + rest
}
