/** A configuration file without its secrets: what is kept and shown of earlier versions. */
import { CST, isAlias, isMap, isScalar, isSeq, Lexer, type Node, parseDocument, type Scalar } from 'yaml'
import { mayBeSecret } from './file.ts'

/** Members whose texts are hidden wherever they stand; sections with names and numbers only are left out. */
const SECRET_NAMES = /secret|token|passw|pepper|credential|digest|private|^headers$|^keys?$|apikey/i
const OPEN_SECTIONS: ReadonlySet<unknown> = new Set([
  'budgets',
  'keys',
  'teams',
  'routes',
  'prices',
  'models',
  'claims',
])
/** The beginnings of keys that vendors and this gateway give out, and long random texts. */
const KNOWN_KEYS = /(?:sk|pk|rk|gsk|hgk|hga|xai|AIza|AKIA|whsec|gh[pousr]|glpat|eyJ)[-_A-Za-z0-9]{12,}/g
const RANDOM = /(?=[-+/=\w]*[a-z])(?=[-+/=\w]*[A-Z])(?=[-+/=\w]*[0-9])[-+/=\w]{20,}/g
/** User, password or query of an address. */
const ADDRESS = /^[a-z][a-z0-9+]*:\/\/(?:[^/]*@|[^?]*\?)/i
const REFERENCE = /\$\{[^}]*\}/g
/** Characters beside a reference that hide nothing, such as `Bearer `. */
const BESIDE = 8
/** The beginning of the names of variables in place of secrets. */
const HIDDEN = 'HIDDEN_'

type ValuePath = readonly PropertyKey[]
type Cut = { readonly from: number; readonly to: number; readonly by: string }

const isHidden = (value: unknown, path: ValuePath): boolean => {
  if (value === null || value === undefined || value === '') return false
  if (typeof value === 'string' && value.includes('$') && value.replace(REFERENCE, '').length <= BESIDE) return false
  if (mayBeSecret(path)) return true
  if (typeof value !== 'string') return false
  const isNamed = !OPEN_SECTIONS.has(path[0]) && path.some((step) => SECRET_NAMES.test(String(step)))
  return isNamed || ADDRESS.test(value) || value.search(KNOWN_KEYS) !== -1
}

/** Names of variables that stand for secrets; no two are equal. */
class HiddenNames {
  readonly #names = new Set<string>()
  add(path: ValuePath): string {
    const base = `${HIDDEN}${path
      .join('_')
      .toUpperCase()
      .replace(/[^A-Z0-9]+/g, '_')}`
    let name = base
    for (let n = 2; this.#names.has(name); n++) name = `${base}_${n}`
    this.#names.add(name)
    return name
  }
}

/**
 * The text with a reference to a variable (`${HIDDEN_…}`) in place of each secret, so that the loader names what is missing. Lines,
 * order and comments stay; what looks like a key in a comment is `…`. Null: the text is not YAML.
 */
export const maskedText = (text: string): string | null => {
  const document = parseDocument(text, { uniqueKeys: false })
  if (document.errors.length > 0) return null
  const names = new HiddenNames()
  const cuts = new Map<Scalar, Cut>()
  const hide = (node: Scalar, path: ValuePath) => {
    const [from, to] = node.range ?? []
    if (from === undefined || to === undefined || cuts.has(node)) return
    const end = text.slice(from, to).endsWith('\n') ? '\n' : ''
    cuts.set(node, { from, to, by: `"\${${names.add(path)}}"${end}` })
  }
  const walk = (node: unknown, path: ValuePath): void => {
    if (isMap(node))
      for (const { key, value } of node.items) walk(value, [...path, isScalar(key) ? String(key.value) : ''])
    else if (isSeq(node)) for (const [at, item] of node.items.entries()) walk(item, [...path, at])
    else if (isAlias(node)) {
      // The value stands at its anchor, whose own path may be no place of a secret.
      const source = node.resolve(document)
      if (isScalar(source) && isHidden(source.value, path)) hide(source, path)
    } else if (isScalar(node) && isHidden(node.value, path)) hide(node, path)
  }
  walk(document.contents as Node | null, [])
  return replaced(text, [...cuts.values(), ...commentCuts(text)])
}

const replaced = (text: string, cuts: readonly Cut[]): string => {
  let made = ''
  let at = 0
  for (const { from, to, by } of cuts.toSorted((a, b) => a.from - b.from)) {
    made += text.slice(at, from) + by
    at = to
  }
  return made + text.slice(at)
}

const commentCuts = (text: string): readonly Cut[] => {
  const cuts: Cut[] = []
  let at = 0
  for (const source of new Lexer().lex(text)) {
    // Marks of the lexer are not in the text.
    if (!text.startsWith(source, at)) continue
    const from = at
    at += source.length
    if (CST.tokenType(source) !== 'comment') continue
    const hidden = source.replace(KNOWN_KEYS, '…').replace(RANDOM, '…')
    if (hidden !== source) cuts.push({ from, to: at, by: hidden })
  }
  return cuts
}
