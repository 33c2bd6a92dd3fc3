/** Finds secrets in what is to be recorded, also encoded. */
import { isList, isObject, type Json, readJson } from '../core/json.ts'

/** Shorter values are found in texts by chance. */
const LEAST = 8

/** Variables whose values are secrets. */
const SECRET_VARIABLE = /(?:KEY|TOKEN|SECRET|PASSWORD|PEPPER)(?:S|_\d+)?$/i

/** The values of secret variables, each entry of a list by itself, and passwords in addresses of all variables. */
export const secretsIn = (env: Readonly<Record<string, string | undefined>>): readonly string[] =>
  Object.entries(env).flatMap(([name, value]) => {
    if (value === undefined) return []
    return SECRET_VARIABLE.test(name) ? [value, ...value.split(',')] : passwordsIn(value)
  })

/** The password of an address, such as that of a database. */
const passwordsIn = (value: string): readonly string[] => {
  const password = value.includes('@') ? (URL.parse(value.trim())?.password ?? '') : ''
  return password === '' ? [] : [password, ...decodedIn(password)]
}

/** A search for these values as they are, and in JSON, base64, hexadecimal and addresses. */
export const secretSearch = (values: Iterable<string>): ((text: string) => boolean) => {
  const forms = new Set<string>()
  for (const value of new Set([...values].flatMap((one) => [one, ...passwordsIn(one)]))) {
    const bare = value.trim()
    // A header of a provider may have a media type, which each tape has too.
    if (bare.length < LEAST || /^(?:application|text)\/[\w.+-]+$/.test(bare)) continue
    for (const form of formsOf(bare)) forms.add(form)
  }
  const ordered = [...forms]
  return (text) => ordered.some((form) => text.includes(form))
}

const formsOf = (value: string): readonly string[] => {
  const bytes = Buffer.from(value)
  const escaped = JSON.stringify(value).slice(1, -1)
  const hex = bytes.toString('hex')
  const unicode = Array.from(value, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')
  return [
    ...[
      value,
      escaped,
      JSON.stringify(escaped).slice(1, -1),
      encodeURIComponent(value),
      hex,
      hex.toUpperCase(),
      unicode,
    ],
    ...[0, 1, 2].flatMap((before) => alignedBase64(bytes, before)),
  ]
}

/** The letters of base64 which the value alone decides, after that many other bytes. */
const alignedBase64 = (bytes: Buffer, before: number): readonly string[] => {
  const padded = Buffer.concat([Buffer.alloc(before), bytes])
  const first = before === 0 ? 0 : before + 1
  const letters = padded.toString('base64').slice(first, Math.floor((padded.length * 8) / 6))
  return letters.length < LEAST ? [] : [letters, letters.replaceAll('+', '-').replaceAll('/', '_')]
}

/** The texts of a value, those of JSON in its texts, and decoded parts of addresses. */
export const textsIn = (value: Json): readonly string[] => {
  if (isList(value)) return value.flatMap(textsIn)
  if (isObject(value)) return Object.values(value).flatMap((inner) => textsIn(inner ?? null))
  if (typeof value !== 'string') return []
  const inner = /^\s*[{["]/.test(value) ? readJson(value) : undefined
  return [value, ...decodedIn(value), ...(inner === undefined ? [] : textsIn(inner))]
}

const decodedIn = (text: string): readonly string[] => {
  if (!text.includes('%')) return []
  try {
    return [decodeURIComponent(text.replace(/%(?![0-9a-f]{2})/gi, '%25'))]
  } catch {
    return []
  }
}
