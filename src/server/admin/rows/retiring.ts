/** Models in use that end soon, with the teams that use them. */
import { good } from '../../../core/failure.ts'
import { recentModels, retiringIn } from '../../../gateway/handlers/pages.ts'
import { RETIRING } from '../../answers/providers.ts'
import { row } from '../row.ts'
import { scoped, summed } from '../usage-query.ts'

const DAY = 24 * 3_600_000
/** ms */
const SOON = 90 * DAY

/** Requests of the last 30 days by target and team. */
const BY_TEAM = {
  by: ['provider', 'model', 'team'],
  bucket: 'none',
  tz: null,
  filter: {},
  limit: 10_000,
  after: null,
} as const

type TeamRequests = { readonly id: string; readonly name: string | null; readonly requests: number }

export const retiringRows = [
  row({
    method: 'GET',
    path: '/models/retiring',
    summary: 'List the models in use that their providers end within 90 days, or have ended, the earliest first',
    about:
      'Those that the configuration and its routes name, and those of requests in the last 30 days, with the teams that sent them (at most 10,000 sums of a team and a model). A role for some teams sees the requests of these. The date is from the section `models` of the file, else from the list of the provider, an answer, or the catalogue.',
    role: 'viewer',
    scope: 'team',
    answer: RETIRING,
    example: {
      answer: {
        object: 'list',
        data: [
          {
            provider: 'openai',
            model: 'gpt-5',
            retires: '2026-12-11T00:00:00.000Z',
            days: 12,
            source: 'list',
            successor: 'gpt-6.1-sol',
            routes: ['fast'],
            requests: 812,
            teams: [{ id: 'team_kdvbwqhzmrtc', name: 'search', requests: 812 }],
          },
        ],
        has_more: false,
        next: null,
      },
    },
    async handle(deps, { teams }) {
      const { gateway } = deps
      const query = scoped(deps, summed(BY_TEAM, gateway.config()), 'usage', teams)
      if (!query.ok) return query
      const report = await deps.usage.usage(query.value)
      if (!report.ok) return report
      const { data: sums, names } = report.value
      const byModel = new Map<string, TeamRequests[]>()
      const used = new Map<string, Set<string>>()
      for (const { provider, model, team, requests } of sums) {
        if (typeof provider !== 'string' || typeof model !== 'string' || typeof team !== 'string') continue
        used.set(provider, (used.get(provider) ?? new Set()).add(model))
        const id = `${provider} ${model}`
        byModel.set(id, [...(byModel.get(id) ?? []), { id: team, name: names[team] ?? null, requests }])
      }
      // Clients choose names of models, which only operators of all teams see.
      const recent = teams === null ? recentModels(gateway) : () => []
      const found = retiringIn(gateway, SOON, (instance) => [...(used.get(instance) ?? []), ...recent(instance)])
      const now = gateway.world.date()
      const data = found.map(({ instance: { id: provider }, model, retirement, routes }) => {
        const users = byModel.get(`${provider} ${model}`) ?? []
        return {
          provider,
          model,
          retires: new Date(retirement.at).toISOString(),
          days: Math.floor((retirement.at - now) / DAY),
          source: retirement.source,
          successor: retirement.successor ?? null,
          routes: [...routes],
          requests: users.reduce((sum, { requests }) => sum + requests, 0),
          teams: users.toSorted((a, b) => b.requests - a.requests),
        }
      })
      return good({ body: { object: 'list' as const, data, has_more: false, next: null } })
    },
  }),
]
