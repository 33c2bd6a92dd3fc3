/**
 * Puts each text of `src/words/` where it is used. A table of words is an object, which a bundler keeps whole, with the name of
 * each text there and in each place that uses it. Here a table is a module of constants instead: the bundler inlines texts, and
 * functions are part of the files that call them. A table that is read by a variable (`words.states[state]`) stays an object.
 */
import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { Plugin } from 'rolldown'
import { parseAst } from 'rolldown/parseAst'

type Program = ReturnType<typeof parseAst>
type Statement = Program['body'][number]
type Expression = Extract<Statement, { type: 'ExpressionStatement' }>['expression']
type ObjectOf = Extract<Expression, { type: 'ObjectExpression' }>

/** A table of words: its object, in the code of its file, and the code that its functions need. */
type Table = { readonly object: ObjectOf; readonly code: string; readonly needs: string }

const SOURCES = join(import.meta.dirname, 'src')
/** Modules of tables. The ID of a nested table is that of its table with its name: `words:keys.keysWords.form`. */
const PREFIX = 'words:'

/** The entries of an object: names and values. Null: it has others, such as a spread. */
const entriesOf = ({ properties }: ObjectOf): readonly (readonly [name: string, value: Expression])[] | null => {
  const entries = properties.flatMap((one) => {
    if (one.type !== 'Property' || one.computed || one.kind !== 'init') return []
    const name =
      one.key.type === 'Identifier' ? one.key.name : one.key.type === 'Literal' ? String(one.key.value) : null
    return name === null ? [] : [[name, one.value] as const]
  })
  return entries.length === properties.length ? entries : null
}

/** The object of `NAME = words({ … })`. Null: the statement is another one. */
const tableIn = (statement: Statement): readonly [name: string, object: ObjectOf] | null => {
  if (statement.type !== 'ExportNamedDeclaration' || statement.declaration?.type !== 'VariableDeclaration') return null
  const [{ id, init } = {}] = statement.declaration.declarations
  if (id?.type !== 'Identifier' || init?.type !== 'CallExpression') return null
  const [object] = init.arguments
  const isTable = init.callee.type === 'Identifier' && init.callee.name === 'words'
  return isTable && object?.type === 'ObjectExpression' ? [id.name, object] : null
}

/** Adds a table and those in it, by their IDs. */
const addTable = (tables: Map<string, Table>, id: string, table: Table): void => {
  const entries = entriesOf(table.object)
  if (entries === null) return
  tables.set(id, table)
  for (const [name, value] of entries)
    if (value.type === 'ObjectExpression') addTable(tables, `${id}.${name}`, { ...table, object: value })
}

const readTables = (): ReadonlyMap<string, Table> => {
  const tables = new Map<string, Table>()
  for (const path of globSync('words/*.ts', { cwd: SOURCES })) {
    const code = readFileSync(join(SOURCES, path), 'utf8')
    const { body } = parseAst(code, { lang: 'ts' })
    const others = body.filter((one) => tableIn(one) === null).map(({ start, end }) => code.slice(start, end))
    const needs = others
      .join('\n')
      .replace(/^export /gm, '')
      .replace(/(?<=from ')(\.[^']*)(?=')/g, (to) => join(SOURCES, 'words', to).replaceAll('\\', '/'))
    for (const statement of body) {
      const [name, object] = tableIn(statement) ?? []
      if (object) addTable(tables, `${PREFIX}${basename(path, '.ts')}.${name}`, { object, code, needs })
    }
  }
  return tables
}

/** A source whose tables are imported each by its own name, as modules. */
const withModules = (code: string, tables: ReadonlyMap<string, Table>): string => {
  const imported = code.replace(
    /^import \{ ([^}]*) \} from '(\.[^']*\bwords\/([\w-]+)\.ts)'$/gm,
    (_, names: string, from, file) =>
      names
        .split(', ')
        .map((one) => {
          const [name = '', local = name] = one.split(' as ')
          const id = `${PREFIX}${file}.${name}`
          return tables.has(id) ? `import * as ${local} from '${id}'` : `import { ${one} } from '${from}'`
        })
        .join('\n'),
  )
  // `const { form: text } = keysWords` of a module.
  const locals = importsIn(imported)
  return imported.replace(/^const \{ ([\w:, ]+) \} = (\w+)$/gm, (whole, names: string, from: string) => {
    const parts = names.split(', ').map((one) => one.split(': '))
    const table = locals.get(from)
    if (table === undefined || !parts.every(([name]) => tables.has(`${table}.${name}`))) return whole
    return parts.map(([name, local = name]) => `import * as ${local} from '${table}.${name}'`).join('\n')
  })
}

/** IDs of tables by the names that a source has for them. */
const importsIn = (code: string): ReadonlyMap<string, string> =>
  new Map(
    [...code.matchAll(/^import \* as (\w+) from '(words:[^']+)'$/gm)].map(([, local = '', id = '']) => [local, id]),
  )

/** Adds the tables that a source reads as objects. A name of a table that means something else there only adds one too many. */
const addObjects = (objects: Set<string>, code: string, tables: ReadonlyMap<string, Table>): void => {
  const rest = code.replace(/^(?:import | *(?:\/\*\*|\*|\/\/)).*$/gm, '')
  for (const [local, id] of importsIn(code))
    for (const [, path = ''] of rest.matchAll(new RegExp(`(?<![.\\w'])${local}\\b(?!:|=[^=])((?:\\.\\w+)*)`, 'g'))) {
      let table = id
      const names = path.split('.').slice(1)
      while (tables.has(`${table}.${names[0]}`)) table = `${table}.${names.shift()}`
      if (names.length === 0) objects.add(table)
    }
}

/** The module of a table: a constant for each text, and a module for each table in it. */
const moduleOf = (id: string, { object, code, needs }: Table, isModule: (id: string) => boolean): string => {
  const entries = (entriesOf(object) ?? []).map(([name, { start, end }], at) =>
    isModule(`${id}.${name}`)
      ? `export * as "${name}" from '${id}.${name}'`
      : `const word${at} = ${code.slice(start, end)}\nexport { word${at} as "${name}" }`,
  )
  return [needs, ...entries].join('\n')
}

/** The plugin of the bundler. Needs its option `inlineConst`. */
export const inlineWords = (): Plugin => {
  const tables = readTables()
  const sources = new Map(
    globSync('**/*.{ts,tsx}', { cwd: SOURCES, exclude: ['words/*'] }).map((path) => {
      const file = join(SOURCES, path)
      return [file, withModules(readFileSync(file, 'utf8'), tables)]
    }),
  )
  const objects = new Set<string>()
  for (const code of sources.values()) addObjects(objects, code, tables)
  return {
    name: 'inline-words',
    resolveId: (id) => (id.startsWith(PREFIX) ? id : null),
    load(id) {
      const table = tables.get(id)
      return table
        ? {
            code: moduleOf(id, table, (one) => tables.has(one) && !objects.has(one)),
            moduleType: 'ts',
            moduleSideEffects: false,
          }
        : null
    },
    transform: (_, id) => sources.get(id) ?? null,
  }
}
