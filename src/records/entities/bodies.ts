/** The bodies that create records: what the admin API accepts, what is stored as `doc`, and what a merge patch applies to. */
import { BUDGET_BODY } from './budget.ts'
import { KEY_BODY } from './key.ts'
import { PRICE_BODY } from './price.ts'
import { ROUTE_BODY } from './route.ts'
import { TEAM_BODY } from './team.ts'
import { TOKEN_BODY } from './token.ts'

/** The schema of each kind of record. */
export const BODIES = {
  team: TEAM_BODY,
  key: KEY_BODY,
  budget: BUDGET_BODY,
  price: PRICE_BODY,
  route: ROUTE_BODY,
  token: TOKEN_BODY,
} as const
export type RecordKind = keyof typeof BODIES
