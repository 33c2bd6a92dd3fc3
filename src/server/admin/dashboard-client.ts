/** The client of requests that the dashboard sends: its playground, and replays. */
import { ANONYMOUS, type Client, DEFAULT_TEAM, type Directory } from '../../core/accounts.ts'
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import { clientOf, keyState } from '../../policy/accounts/client.ts'
import { combined } from '../../policy/accounts/data-policy.ts'

/** The name of the client key that sets its limits and budgets, and its ID where there is no such key. */
export const DASHBOARD = 'dashboard'

/** The client. `source`: the value of the tag `source`. Fails if the operator has blocked its key or the default team. */
export const dashboardClient = ({ keys, teams }: Directory, source: string, now: number): Outcome<Client> => {
  const team = teams.get(DEFAULT_TEAM.id)
  if (team && team.status !== 'active') return bad(BLOCKED)
  const key = keys.values().find((one) => one.name === DASHBOARD && one.team === DEFAULT_TEAM.id)
  if (team && key && key.status !== 'revoked') {
    if (keyState(key, team, now) !== 'active') return bad(BLOCKED)
    const client = clientOf(key, team)
    return good({ ...client, tags: { ...client.tags, source } })
  }
  const require = combined(team?.require)
  return good({
    ...ANONYMOUS,
    id: DASHBOARD,
    owner: DASHBOARD,
    name: DASHBOARD,
    ...(team && { access: [team.access], limits: [{ id: team.id, limits: team.limits }], cache: team.cache }),
    tags: { ...team?.tags, source },
    ...(require && { require }),
  })
}

const BLOCKED: Failure = fail(
  'forbidden',
  `The client key "${DASHBOARD}" or its team "${DEFAULT_TEAM.name}" is blocked or expired, so the dashboard may not call models.`,
)
