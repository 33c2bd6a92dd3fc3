/**
 * Limits of a YAML text that are checked before it is parsed. The parser needs quadratic time for anchors, aliases, brackets
 * and errors; its lexer needs linear time.
 */
import { Lexer } from 'yaml'

/** The deepest level of a value, and of brackets. */
export const MAX_DEPTH = 32
/** Values of a file, and aliases of them each time. */
export const MAX_VALUES = 50_000
/**
 * Anchors, and aliases of them: files share a few sections in this way. No setting has a tag or a name of several lines. Each value
 * is after a colon, a dash or a comma.
 */
const MAX = {
  anchors: 100,
  aliases: 1_000,
  tags: 100,
  'question marks': 100,
  entries: MAX_VALUES,
  commas: MAX_VALUES,
  comments: MAX_VALUES,
} as const
/** A file of 50,000 values has about 350,000. */
const MAX_TOKENS = 500_000

/** `line`: from 1. */
export type YamlExcess = { readonly line: number; readonly found: string; readonly allowed: string }

/** Marks of the lexer that are not part of the text. */
const DOCUMENT = '\u0002'
const FLOW_END = '\u0018'
const SCALAR = '\u001f'

/** The first limit that a text exceeds; null: it may be parsed. */
export const yamlExcess = (text: string): YamlExcess | null => {
  const count: Record<keyof typeof MAX, number> = {
    anchors: 0,
    aliases: 0,
    tags: 0,
    'question marks': 0,
    entries: 0,
    commas: 0,
    comments: 0,
  }
  let tokens = 0
  let depth = 0
  let offset = 0
  let isScalar = false
  for (const token of new Lexer().lex(text)) {
    const excess = (found: string, allowed: string): YamlExcess => ({ line: lineAt(text, offset), found, allowed })
    if (++tokens > MAX_TOKENS) return excess(`more than ${MAX_TOKENS} words and marks`, `at most ${MAX_TOKENS}`)
    if (isScalar) {
      isScalar = false
      offset += token.length
      continue
    }
    if (token === SCALAR) isScalar = true
    if (token === SCALAR || token === DOCUMENT || token === FLOW_END) continue
    const kind = KINDS[token[0] ?? '']
    if (kind && ++count[kind] > MAX[kind]) return excess(`more than ${MAX[kind]} ${kind}`, `at most ${MAX[kind]}`)
    if (token === '[' || token === '{') depth++
    else if (token === ']' || token === '}') depth--
    if (depth > MAX_DEPTH) return excess('brackets nested too deeply', `at most ${MAX_DEPTH} levels`)
    if (depth < 0) return excess(`a ${token} without its opening bracket`, 'YAML')
    offset += token.length
  }
  return null
}

const KINDS: { readonly [first: string]: keyof typeof MAX } = {
  '&': 'anchors',
  '*': 'aliases',
  '!': 'tags',
  '?': 'question marks',
  ':': 'entries',
  '-': 'entries',
  ',': 'commas',
  '#': 'comments',
}

const lineAt = (text: string, offset: number): number => {
  let line = 1
  for (let at = text.indexOf('\n'); at !== -1 && at < offset; at = text.indexOf('\n', at + 1)) line++
  return line
}
