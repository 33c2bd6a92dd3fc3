/**
 * Every call of the file system that the journal makes fails, for every reason and in both modes. With `serve` no request
 * is refused, with `refuse` none is served unrecorded, and what was accepted is in the journal once when the fault is over.
 */
import assert from 'node:assert/strict'
import fs, { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import {
  closedRecord,
  endedRecord,
  eventsOf,
  journalLines,
  openedRecord,
} from '../../../test/support/ledger-records.ts'
import type { JournalRecord } from '../../core/journal.ts'
import { decodeLine } from '../journal/journal-record.ts'
import { type JournalOptions, JournalWriter } from '../journal/journal-writer.ts'
import { listSegments } from '../journal/segment-files.ts'

const CODES = ['EIO', 'ENOSPC', 'EDQUOT', 'EROFS', 'EACCES', 'EMFILE', 'EFBIG'] as const
const CALLS = ['mkdirSync', 'readdirSync', 'openSync', 'writeSync', 'fdatasyncSync', 'fstatSync'] as const
/** Bytes of a write that include the first of its attempts: five calls have ended before. */
const WITH_ATTEMPT = Buffer.byteLength(
  [1, 2, 3, 4, 5]
    .flatMap((call) => journalLines([openedRecord(call), closedRecord(call), endedRecord(call)]).slice(1))
    .join('') + journalLines([openedRecord(6)]).join(''),
)
type CallName = (typeof CALLS)[number]
type Fault = {
  readonly call: CallName
  readonly code: (typeof CODES)[number]
  /** Bytes that `writeSync` writes before it fails. */
  readonly bytes?: number
}

const errorOf = ({ call, code }: Fault): Error =>
  Object.assign(new Error(`${code}: a fault of the test, ${call}`), {
    code,
    errno: -5,
    syscall: call.replace('Sync', ''),
  })

/** Faults by the folder in which they happen. */
type Faults = Map<string, { readonly fault: Fault; failures: number; isBroken: boolean; readonly torn: Set<unknown> }>

/** Lets calls fail for the files of folders with a fault. */
const inject = (context: TestContext, name: CallName): Faults => {
  const faults: Faults = new Map()
  const paths = new Map<number, string>()
  // The members of the module have as many types; arguments are passed on as they are.
  const original = { ...fs } as unknown as Readonly<Record<CallName, (...args: unknown[]) => unknown>>
  const failing =
    (call: CallName) =>
    (...args: unknown[]) => {
      const [file] = args
      const path = typeof file === 'number' ? (paths.get(file) ?? '') : String(file)
      const found = faults.entries().find(([folder]) => path.startsWith(folder))?.[1]
      if (call === name && found?.isBroken) {
        const { fault, torn } = found
        if (fault.bytes === undefined || fault.bytes === 0 || torn.has(file)) {
          found.failures++
          throw errorOf(fault)
        }
        torn.add(file)
        return original[call](file, args[1], args[2], Math.min(fault.bytes, Number(args[3])))
      }
      const result = original[call](...args)
      if (call === 'openSync') paths.set(Number(result), path)
      return result
    }
  for (const call of new Set([name, 'openSync'] as const)) context.mock.method(fs, call, failing(call))
  syncBuiltinESMExports()
  return faults
}

/** All records of the journal. A torn line may only be the last of its segment. */
const recordsIn = (folder: string) =>
  listSegments(folder).flatMap(({ file }) =>
    readFileSync(join(folder, file), 'utf8')
      .split('\n')
      .slice(0, -1)
      .flatMap((line) => eventsOf(decodeLine(line) ?? assert.fail(`a line is torn in ${file}: ${line}`))),
  )

const faults: readonly Fault[] = CALLS.flatMap((call) =>
  CODES.flatMap((code): readonly Fault[] =>
    call === 'writeSync' ? [0, 1, 300, WITH_ATTEMPT].map((bytes) => ({ call, code, bytes })) : [{ call, code }],
  ),
)
/** Calls that a running journal makes only for a new segment. */
const isOfStart = ({ call }: Fault) => !['writeSync', 'fdatasyncSync', 'fstatSync'].includes(call)

const runFault = async (faults: Faults, fault: Fault, whenUnwritable: JournalOptions['whenUnwritable']) => {
  const root = mkdtempSync(join(tmpdir(), 'headgate-fault-'))
  const folder = join(root, 'journal')
  const state = { fault, failures: 0, isBroken: false, torn: new Set() }
  faults.set(folder, state)
  const states: string[] = []
  const writer = new JournalWriter({
    folder,
    process: '1a.77-0',
    sync: 'dispatch',
    whenUnwritable,
    spoolBytes: 2 ** 30,
    // A new segment is not checked for a second.
    segmentBytes: fault.call === 'fstatSync' ? 2 ** 26 : 4_000,
    changed: ({ status }) => states.push(status),
  })
  const accepted = new Set<number>()
  const refused = new Set<number>()
  /** Refused although their records are written. */
  const unsynced = new Set<number>()
  const sets = { accepted, refused, unsynced }
  let last = 0
  /** Attempts of one turn; each accepted one ends in the next. */
  const attempts = async (count: number) => {
    const calls = Array.from({ length: count }, () => ++last)
    for (const call of calls)
      writer.openAttempt(openedRecord(call), { onJournaled: (result) => void sets[result].add(call) })
    await turn()
    for (const call of calls) {
      if (accepted.has(call)) writer.append(closedRecord(call))
      if (unsynced.has(call)) writer.append(closedRecord(call, { outcome: 'abandoned', cost: 0 }))
      writer.append(endedRecord(call))
    }
  }
  try {
    if (!isOfStart(fault)) await attempts(5)
    state.isBroken = true
    const before = last
    // The open segment is checked once a second.
    for (const end = performance.now() + 120_000; state.failures === 0; await sleep(20)) {
      assert.ok(performance.now() < end, 'the fault happens')
      await attempts(3)
    }
    await attempts(3)
    const during = last
    assert.equal(states[0], 'degraded')
    assert.match(writer.problem ?? '', /./)
    assert.ok(!writer.problem?.includes(root), 'no path is shown')
    state.isBroken = false
    for (const end = performance.now() + 120_000; writer.problem !== null; await sleep(20)) {
      assert.ok(performance.now() < end, 'it recovers')
      await attempts(1)
    }
    await attempts(5)
    writer.close()

    assert.equal(accepted.size + refused.size + unsynced.size, last, 'every attempt has a result')
    assert.equal(writer.dropped, 0)
    assert.deepEqual(states, ['degraded', 'ok'])
    if (whenUnwritable === 'serve') assert.equal(refused.size + unsynced.size, 0, 'no request is refused')
    else {
      const served = [...accepted].filter((call) => call > before && call <= during)
      // Without a new segment, and until the open one is checked, the journal can be written.
      if (fault.call !== 'fstatSync') assert.deepEqual(served, [], 'nothing is served that is not on the disk')
      const isRecorded = new Set(recordsIn(folder).flatMap((one) => (one.type === 'attempt_opened' ? [one.call] : [])))
      assert.deepEqual(
        served.filter((call) => !isRecorded.has(call)),
        [],
        'nothing is served unrecorded',
      )
      assert.ok(refused.size > 0)
      assert.equal(unsynced.size > 0, fault.call === 'fdatasyncSync' || fault.bytes === WITH_ATTEMPT)
    }
    const ofType = (type: JournalRecord['type']) =>
      recordsIn(folder)
        .flatMap((one) => (one.type === type ? [one.call] : []))
        .toSorted((a, b) => a - b)
    const all = Array.from({ length: last }, (_, at) => at + 1)
    const kept = all.filter((call) => accepted.has(call) || unsynced.has(call))
    assert.deepEqual(ofType('attempt_closed'), kept)
    assert.deepEqual(ofType('request_ended'), all)
    assert.deepEqual(ofType('attempt_opened'), kept, 'each of them is recorded once')
  } finally {
    state.isBroken = false
    writer.close()
    rmSync(root, { recursive: true, force: true })
  }
}

for (const whenUnwritable of ['serve', 'refuse'] as const)
  for (const call of CALLS)
    test(`journal: with \`${whenUnwritable}\`, ${call} fails for every reason`, {
      timeout: 120_000,
    }, async (context) => {
      const injected = inject(context, call)
      context.after(() => {
        context.mock.restoreAll()
        syncBuiltinESMExports()
      })
      await Promise.all(
        faults
          .filter((one) => one.call === call)
          .map((fault) =>
            runFault(injected, fault, whenUnwritable).catch((error) => {
              throw new Error(JSON.stringify(fault), { cause: error })
            }),
          ),
      )
    })
