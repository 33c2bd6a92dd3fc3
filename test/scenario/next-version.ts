/**
 * A next version of the program, which a rolling upgrade starts beside the present one: the same sources, with one more
 * migration of each schema in Postgres.
 */
import assert from 'node:assert/strict'
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '..', '..')

/** Schemas, with the file that has their migrations, and the table that gets a column. */
export const MIGRATED = [
  { schema: 'headgate_control', file: 'records/store/storage.ts', table: 'record' },
  { schema: 'headgate_responses', file: 'storage/responses/shared-schema.ts', table: 'response' },
  { schema: 'headgate_usage', file: 'usage/columns/usage-schema.ts', table: 'request' },
] as const

/** The last list of a file. */
const MIGRATIONS =
  /(?<=migrations: )(?:\[[^\]]+\]|[A-Z_]+)(?=, oldestReader: \d+ \})(?!, oldestReader[\s\S]*oldestReader)/

/** Writes it into a folder. Returns its program. */
export const nextVersion = (folder: string): string => {
  mkdirSync(folder, { recursive: true })
  for (const part of ['bin', 'src', 'package.json'])
    cpSync(join(ROOT, part), join(folder, part), { recursive: true, filter: (path) => !path.endsWith('.test.ts') })
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  for (const { file, table } of MIGRATED) {
    const path = join(folder, 'src', file)
    const text = readFileSync(path, 'utf8')
    assert.match(text, MIGRATIONS, file)
    const added = `() => ['ALTER TABLE ${table} ADD COLUMN next_version TEXT']`
    writeFileSync(
      path,
      text.replace(MIGRATIONS, (list) => `[...${list}, ${added}]`),
    )
  }
  return join(folder, 'bin', 'headgate.mjs')
}
