/** The incidents of this process: their log lines, and their file. */
import { endpointId, proxyId } from '../core/target.ts'
import type { World } from '../core/world.ts'
import type { Incident } from '../observe/live/incident.ts'
import { incidentWriter, readIncidents } from '../observe/live/incident-file.ts'
import { IncidentLog } from '../observe/live/incident-log.ts'
import type { Log } from '../observe/log.ts'
import type { Incidents, Runtime } from './runtime.ts'

export const openIncidents = async (
  { current, log, worker }: Pick<Runtime, 'current' | 'log' | 'worker'>,
  { date, later }: Pick<World, 'date' | 'later'>,
): Promise<Incidents> => {
  const folder = () => current.config.settings.data.dir
  const writer = incidentWriter(folder, worker?.number, (reason) =>
    log.warn('incident', {
      message: `Incidents cannot be stored in the data folder (data.dir, DATA_DIR): ${reason}. They are lost with the process.`,
    }),
  )
  const incidents = new IncidentLog({
    date,
    later,
    providers: () => current.config.instances.map(({ id }) => id),
    sharing: (place) =>
      current.config.instances.filter((one) => [endpointId(one), proxyId(one)].includes(place)).map(({ id }) => id),
    report: (incident) => logIncident(log, incident),
    changed: writer.write,
    earlier: await readIncidents(folder(), worker?.number),
  })
  return {
    log: incidents,
    async stop() {
      incidents.stop()
      await writer.done()
    },
  }
}

const logIncident = (log: Log, incident: Incident): void => {
  const { id, providers, models, base_url, begin, end, ended_by, cause, request, failures, rerouted, lost } = incident
  const what = { id, providers, models, base_url: base_url ?? undefined, cause, request: request ?? undefined }
  if (end === null) log.warn('incident', { status: 'begin', ...what })
  else log.info('incident', { status: 'end', ...what, ms: end - begin, ended_by, failures, rerouted, lost })
}
