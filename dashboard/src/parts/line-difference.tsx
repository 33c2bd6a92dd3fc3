/** The lines of two texts around what was removed and what was added. */
import { useMemo } from 'preact/hooks'
import { aroundChanges, difference } from '../../../src/core/difference.ts'
import { en } from '../words/en.ts'

const MARKS = { same: ' ', added: '+', removed: '−' } as const
/** Lines that are shown. */
const MOST = 1_000

type LineDifferenceProps = { readonly label: string; readonly before: string; readonly after: string }

export const LineDifference = ({ label, before, after }: LineDifferenceProps) => {
  const lines = useMemo(() => aroundChanges(difference(before.split('\n'), after.split('\n'))), [before, after])
  const shown = lines.length > MOST ? [...lines.slice(0, MOST), null] : lines
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls is reached with the keyboard
    <section class="code line-difference" tabIndex={0} aria-label={label}>
      {shown.map((line, at) =>
        line === null ? (
          <div key={at} class="dim">
            …
          </div>
        ) : (
          <div key={at} class={`line-${line.is}`}>
            <span aria-hidden="true">{MARKS[line.is]} </span>
            {line.is !== 'same' && <span class="sr-only">{en.states[line.is]} </span>}
            {line.text}
          </div>
        ),
      )}
    </section>
  )
}
