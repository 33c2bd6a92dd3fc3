/**
 * How Claude Code learns what a person has spent: by the headers with which Anthropic states it to subscribers, as the page
 * `/protocol` of `claude gateway` 2.1.328 describes them. It shows a notice from 75 % on.
 */
import type { Failure } from '../../core/failure.ts'
import type { ClientProtocol } from '../../core/protocol.ts'
import { type SpendStanding, usedPart } from '../../core/spend-standing.ts'

const UNIFIED = 'anthropic-ratelimit-unified'
/** Parts from which on a notice is shown. */
const NOTICES = [0.95, 0.75]
/** The periods that clients name. */
const PERIODS: { readonly [period: string]: string | undefined } = { day: 'daily', week: 'weekly', month: 'monthly' }

const headers = (standing: SpendStanding): Readonly<Record<string, string>> => {
  const used = usedPart(standing)
  const passed = NOTICES.find((part) => used > part)
  const status = passed === undefined ? 'allowed' : 'allowed_warning'
  return {
    [`${UNIFIED}-status`]: status,
    [`${UNIFIED}-representative-claim`]: 'overage',
    [`${UNIFIED}-overage-status`]: status,
    // Below 1 while requests are served.
    [`${UNIFIED}-overage-utilization`]: String(Math.min(Math.round(used * 100) / 100, 0.99)),
    ...(passed !== undefined && { [`${UNIFIED}-overage-surpassed-threshold`]: String(passed) }),
    ...resetHeaders(standing),
  }
}

/** Without a claim, the client shows the message as it is. It does not retry 429 with `x-should-retry: false`, and takes 402 for its own account. */
const refusal = (failure: Failure, now: number): Failure => {
  if (failure.kind !== 'budget_exceeded') return failure
  const { spend } = failure
  return {
    ...failure,
    shown: { status: 429, type: 'billing_error' },
    ...(spend?.resetsAt && { retryAfter: Math.max(1_000, spend.resetsAt - now) }),
    headers: {
      [`${UNIFIED}-status`]: 'rejected',
      [`${UNIFIED}-overage-utilization`]: '1',
      [`${UNIFIED}-overage-surpassed-threshold`]: '1',
      [`${UNIFIED}-overage-disabled-reason`]: 'org_spend_cap_reached',
      ...(spend && refusedHeaders(spend)),
    },
  }
}

const refusedHeaders = (standing: SpendStanding): Readonly<Record<string, string>> => {
  const period = PERIODS[standing.period]
  return {
    ...resetHeaders(standing),
    ...(period !== undefined && { [`${UNIFIED}-overage-period`]: period }),
    ...(standing.isShared && { [`${UNIFIED}-overage-scope`]: 'group_pool' }),
  }
}

const resetHeaders = ({ resetsAt }: SpendStanding): Readonly<Record<string, string>> => {
  if (resetsAt === null) return {}
  const seconds = String(Math.floor(resetsAt / 1_000))
  return { [`${UNIFIED}-reset`]: seconds, [`${UNIFIED}-overage-reset`]: seconds }
}

export const spend: NonNullable<ClientProtocol['spend']> = { headers, refusal }
