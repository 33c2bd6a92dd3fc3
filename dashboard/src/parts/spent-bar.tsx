/** How much of a budget is spent, with marks at its alerts. */

export type SpentBarProps = {
  /** 0.92 is 92 %. */
  readonly share: number
  /** Such as `Budget dev: 92 % spent`. */
  readonly label: string
  /** Percentages with an alert. */
  readonly alerts?: readonly number[]
  /** It is a part of a whole and no budget: it does not warn. */
  readonly isPart?: boolean
}

/** Shares from which the bar warns, and is spent. */
const LEVELS = { warn: 0.8, bad: 1 }
const WIDTH = 100

export const SpentBar = ({ share, label, alerts = [], isPart = false }: SpentBarProps) => {
  const tone = isPart ? 'accent' : share >= LEVELS.bad ? 'bad' : share >= LEVELS.warn ? 'warn' : 'accent'
  return (
    <svg
      class={`spent tone-${tone}`}
      viewBox={`0 0 ${WIDTH} 8`}
      role="img"
      aria-label={label}
      preserveAspectRatio="none"
    >
      <rect class="spent-track" width={WIDTH} height="8" rx="2" />
      <rect class="spent-part" width={Math.max(share > 0 ? 1 : 0, Math.min(1, share) * WIDTH)} height="8" rx="2" />
      {alerts
        .filter((at) => at < 100)
        .map((at) => (
          <path key={at} class="spent-alert" d={`M${at} 0V8`} />
        ))}
    </svg>
  )
}
