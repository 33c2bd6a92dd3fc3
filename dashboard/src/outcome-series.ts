/** Requests over time by what became of them, as series of a chart (`ChartSeries` of parts/chart.tsx). Pure. */
import type { OutcomeCounts } from '../../src/usage/reading/queries.ts'
import { requests as w } from './words/requests.ts'

/**
 * Requests that were not answered: failed by the gateway (5xx, broken off), refused (4xx and limits), left by the client.
 * Refusals whose status was not counted are unknown.
 */
export const notAnswered = ({ refused, failed, interrupted, client_gone, unknown }: OutcomeCounts) => ({
  failed: (failed ?? 0) + interrupted,
  refused: failed === null ? 0 : refused - failed,
  left: client_gone,
  unknown: unknown + (failed === null ? refused : 0),
})

export const outcomeSeries = (data: readonly OutcomeCounts[]) => {
  const fellBack = data.map(({ fell_back }) => fell_back ?? 0)
  const cached = data.map((one) => one.cached ?? 0)
  const answered = data.map((one, at) => Math.max(0, one.answered - (fellBack[at] ?? 0) - (cached[at] ?? 0)))
  const others = data.map(notAnswered)
  return [
    { id: 'answered', label: w.results.answered, tone: 'series-1', pattern: 'plain', values: answered },
    { id: 'fell-back', label: w.results.fell_back, tone: 'warn', pattern: 'lines', values: fellBack },
    { id: 'cached', label: w.results.cached, tone: 'series-3', pattern: 'dots', values: cached },
    {
      id: 'failed',
      label: w.results.failed,
      tone: 'failed',
      pattern: 'cross',
      values: others.map((one) => one.failed),
    },
    {
      id: 'refused',
      label: w.results.refused,
      tone: 'refused',
      pattern: 'back',
      values: others.map((one) => one.refused),
    },
    { id: 'left', label: w.results.client_left, tone: 'left', pattern: 'empty', values: others.map((one) => one.left) },
    {
      id: 'other',
      label: w.results.unknown,
      tone: 'series-2',
      pattern: 'rows',
      values: others.map((one) => one.unknown),
    },
  ] as const
}
