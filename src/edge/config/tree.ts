/**
 * Parses YAML into plain values and remembers the location of each. Size, depth and alias expansion are limited. `${NAME}`
 * in a value is replaced from the environment.
 */
import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml'
import { MAX_FILE } from './file-limit.ts'
import { type Problem, quote } from './problem.ts'

const MAX_NODES = 50_000
const MAX_DEPTH = 32

/** The location of a value and of its name, such as `headgate.yaml:3:12`, and its source text. */
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
      /** Environment variables that the text refers to. */
      readonly names: ReadonlySet<string>
      readonly problems: readonly Problem[]
    }

type Env = Readonly<Record<string, string | undefined>>

const pathKey = (path: readonly PropertyKey[]): string => JSON.stringify(path.map(String))

const REFERENCE = /\$(\$\{)|\$\{([^}]*)\}/g
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/

/** `file`: its name for locations. Never throws: errors are returned as problems. */
export type ReadTree = (text: string, file: string, env: Env) => Tree

export const readTree: ReadTree = (text, file, env) => {
  if (text.length > MAX_FILE)
    return {
      ok: false,
      problems: [{ where: file, found: `${text.length} characters`, allowed: `at most ${MAX_FILE}` }],
    }
  const lines = new LineCounter()
  const at = (offset: number): string => {
    const { line, col } = lines.linePos(offset)
    return `${file}:${line}:${col}`
  }
  let document: Document
  try {
    document = parseDocument(text, {
      lineCounter: lines,
      prettyErrors: false,
      stringKeys: false,
      strict: true,
      // The library compares each name with all before it: 1.9 s for 10,000 routes. Duplicates are checked below.
      uniqueKeys: false,
    })
  } catch (error) {
    // The parser is recursive: it throws instead of reporting only if the nesting is too deep for the stack.
    const found = error instanceof RangeError ? 'brackets nested too deeply' : 'text that cannot be parsed'
    return { ok: false, problems: [{ where: file, found, allowed: `YAML, at most ${MAX_DEPTH} levels deep` }] }
  }
  const faults = [...document.errors, ...document.warnings]
  if (faults.length > 0)
    return {
      ok: false,
      problems: faults.slice(0, 10).map(({ pos, message }) => ({
        where: at(pos[0]),
        found: `text that is not YAML (${message.replace(/\s+/g, ' ').slice(0, 160)})`,
        allowed: 'YAML',
      })),
    }

  const problems: Problem[] = []
  const places = new Map<string, Place>()
  const names = new Set<string>()
  let nodes = 0
  let tooDeep = false

  const fill = (written: string, where: string): { text: string; filled: boolean } => {
    let filled = false
    const replaced = written.replace(REFERENCE, (whole, escaped: string | undefined, name: string | undefined) => {
      if (escaped) return escaped
      if (name === undefined || !VARIABLE.test(name)) {
        problems.push({
          where,
          found: quote(whole),
          allowed: `\${NAME}, where NAME is a variable; $\${ for the literal characters`,
        })
        return ''
      }
      names.add(name)
      filled = true
      const value = Object.hasOwn(env, name) ? env[name]?.trim() : undefined
      if (value) return value
      problems.push({ where, found: `\${${name}}, which is not set`, allowed: 'a variable that is set (also in .env)' })
      return ''
    })
    return { text: replaced, filled }
  }

  const convert = (node: Node | null, path: readonly PropertyKey[], name: string): unknown => {
    nodes++
    if (nodes > MAX_NODES) return null
    const start = node?.range?.[0]
    const where = start === undefined ? name : at(start)
    if (path.length > MAX_DEPTH) {
      if (!tooDeep) problems.push({ where, found: 'a value nested too deeply', allowed: `at most ${MAX_DEPTH} levels` })
      tooDeep = true
      return null
    }
    const place = (written: string, filled = false) =>
      places.set(pathKey(path), { name, value: where, written, filled })
    if (isAlias(node)) {
      const target = node.resolve(document)
      if (target) return convert(target, path, where)
      place(`*${node.source}`)
      problems.push({ where, found: `*${node.source}, an alias without an anchor`, allowed: 'an anchor defined above' })
      return null
    }
    if (isMap(node)) {
      place('a section')
      // Without a prototype, so that names from the file cannot reach one.
      const out: Record<string, unknown> = Object.create(null)
      for (const pair of node.items) {
        // The parser's pairs are untyped; what they hold are nodes.
        const key = pair.key as Node | null
        const value = pair.value as Node | null
        const keyAt = key?.range ? at(key.range[0]) : where
        if (!isScalar(key) || key.value === null) {
          problems.push({
            where: keyAt,
            found: 'a name that is not plain text',
            allowed: 'plain text before the colon',
          })
          continue
        }
        const member = typeof key.value === 'string' ? key.value : (key.source ?? String(key.value))
        if (Object.hasOwn(out, member)) {
          problems.push({ where: keyAt, found: `the duplicate name ${quote(member)}`, allowed: 'each name once' })
          continue
        }
        const converted = convert(value, [...path, member], keyAt)
        if (!places.has(pathKey([...path, member])))
          places.set(pathKey([...path, member]), { name: keyAt, value: keyAt, written: '', filled: false })
        out[member] = converted
      }
      return out
    }
    if (isSeq(node)) {
      place('a list')
      return node.items.map((item, index) => convert(item as Node | null, [...path, index], where))
    }
    if (isScalar(node)) {
      const { value } = node
      if (typeof value === 'string') {
        const { text, filled } = fill(value, where)
        place(value, filled)
        return text
      }
      place(node.source ?? String(value))
      if (value === null || typeof value === 'number' || typeof value === 'boolean') return value
      problems.push({ where, found: 'a value of an unsupported type', allowed: 'text, a number, true or false' })
      return null
    }
    return null
  }

  const value = convert(document.contents as Node | null, [], `${file}:1:1`)
  if (nodes > MAX_NODES)
    return {
      ok: false,
      problems: [
        {
          where: file,
          found: `more than ${MAX_NODES} values`,
          allowed: `at most ${MAX_NODES} (aliases count each time)`,
        },
      ],
    }
  const nowhere: Place = { name: `${file}:1:1`, value: `${file}:1:1`, written: '', filled: false }
  const placeOf = (path: readonly PropertyKey[]): Place => {
    for (let length = path.length; length >= 0; length--) {
      const place = places.get(pathKey(path.slice(0, length)))
      if (place) return place
    }
    return nowhere
  }
  return { ok: true, value, placeOf, names, problems }
}
