import { bad, good } from '../../../core/failure.ts'
import type { Incident, NodeIncident } from '../../../core/incident.ts'
import { mergeIncidents } from '../../../observe/live/incident.ts'
import { INCIDENTS_PARAMETERS, rangeOf } from '../../../usage/reading/parameters.ts'
import { INCIDENTS_PAGE } from '../../answers/incidents.ts'
import { pageOf } from '../fields.ts'
import { askProcesses } from '../processes.ts'
import { row } from '../row.ts'
import { EMPTY_RANGE } from '../usage-query.ts'

const iso = (at: number): string => new Date(at).toISOString()

const shownIncident = ({ begin, end, ...rest }: NodeIncident, now: number) => ({
  ...rest,
  nodes: [...rest.nodes],
  models: [...rest.models],
  providers: [...rest.providers],
  begin: iso(begin),
  end: end === null ? null : iso(end),
  seconds: Math.max(0, Math.round(((end ?? now) - begin) / 1_000)),
})

/** The stored incidents, with the present figures of those that this gateway has in memory. */
const withCurrent = (stored: readonly NodeIncident[], live: readonly Incident[]): readonly NodeIncident[] => {
  const nodes = new Map(stored.map((one) => [one.id, one.nodes]))
  const current = new Set(live.map(({ id }) => id))
  return [
    ...stored.filter(({ id }) => !current.has(id)),
    ...live.map((one) => ({ ...one, nodes: nodes.get(one.id) ?? [] })),
  ]
}

/** Newest first; the ID orders those of the same time. */
const cursorOf = ({ begin, id }: NodeIncident): string => `${iso(begin)} ${id}`

export const incidentRows = [
  row({
    method: 'GET',
    path: '/incidents',
    summary: 'List the outages of providers, newest first',
    about:
      'An incident begins when a circuit of a provider opens and ends when all of its circuits are closed; one that opens again within a minute continues it. Requests are counted while it lasts. By default those of the last 7 days, of all gateways that share the database. The last 10,000 are kept, for `usage.keepHours`. Other gateways store the figures of one that lasts every 10 seconds.',
    role: 'viewer',
    scope: 'all',
    query: INCIDENTS_PARAMETERS,
    answer: INCIDENTS_PAGE,
    example: {
      query: { provider: 'groq' },
      answer: {
        object: 'list',
        data: [
          {
            id: 'inc_mif3x1c0_1',
            nodes: ['gateway-a-3f9c21'],
            providers: ['groq'],
            models: ['llama-3.3-70b'],
            base_url: null,
            begin: '2026-11-23T10:00:00.000Z',
            end: '2026-11-23T10:02:02.000Z',
            seconds: 122,
            ended_by: 'recovered',
            cause: 'status',
            request: 'req_kdvbwqhzmrtckdvbwqhz',
            failures: 41,
            rerouted: 312,
            lost: 3,
          },
        ],
        has_more: false,
        next: null,
        from: '2026-11-16T10:00:00.000Z',
        to: '2026-11-23T10:00:00.000Z',
        missing: null,
      },
    },
    async handle(deps, { query }) {
      const now = deps.gateway.world.date()
      const range = rangeOf(query, 'incidents', now + 1)
      if (!range) return bad(EMPTY_RANGE)
      const { from, to } = range
      const { limit, after, provider } = query
      const [stored, { answers }] = await Promise.all([
        deps.usage.incidents({ from, to }),
        askProcesses(deps, { do: 'incidents' }),
      ])
      // See `answerHere`.
      const live = answers.flatMap(({ value }) => value.incidents as unknown as readonly Incident[])
      const found = mergeIncidents(withCurrent(stored.ok ? stored.value : [], live))
        .filter(({ begin, end }) => begin < to && (end ?? now) >= from)
        .filter(({ providers }) => !provider || providers.some((id) => provider.includes(id)))
      const page = pageOf(found, { limit, after, isDescending: true }, cursorOf)
      const data = page.data.map((one) => shownIncident(one, now))
      const missing = stored.ok ? null : stored.failure.message
      return good({ body: { ...page, data, from: iso(from), to: iso(to), missing } })
    },
  }),
]
