/** A figure with its label, change and course. */
import type { ComponentChild } from 'preact'
import { count, percent } from '../format.ts'
import { en } from '../words/en.ts'

/** A change against the period before. `ratio`: 0.06 is 6 % more. `good`: the direction that is an improvement. */
export type FigureChange = { readonly ratio: number; readonly good: 'up' | 'down' | 'neither' }

export type FigureProps = {
  readonly label: string
  readonly value: ComponentChild
  /** Beside the value: a unit or a limit. */
  readonly unit?: string
  readonly change?: FigureChange | null
  /** Below the value: a note, or a sparkline. */
  readonly children?: ComponentChild
  /** The list behind the figure. */
  readonly href?: string
}

/** The change from which it is a factor. */
const MOST = 10

/** `▲6 %`, and `up 6 percent` for screen readers. */
export const Change = ({ ratio, good }: FigureChange) => {
  if (Math.abs(ratio) < 0.001) return null
  const direction = ratio > 0 ? 'up' : 'down'
  const tone = good === 'neither' ? 'dim' : good === direction ? 'ok' : 'bad'
  // More than tenfold is shown as a factor, since 8,087.5 % is hard to read.
  const text = ratio >= MOST ? `×${count(ratio + 1)}` : percent(Math.abs(ratio))
  return (
    <span class={`change ${tone}`}>
      <span aria-hidden="true">
        {direction === 'up' ? '▲' : '▼'}
        {text}
      </span>
      <span class="sr-only">{en.figure[direction](text)}</span>
    </span>
  )
}

export const Figure = ({ label, value, unit, change, children, href }: FigureProps) => (
  <div class="figure">
    <p class="figure-label">{href === undefined ? label : <a href={href}>{label}</a>}</p>
    <p class="figure-value num">
      {value}
      {unit !== undefined && <span class="figure-unit">{unit}</span>}
      {change && <Change {...change} />}
    </p>
    {children}
  </div>
)
