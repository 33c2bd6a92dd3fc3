/** The requests of the company as records of the journal, with the budgets that pay for them. */
import { type Budget, DEFAULT_TEAM } from '../../../src/core/accounts.ts'
import { budgetCharge, chargeList, type JournalRecord, type RoutingDecision } from '../../../src/core/journal.ts'
import { budgetScope, counterOwner, countsClient } from '../../../src/policy/accounts/budget-scope.ts'
import { countsTarget } from '../../../src/policy/accounts/key-access.ts'
import { periodAt } from '../../../src/policy/accounts/period.ts'
import { type ProviderName, ROUTES, splitTarget, type TargetName } from './company-teams.ts'
import type { CompanyTraffic, MadeAttempt, MadeOutage, MadeRequest } from './company-traffic.ts'

/** IDs by name. */
export type CompanyIds = { readonly teams: ReadonlyMap<string, string>; readonly keys: ReadonlyMap<string, string> }

const CREDENTIALS: Readonly<Record<ProviderName, string>> = {
  openai: '3f1a',
  anthropic: '9c02',
  groq: '71be',
  house: 'd4e8',
}
const credential = (target: TargetName): string => CREDENTIALS[splitTarget(target)[0]]

/** Returns the charges of an attempt to the counters that pay for it. */
export const chargerOf = (budgets: readonly Budget[], ids: CompanyIds) => {
  const scopes = budgets.map((budget) => ({ ...budgetScope(budget), period: { start: 0, end: 0 } }))
  return ({ key, team, at, asked, endUser }: MadeRequest, { target }: MadeAttempt): readonly string[] => {
    const teamId = ids.teams.get(team ?? '') ?? DEFAULT_TEAM.id
    const client = { id: ids.keys.get(key ?? '') ?? '', user: null, tags: {}, team: { id: teamId } }
    const [provider, model] = splitTarget(target)
    return scopes.flatMap((scope) => {
      const { budget, period } = scope
      if (!countsClient(budget, client) || !countsTarget(scope, { requested: asked, provider, model })) return []
      const owner = counterOwner(budget, client, { endUser, session: null })
      if (owner === null) return []
      // Most requests are in the period of the one before.
      if (at < period.start || at >= period.end) scope.period = periodAt(budget, at)
      return [budgetCharge(`${budget.id}:${owner}`, scope.period.start)]
    })
  }
}

const decisionOf = ({ asked, route, skipped, attempts, status }: MadeRequest): RoutingDecision | null => {
  if (asked === '' || status === 404) return null
  const plan = route === null ? [asked] : ROUTES[route]
  const first = attempts[0]?.target
  return {
    by: route === null ? 'listed' : 'route',
    plan: first === undefined ? plan : [...new Set([...skipped, first, ...plan])],
    more: 0,
    skipped: skipped.map((target) => ({ target, key: null, why: 'circuit' })),
    dropped: [],
    limit: null,
  }
}

const trailOf = ({ skipped, attempts, cached }: MadeRequest): string | null => {
  const steps = [
    ...skipped.map((target) => `${splitTarget(target)[0]}:circuit`),
    ...attempts.map((one) => `${splitTarget(one.target)[0]}#${credential(one.target)}:${one.status ?? one.kind}`),
  ]
  return cached !== null || steps.length === 0 ? null : steps.join(', ')
}

/** Records of attempts. */
const attemptRecords = (
  call: number,
  request: MadeRequest,
  ids: CompanyIds,
  charger: ReturnType<typeof chargerOf>,
): readonly JournalRecord[] =>
  request.attempts.flatMap((attempt, number): readonly JournalRecord[] => {
    const [provider, model] = splitTarget(attempt.target)
    const { firstMs, tokens, nano, outcome, kind, status, message } = attempt
    return [
      {
        ...{ type: 'attempt_opened', call, request: request.id, attempt: number, at: request.at + attempt.from },
        ...accountOf(request, ids),
        ...{ provider, model, credential: credential(attempt.target), hedge: false, reserved: nano ?? 0 },
        ...{ charges: chargeList(charger(request, attempt)), clientRequestId: null },
      },
      {
        ...{ type: 'attempt_closed', call, attempt: number, at: request.at + attempt.from + attempt.ms },
        ...{ outcome, kind, status, message, firstContentMs: firstMs, tokens, units: null, usageSource: 'exact' },
        ...{ cost: nano, priceSource: nano === null ? 'none' : 'override', priceVersion: null },
      },
    ]
  })

const accountOf = ({ key, team, style, route, client }: MadeRequest, ids: CompanyIds) => ({
  key: ids.keys.get(key ?? '') ?? null,
  team: ids.teams.get(team ?? '') ?? null,
  tag: team === null ? null : appOf(team),
  ...{ style, route, client },
})

/** The tag `app` of the keys of a team. */
export const appOf = (team: string): string => team.split('-')[0] ?? team

const endRecord = (call: number, request: MadeRequest, ids: CompanyIds): JournalRecord => {
  const { id, at, asked, stream, endUser, session, attempts, outcome, status, code, message, cached, saved } = request
  const last = attempts.at(-1)
  const target = cached ?? (last?.outcome === 'failed' ? undefined : last?.target)
  const [provider, model] = target === undefined ? [null, null] : splitTarget(target)
  const account = accountOf(request, ids)
  const decision = decisionOf(request)
  return {
    ...{ type: 'request_ended', call, request: id, received: at, ...account },
    at: at + 2 + (last ? last.from + last.ms : 0),
    ...{ asked, stream, provider, model, person: null, endUser, outcome, status, code, message },
    tags: account.tag === null ? null : JSON.stringify({ app: account.tag }),
    trail: trailOf(request),
    decision: decision && JSON.stringify(decision),
    cache: cached !== null ? 'hit' : asked === 'bulk' ? 'miss' : 'off',
    firstContentMs: last?.firstMs == null ? null : last.from + last.firstMs,
    overheadUs: status === 401 ? null : 900,
    saved,
    session: session === null ? null : sessionId(session),
    sessionName: session,
    ...{ require: null, agent: null, guards: null, trace: null, clientRequestId: null },
  }
}

/** `ses_` and 12 letters of a name. */
const sessionId = (name: string): string => {
  let state = 7
  for (const character of name) state = Math.imul(state ^ (character.codePointAt(0) ?? 0), 16_777_619) >>> 0
  const letters = Array.from({ length: 12 }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return String.fromCharCode(97 + ((state >>> 16) % 26))
  })
  return `ses_${letters.join('')}`
}

const incidentRecord = ({ provider, model, begin, end, cause, ...figures }: MadeOutage): JournalRecord => ({
  type: 'incident',
  at: end,
  incident: {
    id: `inc_${begin.toString(36)}_company`,
    providers: [provider],
    models: [model],
    base_url: null,
    ...{ begin, end, ended_by: 'recovered', cause },
    ...figures,
  },
})

export const companyRecords = (
  { requests, outages }: CompanyTraffic,
  ids: CompanyIds,
  budgets: readonly Budget[],
): readonly JournalRecord[] => {
  const charger = chargerOf(budgets, ids)
  return [
    ...requests.flatMap((request, call) => [
      ...attemptRecords(call + 1, request, ids, charger),
      endRecord(call + 1, request, ids),
    ]),
    ...outages.map(incidentRecord),
  ]
}
