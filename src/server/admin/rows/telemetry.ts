/** The export of telemetry. */
import { bad, fail, good } from '../../../core/failure.ts'
import type { ExportedSignal } from '../../../observe/otlp/telemetry-options.ts'
import { TELEMETRY } from '../../answers/telemetry.ts'
import { row } from '../row.ts'

const timeOf = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString())

const shownSignal = ({ signal, receiver, state }: ExportedSignal) => ({
  signal,
  receiver,
  exported: state.exported,
  dropped: { ...state.dropped },
  waiting: state.waiting,
  waiting_bytes: state.waitingBytes,
  exported_at: timeOf(state.exportedAt),
  error: state.error,
  error_at: timeOf(state.errorAt),
})

const SILENT = fail(
  'storage',
  'The process that exports telemetry does not answer. Its state is at /metrics too (headgate_otlp_…).',
  { retryAfter: 2_000 },
)

export const telemetryRows = [
  row({
    method: 'GET',
    path: '/telemetry',
    summary: 'Show what is exported by OTLP, and what is lost',
    about: 'Of this gateway, with all its workers. Other gateways have their own receivers and state.',
    role: 'viewer',
    scope: 'all',
    answer: TELEMETRY,
    example: {
      answer: {
        object: 'telemetry',
        data: [
          {
            signal: 'traces',
            receiver: 'collector:4318',
            exported: 4_096,
            dropped: { full: 0, refused: 0, failed: 512, closed: 0, malformed: 0 },
            waiting: 12,
            waiting_bytes: 14_000,
            exported_at: '2026-11-23T10:00:00.000Z',
            error: null,
            error_at: '2026-11-23T09:58:00.000Z',
          },
        ],
      },
    },
    async handle({ ledger }) {
      const signals = await ledger.telemetry()
      return signals ? good({ body: { object: 'telemetry' as const, data: signals.map(shownSignal) } }) : bad(SILENT)
    },
  }),
]
