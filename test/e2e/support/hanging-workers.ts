/**
 * Run directly: the supervisor with two workers that only answer its heartbeats. On SIGUSR2 a worker's event loop
 * stalls: it loops forever or, with HANG=wait, blocks in a system call.
 */

import { WORKER_VARIABLE } from '../../../src/config/worker-count.ts'
import { supervise } from '../../../src/process/workers/supervise.ts'
import { connectWorker } from '../../../src/process/workers/worker.ts'

/** Program for `start`. */
export const HANGING = import.meta.filename

/** ms between two heartbeats. */
export const EVERY = 500
const WATCH = { every: EVERY, misses: 4, busy: 1_500 }
/** ms after which a stopped or blocked worker counts as hanging. */
export const PATIENCE = EVERY * WATCH.misses

const serveNothing = (mark: string) => {
  process.on('SIGUSR2', () => {
    if (process.env.HANG === 'wait') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
    for (;;);
  })
  connectWorker(mark).listening(
    {
      port: 1,
      host: undefined,
      basePath: '',
      secure: false,
      healthPort: 0,
      logLevel: 'info',
      logFormat: 'json',
      grace: 0,
      dataDir: '.headgate',
      fleet: null,
    },
    {
      announce: () => void process.stdout.write('{"event":"ready","level":"info","url":"http://127.0.0.1:1"}\n'),
      end: () => process.exit(0),
      leavePort: () => {},
      reload: () => {},
      metrics: () => '',
      ledgerState: () => {},
      notice: () => {},
      answer: async () => '{}',
      followLive: () => {},
      liveEvents: () => {},
    },
  )
}

if (process.argv[1] === import.meta.filename) {
  const { env } = process
  const mark = env[WORKER_VARIABLE]
  if (mark !== undefined) serveNothing(mark)
  else supervise({ program: HANGING, args: [], env, workers: 2, watch: WATCH })
}
