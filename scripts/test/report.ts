/** Counts outcomes and writes them: progress while tests run, then skips by reason, failures and the counts. */
import type { Listener, Outcome } from './outcomes.ts'

export type Report = {
  readonly emit: Listener
  readonly counts: { passed: number; failed: number; skipped: number }
  /** Durations of the files that ended (s). */
  readonly times: ReadonlyMap<string, number>
  /** Files with a failed test. */
  readonly failed: () => readonly string[]
  /** Before a file runs again: its outcomes so far no longer count. */
  readonly again: (file: string) => void
  /** After it: a test that failed before and has not passed since counts as failed again; the summary names the others. */
  readonly settle: () => void
  /** Writes a line, and clears the progress line first. */
  readonly log: (line: string) => void
  /** Tests that failed and passed when repeated: each is a defect of the test or of the gateway. */
  readonly flaky: () => number
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

const nameOf = (outcome: Outcome): string => (outcome.kind === 'file' ? '' : outcome.name)

type Failure = Extract<Outcome, { readonly kind: 'failed' }>

const describe = ({ file, name, error }: Failure, most: number, indent = ''): string =>
  [`✗ ${file}: ${name}`, ...error.split('\n', most).map((line) => indent + line)].join('\n')

/** Starts a report. `total`: the number of files. */
export const startReport = (total: number, { write, isTerminal, now }: Terminal): Report => {
  const begun = now()
  const counts = { passed: 0, failed: 0, skipped: 0 }
  const times = new Map<string, number>()
  const outcomes = new Map<string, Outcome[]>()
  const repeated: Failure[] = []
  const unstable: Failure[] = []

  const log = (line: string) => write(`${isTerminal ? ERASE : ''}${line}\n`)
  const progress = () => {
    const failed = counts.failed > 0 ? `, ${counts.failed} failed` : ''
    const line = `${times.size} of ${total} files, ${counts.passed} passed${failed}, ${Math.round((now() - begun) / 1_000)} s`
    if (isTerminal) write(`${ERASE}${line}`)
    else write(`  ${line}\n`)
  }
  const timer = total > 0 ? setInterval(progress, isTerminal ? INTERVALS.terminal : INTERVALS.lines) : undefined
  timer?.unref()

  const emit = (outcome: Outcome) => {
    if (outcome.kind === 'file' && !times.has(outcome.file)) times.set(outcome.file, outcome.seconds)
    if (outcome.kind !== 'file') counts[outcome.kind]++
    const known = outcomes.get(outcome.file)
    if (known) known.push(outcome)
    else outcomes.set(outcome.file, [outcome])
    if (outcome.kind === 'failed') log(describe(outcome, LINES.atOnce, '  '))
  }
  const all = (): readonly Outcome[] => [...outcomes.values()].flat()
  const failures = () => all().filter((outcome) => outcome.kind === 'failed')
  const failed = () => [...new Set(failures().map(({ file }) => file))]

  return {
    counts,
    times,
    log,
    failed,
    again(file) {
      const before = outcomes.get(file) ?? []
      outcomes.delete(file)
      for (const outcome of before) if (outcome.kind !== 'file') counts[outcome.kind]--
      repeated.push(...before.filter((outcome) => outcome.kind === 'failed'))
    },
    settle() {
      for (const failure of repeated) {
        const now = outcomes.get(failure.file) ?? []
        const isOf = (kind: Outcome['kind']) =>
          now.some((outcome) => outcome.kind === kind && (failure.isWhole || nameOf(outcome) === failure.name))
        if (isOf('failed')) continue
        if (isOf('passed')) unstable.push(failure)
        else emit(failure)
      }
    },
    emit,
    flaky: () => unstable.length,
    summary() {
      const skips = new Map<string, number>()
      for (const outcome of all())
        if (outcome.kind === 'skipped') skips.set(outcome.reason, (skips.get(outcome.reason) ?? 0) + 1)
      return [
        ...failures().map((one) => `\n${describe(one, LINES.summary)}\n  repeat: npm test -- ${one.file}\n`),
        ...unstable.map(
          (one) =>
            `\n✗ DEFECT, flaky: failed, and passed when its file ran again alone:\n${describe(one, LINES.summary, '  ')}\n  repeat: npm test -- ${one.file}\n`,
        ),
        ...[...skips]
          .sort(([, a], [, b]) => b - a)
          .map(([reason, count]) => `- skipped ${count} ${count === 1 ? 'test' : 'tests'}: ${reason}`),
      ]
    },
    done() {
      clearInterval(timer)
      if (isTerminal) write(ERASE)
    },
  }
}
