/** The result of an import: a configuration of Headgate, and one row for each member of the source. */
import { Document, isMap } from 'yaml'
import { nearest } from '../../src/core/nearest.ts'
import { type ImportSource, isMembers, listOf, type SourceMembers, type SourcePath } from './source.ts'

type ImportOutcome = 'taken' | 'changed' | 'left out'

export type ImportRow = {
  /** Line of the member in the source, from 1. */
  readonly line: number
  /** Such as `model_list[0].litellm_params.model`. */
  readonly member: string
  readonly outcome: ImportOutcome
  /** The setting of Headgate; empty if there is none. */
  readonly to: string
  /** What differs, or why it is left out; empty if there is nothing to say. */
  readonly why: string
}

export type Imported = {
  /** The contents of `headgate.yaml`. Secrets are references to variables. */
  readonly config: SourceMembers
  /** Ordered by line. */
  readonly rows: readonly ImportRow[]
  /** Comments at the end of members, such as a setting that the operator may add. */
  readonly comments: readonly { readonly path: readonly string[]; readonly text: string }[]
  /** Values of variables that were written as literals in the source, by name. Secret. */
  readonly literals: ReadonlyMap<string, string>
}

/** The configuration as YAML, with its comments. */
export const yamlText = ({ config, comments }: Pick<Imported, 'config' | 'comments'>): string => {
  const document = new Document(config)
  for (const { path, text } of comments) {
    const node = document.getIn(path, true)
    if (isMap(node)) node.comment = text
  }
  return document.toString()
}

/** Why members are left out, by name. */
export type Reasons = Readonly<Record<string, string>>

/** Reasons for families of members, by a pattern of their name; the first that matches is used. */
export type FamilyReasons = readonly (readonly [name: RegExp, why: string])[]

/** One reason for several members. */
export const same = (why: string, ...names: readonly string[]): Reasons =>
  Object.fromEntries(names.map((name) => [name, why]))

export const memberName = (path: SourcePath): string =>
  path.map((step, at) => (typeof step === 'number' ? `[${step}]` : at === 0 ? step : `.${step}`)).join('')

const keyOf = (path: SourcePath): string => JSON.stringify(path)

/** The paths of all values that contain no other value. */
export const leavesOf = (value: unknown, path: SourcePath = []): readonly SourcePath[] => {
  const inner: readonly (readonly [string | number, unknown])[] = isMembers(value)
    ? Object.entries(value)
    : [...listOf(value).entries()]
  return inner.length === 0 ? [path] : inner.flatMap(([step, one]) => leavesOf(one, [...path, step]))
}

const valueAt = (root: unknown, path: SourcePath): unknown =>
  path.reduce<unknown>((value, step) => {
    if (Array.isArray(value)) return value[Number(step)]
    return isMembers(value) ? value[step] : undefined
  }, root)

const isEmpty = (value: unknown): boolean =>
  value === null || (typeof value === 'object' && leavesOf(value).length === 1)

const NO_COUNTERPART = 'no setting corresponds to it'

/** Collects one row for each member. A row stands for the member with all that it contains. */
export class RowCollector {
  readonly #source: ImportSource
  readonly #rows = new Map<string, { readonly path: SourcePath; readonly row: ImportRow }>()

  constructor(source: ImportSource) {
    this.#source = source
  }

  taken(path: SourcePath, to: string): void {
    this.#add(path, { outcome: 'taken', to, why: '' })
  }

  changed(path: SourcePath, to: string, why: string): void {
    this.#add(path, { outcome: 'changed', to, why })
  }

  leaveOut(path: SourcePath, why: string): void {
    this.#add(path, { outcome: 'left out', to: '', why })
  }

