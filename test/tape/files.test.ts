/** Tapes that were cut, edited, converted or merged never give a wrong answer, and name the line. */
import assert from 'node:assert/strict'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { pruneTapes } from '../../src/tape/check.ts'
import { TapeFolder } from '../../src/tape/tape-folder.ts'
import { CLIENTS } from '../conversations/clients.ts'
import type { Conversation } from '../conversations/conversation.ts'
import { FakeVendors } from '../conversations/fake-vendors.ts'
import { worldOf } from '../conversations/in-process.ts'
import { SCENARIOS } from '../conversations/scenarios.ts'
import { VENDORS } from '../conversations/vendors.ts'
import { closedWorld, folderFor, playTurns, recordSession, replaySession, settingsOf, tapesIn } from './session.ts'

const [first, second] = VENDORS
const [client] = CLIENTS
const scenario = SCENARIOS.find(({ name }) => name === 'a call, then text')
assert.ok(first && second && client && scenario)
const conversation: Conversation = { client, scenario, first, second, returns: true, outage: 'route', stream: true }

const recorded = async (t: Parameters<typeof folderFor>[0]) => {
  const settings = settingsOf(folderFor(t))
  const { turns } = await recordSession(conversation, settings)
  const path = join(settings.folder, 'main.jsonl')
  return { settings, path, text: readFileSync(path, 'utf8'), answers: turns.map(({ reply }) => reply.text) }
}

/** Each answer of the changed tape is the recorded one, or a miss. */
const neverWrong = async (tape: Awaited<ReturnType<typeof recorded>>, text: string): Promise<readonly string[]> => {
  writeFileSync(tape.path, text)
  const { turns, reports } = await replaySession(conversation, tape.settings)
  for (const [at, { reply }] of turns.entries())
    if (reply.status === 200) assert.equal(reply.text, tape.answers[at])
    else assert.match(reply.text, /tape_miss/)
  return reports
}

test('tape: a file that is cut at any line gives right answers or misses', async (t) => {
  const tape = await recorded(t)
  const lines = tape.text.split('\n')
  for (let keep = 0; keep < lines.length; keep++) await neverWrong(tape, lines.slice(0, keep).join('\n'))
  const half = tape.text.slice(0, Math.floor(tape.text.length * 0.7))
  const [report = ''] = await neverWrong(tape, half)
  assert.match(report, /Line \d+ cannot be used: not JSON, or cut\./)
})

