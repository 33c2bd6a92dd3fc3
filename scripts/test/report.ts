/** Counts outcomes and writes them: progress while tests run, then skips by reason, failures and the counts. */
import type { Listener } from './outcomes.ts'

export type Report = {
  readonly emit: Listener
  readonly counts: { passed: number; failed: number; skipped: number }
  /** Durations of the files that ended (s). */
  readonly times: ReadonlyMap<string, number>
  /** Writes a line, and clears the progress line first. */
  readonly log: (line: string) => void
  /** The lines at the end, without the counts. */
  readonly summary: () => readonly string[]
  readonly done: () => void
}

/** Where lines go, and the clock (ms). */
export type Terminal = {
  readonly write: (text: string) => void
  readonly isTerminal: boolean
  readonly now: () => number
}

/** Progress interval (ms): a terminal shows one line that is rewritten; a log gets a line every 10 s. */
const INTERVALS = { terminal: 250, lines: 10_000 }
/** Lines of an error that are written: when its test has failed, and at the end. */
const LINES = { atOnce: 8, summary: 30 }
const ERASE = '\r\x1b[2K'

/** Starts a report. `total`: the number of files. */
export const startReport = (total: number, { write, isTerminal, now }: Terminal): Report => {
  const begun = now()
  const counts = { passed: 0, failed: 0, skipped: 0 }
  const times = new Map<string, number>()
  const skips = new Map<string, number>()
  const failures: string[] = []

  const log = (line: string) => write(`${isTerminal ? ERASE : ''}${line}\n`)
  const progress = () => {
    const failed = counts.failed > 0 ? `, ${counts.failed} failed` : ''
    const line = `${times.size} of ${total} files, ${counts.passed} passed${failed}, ${Math.round((now() - begun) / 1_000)} s`
    if (isTerminal) write(`${ERASE}${line}`)
    else write(`  ${line}\n`)
  }
  const timer = total > 0 ? setInterval(progress, isTerminal ? INTERVALS.terminal : INTERVALS.lines) : undefined
  timer?.unref()

  return {
    counts,
    times,
    log,
    emit(outcome) {
      if (outcome.kind === 'file') times.set(outcome.file, outcome.seconds)
      else counts[outcome.kind]++
      if (outcome.kind === 'skipped') skips.set(outcome.reason, (skips.get(outcome.reason) ?? 0) + 1)
      if (outcome.kind !== 'failed') return
      const title = `✗ ${outcome.file}: ${outcome.name}`
      const lines = outcome.error.split('\n')
      failures.push(`${title}\n${lines.slice(0, LINES.summary).join('\n')}\n  repeat: npm test -- ${outcome.file}\n`)
      log([title, ...lines.slice(0, LINES.atOnce).map((line) => `  ${line}`)].join('\n'))
    },
    summary: () => [
      ...failures.map((failure) => `\n${failure}`),
      ...[...skips]
        .sort(([, a], [, b]) => b - a)
        .map(([reason, count]) => `- skipped ${count} ${count === 1 ? 'test' : 'tests'}: ${reason}`),
    ],
    done() {
      clearInterval(timer)
      if (isTerminal) write(ERASE)
    },
  }
}
