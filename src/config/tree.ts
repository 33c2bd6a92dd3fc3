/**
 * Parses YAML into plain values and remembers the location of each. Size, depth, anchors and alias expansion are limited.
 * `${NAME}` in a value is replaced from the environment, and `${file:/path}` from a file.
 */

import {
  type Alias,
  Composer,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  Parser,
  visit,
  type YAMLError,
  type YAMLMap,
} from 'yaml'
import type { Env } from './env.ts'
import { MAX_FILE } from './file-limit.ts'
import { type Problem, quote } from './problem.ts'
import { ALLOWED_FILE, pathInReference, type SecretFiles } from './secret-files.ts'
import { MAX_DEPTH, MAX_VALUES, yamlExcess } from './yaml-limits.ts'

/** The location of a value and of its name, such as `headgate.yaml:3:12`, and its source text. Plain data. */
type Place = {
  readonly name: string
  readonly value: string
  readonly written: string
  /** Parts of it came from the environment, so the value is text even if it looks like a number. */
  readonly filled: boolean
}

export type Tree =
  | { readonly ok: false; readonly problems: readonly Problem[] }
  | {
      readonly ok: true
      /** Objects without a prototype, lists, strings, numbers, booleans; null for an empty value. */
      readonly value: unknown
      /** The location of a path, or of its nearest ancestor that is in the file. */
      readonly placeOf: (path: readonly PropertyKey[]) => Place
      /** The locations by path: plain data, from which `readPlaces` makes `placeOf`. */
      readonly places: Places
      /** Values, aliases counted each time. */
      readonly count: number
      /** Environment variables that the text refers to. */
      readonly names: ReadonlySet<string>
      readonly problems: readonly Problem[]
    }

type Places = { readonly start: string; readonly byPath: ReadonlyMap<string, Place> }

const pathKey = (path: readonly PropertyKey[]): string => JSON.stringify(path.map(String))

/** Without a brace at its end, a reference is plain text to the end of the value. */
const REFERENCE = /\$(\$\{)|\$\{([^}]*)(\}?)/g
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/

const refused = (where: string, found: string, allowed: string): Tree => ({
  ok: false,
  problems: [{ where, found, allowed }],
})

/** What references in values are replaced with. */
export type ReferenceValues = { readonly env: Env; readonly files?: SecretFiles | undefined }

/** Parses the text of a configuration file. `file`: its name for locations. Never throws: errors are returned as problems. */
export const readTree = (text: string, file: string, values: ReferenceValues): Tree => {
  if (text.length > MAX_FILE) return refused(file, `${text.length} characters`, `at most ${MAX_FILE}`)
  const excess = yamlExcess(text)
  if (excess) return refused(`${file}:${excess.line}`, excess.found, excess.allowed)
  const lines = new LineCounter()
  const at = (offset: number): string => {
    const { line, col } = lines.linePos(offset)
    return `${file}:${line}:${col}`
  }
  const document = parseLimited(text, lines)
  if (document === null) return refused(file, 'text that cannot be parsed', `YAML, at most ${MAX_DEPTH} levels deep`)
  const faults = 'faults' in document ? document.faults : [...document.errors, ...document.warnings]
  if ('faults' in document || faults.length > 0)
    return {
      ok: false,
      problems: faults.slice(0, MAX_FAULTS).map(({ pos, message }) => ({
        where: at(pos[0]),
        found: `text that is not YAML (${message.replace(/\s+/g, ' ').slice(0, 160)})`,
        allowed: 'YAML',
      })),
    }
  const start = `${file}:1:1`
  const converter = new TreeConverter(document, at, values)
  const value = converter.convert(document.contents as Node | null, [], start)
  if (converter.isTooLarge)
    return refused(file, `more than ${MAX_VALUES} values`, `at most ${MAX_VALUES} (aliases count each time)`)
  const { names, problems } = converter
  const places = { start, byPath: converter.places }
  return { ok: true, value, placeOf: readPlaces(places), places, count: converter.count, names, problems }
}

/** Faults of a text that are reported. The parser needs long for texts with many, so it stops after these. */
const MAX_FAULTS = 10

/** Not in the types of the library: the parser reports each fault to it at once. */
type Faults = { onError: (...fault: unknown[]) => void; readonly errors: readonly Fault[] }
type Fault = Pick<YAMLError, 'pos' | 'message'>

/** Parses a text. Returns its first faults if there are `MAX_FAULTS`; null: the parser has failed. */
const parseLimited = (text: string, lines: LineCounter): Document | { readonly faults: readonly Fault[] } | null => {
  const composer = new Composer({
    prettyErrors: false,
    stringKeys: false,
    strict: true,
    // The library compares each name with all before it: 1.9 s for 10,000 routes. Duplicates are checked below.
    uniqueKeys: false,
  })
  const reported = composer as unknown as Faults
  const report = reported.onError
  reported.onError = (...fault) => {
    report(...fault)
    // Only an exception ends the parser.
    if (reported.errors.length >= MAX_FAULTS) throw new Error('the text has too many faults')
  }
  try {
    const tokens = new Parser(lines.addNewLine).parse(text)
    const [first, second] = composer.compose(tokens, true, text.length)
    if (second) return { faults: [{ pos: [second.range[0], second.range[1]], message: 'more than one document' }] }
    return first ?? null
  } catch {
    // The parser is recursive, and throws if the nesting is too deep for the stack.
    return reported.errors.length > 0 ? { faults: reported.errors } : null
  }
}

/** Finds the location of a path, or of its nearest ancestor that is in the file. */
export const readPlaces = ({ start, byPath }: Places) => {
  const nowhere: Place = { name: start, value: start, written: '', filled: false }
  return (path: readonly PropertyKey[]): Place => {
    for (let length = path.length; length >= 0; length--) {
      const place = byPath.get(pathKey(path.slice(0, length)))
      if (place) return place
    }
    return nowhere
  }
}

