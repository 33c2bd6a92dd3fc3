/** A small course of values, as inline SVG with a text twin. */
import { linePaths } from './chart-scale.ts'

export type SparklineProps = {
  /** From old to new; null is a gap. */
  readonly values: readonly (number | null)[]
  /** What it shows in one sentence. */
  readonly text: string
  readonly kind?: 'line' | 'bars'
  readonly width?: number
  readonly height?: number
}

type ShapeProps = Required<Pick<SparklineProps, 'values' | 'width' | 'height'>>

const Line = ({ values, width, height }: ShapeProps) => {
  const most = Math.max(...values.map((value) => value ?? 0), 1e-9)
  const step = width / Math.max(1, values.length - 1)
  const { line, points } = linePaths(
    values,
    (at) => at * step,
    (value) => height - 2 - (value / most) * (height - 4),
  )
  return (
    <>
      <path d={line} />
      <path class="points" d={points} />
    </>
  )
}

const Bars = ({ values, width, height }: ShapeProps) => {
  const most = Math.max(...values.map((value) => value ?? 0), 1e-9)
  const step = width / Math.max(1, values.length)
  return (
    <>
      {values.map((value, at) => {
        const size = value === null ? 0 : Math.max(value > 0 ? 1 : 0, (value / most) * height)
        return <rect key={at} x={at * step} y={height - size} width={Math.max(0.5, step - 1)} height={size} />
      })}
    </>
  )
}

export const Sparkline = ({ values, text, kind = 'line', width = 120, height = 24 }: SparklineProps) => (
  <svg
    class={`sparkline ${kind}`}
    viewBox={`0 0 ${width} ${height}`}
    role="img"
    aria-label={text}
    preserveAspectRatio="none"
  >
    {kind === 'line' ? (
      <Line values={values} width={width} height={height} />
    ) : (
      <Bars values={values} width={width} height={height} />
    )}
  </svg>
)
