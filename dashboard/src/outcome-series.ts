/** Requests over time by what became of them, as series of a chart (`ChartSeries` of parts/chart.tsx). Pure. */
import type { OutcomeCounts } from '../../src/usage/reading/queries.ts'
import { requests as w } from './words/requests.ts'

export const outcomeSeries = (data: readonly OutcomeCounts[]) => {
  const fellBack = data.map(({ fell_back }) => fell_back ?? 0)
  const cached = data.map((one) => one.cached ?? 0)
  const answered = data.map((one, at) => Math.max(0, one.answered - (fellBack[at] ?? 0) - (cached[at] ?? 0)))
  return [
    { id: 'answered', label: w.results.answered, tone: 'series-1', pattern: 'plain', values: answered },
    { id: 'fell-back', label: w.results.fell_back, tone: 'warn', pattern: 'lines', values: fellBack },
    { id: 'cached', label: w.results.cached, tone: 'probe', pattern: 'dots', values: cached },
    { id: 'failed', label: w.seriesFailed, tone: 'bad', pattern: 'cross', values: data.map(({ refused }) => refused) },
    {
      id: 'other',
      label: w.seriesOther,
      tone: 'series-2',
      pattern: 'dots',
      values: data.map(({ interrupted, unknown }) => interrupted + unknown),
    },
    { id: 'left', label: w.seriesLeft, tone: 'series-6', pattern: 'empty', values: data.map((one) => one.client_gone) },
  ] as const
}
