/**
 * A next version of the program, which a rolling upgrade starts beside the present one: the same sources, with one more
 * migration of each schema in Postgres.
 */
import assert from 'node:assert/strict'
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..', '..')

/** Schemas, with the file and the name of their description, and the table that gets a column. */
export const MIGRATED = [
  { schema: 'headgate_control', file: 'records/store/storage.ts', name: 'SHARED_CONTROL', table: 'record' },
  {
    schema: 'headgate_responses',
    file: 'storage/responses/shared-schema.ts',
    name: 'SHARED_RESPONSES',
    table: 'response',
  },
  { schema: 'headgate_usage', file: 'usage/columns/usage-schema.ts', name: 'SHARED_USAGE', table: 'request' },
] as const

/** Writes it into a folder. Returns its program. */
export const nextVersion = (folder: string): string => {
  mkdirSync(folder, { recursive: true })
  for (const part of ['bin', 'src', 'suite', 'package.json'])
    cpSync(join(ROOT, part), join(folder, part), { recursive: true, filter: (path) => !path.endsWith('.test.ts') })
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  for (const { file, name, table } of MIGRATED) {
    const path = join(folder, 'src', file)
    const text = readFileSync(path, 'utf8')
    assert.ok(text.includes(`export const ${name}: SharedSchema = {`), `${file} has no ${name}`)
    const added = `() => ['ALTER TABLE ${table} ADD COLUMN next_version TEXT']`
    writeFileSync(
      path,
      `${text}\nObject.assign(${name}.versions, { migrations: [...${name}.versions.migrations, ${added}] })\n`,
    )
  }
  return join(folder, 'bin', 'headgate.mjs')
}
