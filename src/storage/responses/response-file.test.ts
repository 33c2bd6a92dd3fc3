import assert from 'node:assert/strict'
import { mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { FILE } from './database.ts'
import { ResponseFile } from './response-file.ts'

const given = (t: TestContext) => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-file-'))
  let recreated = 0
  const file = new ResponseFile(
    { folder, worker: 'one', limits: { keepDays: 1, maxMegabytes: 1, answerMegabytes: 1 } },
    () => recreated++,
  )
  t.after(() => {
    file.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const move = () => {
    for (const end of ['', '-wal', '-shm']) renameSync(join(folder, FILE + end), join(folder, `moved${end}`))
  }
  return { file, move, recreated: () => recreated }
}

test('response file: it exists once it was opened, and stays open', (t) => {
  const { file, recreated } = given(t)
  assert.equal(file.exists, false)
  const database = file.open()
  assert.equal(file.exists, true)
  assert.equal(file.open(), database)
  assert.equal(file.dropMoved(), false)
  assert.equal(recreated(), 0)
})

test('response file: after its files were moved it is closed, and another one is created', (t) => {
  const { file, move, recreated } = given(t)
  const database = file.open()
  move()
  assert.equal(file.dropMoved(), true)
  assert.equal(file.exists, false)
  assert.notEqual(file.open(), database)
  assert.equal(recreated(), 1)
})

test('response file: an error closes it, except a lock and a full disk, which concern one write', (t) => {
  const { file } = given(t)
  const database = file.open()
  for (const errcode of [5, 13]) file.dropAfter(Object.assign(new Error('sqlite'), { errcode }))
  assert.equal(file.open(), database)
  file.dropAfter(Object.assign(new Error('sqlite'), { errcode: 10 }))
  assert.notEqual(file.open(), database)
})
