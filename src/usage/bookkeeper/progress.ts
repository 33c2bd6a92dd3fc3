import type { TelemetryState } from '../../observe/otlp/telemetry-options.ts'

/** How far the bookkeeper has come, since the start of its thread. */
export type BookkeeperProgress = {
  /** Records stored. */
  readonly records: number
  /** Records ignored because their attempt is unknown or closed. */
  readonly orphans: number
  /** Rows of requests and attempts added. */
  readonly requests: number
  readonly attempts: number
  /** Age in ms of the oldest record that is not stored; 0: everything is stored. */
  readonly lagMs: number
  /** Size of the journal of all processes in bytes. */
  readonly journalBytes: number
  /** Time of each transaction since the last report, in ms. */
  readonly commits: readonly number[]
  /** What was exported of each signal; without members: none is. */
  readonly telemetry: TelemetryState
}

/** Its operation in `headgate_store_seconds`. */
export const COMMIT = 'commit'

export const NO_PROGRESS: BookkeeperProgress = {
  records: 0,
  orphans: 0,
  requests: 0,
  attempts: 0,
  lagMs: 0,
  journalBytes: 0,
  commits: [],
  telemetry: {},
}

/** Whether there is nothing to report. */
export const isSameProgress = (one: BookkeeperProgress, other: BookkeeperProgress): boolean =>
  one.commits.length === 0 &&
  one.records === other.records &&
  one.orphans === other.orphans &&
  one.requests === other.requests &&
  one.attempts === other.attempts &&
  one.lagMs === other.lagMs &&
  one.journalBytes === other.journalBytes &&
  JSON.stringify(one.telemetry) === JSON.stringify(other.telemetry)
