import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { SpooledBody } from '../../core/form.ts'
import { Spool } from './spool.ts'

const folderFor = (t: { after(run: () => void): void }): string => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-spool-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'spool')
}

/** The modes of the open files below a folder, which have no names. */
const openFiles = (folder: string): readonly number[] =>
  readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const path = `/proc/self/fd/${fd}`
      return readlinkSync(path).startsWith(folder) ? [statSync(path).mode & 0o777] : []
    } catch {
      return []
    }
  })

const read = async (body: SpooledBody): Promise<Buffer> => {
  const parts: Buffer[] = []
  for await (const piece of body.pieces()) parts.push(Buffer.from(piece))
  return Buffer.concat(parts)
}

test('spool: a file has no name, is the owner’s only, and is closed after its last reading', async (t) => {
  const folder = folderFor(t)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'left-by-another-process'), 'x')
  const spool = new Spool(() => ({ folder, limit: 10_000_000 }))
  const bytes = Buffer.alloc(1_000_000, 'abcdefg')
  const file = spool.create()
  assert.equal(await file.append([bytes.subarray(0, 10), bytes.subarray(10, 600_000)]), null)
  assert.equal(await file.append([bytes.subarray(600_000)]), null)
  assert.deepEqual(readdirSync(folder), [])
  if (process.platform === 'linux') assert.deepEqual(openFiles(folder), [0o600])
  assert.equal(spool.used, bytes.length)

  const change = { start: 999_990, end: 999_995, value: Buffer.from('another') }
  const body = new SpooledBody(file, [change])
  const expected = Buffer.concat([bytes.subarray(0, 999_990), change.value, bytes.subarray(999_995)])
  assert.equal(body.length, expected.length)
  const [one, two] = await Promise.all([read(body), read(body)])
  assert.ok(one.equals(expected) && two.equals(expected))

  const late = body.pieces()
  await late.next()
  file.release()
  assert.equal(spool.used, bytes.length)
  let size = 0
  for await (const piece of late) size += piece.length
  assert.equal(size, expected.length - 256 * 1024)
  while (spool.used > 0) await new Promise(setImmediate)
  if (process.platform === 'linux') assert.deepEqual(openFiles(folder), [])
})

test('spool: changes at the start, beside each other and at the end', async (t) => {
  const folder = folderFor(t)
  const file = new Spool(() => ({ folder, limit: 100 })).create()
  await file.append([Buffer.from('0123456789')])
  const text = (value: string, start: number, end: number) => ({ start, end, value: Buffer.from(value) })
  for (const [changes, expected] of [
    [[], '0123456789'],
    [[text('ab', 0, 1)], 'ab123456789'],
    [[text('', 3, 5), text('xyz', 5, 5), text('-', 9, 10)], '012xyz5678-'],
    [[text('all', 0, 10)], 'all'],
  ] as const) {
    const body = new SpooledBody(file, changes)
    assert.equal((await read(body)).toString(), expected)
    assert.equal(body.length, expected.length)
  }
  file.release()
})

test('spool: all files have a limit, and give their space back', async (t) => {
  const folder = folderFor(t)
  const spool = new Spool(() => ({ folder, limit: 100 }))
  const [first, second] = [spool.create(), spool.create()]
  assert.equal(await first.append([Buffer.alloc(60)]), null)
  const failure = await second.append([Buffer.alloc(41)])
  assert.deepEqual([failure?.kind, failure?.headers], ['spool_full', { 'x-should-retry': 'false' }])
  first.release()
  while (spool.used > 0) await new Promise(setImmediate)
  assert.equal(await second.append([Buffer.alloc(41)]), null)
  second.release()
})

test('spool: a folder that cannot be used is a failure, not a crash', async (t) => {
  const folder = folderFor(t)
  writeFileSync(folder, 'a file')
  const file = new Spool(() => ({ folder, limit: 100 })).create()
  assert.equal((await file.append([Buffer.from('x')]))?.kind, 'storage')
  file.release()
})

test('spool: a full disk is a failure of its own', {
  skip: process.platform === 'linux' ? false : 'needs /dev/full',
}, async () => {
  const { open } = await import('node:fs/promises')
  class Full extends Spool {
    protected override open() {
      return open('/dev/full', 'r+')
    }
  }
  const file = new Full(() => ({ folder: '/nowhere', limit: 100 })).create()
  const failure = await file.append([Buffer.from('x')])
  assert.equal(failure?.kind, 'spool_full')
  assert.match(failure?.message ?? '', /ENOSPC/)
  file.release()
})
