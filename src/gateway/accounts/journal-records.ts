/** The records of a call in the journal. */
import type { Client } from '../../core/accounts.ts'
import type { Failure } from '../../core/failure.ts'
import { verdictColumn } from '../../core/guard-verdict.ts'
import {
  type AttemptClosed,
  type AttemptOpened,
  type BilledTokens,
  type BilledUnits,
  type ChargeList,
  chargeList,
  type RecordedOutcome,
  type RequestEnded,
} from '../../core/journal.ts'
import type { Nano } from '../../core/money.ts'
import type { Trace } from '../../core/trace.ts'
import { recordedCache, recordedTarget, summaryOf } from '../../core/trace-summary.ts'
import { recordedCode } from '../../policy/accounts/attempt-end.ts'
import type { PricedUsage } from '../../policy/accounts/cost.ts'
import { requireText } from '../../policy/accounts/data-policy.ts'
import type { AccountRules } from './accounts-state.ts'
import type { BudgetCell } from './budget-counters.ts'
import { decisionOf, messageOf } from './decision.ts'
import type { CallDemand } from './demand.ts'
import type { AccountedCall, Charged, OpenAttempt, OpenCall } from './open-attempt.ts'

export const openedRecord = (
  { number, id, style, client, program, clientRequestId }: AccountedCall,
  attempt: OpenAttempt,
  { hedge, rules, route }: { readonly hedge: boolean; readonly rules: AccountRules; readonly route: string | null },
): AttemptOpened => {
  const { candidate, key } = attempt.target
  return {
    type: 'attempt_opened',
    call: number,
    request: id,
    attempt: attempt.number,
    at: attempt.at,
    key: client.id || null,
    team: client.team.id,
    style,
    tag: tagOf(client, rules),
    provider: candidate.instance.id,
    model: candidate.model,
    credential: key.id,
    hedge,
    reserved: attempt.hold.cost,
    charges: chargesOf(attempt.cells),
    route,
    client: program,
    clientRequestId,
  }
}

/** How an attempt has ended. `failure`: undefined if it has none of its own. */
export type AttemptEnd = { readonly outcome: RecordedOutcome; readonly failure: Failure | undefined }

/** `at`: ms since 1970. */
export const closedRecord = (
  { call, attempt, at }: { readonly call: AccountedCall; readonly attempt: OpenAttempt; readonly at: number },
  { outcome, failure }: AttemptEnd,
  { usage, usageSource, cost }: Charged,
): AttemptClosed => ({
  type: 'attempt_closed',
  call: call.number,
  attempt: attempt.number,
  at,
  outcome,
  kind: failure?.kind ?? null,
  status: attempt.status,
  message: messageOf(failure),
  firstContentMs: attempt.committedAt === null ? null : Math.round(attempt.committedAt - attempt.sentAt),
  tokens: billedTokens(usage),
  units: billedUnits(usage),
  usageSource,
  cost: cost.nano,
  priceSource: cost.source,
  priceVersion: cost.version,
})

/** What the account of a call adds to its trace. `at`: ms since 1970; `saved`: nano-dollars. */
type EndedCall = {
  readonly at: number
  readonly rules: AccountRules
  readonly saved: Nano
}

export const endedRecord = (
  {
    number,
    id,
    style,
    client,
    received,
    trace: parent,
    program,
    clientRequestId,
    session,
    agent,
  }: Omit<OpenCall, 'demand'>,
  { endUser, route, plan }: CallDemand,
  trace: Trace,
  { at, rules, saved }: EndedCall,
): RequestEnded => {
  const summary = summaryOf(trace)
  const { provider, model } = recordedTarget(summary)
  return {
    type: 'request_ended',
    call: number,
    request: id,
    received,
    at,
    style,
    stream: summary.stream,
    asked: summary.model,
    route,
    provider,
    model,
    key: client.id || null,
    team: client.team.id,
    person: client.user,
    endUser: rules.endUser ? endUser : null,
    tags: tagsOf(client),
    tag: tagOf(client, rules),
    outcome: summary.outcome === 'open' ? 'unknown' : summary.outcome,
    status: summary.status,
    code: recordedCode(summary.failure),
    message: messageOf(summary.failure),
    trail: summary.trail || null,
    decision: decisionOf(plan, summary),
    cache: recordedCache(summary),
    firstContentMs: summary.firstContentMs === null ? null : Math.round(summary.firstContentMs),
    overheadUs: Math.round(summary.overheadMs * 1_000),
    saved,
    require: requiredOf(plan, summary.failure),
    session: session?.id ?? null,
    agent,
    sessionName: session?.name ?? null,
    guards: verdictColumn(summary.verdicts),
    trace: parent,
    client: program,
    clientRequestId,
  }
}

const requiredOf = (plan: CallDemand['plan'], failure: Failure | undefined): string | null =>
  plan?.require ? requireText(plan.require) : (failure?.withheld?.require ?? null)

const tagOf = ({ tags }: Client, { rollupTag }: AccountRules): string | null =>
  rollupTag !== undefined && Object.hasOwn(tags, rollupTag) ? (tags[rollupTag] ?? null) : null

const billedUnits = ({ units }: PricedUsage): BilledUnits | null =>
  units && units.count !== null ? { unit: [units.unit, ...(units.kind ?? [])].join('/'), count: units.count } : null

/** With the steps that the counts of the answer leave out, because they are billed too. */
const billedTokens = (usage: PricedUsage): BilledTokens => ({
  input: allOf(usage, 'input'),
  output: allOf(usage, 'output'),
  cacheRead: allOf(usage, 'cacheRead'),
  cacheWrite: allOf(usage, 'cacheWrite'),
  cacheWrite1h: allOf(usage, 'cacheWrite1h'),
  reasoning: usage.reasoning ?? 0,
  audioInput: usage.audioInput ?? 0,
  audioOutput: usage.audioOutput ?? 0,
})

type StepTokens = 'input' | 'output' | 'cacheRead' | 'cacheWrite' | 'cacheWrite1h'

const allOf = (usage: PricedUsage, name: StepTokens): number => {
  let sum = usage[name] ?? 0
  for (const step of usage.further ?? NO_STEPS) sum += step[name] ?? 0
  return sum
}

const NO_STEPS: NonNullable<PricedUsage['further']> = []

/** The same counters pay for most attempts of a client. */
const chargeLists = new WeakMap<readonly BudgetCell[], ChargeList>()
const chargesOf = (cells: readonly BudgetCell[]): ChargeList => {
  const known = chargeLists.get(cells)
  if (known !== undefined) return known
  const made = chargeList(cells.map(({ charge }) => charge))
  chargeLists.set(cells, made)
  return made
}

/** The longest JSON of tags in a record. */
const MAX_TAGS = 1_024
const tagTexts = new WeakMap<Client, string | null>()
const tagsOf = (client: Client): string | null => {
  const known = tagTexts.get(client)
  if (known !== undefined) return known
  const text = JSON.stringify(client.tags)
  const made = text === '{}' || text.length > MAX_TAGS ? null : text
  tagTexts.set(client, made)
  return made
}
