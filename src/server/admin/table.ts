/** All rows of the admin API. */

import { z } from 'zod'
import { good } from '../../core/failure.ts'
import { openapiOf } from './openapi.ts'
import { type AdminRow, row } from './row.ts'
import { accountRows } from './rows/accounts.ts'
import { activityRows } from './rows/activity.ts'
import { adjustmentRows } from './rows/adjustments.ts'
import { alertRows } from './rows/alerts.ts'
import { auditRows } from './rows/audit.ts'
import { budgetEndRows } from './rows/budget-ends.ts'
import { budgetRows } from './rows/budgets.ts'
import { cacheRows } from './rows/cache.ts'
import { canaryRows } from './rows/canaries.ts'
import { changeRows } from './rows/changes.ts'
import { claudeRows } from './rows/claude.ts'
import { clientRows } from './rows/clients.ts'
import { configRows } from './rows/config.ts'
import { correctionRows } from './rows/corrections.ts'
import { drillRows } from './rows/drill.ts'
import { endUserRows } from './rows/end-users.ts'
import { explainRows } from './rows/explain.ts'
import { guardRows } from './rows/guards.ts'
import { identityRows } from './rows/identities.ts'
import { incidentRows } from './rows/incidents.ts'
import { liveRows } from './rows/live.ts'
import { peopleRows } from './rows/people.ts'
import { policyRows } from './rows/policy.ts'
import { priceRows } from './rows/prices.ts'
import { providerRows } from './rows/providers.ts'
import { requestRows } from './rows/requests.ts'
import { retiringRows } from './rows/retiring.ts'
import { routeActivityRows } from './rows/route-activity.ts'
import { routeRows } from './rows/routes.ts'
import { sessionRows } from './rows/session.ts'
import { sessionRows as agentSessionRows } from './rows/sessions.ts'
import { shadowRows } from './rows/shadows.ts'
import { signInRows } from './rows/sign-ins.ts'
import { systemRows } from './rows/system.ts'
import { tapeRows } from './rows/tape.ts'
import { telemetryRows } from './rows/telemetry.ts'
import { tryRows } from './rows/try.ts'
import { usageRows } from './rows/usage.ts'
import { whatIfRows } from './rows/what-if.ts'

const rows: readonly AdminRow[] = [
  ...sessionRows,
  ...peopleRows,
  ...signInRows,
  ...claudeRows,
  ...accountRows,
  ...priceRows,
  ...budgetRows,
  ...budgetEndRows,
  ...adjustmentRows,
  ...correctionRows,
  ...usageRows,
  ...requestRows,
  ...activityRows,
  ...alertRows,
  ...auditRows,
  ...changeRows,
  ...incidentRows,
  ...clientRows,
  ...endUserRows,
  ...agentSessionRows,
  ...identityRows,
  ...providerRows,
  ...canaryRows,
  ...shadowRows,
  ...retiringRows,
  ...explainRows,
  ...whatIfRows,
  ...drillRows,
  ...routeActivityRows,
  ...routeRows,
  ...policyRows,
  ...guardRows,
  ...configRows,
  ...systemRows,
  ...telemetryRows,
  ...liveRows,
  ...cacheRows,
  ...tapeRows,
  ...tryRows,
]

const description = row({
  method: 'GET',
  path: '/openapi.json',
  summary: 'Describe this API (OpenAPI 3.1)',
  role: 'viewer',
  scope: 'any',
  answer: z.looseObject({ openapi: z.literal('3.1.0') }).describe('An OpenAPI document'),
  example: {},
  handle: ({ process }, { request }) =>
    good({ body: { ...openapiOf(TABLE, process.version), servers: [{ url: request.settings.basePath || '/' }] } }),
})

/** The table, from which the dispatcher, the API description and docs/admin-api.md are made. */
export const TABLE: readonly AdminRow[] = [...rows, description]
