/** The chart above the list of requests, which is loaded beside the list. */
import type { OutcomeHistogram } from '../../../../src/usage/reading/queries.ts'
import { count } from '../../format.ts'
import { useBands } from '../../incidents.ts'
import { useMarks } from '../../marks.ts'
import { outcomeSeries } from '../../outcome-series.ts'
import { Bars } from '../../parts/chart.tsx'
import { requests as w } from '../../words/requests.ts'

const sum = (values: readonly (number | null)[]): number =>
  values.reduce<number>((total, value) => total + (value ?? 0), 0)

const Chart = ({ histogram }: { readonly histogram: OutcomeHistogram }) => {
  const marks = useMarks()
  const bands = useBands()
  const all = outcomeSeries(histogram.data)
  const [answered] = all
  // Series without values need no place in the legend, but for the first.
  const series = all.filter((one) => one === answered || sum(one.values) > 0)
  const total = all.reduce((sums, { values }) => sums + sum(values), 0)
  const lost = (name: string) => sum(all.find(({ id }) => id === name)?.values ?? [])
  return (
    <Bars
      title={w.histogram}
      summary={w.histogramSummary(w.count(total), {
        failed: lost('failed'),
        refused: lost('refused'),
        left: lost('left'),
      })}
      times={histogram.data.map(({ start }) => Date.parse(start))}
      interval={histogram.seconds * 1_000}
      series={series}
      format={count}
      marks={marks}
      bands={bands}
      height={56}
    />
  )
}

export type HistogramProps = {
  /** Undefined: not read yet, or without requests. */
  readonly histogram: OutcomeHistogram | undefined
}

export const Histogram = ({ histogram }: HistogramProps) => histogram && <Chart histogram={histogram} />
