/** The incidents of this process: their log lines, and their records in the journal. */
import type { Incident } from '../core/incident.ts'
import { endpointId, proxyId } from '../core/target.ts'
import type { World } from '../core/world.ts'
import { randomLetters } from '../gateway/call/ids.ts'
import { IncidentLog } from '../observe/live/incident-log.ts'
import type { Log } from '../observe/log.ts'
import type { Runtime } from './runtime.ts'

export const openIncidents = (
  { current, ledger, log }: Pick<Runtime, 'current' | 'ledger' | 'log'>,
  { date, later, random }: Pick<World, 'date' | 'later' | 'random'>,
): IncidentLog =>
  new IncidentLog({
    date,
    later,
    letters: () => randomLetters({ random }, 6),
    providers: () => current.config.instances.map(({ id }) => id),
    sharing: (place) =>
      current.config.instances.filter((one) => [endpointId(one), proxyId(one)].includes(place)).map(({ id }) => id),
    report: (incident) => logIncident(log, incident),
    store: (incident) => {
      if (current.config.settings.usage.ledger) ledger.append({ type: 'incident', at: date(), incident })
    },
  })

const logIncident = (log: Log, incident: Incident): void => {
  const { id, providers, models, base_url, begin, end, ended_by, cause, request, failures, rerouted, lost } = incident
  const what = { id, providers, models, base_url: base_url ?? undefined, cause, request: request ?? undefined }
  if (end === null) log.warn('incident', { status: 'begin', ...what })
  else log.info('incident', { status: 'end', ...what, ms: end - begin, ended_by, failures, rerouted, lost })
}