test('tape: an edited answer, request or part is a miss that names the line', async (t) => {
  const tape = await recorded(t)
  const lines = tape.text.split('\n')
  for (const [at, line] of lines.entries()) {
    const kind = /"line":"(\w+)"/.exec(line)?.[1]
    const edited =
      kind === 'event'
        ? line.replace(/"text":"/, '"text":"x')
        : line.replace(/"smart|"first"|"text":"/, (found) => `${found.slice(0, -1)}z"`)
    if (edited === line) continue
    const reports = await neverWrong(tape, lines.with(at, edited).join('\n'))
    assert.match(reports.join('\n'), /Line \d+ cannot be used/, `${kind} in line ${at + 1}`)
  }
})

test('tape: lines that end with CRLF are read', async (t) => {
  const tape = await recorded(t)
  assert.deepEqual(await neverWrong(tape, tape.text.replaceAll('\n', '\r\n')), [])
})

test('tape: merged tapes answer what both have, and a conflict names its line', async (t) => {
  const tape = await recorded(t)
  assert.deepEqual(await neverWrong(tape, tape.text + tape.text), [])
  const lines = tape.text.split('\n')
  const [report = ''] = await neverWrong(
    tape,
    ['<<<<<<< ours', ...lines.slice(0, 3), '=======', '>>>>>>> theirs'].join('\n'),
  )
  assert.match(report, /Line 1 cannot be used: a conflict of a merge\./)
})

test('tape: two recorders of one tape lose nothing', async (t) => {
  const settings = settingsOf(folderFor(t))
  const other: Conversation = {
    ...conversation,
    scenario: SCENARIOS.find(({ name }) => name === 'a schema') ?? scenario,
  }
  const [one, two] = await Promise.all([recordSession(conversation, settings), recordSession(other, settings)])
  for (const [each, { turns }] of [
    [conversation, one],
    [other, two],
  ] as const) {
    const { turns: again, reports } = await replaySession(each, settings)
    assert.deepEqual(reports, [])
    assert.deepEqual(
      again.map(({ reply }) => reply.text),
      turns.map(({ reply }) => reply.text),
    )
  }
})

test('tape: recording again replaces, and replay adds', async (t) => {
  const tape = await recorded(t)
  await recordSession(conversation, tape.settings)
  const { exchanges, problems } = new TapeFolder(tape.settings.folder).open('main')
  assert.deepEqual([exchanges.length, problems.length], [scenario.turns.length, 0])
  assert.ok(exchanges.every(({ replaces }) => replaces))
})

test('tape: a line that a full disk has cut does not swallow the next exchange', async (t) => {
  const tape = await recorded(t)
  appendFileSync(tape.path, '{"line":"ask","key":"')
  await recordSession(conversation, { ...tape.settings, name: 'main' })
  const { exchanges, problems } = new TapeFolder(tape.settings.folder).open('main')
  assert.equal(exchanges.length, scenario.turns.length)
  assert.deepEqual(
    problems.map(({ message }) => message),
    ['not JSON, or cut'],
  )
})

test('tape: a folder that cannot be written is reported, and the client is answered', async (t) => {
  const folder = join(folderFor(t), 'file')
  writeFileSync(folder, 'not a folder')
  const { turns, reports } = await recordSession(conversation, settingsOf(folder))
  assert.ok(turns.every(({ reply }) => reply.status === 200))
  assert.equal(reports.length, scenario.turns.length)
  assert.match(reports[0] ?? '', /^tap_\w+ is not recorded\. /)
})

test('tape: prune refuses a folder with a file that is not a tape, and keeps media that it has not written', async (t) => {
  const tape = await recorded(t)
  const { folder } = tape.settings
  const data = join(folder, 'dataset.jsonl')
  mkdirSync(join(folder, 'media'))
  writeFileSync(join(folder, 'media', 'photo.png'), 'a photo')
  writeFileSync(join(folder, 'media', 'a'.repeat(64)), 'unused')
  writeFileSync(data, '{"row":1}\n')
  assert.throws(() => pruneTapes(folder, { unused: false }), /dataset\.jsonl is not pruned\. It is not a tape/)
  assert.equal(readFileSync(data, 'utf8'), '{"row":1}\n')
  assert.equal(readFileSync(tape.path, 'utf8'), tape.text)
  const { reports } = await recordSession(conversation, { ...tape.settings, name: 'dataset' })
  assert.match(reports[0] ?? '', /dataset\.jsonl is not written\. It is not a tape/)
  assert.equal(readFileSync(data, 'utf8'), '{"row":1}\n')
  rmSync(data)
  mkdirSync(join(folder, 'a-folder.jsonl'))
  assert.equal(pruneTapes(folder, { unused: false }).length, 1)
  assert.deepEqual(readdirSync(join(folder, 'media')), ['photo.png'])
})

test('tape: a tape of another version answers nothing and is not written', async (t) => {
  const tape = await recorded(t)
  const other = tape.text.replace('"version":1', '"version":2')
  assert.match((await neverWrong(tape, other))[0] ?? '', /Line 1 cannot be used: version 2; this Headgate reads 1\./)
  assert.equal(new TapeFolder(tape.settings.folder).open('main').exchanges.length, 0)
  const { reports } = await recordSession(conversation, tape.settings)
  assert.match(reports[0] ?? '', /main\.jsonl is not written\. It has version 2/)
  assert.throws(() => pruneTapes(tape.settings.folder, { unused: false }), /version 2/)
  assert.equal(readFileSync(tape.path, 'utf8'), other)
})

test('tape: a folder with the name of a tape is reported, and the client is answered', async (t) => {
  const settings = settingsOf(folderFor(t))
  mkdirSync(join(settings.folder, 'main.jsonl'))
  const { turns, reports } = await recordSession(conversation, settings)
  assert.ok(turns.every(({ reply }) => reply.status === 200))
  assert.match(reports[0] ?? '', /^tap_\w+ is not recorded\. .*main\.jsonl is not written\. It cannot be read/)
  const { turns: replayed } = await replaySession(conversation, settings)
  assert.match(replayed[0]?.reply.text ?? '', /tape_miss/)
})

test('tape: prune keeps what the last run has used, also after lines have moved and what it has recorded', async (t) => {
  const { settings } = await recorded(t)
  const fakeVendors = new FakeVendors(conversation)
  const world = worldOf(fakeVendors)
  const { tapes } = tapesIn({ ...settings, mode: 'record' }, world)
  await playTurns(conversation, tapes, { world, fakeVendors })
  tapes.close()
  for (const unused of [false, true, true]) {
    const [pruned] = pruneTapes(settings.folder, { unused })
    assert.equal(pruned?.kept, scenario.turns.length)
  }
  const { tapes: others } = tapesIn(settings, closedWorld())
  others.take(new TapeFolder(settings.folder).open('main').exchanges[0]?.key ?? '', { name: 'main', test: '' })
  others.close()
  assert.equal(pruneTapes(settings.folder, { unused: true })[0]?.kept, 1)
})

test('tape: a request that is prepared and never sent uses up no exchange', async (t) => {
  const { settings } = await recorded(t)
  const { tapes } = tapesIn(settings, closedWorld())
  const [exchange = assert.fail()] = new TapeFolder(settings.folder).open('main').exchanges
  const place = { name: 'main', test: '' }
  for (let count = 0; count < 3; count++) assert.equal(tapes.peek(exchange.key, place)?.digest, exchange.digest)
  assert.equal(tapes.state().replayed, 0)
  assert.equal(tapes.take(exchange.key, place)?.digest, exchange.digest)
  assert.equal(tapes.peek(exchange.key, place), null)
})

test('tape: the list of misses is that of one run, and has a limit', async (t) => {
  const settings = settingsOf(folderFor(t))
  const path = join(settings.folder, '.misses.jsonl')
  const { tapes } = tapesIn(settings, closedWorld())
  for (let count = 0; count < 30; count++) tapes.folder.addMiss({ message: 'x'.repeat(50_000) })
  assert.ok(statSync(path).size > 900_000 && statSync(path).size <= 1024 * 1024)
  tapesIn(settings, closedWorld())
  assert.ok(!existsSync(path))
})
