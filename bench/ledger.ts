/**
 * CPU time and disk space of the ledger for one request, from the record before an attempt to the row in `usage.db`:
 * `node bench/ledger.ts [--requests 20000] [--keys 50] [--group 20] [--budgets 1]`. The journal is written first, then the
 * bookkeeper stores it in this thread; both times are those of the process, with its garbage collection.
 */
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { budgetCharge } from '../src/core/journal.ts'
import { Bookkeeper } from '../src/usage/bookkeeper/bookkeeper.ts'
import { USAGE_FILE } from '../src/usage/journal/file.ts'
import { JournalWriter } from '../src/usage/journal/journal-writer.ts'
import { processName, thisProcess } from '../src/usage/journal/segment-files.ts'
import { recordsOf } from './journal-records.ts'

const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '20000' },
    keys: { type: 'string', default: '50' },
    group: { type: 'string', default: '20' },
    budgets: { type: 'string', default: '1' },
    rounds: { type: 'string', default: '3' },
  },
})
const [requests, keys, group, budgets] = [values.requests, values.keys, values.group, values.budgets].map(Number) as [
  number,
  number,
  number,
  number,
]
const START = Date.now() - requests

const recordsOfCall = (call: number) =>
  recordsOf({
    call,
    request: `req_${call.toString(36).padStart(20, 'k')}`,
    at: START + call,
    keys,
    charges: (key) => Array.from({ length: budgets }, (_, at) => budgetCharge(`bud_aaaaaaaaaaa${at}:${key}`, START)),
  })

const cpu = (): number => {
  const { user, system } = process.cpuUsage()
  return user + system
}

const round = async (): Promise<{
  readonly write: number
  readonly store: number
  readonly bytes: number
  readonly journal: number
}> => {
  const root = mkdtempSync(join(tmpdir(), 'headgate-ledger-'))
  const folder = join(root, 'data')
  const journal = join(folder, 'journal')
  mkdirSync(journal, { recursive: true })
  const own = thisProcess()
  const writer = new JournalWriter({
    folder: journal,
    process: processName(own),
    sync: 'never',
    whenUnwritable: 'serve',
    spoolBytes: 4 * 1024 ** 3,
    changed: (change) => {
      throw new Error(`the journal is ${change.status}`)
    },
  })
  const partAt = (at: number) => Array.from({ length: group }, (_, index) => recordsOfCall(at + index))
  try {
    let begun = cpu()
    for (let at = 0; at < requests; at += group) {
      partAt(at)
      await new Promise((resolve) => setImmediate(resolve))
    }
    const made = (cpu() - begun) / requests
    begun = cpu()
    for (let at = 0; at < requests; at += group) {
      const part = partAt(at)
      await Promise.all(
        part.map(([opened]) => new Promise((resolve) => writer.openAttempt(opened, { onJournaled: resolve }))),
      )
      for (const [, closed, ended] of part) {
        writer.append(closed)
        writer.append(ended)
      }
    }
    writer.flush()
    const write = (cpu() - begun) / requests - made
    const { size } = statSync(join(journal, `${processName(own)}-1.jsonl`))
    const bookkeeper = new Bookkeeper(
      { folder, journal, database: null, node: 'local', timezone: 'UTC', syncs: false, process: own },
      (event) => {
        if (event.event !== 'ok') throw new Error(JSON.stringify(event))
      },
    )
    begun = cpu()
    while (await bookkeeper.step());
    const store = (cpu() - begun) / requests
    const problem = bookkeeper.problem
    await bookkeeper.close()
    if (problem !== null) throw new Error(problem)
    return { write, store, bytes: statSync(join(folder, USAGE_FILE)).size / requests, journal: size / requests }
  } finally {
    writer.close()
    rmSync(root, { recursive: true, force: true })
  }
}

for (let at = 0; at < Number(values.rounds); at++) {
  const { write, store, bytes, journal } = await round()
  process.stdout.write(
    `write ${write.toFixed(1)} µs, store ${store.toFixed(1)} µs a request; ${Math.round(bytes)} bytes in ${USAGE_FILE}, ${Math.round(journal)} in the journal\n`,
  )
}
