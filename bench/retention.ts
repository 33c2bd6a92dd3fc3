/**
 * How long retention takes in a large `usage.db`, whether it delays the bookkeeper, and what it frees. The rows are made
 * by plain SQL in `TMPDIR`, about 0.7 KB each.
 *
 *   node bench/retention.ts --rows 2000000
 */
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Bookkeeper } from '../src/usage/bookkeeper/bookkeeper.ts'
import type { UsageLimits } from '../src/usage/bookkeeper/ledger-store.ts'
import { USAGE_FILE } from '../src/usage/journal/file.ts'
import { thisProcess } from '../src/usage/journal/segment-files.ts'
import { fillLedger } from '../test/support/usage-ledger.ts'

const MIB = 1_048_576
const END = Date.UTC(2026, 10, 22)
const DAYS = 30
const { values } = parseArgs({ options: { rows: { type: 'string', default: '2000000' } } })
const rows = Number(values.rows)

const root = mkdtempSync(join(tmpdir(), 'headgate-retention-'))
const folder = join(root, 'data')
const path = join(folder, USAGE_FILE)
const megabytes = () => statSync(path).size / MIB
const cpuMs = () => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}

/** The steps of one sweep, without the pauses between them. */
const sweep = async (bookkeeper: Bookkeeper, name: string, limits: UsageLimits): Promise<void> => {
  const before = megabytes()
  const steps: { readonly ms: number; readonly cpu: number }[] = []
  for (let hasMore = true; hasMore; ) {
    const [start, cpu] = [performance.now(), cpuMs()]
    hasMore = await bookkeeper.sweep(limits, END)
    steps.push({ ms: performance.now() - start, cpu: cpuMs() - cpu })
  }
  const figures = (of: 'ms' | 'cpu') => {
    const all = steps.map((step) => step[of]).toSorted((a, b) => a - b)
    const at = (share: number) => Math.round(all[Math.min(all.length - 1, Math.floor(share * all.length))] ?? 0)
    return { sum: Math.round(all.reduce((sum, one) => sum + one, 0)), p50: at(0.5), p99: at(0.99), most: at(1) }
  }
  const figuresOf = {
    name,
    steps: steps.length,
    wallMs: figures('ms'),
    cpuMs: figures('cpu'),
    problem: bookkeeper.problem,
  }
  process.stdout.write(`${JSON.stringify(figuresOf)}\n`)
  process.stdout.write(`  ${Math.round(before)} → ${Math.round(megabytes())} MB\n`)
}

const journal = join(folder, 'journal')
mkdirSync(journal, { recursive: true })
const bookkeeper = new Bookkeeper(
  { folder, journal, database: null, node: 'n1', timezone: 'UTC', syncs: false, process: thisProcess() },
  () => {},
)
try {
  await bookkeeper.step()
  fillLedger(folder, { count: rows, end: END, days: DAYS })
  process.stdout.write(`${rows} requests in ${Math.round(megabytes())} MB\n`)
  const limits = { keepDays: DAYS + 1, keepHours: 90, maxMegabytes: 1_000_000 }
  await sweep(bookkeeper, 'nothing to delete', limits)
  await sweep(bookkeeper, `one day of ${DAYS}`, { ...limits, keepDays: DAYS - 1 })
  await sweep(bookkeeper, 'maxMegabytes: a tenth less', { ...limits, maxMegabytes: Math.floor(megabytes() - 1) })
} finally {
  await bookkeeper.close()
  rmSync(root, { recursive: true, force: true })
}
