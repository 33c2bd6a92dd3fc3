import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { hash } from 'node:crypto'
import { appendFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { readArchive, writeArchive } from './archive.ts'
import { restoreBackup, writeBackup } from './backup.ts'

const hasTar = spawnSync('tar', ['--version']).status === 0

const inFolder = async (body: (folder: string) => Promise<void>) => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-backup-'))
  try {
    await body(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

test('an archive is one that tar reads', { skip: !hasTar && 'this machine has no tar' }, () =>
  inFolder(async (folder) => {
    const path = join(folder, 'a')
    writeFileSync(path, Buffer.alloc(1_300, 'abc'))
    const file = join(folder, 'a.tar.gz')
    await writeArchive(file, [{ name: 'a', path, bytes: 1_300 }])
    assert.deepEqual(spawnSync('tar', ['-xzOf', file, 'a']).stdout, readFileSync(path))
  }),
)

test('an archive returns the files that were written', () =>
  inFolder(async (folder) => {
    const sizes = [0, 1, 511, 512, 513, 300_000]
    const files = sizes.map((bytes) => {
      const path = join(folder, `f${bytes}`)
      writeFileSync(path, Buffer.alloc(bytes, 'abc'))
      return { name: `f${bytes}`, path, bytes }
    })
    await writeArchive(join(folder, 'a.tar.gz'), files)
    const found: [string, number][] = []
    for await (const { name, content } of readArchive(join(folder, 'a.tar.gz'))) {
      const parts: Buffer[] = []
      for await (const part of content) parts.push(part)
      assert.deepEqual(Buffer.concat(parts), readFileSync(join(folder, name)))
      found.push([name, Buffer.concat(parts).length])
    }
    assert.deepEqual(
      found,
      sizes.map((bytes) => [`f${bytes}`, bytes]),
    )
    await assert.rejects(writeArchive(join(folder, 'a.tar.gz'), files), { code: 'EEXIST' })
  }))

const SEGMENT = 'abc.123-0-1.jsonl'

test('a backup has the databases as of one moment and the whole lines of the journal', () =>
  inFolder(async (folder) => {
    const from = { data: join(folder, 'from'), journal: join(folder, 'from', 'journal'), isShared: false }
    mkdirSync(from.journal, { recursive: true })
    const database = new DatabaseSync(join(from.data, 'usage.db'))
    database.exec('PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1)')
    writeFileSync(join(from.journal, SEGMENT), '["o"]\n')
    appendFileSync(join(from.journal, SEGMENT), '["c"')
    writeFileSync(join(from.journal, 'other.txt'), 'x')
    const file = join(folder, 'b.tar.gz')
    const manifest = await writeBackup(file, from, { usage: true, version: '1.2.3' })
    database.close()
    assert.deepEqual(
      manifest.files.map(({ name, bytes }) => [name, name.endsWith('.db') || bytes]),
      [
        ['usage.db', true],
        [`journal/${SEGMENT}`, 6],
      ],
    )
    assert.deepEqual(
      readdirSync(from.data).filter((name) => name.startsWith('backup-')),
      [],
    )

    const to = { data: join(folder, 'to'), journal: join(folder, 'elsewhere'), isShared: false }
    await restoreBackup(file, to, false)
    assert.equal(readFileSync(join(to.journal, SEGMENT), 'utf8'), '["o"]\n')
    const restored = new DatabaseSync(join(to.data, 'usage.db'))
    assert.deepEqual(
      restored
        .prepare('SELECT x FROM t')
        .all()
        .map(({ x }) => x),
      [1],
    )
    restored.close()
    assert.deepEqual(readdirSync(to.data), ['usage.db'])
  }))

test('without usage neither ledger nor journal are in the backup', () =>
  inFolder(async (folder) => {
    const from = { data: folder, journal: join(folder, 'journal'), isShared: false }
    mkdirSync(from.journal)
    writeFileSync(join(from.journal, SEGMENT), '{}\n')
    for (const name of ['control.db', 'usage.db', 'pass.db']) new DatabaseSync(join(folder, name)).close()
    const { files } = await writeBackup(join(folder, 'b.tar.gz'), from, { usage: false, version: '1.2.3' })
    assert.deepEqual(
      files.map(({ name }) => name),
      ['control.db', 'pass.db'],
    )
  }))

test('an empty folder has nothing to back up', () =>
  inFolder(async (folder) => {
    const from = { data: folder, journal: folder, isShared: false }
    await assert.rejects(writeBackup(join(folder, 'b'), from, { usage: true, version: '' }), /nothing to back up/)
  }))

test('with a shared database, the files that are not used are not part of it', () =>
  inFolder(async (folder) => {
    const from = { data: join(folder, 'from'), journal: join(folder, 'from', 'journal'), isShared: true }
    mkdirSync(from.journal, { recursive: true })
    for (const name of ['control.db', 'usage.db', 'responses.db', 'pass.db']) {
      const database = new DatabaseSync(join(from.data, name))
      database.exec('CREATE TABLE t (x)')
      database.close()
    }
    writeFileSync(join(from.journal, SEGMENT), '["o"]\n')
    const file = join(folder, 'b.tar.gz')
    const manifest = await writeBackup(file, from, { usage: true, version: '1.2.3' })
    assert.deepEqual(manifest.postgres, ['keys', 'usage'])
    assert.deepEqual(
      manifest.files.map(({ name }) => name),
      // Nothing would say which records of the journal are in Postgres.
      ['responses.db'],
    )
    const to = { data: join(folder, 'to'), journal: join(folder, 'to', 'journal'), isShared: true }
    assert.deepEqual((await restoreBackup(file, to, false)).manifest, manifest)
    rmSync(join(from.data, 'responses.db'))
    rmSync(from.journal, { recursive: true })
    await assert.rejects(writeBackup(join(folder, 'c'), from, { usage: true, version: '' }), /pg_dump/)
  }))

for (const [name, content] of [
  ['a text', 'x'.repeat(9_000)],
  ['an empty file', ''],
  ['the head of a database', 'SQLite format 3\0'],
] as const)
  test(`an archive whose control.db is ${name} is not restored`, () =>
    inFolder(async (folder) => {
      const path = join(folder, 'control.db')
      writeFileSync(path, content)
      const bytes = content.length
      const files = [{ name: 'control.db', bytes, sha256: hash('sha256', content), schema: 3 }]
      const page = JSON.stringify({ format: 1, version: '0', created_at: '', files })
      writeFileSync(join(folder, 'manifest.json'), page)
      const file = join(folder, 'b.tar.gz')
      const manifest = { name: 'manifest.json', path: join(folder, 'manifest.json'), bytes: page.length }
      await writeArchive(file, [manifest, { name: 'control.db', path, bytes }])
      const to = { data: join(folder, 'to'), journal: join(folder, 'to', 'journal'), isShared: false }
      await assert.rejects(restoreBackup(file, to, false), /control\.db .*Nothing was changed/)
      assert.deepEqual(readdirSync(to.data), [])
    }))
