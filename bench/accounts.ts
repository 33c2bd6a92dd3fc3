/**
 * Measures what limits, budgets and the ledger add to a request between the sockets, in CPU time of the main thread:
 * `node bench/accounts.ts [--only chat-1k,stream] [--rounds 50] [--requests 2000] [--journal /tmp]`. Requests are
 * served in groups of 20 per turn of the event loop. The contestants of a round follow each other, in changing order; each
 * round is compared separately, and the median of the comparisons counts. The thread that stores the journal is not part of it.
 */
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { ANONYMOUS, type Budget, type Client, DEFAULT_TEAM, NO_LIMITS } from '../src/core/accounts.ts'
import type { AccountsOptions } from '../src/gateway/accounts/accounts.ts'
import { budgetScope } from '../src/policy/accounts/budget-scope.ts'
import { JournalWriter } from '../src/usage/journal/journal-writer.ts'
import { memoryJournal, testBudget } from '../test/support/accounts.ts'
import { journalLines } from '../test/support/ledger-records.ts'
import { CHUNKS, gatewayFor, serveOne, spentCpu, workloads } from './between.ts'

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: 'chat-1k,stream' },
    rounds: { type: 'string', default: '50' },
    requests: { type: 'string', default: '2000' },
    journal: { type: 'string', default: tmpdir() },
  },
})
const GROUP = 20
/** Rounds before the first that counts. */
const WARM_UP = 4
const folder = mkdtempSync(join(values.journal, 'headgate-bench-'))

// ── Contestants ────────────────────────────────────────────────────────────────────────────────────────────────────

/** More than a run can use. */
const MANY = 1e12
const client: Client = {
  ...ANONYMOUS,
  id: 'key_kdvbwqhzmrtc',
  owner: 'key_kdvbwqhzmrtc',
  name: 'search-prod',
  team: { ...DEFAULT_TEAM },
  tags: { app: 'search' },
  limits: [
    {
      id: 'key_kdvbwqhzmrtc',
      limits: { ...NO_LIMITS, requestsPerMinute: MANY, tokensPerMinute: MANY, concurrent: MANY },
    },
  ],
}
const budget = (id: string, more: Partial<Budget>) => budgetScope(testBudget(4e15, { id, name: id, ...more }))
const all = testBudget(0).appliesTo
const budgets = [
  budget('bud_aaaaaaaaaaaa', {}),
  budget('bud_bbbbbbbbbbbb', { period: 'day', per: 'key', timezone: 'Europe/Berlin' }),
  budget('bud_cccccccccccc', { per: 'team', mode: 'soft', appliesTo: { ...all, tags: { app: 'search' } } }),
  budget('bud_dddddddddddd', { period: 'hour', appliesTo: { ...all, models: ['openai-chat/*'] } }),
]

type Variant = {
  readonly name: string
  readonly client: Client
  readonly ledger: boolean
  readonly options: Partial<AccountsOptions>
}
const contestants: readonly Variant[] = [
  { name: 'neither', client: ANONYMOUS, ledger: false, options: {} },
  { name: 'ledger', client: ANONYMOUS, ledger: true, options: {} },
  { name: 'limits', client, ledger: false, options: { budgets: () => budgets } },
  { name: 'both', client, ledger: true, options: { budgets: () => budgets } },
]

let files = 0
const openJournal = (): JournalWriter =>
  new JournalWriter({
    folder,
    process: `bench-${files++}`,
    sync: 'interval',
    whenUnwritable: 'serve',
    spoolBytes: 4 * 1024 ** 3,
    changed: (change) => {
      throw new Error(`the journal is ${change.status}`)
    },
  })

// ── Measurement ────────────────────────────────────────────────────────────────────────────────────────────────────

type Runner = { readonly name: string; readonly run: (requests: number) => Promise<void> }

