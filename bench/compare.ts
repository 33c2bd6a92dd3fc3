/**
 * Compares the gateways of several checkouts: all run at once and are measured in turn, so that a slow minute of the machine
 * affects each of them. Prints CPU time per request or chunk, of the main thread and of the others, and the ratio to the first
 * program. A program named twice shows the noise.
 *
 *   node bench/compare.ts --only burst,stream-20ms --rounds 9 ../old/bin/headgate.mjs bin/headgate.mjs
 *
 * A program followed by `=FILE.json` runs with these members in its configuration; the load sends the key of
 * `bench/accounts.json`:
 *
 *   node bench/compare.ts --only chat-1k bin/headgate.mjs=bench/no-ledger.json bin/headgate.mjs=bench/accounts.json
 */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { inTurn, WORKLOAD_NAMES, type WorkloadName, workloadOf } from './conduct.ts'
import { at, type Contestant, load, PORTS, prepare, startGateway, startUpstream, stopAll, useProgram } from './rig.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { only: { type: 'string', default: 'chat-1k,stream-20ms,burst' }, rounds: { type: 'string', default: '5' } },
})
const isWorkload = (name: string): name is WorkloadName => WORKLOAD_NAMES.some((known) => known === name)
const rows = values.only.split(',').filter(isWorkload)
const rounds = Number(values.rounds)
if (rows.length === 0 || !(rounds >= 1) || positionals.length < 2) {
  process.stderr.write(
    'usage: node bench/compare.ts [--only ROW,ROW] [--rounds N] FIRST/bin/headgate.mjs OTHER/bin/headgate.mjs[=FILE.json] …\n',
  )
  process.exit(2)
}

/** The key of `accounts.json`; a gateway without keys ignores it. */
const KEY = '--key hgk-bench-0123456789-0123456789abcdef'
const median = (list: readonly number[]): number => list.toSorted((a, b) => a - b)[list.length >> 1] ?? Number.NaN

const compare = async (row: WorkloadName): Promise<void> => {
  const { file, args, warmUp, api } = workloadOf(row)
  const upstream = await startUpstream()
  const contestants: (Contestant & { readonly pid: number; readonly costs: number[]; readonly main: number[] })[] = []
  for (const [index, program] of positionals.entries()) {
    const [main = '', more] = program.split('=')
    useProgram(resolve(main))
    const port = PORTS.gateway + 10 + index
    const members: object = more === undefined ? {} : JSON.parse(readFileSync(more, 'utf8'))
    const { pid } = await startGateway(`compared-${index}`, { file: { ...file, ...members }, port })
    contestants.push({ name: program, model: 'bench', base: at(port), pid, costs: [], main: [] })
  }
  const known = [upstream.pid, ...contestants.map(({ pid }) => pid)]
  for (const each of contestants) await load(each, { api, known, args: `${KEY} ${warmUp} --warmup 8s` })
  for (let round = 0; round < rounds; round++)
    for (const each of inTurn(contestants, round)) {
      const { numbers, errors } = await load(each, { api, known, args: `${KEY} ${args}` })
      const wrong = Object.keys(errors)
      if (wrong.length > 0) throw new Error(`${each.name} gave a wrong answer: ${wrong.join(', ')}`)
      each.costs.push(numbers.cpuChunk ?? numbers.cpu ?? Number.NaN)
      each.main.push(numbers.mainThread ?? Number.NaN)
    }
  for (const { name, costs, main } of contestants) {
    const ratios = costs.map((cost, round) => cost / (contestants[0]?.costs[round] ?? Number.NaN))
    const range = `${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)}`
    const [all, own] = [median(costs), median(main)]
    const threads = `main thread ${own.toFixed(2)}, others ${(all - own).toFixed(2)}`
    const line = `${row}: ${all.toFixed(2)} µs (${threads}), ${median(ratios).toFixed(3)} × the first (${range})  ${name}\n`
    process.stdout.write(line)
  }
  await stopAll()
}

try {
  prepare()
  for (const row of rows) await compare(row)
} finally {
  await stopAll()
}
