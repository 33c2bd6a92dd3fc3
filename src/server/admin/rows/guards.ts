/** Guards: what they are, what they have found, and what they find in a text. */
import { z } from 'zod'
import { bad, fail, good } from '../../../core/failure.ts'
import type { GuardRule } from '../../../core/guard.ts'
import { GUARD_PHASES } from '../../../core/guard-verdict.ts'
import { appliedRules } from '../../../policy/guards/applied-rules.ts'
import { triedRules } from '../../../policy/guards/tried-rules.ts'
import type { GuardHit } from '../../../usage/reading/queries.ts'
import { GUARD_TEST, GUARDS } from '../../answers/guards.ts'
import { row } from '../row.ts'

const DAY = 86_400_000
/** Characters of a text that is tried. */
const LONGEST = 100_000

const shownGuard = (rule: GuardRule, hits: readonly GuardHit[]) => ({
  name: rule.name,
  on: [...rule.on],
  action: rule.action,
  find: [...rule.kinds],
  patterns: rule.patterns.length,
  words: rule.words.length,
  service: rule.service?.kind ?? null,
  label: rule.label,
  tools: rule.tools,
  media: rule.media,
  except_teams: [...rule.exceptTeams],
  only_teams: rule.onlyTeams && [...rule.onlyTeams],
  only_routes: rule.onlyRoutes && [...rule.onlyRoutes],
  optional_teams: [...rule.optionalTeams],
  hits: hits.flatMap(({ guard, ...hit }) => (guard === rule.name ? [hit] : [])),
})

export const guardRows = [
  row({
    method: 'GET',
    path: '/guards',
    summary: 'List the guards, with what they found in 24 hours',
    about: 'Patterns and words themselves are in the file only.',
    role: 'viewer',
    scope: 'all',
    answer: GUARDS,
    example: {
      answer: {
        object: 'guards',
        data: [
          {
            name: 'pii',
            on: ['request', 'answer'],
            action: 'mask',
            find: ['email', 'phone'],
            patterns: 0,
            words: 0,
            service: null,
            label: null,
            tools: false,
            media: false,
            except_teams: ['legal'],
            only_teams: null,
            only_routes: null,
            optional_teams: [],
            hits: [{ phase: 'request', action: 'mask', requests: 12, found: 31 }],
          },
        ],
        from: '2026-11-22T10:00:00.000Z',
        to: '2026-11-23T10:00:00.000Z',
        searched_until: null,
      },
    },
    async handle({ configuration, usage, gateway }) {
      const to = gateway.world.date()
      const from = to - DAY
      const found = await usage.guardHits({ from, to })
      if (!found.ok) return found
      const { data, searched_until } = found.value
      const rules = configuration.running().guards ?? []
      const range = { from: new Date(from).toISOString(), to: new Date(to).toISOString() }
      const body = { object: 'guards' as const, data: rules.map((rule) => shownGuard(rule, data)), ...range }
      return good({ body: { ...body, searched_until } })
    },
  }),
  row({
    method: 'POST',
    path: '/guards/test',
    summary: 'Show what guards find in a text',
    about:
      'Of one guard, or of those that apply to a team (default: `default`), without a route. Nothing is stored or sent, and services are not called.',
    role: 'operator',
    scope: 'all',
    body: z.strictObject({
      text: z.string().min(1).max(LONGEST),
      phase: z.enum(GUARD_PHASES).default('request'),
      guard: z.string().optional().describe('name of the one guard that is tried'),
      team: z.string().optional().describe('name of the team whose guards are tried'),
    }),
    answer: GUARD_TEST,
    example: {
      body: { text: 'Write to ann@example.com', phase: 'request' },
      answer: {
        object: 'guard_test',
        phase: 'request',
        verdicts: [{ guard: 'pii', phase: 'request', action: 'mask', counts: { EMAIL: 1 } }],
        refused: null,
        text: 'Write to [EMAIL]',
        not_asked: [],
      },
    },
    async handle({ configuration, directory }, { body }) {
      const { guard, team = 'default', text, phase } = body
      const { guards = [], routes } = configuration.running()
      const one = guards.find(({ name }) => name === guard)
      if (guard !== undefined && !one)
        return bad(
          fail('not_found', `No guard has the name ${JSON.stringify(guard)}. GET /admin/api/v1/guards lists them.`),
        )
      const teams = new Set(Array.from(directory().teams.values(), ({ name }) => name))
      if (!teams.has(team)) return bad(fail('not_found', `No team has the name ${JSON.stringify(team)}.`))
      const names = { team: (name: string) => teams.has(name), route: (name: string) => routes.has(name) }
      const all = guards.map((rule) => ({ rule }))
      const applied = one ? [{ rule: one }] : appliedRules(all, { team, routes: [], header: undefined }, names)
      if ('kind' in applied) return bad(applied)
      const { verdicts, notAsked, ...rest } = triedRules(
        applied.map(({ rule }) => rule),
        phase,
        text,
      )
      const shown = verdicts.map((verdict) => ({ ...verdict, counts: { ...verdict.counts } }))
      return good({
        body: { object: 'guard_test' as const, phase, verdicts: shown, not_asked: [...notAsked], ...rest },
      })
    },
  }),
]
