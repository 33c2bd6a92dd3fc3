import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NO_COUNTS } from '../columns/usage-schema.ts'
import { type KeptReport, ReportMemory } from './report-memory.ts'

const plan = async () => ({ range: { from: 0, to: 1 }, left: [], width: 1 })

const fill = (report: KeptReport, groups: number) => {
  for (let n = 0; n < groups; n++) report.groups.set(`group ${n}`, NO_COUNTS)
}

test('report memory: a report is kept until it is answered, for ten minutes', async () => {
  const memory = new ReportMemory()
  const first = await memory.get('a', true, 0, plan)
  assert.equal(await memory.get('a', true, 0, plan), first)
  assert.notEqual(await memory.get('b', true, 0, plan), first)
  memory.answered('a', first, true)
  assert.equal(await memory.get('a', false, 0, plan), first, 'its next page')
  const again = await memory.get('a', true, 0, plan)
  assert.notEqual(again, first)
  assert.equal(await memory.get('a', true, 600_000, plan), again)
  assert.notEqual(await memory.get('a', true, 600_001, plan), again)
  const last = await memory.get('c', true, 600_001, plan)
  memory.answered('c', last, false)
  assert.notEqual(await memory.get('c', false, 600_001, plan), last)
})

test('report memory: queries that begin the same report at a time share it', async () => {
  const memory = new ReportMemory()
  const [one, other] = await Promise.all([memory.get('a', true, 0, plan), memory.get('a', true, 0, plan)])
  assert.equal(one, other)
})

test('report memory: the oldest reports go where there are too many, or too many groups', async () => {
  const memory = new ReportMemory()
  const reports = []
  for (let n = 0; n < 9; n++) reports.push(await memory.get(`${n}`, true, 0, plan))
  const newest = reports.at(-1) ?? assert.fail()
  assert.equal(memory.hasRoom(newest), true)
  assert.equal(await memory.get('1', true, 0, plan), reports[1])
  assert.notEqual(await memory.get('0', true, 0, plan), reports[0])
  fill(newest, 100_000)
  assert.equal(memory.hasRoom(newest), true)
  assert.equal(await memory.get('8', true, 0, plan), newest)
  fill(await memory.get('1', true, 0, plan), 1)
  assert.equal(memory.hasRoom(newest), true)
  newest.groups.set('one more', NO_COUNTS)
  assert.equal(memory.hasRoom(newest), false)
})