  /** Leaves out what has no row in a member. */
  leaveOutRest(path: SourcePath, why: string): void {
    const value = valueAt(this.#source.value, path)
    if (value !== undefined) for (const leaf of leavesOf(value, path)) this.leaveOut(leaf, why)
  }

  /** Leaves out a member although its own members may have rows. */
  leaveOutWhole(path: SourcePath, why: string): void {
    for (const [key, { path: inner }] of this.#rows)
      if (path.every((step, at) => inner[at] === step)) this.#rows.delete(key)
    this.leaveOut(path, why)
  }

  /** Whether the member, or one that contains it, has a row. */
  has(path: SourcePath): boolean {
    return path.some((_, at) => this.#rows.has(keyOf(path.slice(0, at + 1))))
  }

  /**
   * All rows by line. SourceMembers without one are left out; `known`: the names that are possible beside such a member;
   * `families`: reasons for other names.
   */
  finish(known: (parent: SourcePath) => readonly string[], families: FamilyReasons = []): readonly ImportRow[] {
    for (const path of leavesOf(this.#source.value)) {
      const name = path.at(-1)
      if (name === undefined || this.has(path)) continue
      const names = known(path.slice(0, -1))
      if (names.includes(String(name))) {
        if (isEmpty(valueAt(this.#source.value, path))) this.taken(path, 'nothing is set')
        else this.leaveOut(path, 'a value that cannot be used')
      } else if (!this.#leaveOutFamily(path, families)) {
        const [meant] = nearest(String(name), names)
        this.leaveOut(path, meant === undefined ? NO_COUNTERPART : `unknown member; did you mean ${meant}?`)
      }
    }
    return [...this.#rows.values()].map(({ row }) => row).sort((one, other) => one.line - other.line)
  }

  /** Leaves out the outermost member of a family that contains the path and has no row inside. Returns whether there is one. */
  #leaveOutFamily(path: SourcePath, families: FamilyReasons): boolean {
    for (const [at, name] of path.entries()) {
      const [, why] = families.find(([pattern]) => typeof name === 'string' && pattern.test(name)) ?? []
      const member = path.slice(0, at + 1)
      const hasRowInside = [...this.#rows.values()].some(({ path: other }) =>
        member.every((step, i) => other[i] === step),
      )
      if (why === undefined || hasRowInside) continue
      this.leaveOut(member, why)
      return true
    }
    return false
  }

  #add(path: SourcePath, { outcome, to, why }: Pick<ImportRow, 'outcome' | 'to' | 'why'>): void {
    if (this.has(path)) return
    const row = { line: this.#source.lineOf(path), member: memberName(path), outcome, to, why }
    this.#rows.set(keyOf(path), { path, row })
  }
}

const REFERENCE = /^os\.environ\/([A-Za-z_][A-Za-z0-9_]*)$/

/** The name of the variable that a value refers to (`os.environ/NAME`). */
export const variableIn = (value: unknown): string | undefined =>
  typeof value === 'string' ? REFERENCE.exec(value.trim())?.[1] : undefined

/** A text for `headgate.yaml`: a reference to a variable, or the text itself. Undefined for other values and empty texts. */
export const configText = (value: unknown): string | undefined => {
  const name = variableIn(value)
  if (name !== undefined) return `\${${name}}`
  const text = typeof value === 'number' ? String(value) : value
  return typeof text === 'string' && text.trim() !== '' && !text.startsWith('os.environ/')
    ? text.trim().replaceAll('${', '$${')
    : undefined
}

/** Variables for secrets that are literals in the source. One value has one variable. */
export class LiteralSecrets {
  readonly values = new Map<string, string>()

  /** A reference for a secret: its own variable, or a new one for a literal. Undefined if it is no text. */
  reference(value: unknown, label: string): { readonly text: string; readonly literal: boolean } | undefined {
    const name = variableIn(value)
    if (name !== undefined) return { text: `\${${name}}`, literal: false }
    if (typeof value !== 'string' || value.trim() === '' || value.startsWith('os.environ/')) return undefined
    const known = [...this.values].find(([, one]) => one === value.trim())?.[0]
    const made = known ?? `IMPORTED_${label.toUpperCase().replace(/[^A-Z0-9]+/g, '_')}_${this.values.size + 1}`
    this.values.set(made, value.trim())
    return { text: `\${${made}}`, literal: true }
  }
}
