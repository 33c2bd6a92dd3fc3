/** Checks of imported configurations, for every gateway that `headgate import` reads. */
import assert from 'node:assert/strict'
import { leavesOf, memberName, yamlText } from '../../packages/import/imported.ts'
import { type Imported, type ImportSource, type KnownProviders, parseSource } from '../../packages/import/index.ts'
import { CATALOGUE_FILE, openCatalogue } from '../../src/config/catalogue/catalogue.ts'
import { loadProviders } from '../../src/config/catalogue/load-providers.ts'
import { configure } from '../../src/config/configure.ts'
import { fileReader } from '../../src/config/file-reader.ts'
import { problemLine } from '../../src/config/problem.ts'

/** Name, source, members of the result, and `outcome member` of rows. */
export type ImportCase = readonly [
  name: string,
  source: string,
  expected: Readonly<Record<string, unknown>>,
  rows: readonly string[],
]

export const providers = await loadProviders()
const catalogue = openCatalogue((problem) => assert.fail(problem), CATALOGUE_FILE)

export const known: KnownProviders = {
  reserved: new Set([...providers.values()].flatMap(({ name, aliases = [] }) => [name, ...aliases])),
  hasModel: (name, model) => catalogue.lists?.(providers.get(name)?.catalogue ?? name, model) ?? false,
}

export const sourceOf = (text: string): ImportSource => {
  const parsed = parseSource(text)
  assert.ok(parsed.ok, text)
  return parsed.source
}

/** Values for all variables of a configuration. */
const valuesFor = (yaml: string): Record<string, string> =>
  Object.fromEntries(
    [...yaml.matchAll(/\$\{([A-Za-z0-9_]+)\}/g)].map(([, name = '']) => [
      name,
      /BASE|URL/.test(name)
        ? 'https://upstream.example/v1'
        : /REGION|LOCATION/.test(name)
          ? 'eu-west-1'
          : /PROJECT|ACCOUNT/.test(name)
            ? 'acme1'
            : `value-of-${name}`,
    ]),
  )

/** Each member has exactly one row; the result has the expected members, no secret, and is accepted by the loader. */
export const checkImport = (source: ImportSource, result: Imported, [, , expected, rows]: ImportCase): void => {
  for (const [member, value] of Object.entries(expected)) assert.deepEqual(result.config[member], value, member)
  const found = result.rows.map(({ outcome, member }) => `${outcome} ${member}`)
  for (const row of rows) assert.ok(found.includes(row), `${row}\n${found.join('\n')}`)
  for (const path of leavesOf(source.value)) {
    const names = path.map((_, at) => memberName(path.slice(0, at + 1)))
    const own = result.rows.filter(({ member }) => names.includes(member))
    assert.equal(own.length, 1, `${memberName(path)} has ${own.length} rows`)
  }
  const yaml = yamlText(result)
  assert.doesNotMatch(yaml + JSON.stringify(result.rows), /canary/)
  loadImport(yaml)
}

/** Loads the result of an import. */
export const loadImport = (yaml: string) => {
  const file = { name: 'headgate.yaml', text: yaml, reader: fileReader }
  const loaded = configure({ env: valuesFor(yaml), file, dotenv: undefined, providers })
  assert.ok(loaded.ok, `${loaded.ok ? '' : loaded.problems.map(problemLine).join('\n')}\n${yaml}`)
  return loaded.config
}
