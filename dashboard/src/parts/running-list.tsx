/** Requests in progress: target, key, attempt and age of each. */
import type { OngoingAttempt } from '../../../src/usage/reading/queries.ts'
import { age, count } from '../format.ts'
import type { RunningRequest } from '../running.ts'
import { now } from '../store.ts'
import { requests as w } from '../words/requests.ts'
import { RequestLink } from './request-link.tsx'

/** Requests that are shown. */
const MOST = 6

export const ageOf = ({ started_at }: Pick<OngoingAttempt, 'started_at'>): string =>
  age(Math.max(0, now.value - Date.parse(started_at)))

export const RunningList = ({
  running,
  total,
}: {
  readonly running: readonly RunningRequest[]
  readonly total: number
}) => (
  <>
    <ul class="running">
      {running.slice(0, MOST).map((one) => (
        <li key={one.request}>
          <span class="running-target">
            <RequestLink id={one.request}>
              {one.provider}/{one.model}
            </RequestLink>
            <span class="dim small">
              {' '}
              {one.key?.name ?? one.key?.id ?? w.noKey}
              {one.output_tokens !== null && `, ${w.running.tokens(one.output_tokens)}`}
              {one.n > 0 && `, ${w.running.attempt(one.n + 1)}`}
            </span>
          </span>
          <span class="num end">{ageOf(one)}</span>
        </li>
      ))}
    </ul>
    {total > MOST && <p class="dim small">{w.running.more(count(total - MOST))}</p>}
  </>
)
