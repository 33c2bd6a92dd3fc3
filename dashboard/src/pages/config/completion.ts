/** Completion of headgate.yaml from its JSON Schema: names of members, and values, at the caret. Pure. */

/** What is used of a JSON Schema. */
export type MemberSchema = {
  readonly type?: string
  readonly description?: string
  readonly properties?: { readonly [name: string]: MemberSchema }
  readonly additionalProperties?: boolean | MemberSchema
  readonly items?: MemberSchema
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly MemberSchema[]
}

/** `insert` replaces the text from `from` to the caret. */
export type Completion = { readonly name: string; readonly about: string; readonly insert: string }
export type Completions = { readonly from: number; readonly options: readonly Completion[] }

/** Stands for the entries of a list in a path. */
const ITEM = Symbol('item')
type Path = readonly (string | typeof ITEM)[]

type Line = {
  /** Column of the `-` of an entry; null: it begins none. */
  readonly dash: number | null
  /** Column of the name. */
  readonly column: number
  readonly name: string
  /** What follows the colon; null: there is no colon. */
  readonly value: string | null
}

const LINE = /^( *)((?:- +)?)("[^"]*"|'[^']*'|[^\s:#"'-][^:#]*|)(?:(:)(?: +(.*))?)?$/

const readLine = (text: string): Line | null => {
  const found = LINE.exec(text)
  if (!found) return null
  const [, indent = '', dash = '', name = '', colon, value = ''] = found
  return {
    dash: dash === '' ? null : indent.length,
    column: indent.length + dash.length,
    name: name.trim().replace(/^["']|["']$/g, ''),
    value: colon === undefined ? null : value,
  }
}

/** The path of the object or list that contains the line: from the lines above, by their columns. */
const pathOf = (above: readonly string[], line: Line): Path => {
  const path: (string | typeof ITEM)[] = []
  let { column } = line
  /** A list may be in the column of its name. */
  let isEntry = line.dash !== null
  if (line.dash !== null) {
    path.unshift(ITEM)
    column = line.dash
  }
  for (const text of above.toReversed()) {
    if (/^\s*(?:#|$)/.test(text)) continue
    const found = readLine(text)
    if (!found) continue
    const isParent = found.column < column || (isEntry && found.column === column && found.dash === null)
    const isFirstOfEntry = !isEntry && found.dash !== null && found.column === column
    if (!isParent && !isFirstOfEntry) continue
    if (isParent) {
      path.unshift(found.name)
      column = found.column
      isEntry = false
    }
    if (found.dash !== null) {
      path.unshift(ITEM)
      column = found.dash
      isEntry = true
    }
    if (column === 0 && !isEntry) break
  }
  return path
}

/** A schema and its alternatives. */
const alternatives = (schema: MemberSchema): readonly MemberSchema[] => [
  schema,
  ...(schema.anyOf ?? []).flatMap((one) => alternatives(one)),
]

/** The schemas of what is at a path. */
const schemasAt = (root: MemberSchema, path: Path): readonly MemberSchema[] =>
  path.reduce<readonly MemberSchema[]>(
    (schemas, step) =>
      schemas.flatMap(({ properties, additionalProperties, items }) => {
        if (step === ITEM) return items ? alternatives(items) : []
        const other = typeof additionalProperties === 'object' ? additionalProperties : undefined
        const member = (properties && Object.hasOwn(properties, step) ? properties[step] : undefined) ?? other
        return member ? alternatives(member) : []
      }),
    alternatives(root),
  )

/** What follows the name of a member: its value is on the same line, or indented below. */
const afterName = (schema: MemberSchema, column: number): string => {
  const types = alternatives(schema).map(({ type }) => type)
  const below = `:\n${' '.repeat(column + 2)}`
  if (types.every((type) => type === 'object')) return below
  return types.every((type) => type === 'array') ? `${below}- ` : ': '
}

const valuesOf = ({ enum: values, type, description = '' }: MemberSchema): readonly Completion[] =>
  (values ?? (type === 'boolean' ? [true, false] : [])).map((value) => ({
    name: String(value),
    about: values ? '' : description,
    insert: String(value),
  }))

/** What can stand at the caret. Empty options: nothing is known. */
export const completionsAt = (schema: MemberSchema, text: string, caret: number): Completions => {
  const lines = text.slice(0, caret).split('\n')
  const last = lines.pop() ?? ''
  const line = readLine(last)
  const none = { from: caret, options: [] }
  if (!line) return none
  const path = pathOf(lines, line)
  if (line.value !== null) {
    const options = schemasAt(schema, [...path, line.name]).flatMap(valuesOf)
    return { from: caret - line.value.length, options: beginning(options, line.value) }
  }
  const places = schemasAt(schema, path)
  const names = places.flatMap(({ properties = {} }) =>
    Object.entries(properties).map(([name, member]) => ({
      name,
      about: member.description ?? '',
      insert: `${name}${afterName(member, line.column)}`,
    })),
  )
  // An entry of a list may be a value.
  const options = [...names, ...(path.at(-1) === ITEM ? places.flatMap(valuesOf) : [])]
  return { from: caret - line.name.length, options: beginning(options, line.name) }
}

/** The options that begin with a text, each once. */
const beginning = (options: readonly Completion[], start: string): readonly Completion[] => [
  ...new Map(
    options
      .filter(({ name }) => name.toLowerCase().startsWith(start.toLowerCase()))
      .map((option) => [option.name, option]),
  ).values(),
]
