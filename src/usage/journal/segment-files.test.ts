import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { endedProcesses, journalSize, listSegments, processName, segmentFile, thisProcess } from './segment-files.ts'

const folder = mkdtempSync(join(tmpdir(), 'headgate-segments-'))
after(() => rmSync(folder, { recursive: true, force: true }))

test('segments: those of one process are in order of their number; other files are ignored', () => {
  const name = processName(thisProcess(3))
  for (const file of [segmentFile(name, 10), segmentFile(name, 9), 'x.jsonl', `${segmentFile(name, 1)}.broken`])
    writeFileSync(join(folder, file), 'four')
  assert.deepEqual(
    listSegments(folder).map(({ process, number }) => [process, number]),
    [
      [name, 9],
      [name, 10],
    ],
  )
  assert.equal(journalSize(folder), 8)
  assert.deepEqual(listSegments(join(folder, 'missing')), [])
})

test('segments: a process has ended if its PID is not running, or belongs to a later process', () => {
  const own = { start: 1_000, pid: 1, worker: 0 }
  const named = (pid: number, start: number) => processName({ start, pid, worker: 0 })
  const names = new Set([named(1, 1_000), named(1, 900), named(2, 500), named(3, 500), named(3, 600)])
  const ended = endedProcesses(names, own, (pid) => pid !== 2)
  assert.deepEqual(ended, new Set([named(1, 900), named(2, 500), named(3, 500)]))
})