/** Serves requests in groups, each in a turn of the event loop. */
const inGroups = async (requests: number, serve: () => Promise<void>): Promise<void> => {
  for (let served = 0; served < requests; served += GROUP) {
    await Promise.all(Array.from({ length: GROUP }, serve))
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** The least that a ledger can cost: the text of three records, written in groups. */
const lowerBound = async (): Promise<Runner> => {
  const workload = workloads.find(({ name }) => name === 'chat-1k')
  if (!workload) throw new Error('no workload chat-1k')
  const { records, journal } = memoryJournal({ later: (_ms, run) => clearImmediate.bind(null, setImmediate(run)) })
  const gateway = gatewayFor(workload, { budgets: () => budgets, journal: () => journal })
  await serveOne(gateway, workload, client)
  const lines = journalLines(records).map((line) => JSON.parse(line) as object)
  const fd = openSync(join(folder, 'lower-bound'), 'a')
  process.on('exit', () => closeSync(fd))
  return {
    name: 'the records as text and one write for 20 requests, alone',
    run: async (requests) => {
      for (let served = 0; served < requests; served += GROUP) {
        let text = ''
        for (let at = 0; at < GROUP; at++) for (const line of lines) text += `${JSON.stringify(line)}\n`
        writeSync(fd, text)
        await new Promise((resolve) => setImmediate(resolve))
      }
    },
  }
}

const median = (figures: readonly number[]): number => {
  const sorted = figures.toSorted((a, b) => a - b)
  const middle = sorted.length / 2
  return ((sorted[Math.ceil(middle) - 1] ?? 0) + (sorted[Math.floor(middle)] ?? 0)) / 2
}
const quartiles = (figures: readonly number[]): string => {
  const sorted = figures.toSorted((a, b) => a - b)
  const at = (share: number) => (sorted[Math.floor(share * (sorted.length - 1))] ?? 0).toFixed(2)
  return `${at(0.25)}–${at(0.75)}`
}

/** CPU time of the main thread per request in µs. */
const measure = async ({ run }: Runner, requests: number): Promise<number> => {
  const before = spentCpu()
  await run(requests)
  return (spentCpu().thread - before.thread) / requests
}

const compare = async (name: string, runners: readonly Runner[], requests: number, per: number): Promise<void> => {
  const rounds = Number(values.rounds)
  for (let round = 0; round < WARM_UP; round++) for (const runner of runners) await runner.run(requests)
  const figures = runners.map((): number[] => [])
  for (let round = 0; round < rounds; round++)
    for (let turn = 0; turn < runners.length; turn++) {
      const at = (round + turn) % runners.length
      const runner = runners[at]
      if (runner) figures[at]?.push((await measure(runner, requests)) / per)
    }
  const [base = []] = figures
  const unit = per === 1 ? 'request' : 'chunk'
  for (const [at, runner] of runners.entries()) {
    const own = figures[at] ?? []
    const added = own.map((figure, round) => figure - (base[round] ?? 0))
    const difference =
      at === 0 || runner.name.includes('alone')
        ? ''
        : `   ${median(added) < 0 ? '' : '+'}${median(added).toFixed(2)} (quartiles ${quartiles(added)})`
    process.stdout.write(
      `${name}  ${runner.name.padEnd(8)} ${median(own).toFixed(2)} µs per ${unit}${difference}   ${rounds * requests} requests\n`,
    )
  }
}

const runnersFor = (workload: (typeof workloads)[number]): readonly Runner[] =>
  contestants.map(({ name, client, ledger, options }) => {
    const journal = ledger ? openJournal() : null
    const gateway = gatewayFor(workload, { ...options, journal: () => journal })
    return {
      name,
      run: (requests) => inGroups(requests, () => serveOne(gateway, workload, client)),
    }
  })

try {
  for (const workload of workloads.filter(({ name }) => values.only.split(',').includes(name))) {
    const isStream = workload.chunks.length > 1
    const requests = Math.ceil(Number(values.requests) / (isStream ? 10 : 1) / GROUP) * GROUP
    const runners = runnersFor(workload)
    await compare(workload.name, isStream ? runners : [...runners, await lowerBound()], requests, isStream ? CHUNKS : 1)
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
process.exit(0)
