/** Outages of providers, one line each. */
import { duration, fullTime, minute, moment } from '../format.ts'
import { type ListedIncident, useIncidents } from '../incidents.ts'
import { now } from '../store.ts'
import { kindText, providerWords as words } from '../words/providers.ts'
import { RequestLink } from './request-link.tsx'

/** The time of an incident, with its day unless that is today. */
const timeText = (at: number): string =>
  new Date(at).toDateString() === new Date(now.value).toDateString() ? minute(at) : moment(at)

const Incident = ({ incident, isOfAll }: { readonly incident: ListedIncident; readonly isOfAll: boolean }) => {
  const { providers, models, begin, end, seconds, cause, request, nodes } = incident
  const [from, to] = [Date.parse(begin), end === null ? null : Date.parse(end)]
  return (
    <li>
      <span class={end === null ? 'bad' : 'dim'} aria-hidden="true">
        ◆
      </span>
      <span class="change-text" title={fullTime(from)}>
        {isOfAll && <b>{providers.join(', ')} </b>}
        {words.detail.incident(timeText(from), to === null ? null : minute(to), duration(seconds * 1_000))}
        <span class="dim">
          {' '}
          – {[kindText(cause, null), ...models].join(', ')} · {words.detail.incidentFigures(incident)}
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
  )
}

/** `isOfAll`: of several providers, so each line names its own. */
export const IncidentLines = ({
  incidents,
  isOfAll = false,
}: {
  readonly incidents: readonly ListedIncident[]
  readonly isOfAll?: boolean
}) => (
  <ul class="incident-list">
    {incidents.map((incident) => (
      <Incident key={incident.id} incident={incident} isOfAll={isOfAll} />
    ))}
  </ul>
)

/** Those of a provider in the range of the page; null: of all. */
export const IncidentList = ({ provider }: { readonly provider: string | null }) => {
  const incidents = useIncidents(provider)
  return incidents?.length ? (
    <IncidentLines incidents={incidents} isOfAll={provider === null} />
  ) : (
    <p class="dim">{words.detail.noIncidents}</p>
  )
}
