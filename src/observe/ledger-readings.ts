/** Readings for the metrics page of how well usage and bodies are stored, and usage exported. */
import type { RouteReport } from '../policy/drill/report.ts'
import type { Reading } from './registry.ts'

type StorageState = {
  /** Records that could not be written. */
  readonly dropped: number
  /** Requests whose bodies could not be kept. */
  readonly lostBodies: number
}

/** What each process knows of its own records. */
export const ledgerReadings = ({ dropped, lostBodies }: StorageState): Reading[] => [
  {
    name: 'ledger_dropped_total',
    help: 'Usage records dropped because the journal could not be written.',
    labels: {},
    value: dropped,
    kind: 'counter',
  },
  {
    name: 'bodies_lost_total',
    help: 'Requests whose bodies were lost because memory or disk had no room, or the disk failed.',
    labels: {},
    value: lostBodies,
    kind: 'counter',
  },
]

type BookkeeperState = {
  /** Rows added. */
  readonly requests: number
  readonly attempts: number
  /** Age in ms of the oldest record that is not stored. */
  readonly lagMs: number
  readonly journalBytes: number
  readonly telemetry: TelemetryFigures
}

/** By signal. */
type TelemetryFigures = {
  readonly [signal: string]: {
    readonly exported: number
    readonly dropped: Readonly<Record<string, number>>
    readonly waiting: number
  }
}

const ROWS = 'Rows added to the usage database since the start of its thread.'

/** What the process that stores the journals of all of them knows. */
export const bookkeeperReadings = ({
  lagMs,
  journalBytes,
  requests,
  attempts,
  telemetry,
}: BookkeeperState): Reading[] => [
  {
    name: 'ledger_lag_seconds',
    help: 'Age of the oldest usage record that is not in the database; 0: all are.',
    labels: {},
    value: lagMs / 1000,
  },
  { name: 'ledger_journal_bytes', help: 'Size of the usage journal on the disk.', labels: {}, value: journalBytes },
  { name: 'ledger_rows_total', help: ROWS, labels: { table: 'request' }, value: requests, kind: 'counter' },
  { name: 'ledger_rows_total', help: ROWS, labels: { table: 'attempt' }, value: attempts, kind: 'counter' },
  ...Object.entries(telemetry).flatMap(([signal, figures]) => signalReadings(signal, figures)),
]

const DROPPED =
  'Items of telemetry that were dropped: too many waited (`full`), the receiver refused them, or failed, or the process ended.'

const signalReadings = (signal: string, { exported, dropped, waiting }: TelemetryFigures[string]): Reading[] => [
  {
    name: 'otlp_exported_total',
    help: 'Items of telemetry that the receiver accepted.',
    labels: { signal },
    value: exported,
    kind: 'counter',
  },
  { name: 'otlp_waiting', help: 'Items of telemetry that wait for the receiver.', labels: { signal }, value: waiting },
  ...Object.entries(dropped).map(
    ([why, value]): Reading => ({
      name: 'otlp_dropped_total',
      help: DROPPED,
      labels: { signal, why },
      value,
      kind: 'counter',
    }),
  ),
]

type ExportFacts = {
  /** Age in ms of the newest usage that is exported; null: not known. */
  readonly lagMs: number | null
  readonly rows: number
  readonly objects: number
  readonly failures: number
}

/** What the gateway that exports usage knows. */
export const exportReadings = ({ lagMs, rows, objects, failures }: ExportFacts): Reading[] => [
  ...(lagMs === null
    ? []
    : [
        {
          name: 'export_lag_seconds',
          help: 'Time since the end of the usage that is exported.',
          labels: {},
          value: lagMs / 1000,
        },
      ]),
  { name: 'export_rows_total', help: 'Rows of usage exported.', labels: {}, value: rows, kind: 'counter' },
  { name: 'export_objects_total', help: 'Objects of usage written.', labels: {}, value: objects, kind: 'counter' },
  {
    name: 'export_failures_total',
    help: 'Failed tries to export usage; each is repeated.',
    labels: {},
    value: failures,
    kind: 'counter',
  },
]

/** Series of the drill, of routes and units with losses. */
const MOST_LOSSES = 500

/** What the last drill has found. */
export const drillReadings = (routes: readonly RouteReport[]): Reading[] =>
  routes
    .flatMap(({ route, units }) =>
      units.flatMap(({ unit, lost }): Reading[] =>
        lost === null
          ? []
          : [
              {
                name: 'drill_lost_ratio',
                help: 'Share of the requests of a route that no target would serve if this provider, model, key or region failed.',
                labels: { route, unit },
                value: lost,
              },
            ],
      ),
    )
    .slice(0, MOST_LOSSES)
