import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Watchdog, type WatchdogOptions } from './watchdog.ts'
import { WorkerProcess } from './worker-process.ts'

class IdleWorker extends WorkerProcess {
  readonly signals: string[] = []
  pings = 0

  override send(): void {
    this.pings++
  }

  override kill(signal: NodeJS.Signals = 'SIGKILL'): void {
    this.signals.push(signal)
  }
}

const given = (count: number) => {
  const workers = Array.from({ length: count }, (_, at) => new IdleWorker(at + 1))
  const hangs: Parameters<WatchdogOptions['onHang']>[0][] = []
  const watchdog = new Watchdog({
    watch: { every: 1_000, misses: 3, busy: 4_000 },
    serving: () => workers,
    onHang: (hang) => hangs.push(hang),
    pulse: () => ({ state: 'T', cpu: 0 }),
  })
  return { workers, hangs, watchdog }
}

test('watchdog: a worker without a reply to its heartbeats is reported and killed', () => {
  const { workers, hangs, watchdog } = given(1)
  for (let beat = 0; beat < 3; beat++) watchdog.check()
  assert.deepEqual(hangs, [{ worker: 1, pid: 0, why: 'stopped', silent_ms: 2_000 }])
  assert.deepEqual([workers[0]?.signals, workers[0]?.pings], [['SIGKILL'], 2])
})

test('watchdog: at most one worker is killed per heartbeat', () => {
  const { workers, watchdog } = given(3)
  const killed = () => workers.map(({ signals }) => signals.length)
  for (let beat = 0; beat < 3; beat++) watchdog.check()
  assert.deepEqual(killed(), [1, 0, 0])
  watchdog.check()
  assert.deepEqual(killed(), [1, 1, 0])
})

test('watchdog: a worker that replies is not killed', () => {
  const { workers, hangs, watchdog } = given(1)
  for (let beat = 0; beat < 10; beat++) {
    watchdog.check()
    for (const { pulses } of workers) pulses.length = 0
  }
  assert.deepEqual([hangs, workers[0]?.pings], [[], 10])
})