/** The node of each alias: the last one before it with its anchor. The library searches the whole document for each. */
const aliasTargets = (document: Document): ReadonlyMap<Alias, Node> => {
  const anchors = new Map<string, Node>()
  const targets = new Map<Alias, Node>()
  visit(document, {
    Alias(_, alias) {
      const target = anchors.get(alias.source)
      if (target) targets.set(alias, target)
    },
    Value(_, node) {
      if (node.anchor !== undefined) anchors.set(node.anchor, node)
    },
  })
  return targets
}

/** Problems of one file that are reported. */
const MAX_PROBLEMS = 1_000

/** Converts the nodes of a document to plain values, and collects their places and problems. */
class TreeConverter {
  readonly places = new Map<string, Place>()
  readonly names = new Set<string>()
  readonly problems: Problem[] = []
  readonly #targets: ReadonlyMap<Alias, Node>
  readonly #at: (offset: number) => string
  readonly #values: ReferenceValues
  #nodes = 0
  #tooDeep = false

  /** `at`: the location of an offset in the text. */
  constructor(document: Document, at: (offset: number) => string, values: ReferenceValues) {
    this.#targets = aliasTargets(document)
    this.#at = at
    this.#values = values
  }

  /** Values so far. */
  get count(): number {
    return this.#nodes
  }

  get isTooLarge(): boolean {
    return this.#nodes > MAX_VALUES
  }

  /** `name`: the location of the value's name. Returns null for invalid values. */
  convert(node: Node | null, path: readonly PropertyKey[], name: string): unknown {
    this.#nodes++
    if (this.isTooLarge) return null
    const start = node?.range?.[0]
    const where = start === undefined ? name : this.#at(start)
    if (path.length > MAX_DEPTH) {
      if (!this.#tooDeep) this.#refuse(where, 'a value nested too deeply', `at most ${MAX_DEPTH} levels`)
      this.#tooDeep = true
      return null
    }
    const place = (written: string, filled = false) => {
      this.places.set(pathKey(path), { name, value: where, written, filled })
    }
    if (isAlias(node)) {
      const target = this.#targets.get(node)
      if (target) return this.convert(target, path, where)
      place(`*${node.source}`)
      this.#refuse(where, `*${node.source}, an alias without an anchor`, 'an anchor defined above')
      return null
    }
    if (isMap(node)) {
      place('a section')
      return this.#convertMap(node, path, where)
    }
    if (isSeq(node)) {
      place('a list')
      return node.items.map((item, index) => this.convert(item as Node | null, [...path, index], where))
    }
    if (!isScalar(node)) return null
    const { value } = node
    if (typeof value === 'string') {
      const { text, filled } = this.#fill(value, where)
      place(value, filled)
      return text
    }
    place(node.source ?? String(value))
    if (value === null || typeof value === 'number' || typeof value === 'boolean') return value
    this.#refuse(where, 'a value of an unsupported type', 'text, a number, true or false')
    return null
  }

  #convertMap(node: YAMLMap, path: readonly PropertyKey[], where: string): unknown {
    // Without a prototype, so that names from the file cannot reach one.
    const out: Record<string, unknown> = Object.create(null)
    for (const pair of node.items) {
      // The parser's pairs are untyped; what they hold are nodes.
      const key = pair.key as Node | null
      const value = pair.value as Node | null
      const keyAt = key?.range ? this.#at(key.range[0]) : where
      if (!isScalar(key) || key.value === null) {
        this.#refuse(keyAt, 'a name that is not plain text', 'plain text before the colon')
        continue
      }
      const member = typeof key.value === 'string' ? key.value : (key.source ?? String(key.value))
      if (Object.hasOwn(out, member)) {
        this.#refuse(keyAt, `the duplicate name ${quote(member)}`, 'each name once')
        continue
      }
      const memberPath = [...path, member]
      const converted = this.convert(value, memberPath, keyAt)
      if (!this.places.has(pathKey(memberPath)))
        this.places.set(pathKey(memberPath), { name: keyAt, value: keyAt, written: '', filled: false })
      out[member] = converted
    }
    return out
  }

  /** Replaces references to environment variables. */
  #fill(written: string, where: string): { readonly text: string; readonly filled: boolean } {
    let filled = false
    const replace = (reference: string, escaped?: string, name?: string, end?: string): string => {
      if (escaped) return escaped
      if (end === '') return reference
      const path = pathInReference(name ?? '')
      if (path !== undefined) {
        filled = true
        return this.#contents(path, where)
      }
      if (name === undefined || !VARIABLE.test(name)) {
        this.#refuse(where, quote(reference), `\${NAME}, where NAME is a variable; $\${ for the literal characters`)
        return ''
      }
      this.names.add(name)
      filled = true
      const { env } = this.#values
      const value = Object.hasOwn(env, name) ? env[name]?.trim() : undefined
      if (value) return value
      this.#refuse(where, `\${${name}}, which is not set`, 'a variable that is set (also in .env)')
      return ''
    }
    return { text: written.replace(REFERENCE, replace), filled }
  }

  #contents(path: string, where: string): string {
    const file = this.#values.files?.get(path)
    if (file && 'text' in file) return file.text
    this.#refuse(where, `the file ${quote(path)}, which ${file ? file.fault : 'was not read'}`, ALLOWED_FILE)
    return ''
  }

  #refuse(where: string, found: string, allowed: string): void {
    if (this.problems.length < MAX_PROBLEMS) this.problems.push({ where, found, allowed })
  }
}
