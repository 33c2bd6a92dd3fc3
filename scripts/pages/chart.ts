/**
 * Writes the generated parts of the Helm chart: the table of values in its README, and its copies of the alerts and of the
 * Grafana dashboard, since a chart can read only files of its own folder.
 *
 *   npm run chart
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { isObject, type Json, type JsonObject, object, parseJson, text } from '../../src/core/json.ts'
import { markdownTable } from './markdown-table.ts'

const DEPLOY = join(import.meta.dirname, '..', '..', 'deploy')
export const CHART = join(DEPLOY, 'helm', 'headgate')

const BEGIN = '<!-- values: made by `npm run chart` -->\n'
const END = '<!-- /values -->'

const read = (...path: readonly string[]): string => readFileSync(join(...path), 'utf8')

/** Each value with its default and description; a group of values has rows for its members. */
const rowsOf = (schema: JsonObject, values: Json | undefined, path: string): readonly (readonly string[])[] => {
  const members = object(schema.properties)
  const defaults = object(values)
  if (!members) return [[`\`${path}\``, `\`${JSON.stringify(values)}\``, text(schema.description) ?? '']]
  return Object.entries(members).flatMap(([name, member]) =>
    // A chart that contains this one sets `global`.
    isObject(member) && name !== 'global'
      ? rowsOf(member, defaults?.[name], path === '' ? name : `${path}.${name}`)
      : [],
  )
}

/** The README with the present table. */
const readme = (): string => {
  const schema = object(parseJson(read(CHART, 'values.schema.json'))) ?? {}
  const table = markdownTable(['value', 'default', 'meaning'], rowsOf(schema, parse(read(CHART, 'values.yaml')), ''))
  const old = read(CHART, 'README.md')
  return `${old.slice(0, old.indexOf(BEGIN) + BEGIN.length)}${table}\n${old.slice(old.indexOf(END))}`
}

/** Generated files of the chart, with their text. */
export const generatedFiles = (): Readonly<Record<string, string>> => ({
  'README.md': readme(),
  'files/headgate.rules.yaml': read(DEPLOY, 'prometheus', 'headgate.rules.yaml'),
  'files/grafana.json': read(DEPLOY, 'grafana', 'headgate.json'),
})

if (import.meta.main)
  for (const [file, content] of Object.entries(generatedFiles())) writeFileSync(join(CHART, file), content)
