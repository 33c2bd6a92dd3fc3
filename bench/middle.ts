/**
 * Measures the cost of a request and a chunk between the sockets (`bench/between.ts`). CPU time of the main thread, and of
 * the process with garbage collector and compiler: `node bench/middle.ts [--only chat-1k,stream] [--seconds 4]`.
 */
import { parseArgs } from 'node:util'
import { CHUNKS, gatewayFor, serveOne, spentCpu, workloads } from './between.ts'

const { values } = parseArgs({ options: { only: { type: 'string' }, seconds: { type: 'string', default: '3' } } })

/** Runs 32 concurrent requests at a time for `ms`, with a turn of the event loop in between. */
const during = async (
  ms: number,
  serve: () => Promise<void>,
): Promise<{ readonly calls: number; readonly thread: number; readonly all: number }> => {
  const until = performance.now() + ms
  const before = spentCpu()
  let calls = 0
  while (performance.now() < until) {
    await Promise.all(Array.from({ length: 32 }, serve))
    calls += 32
    await new Promise((resolve) => setImmediate(resolve))
  }
  const after = spentCpu()
  return { calls, thread: after.thread - before.thread, all: after.all - before.all }
}

const only = values.only?.split(',')
for (const workload of workloads.filter(({ name }) => only?.includes(name) ?? true)) {
  const gateway = gatewayFor(workload)
  const serve = () => serveOne(gateway, workload)
  await during(Number(values.seconds) * 1000, serve)
  const runs: Awaited<ReturnType<typeof during>>[] = []
  for (let round = 0; round < 3; round++) runs.push(await during((Number(values.seconds) * 1000) / 3, serve))
  const median = (of: (run: (typeof runs)[number]) => number): number => runs.map(of).sort((a, b) => a - b)[1] ?? 0
  const thread = median((run) => run.thread / run.calls)
  const all = median((run) => run.all / run.calls)
  const per =
    workload.chunks.length > 1 ? `   ${(thread / CHUNKS).toFixed(2)} (${(all / CHUNKS).toFixed(2)}) per chunk` : ''
  process.stdout.write(
    `${workload.name.padEnd(22)} ${thread.toFixed(1)} µs (process ${all.toFixed(1)}) per request${per}\n`,
  )
}
process.exit(0)
