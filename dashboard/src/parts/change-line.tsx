/** One change of `/changes` as a line of a list. */
import { changeDetail, changeShape, changeTitle } from '../change-text.ts'
import { clock, minute, moment } from '../format.ts'
import type { ListedChange } from '../provider-row.ts'
import { now } from '../store.ts'
import { providerWords as words } from '../words/providers.ts'
import { RequestLink } from './request-link.tsx'
import { Time } from './states.tsx'

const isToday = (at: number): boolean => new Date(at).toDateString() === new Date(now.value).toDateString()

/** A change with its time, what it was, why, and the request that caused it. */
export const ChangeLine = ({
  change,
  isLong = false,
}: {
  readonly change: ListedChange
  readonly isLong?: boolean
}) => {
  const [shape, tone] = changeShape(change)
  const at = Date.parse(change.at)
  const detail = changeDetail(change)
  return (
    <li>
      <span class="num small dim">
        <Time at={change.at}>{!isLong ? clock(at) : isToday(at) ? minute(at) : moment(at)}</Time>
      </span>
      <span class={tone} aria-hidden="true">
        {shape}
      </span>
      <span class="change-text">
        {changeTitle(change)}
        {detail !== '' && <span class="dim"> – {detail}</span>}
        {change.request !== null && (
          <>
            {' '}
            <RequestLink id={change.request}>{words.detail.cause}</RequestLink>
          </>
        )}
      </span>
    </li>
  )
}
