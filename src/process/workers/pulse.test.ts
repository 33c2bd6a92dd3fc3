import assert from 'node:assert/strict'
import { test } from 'node:test'
import { skipWithoutProc } from '../../../test/e2e/support/gauges.ts'
import { hangOf, MAX_MISSES, type Pulse, pulseOf } from './pulse.ts'

const watch = { every: 1_000, misses: 4, busy: 4_000 }
/** A main thread at `count` heartbeats, with the processor time used between two of them. */
const pulses = (count: number, state: string, each: number): readonly Pulse[] =>
  Array.from({ length: count }, (_, at) => ({ state, cpu: 500 + at * each }))

const cases: readonly (readonly [name: string, pulses: readonly (Pulse | null)[], hang: string | null])[] = [
  ['no missed heartbeat', [], null],
  ['stopped for fewer heartbeats than are needed', pulses(3, 'T', 0), null],
  ['stopped', pulses(4, 'T', 0), 'stopped'],
  ['stopped while it was idle', [...pulses(1, 'S', 0), ...pulses(4, 'T', 0)], 'stopped'],
  ['stopped only some of the time', [...pulses(3, 'T', 0), ...pulses(1, 'R', 0)], null],
  ['an endless loop on a processor of its own', pulses(5, 'R', 1_000), 'busy'],
  ['an endless loop that has not used enough yet', pulses(4, 'R', 1_000), null],
  ['an endless loop that shares its processor with three others', pulses(17, 'R', 250), 'busy'],
  ['a healthy worker that gets 2 % of a processor', pulses(20, 'R', 20), null],
  ['a healthy worker without processor time', pulses(20, 'R', 0), null],
  ['a worker that waits for a page from disk', pulses(20, 'D', 0), null],
  ['blocked in a system call', pulses(4, 'S', 0), 'blocked'],
  ['blocked while it was running', [...pulses(1, 'R', 0), ...pulses(4, 'S', 0)], 'blocked'],
  ['alternating sleep and work', [...pulses(3, 'S', 0), ...pulses(1, 'R', 0)], null],
  ['asleep at each heartbeat but working in between', pulses(4, 'S', 100), null],
  ['without /proc', Array.from({ length: MAX_MISSES - 1 }, () => null), null],
  ['without /proc, for half a minute', Array.from({ length: MAX_MISSES }, () => null), 'silent'],
  ['silent for half a minute', pulses(MAX_MISSES, 'R', 0), 'silent'],
]
for (const [name, seen, hang] of cases) test(`pulse: ${name}`, () => assert.equal(hangOf(seen, watch), hang))

test('pulse: this process runs and uses processor time', { skip: skipWithoutProc }, () => {
  const before = pulseOf(process.pid)
  assert.equal(before?.state, 'R')
  const used = process.threadCpuUsage()
  while (process.threadCpuUsage(used).user < 50_000);
  const after = pulseOf(process.pid)
  assert.ok(after && before && after.cpu - before.cpu >= 30, `${before?.cpu} ms, then ${after?.cpu} ms`)
})

test('pulse: null for a process that does not exist', () => assert.equal(pulseOf(2 ** 30), null))
