/**
 * Run directly: the supervisor with two workers that serve nothing, answer it through their seats, and loop for ever on
 * SIGUSR2. It is as patient with them as with real ones, but in other times.
 */
import { takeSeat } from '../../../src/edge/workers/seat.ts'
import { supervise } from '../../../src/edge/workers/supervise.ts'
import { MARK } from '../../../src/edge/workers/wanted.ts'

/** For `start`. */
export const HANGING = import.meta.filename

/** ms between two signs of life. */
export const EVERY = 500
const MISSES = 6
/** ms that a worker may be silent: a busy machine has one wait for seconds. */
export const PATIENCE = EVERY * MISSES

const serveNothing = (mark: string) => {
  process.on('SIGUSR2', () => {
    for (;;);
  })
  takeSeat(mark).listening(
    { port: 1, host: undefined, logLevel: 'info', logFormat: 'json', grace: 0 },
    {
      announce: () => void process.stdout.write('{"event":"ready","level":"info","url":"http://127.0.0.1:1"}\n'),
      end: () => process.exit(0),
      reload: () => {},
      metrics: () => '',
      cancel: () => {},
    },
  )
}

if (process.argv[1] === import.meta.filename) {
  const { env } = process
  const mark = env[MARK]
  if (mark !== undefined) serveNothing(mark)
  else supervise({ program: HANGING, args: [], env, workers: 2, watch: { every: EVERY, misses: MISSES } })
}
