/** Parses a configuration of another gateway into plain values with the line of each. Variables are not replaced. */
import { isMap, isNode, isPair, isSeq, LineCounter, parseDocument } from 'yaml'

/** Names and list positions from the root to a value. */
export type SourcePath = readonly (string | number)[]

export type ImportSource = {
  readonly value: unknown
  /** The line of a path, from 1, or of its nearest ancestor in the text. */
  readonly lineOf: (path: SourcePath) => number
}

export type ParsedSource =
  | { readonly ok: true; readonly source: ImportSource }
  /** `why` contains no part of the text, which may contain secrets. */
  | { readonly ok: false; readonly line: number; readonly why: string }

export type SourceMembers = Readonly<Record<string, unknown>>

export const isMembers = (value: unknown): value is SourceMembers =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The members of an object, and none of other values. */
export const membersOf = (value: unknown): readonly (readonly [string, unknown])[] =>
  isMembers(value) ? Object.entries(value) : []

export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** Parses YAML, or JSON, which is a part of it. Never throws. */
export const parseSource = (text: string): ParsedSource => {
  const lines = new LineCounter()
  try {
    const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, merge: true })
    const [fault] = document.errors
    if (fault) {
      const why = `text that is not YAML (${fault.code.toLowerCase().replaceAll('_', ' ')})`
      return { ok: false, line: lines.linePos(fault.pos[0]).line, why }
    }
    return { ok: true, source: { value: document.toJS(), lineOf: (path) => lineIn(document.contents, path, lines) } }
  } catch {
    // The parser throws for nesting that is too deep, and the conversion for too many aliases.
    return { ok: false, line: 1, why: 'text that is nested too deeply, or repeats itself too often' }
  }
}

/** The line of the last step of the path that is written in the text. */
const lineIn = (root: unknown, path: SourcePath, lines: LineCounter): number => {
  let node = root
  let offset = isNode(root) ? (root.range?.[0] ?? 0) : 0
  for (const step of path) {
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => isNode(key) && String(key) === String(step))
      if (!isPair(pair)) break
      if (isNode(pair.key)) offset = pair.key.range?.[0] ?? offset
      node = pair.value
    } else if (isSeq(node)) {
      node = node.items[Number(step)]
      if (isNode(node)) offset = node.range?.[0] ?? offset
    } else break
  }
  return lines.linePos(offset).line
}
