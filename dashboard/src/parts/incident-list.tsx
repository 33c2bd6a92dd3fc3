/** The outages of a provider in the range of the page, one line each. */
import { read, useResource } from '../api.ts'
import { clock, duration, fullTime } from '../format.ts'
import { everyUnlessHeld, useReloadOn } from '../live.ts'
import { EVERY, rangeKey, rangeQuery } from '../provider-data.ts'
import { providerWords as words } from '../words/providers.ts'
import { RequestLink } from './request-link.tsx'

type ListedIncident = {
  readonly id: string
  readonly nodes: readonly string[]
  readonly models: readonly string[]
  readonly begin: string
  readonly end: string | null
  readonly seconds: number
  readonly cause: string
  readonly request: string | null
  readonly failures: number
  readonly rerouted: number
  readonly lost: number
}

export const IncidentList = ({ provider }: { readonly provider: string }) => {
  const { value, reload } = useResource(
    `incidents ${provider} ${rangeKey()}`,
    () => read<{ readonly data: readonly ListedIncident[] }>('/incidents', { ...rangeQuery(), provider, limit: 20 }),
    { every: everyUnlessHeld(EVERY) },
  )
  useReloadOn(['circuits'], reload, 1_000)
  if (!value || value.data.length === 0) return <p class="dim">{words.detail.noIncidents}</p>
  return (
    <ul class="change-list">
      {value.data.map(({ id, models, begin, end, seconds, cause, request, nodes, ...figures }) => (
        <li key={id}>
          <span class="num small dim" title={fullTime(Date.parse(begin))}>
            {clock(Date.parse(begin))}
          </span>
          <span class={end === null ? 'bad' : 'dim'} aria-hidden="true">
            ◆
          </span>
          <span class="change-text">
            {words.detail.incident(end === null ? null : clock(Date.parse(end)), duration(seconds * 1_000))}
            <span class="dim">
              {' '}
              – {[cause.replaceAll('_', ' '), ...models].join(', ')} · {words.detail.incidentFigures(figures)}
              {nodes.some((node) => node !== 'local') && ` · ${nodes.join(', ')}`}
            </span>
            {request !== null && (
              <>
                {' '}
                <RequestLink id={request}>{words.detail.cause}</RequestLink>
              </>
            )}
          </span>
        </li>
      ))}
    </ul>
  )
}
