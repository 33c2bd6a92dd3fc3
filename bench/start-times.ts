/** The row of starts: measured by bench/start.ts. */
import type { Outcome } from './conduct.ts'

export const startTimes = async (_rounds: number, _say: (line: string) => void): Promise<Outcome> => ({
  rounds: [],
  skipped: 'bench/start.ts is not here',
})
