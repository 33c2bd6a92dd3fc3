/** An attempt of a call in its account: what it reserves, and what it costs. Amounts in nano-dollars. */
import type { Budget, Client, Service, UsageSource } from '../../core/accounts.ts'
import type { CallSpan } from '../../core/call-span.ts'
import type { SpanFacts } from '../../core/journal.ts'
import type { Nano } from '../../core/money.ts'
import type { CallSession } from '../../core/session.ts'
import type { Candidate, Target } from '../../core/target.ts'
import type { Hold } from '../../policy/accounts/attempt-admission.ts'
import { type ChargedEnd, chargedUsage } from '../../policy/accounts/charge.ts'
import type { AttemptCost, PricedUsage } from '../../policy/accounts/cost.ts'
import { estimateOutput, owedOutput } from '../../policy/accounts/estimate.ts'
import type { AccessTarget } from '../../policy/accounts/key-access.ts'
import type { UnknownPrice } from '../../policy/accounts/price-book.ts'
import { overriddenLimit, overriddenTier } from '../../policy/routing/override.ts'
import type { AccountsState } from './accounts-state.ts'
import type { Reservation } from './authority.ts'
import type { BudgetCell } from './budget-counters.ts'
import type { CallDemand } from './demand.ts'
import type { ShapeSample } from './shape-samples.ts'
import { outputTokens, type TokenSource } from './token-usage.ts'

/** Who calls, and how. `received`: ms since 1970. */
export type AccountedCall = {
  /** Number of the call in this process. */
  readonly number: number
  /** The gateway's own ID. */
  readonly id: string
  /** The ID that the client gave the request. */
  readonly clientRequestId: string | null
  readonly style: string
  readonly client: Client
  readonly received: number
  /** `traceparent` of the request. */
  readonly trace: string | null
  /** The kind of program that the client uses, by its `user-agent`. The ledger names it `client`. */
  readonly program: string
  /** Null: it belongs to no session. */
  readonly session: CallSession | null
}

/** A call with its account open. */
export type OpenCall = AccountedCall & {
  /** What its attempts need. */
  demand: CallDemand
  /** Null: it belongs to no session. */
  session: CallSession | null
  /** The agent in the session; null: its main one. */
  agent: string | null
  isOver: boolean
  readonly method: string
  /** Null: without telemetry. */
  readonly span: CallSpan | null
  /** The shape that may be noted at the end. */
  sample: ShapeSample | null
  /** Settings of the request, which its spans state. */
  asked: SpanFacts
}

export type PlannedAttempt = {
  /** The budgets that pay for it. */
  readonly cells: readonly BudgetCell[]
  /** Estimated input, before and after its correction, and output. */
  readonly estimate: { readonly raw: number; readonly input: number; readonly output: number }
  /** The maximum of the model. */
  readonly modelMaximum: number | undefined
  /** The service that the request asks for. */
  readonly asked: Service
  /** What applies if no price is known. */
  readonly unknownPrice: UnknownPrice | undefined
  /** The estimate, reserved at first. */
  readonly hold: Hold
  /** ms since 1970, before its reservation. */
  readonly at: number
}

export type OpenAttempt = PlannedAttempt & {
  readonly number: number
  readonly target: Target
  /** Null: no limit and no budget applies. */
  readonly reservation: Reservation | null
  /** The journal has a record that must be closed. */
  recorded: boolean
  source: AttemptSource | null
  /** When it was sent, and when it was selected, in ms of the monotonic clock. */
  sentAt: number
  committedAt: number | null
  status: number | null
}

/** The answer of an attempt. */
export type AttemptSource = TokenSource & {
  /** The wire format, the upstream's ID and model, and why it ended; null: it has not stated it. */
  readonly facts: {
    readonly format: string | null
    readonly id: string | null
    readonly model: string | null
    readonly finishReason: string | null
  }
}

export type Charged = { readonly usage: PricedUsage; readonly usageSource: UsageSource; readonly cost: AttemptCost }

/** Whether the call costs nothing and needs no output tokens. */
export const isFree = ({ output }: CallDemand): boolean => output === 'free'

/** The counters of budgets that pay for a target; null: for every target. A budget instead: it has no counter left. */
export const payingCells = (
  { budgets }: AccountsState,
  { client, received, session }: AccountedCall,
  demand: CallDemand,
  target: AccessTarget | null,
): readonly BudgetCell[] | Budget => {
  if (isFree(demand)) return []
  const named = { endUser: demand.endUser, session: session === null || session.name === null ? null : session.id }
  return budgets.cellsFor(client, named, target, received)
}

/** Whether a model costs nothing, so that no budget has to pay for it. */
export const costsNothing = (
  state: AccountsState,
  { received }: AccountedCall,
  { instance, model }: Candidate,
): boolean => state.prices().isFree({ instance, model, at: received })

/**
 * What an attempt at this target would reserve. `estimated`: its cost; null: the price is unknown. `isUnpriced`: and a hard
 * budget does not allow that. A budget instead: it has no counter left.
 */
export const planAttempt = (
  state: AccountsState,
  call: AccountedCall,
  stated: CallDemand,
  { candidate, modelMaximum }: { readonly candidate: Candidate; readonly modelMaximum: number | undefined },
): (PlannedAttempt & { readonly estimated: Nano | null; readonly isUnpriced: boolean }) | Budget => {
  const { instance, model } = candidate
  const demand = demandAt(candidate, stated)
  const { service: asked = {} } = demand
  const paying = payingCells(state, call, demand, { requested: demand.asked, provider: instance.id, model })
  const isPaid = 'id' in paying || paying.length > 0
  const cells = isPaid && costsNothing(state, call, candidate) ? NO_CELLS : paying
  if ('id' in cells) return cells
  const output =
    demand.output === 'text' ? outputOf(state, call, demand, { cells, model, modelMaximum }) : fixedOutput(demand)
  const estimate = { raw: demand.input, input: state.history.inputOf(model, demand.input), output }
  const at = call.received
  const isHard = cells.some(({ budget }) => budget.mode === 'hard')
  const rule = state.rules().unknownPrice
  const unknownPrice = isHard && rule === 'dearest' ? rule : undefined
  const units = demand.units && { units: { ...demand.units, count: demand.units.most } }
  const audio = demand.isAudio && { audioOutput: output }
  const priced = { instance, model, at, ...estimate, ...audio, ...units, asked, unknownPrice }
  const estimated = isFree(demand) ? 0 : state.prices().reservation(priced)
  const isUnpriced = estimated === null && isHard && rule !== 'allow'
  const hold = { tokens: isFree(demand) ? 0 : estimate.input + output, cost: estimated ?? 0 }
  return { cells, estimate, modelMaximum, asked, unknownPrice, hold, at: state.world.date(), estimated, isUnpriced }
}

/** The demand at a target whose override changes the output limit or the service. */
const demandAt = ({ override }: Candidate, demand: CallDemand): CallDemand => {
  if (!override || demand.output !== 'text') return demand
  const { requested, service } = demand
  const serviceTier = overriddenTier(override, service?.serviceTier)
  return { ...demand, requested: overriddenLimit(override, requested), service: { ...service, serviceTier } }
}

/** The output tokens of an answer that is not text. */
const fixedOutput = ({ output, requested = 0 }: CallDemand): number => (output === 'requested' ? requested : 0)

const NO_CELLS: readonly BudgetCell[] = []

type Answering = {
  readonly cells: readonly BudgetCell[]
  readonly model: string
  readonly modelMaximum: number | undefined
}

/** The output tokens that an attempt reserves. */
const outputOf = (
  { history, rules }: AccountsState,
  { client }: AccountedCall,
  { requested, choices }: CallDemand,
  { cells, model, modelMaximum }: Answering,
): number => {
  const mode = cells.some(({ budget }) => budget.reserve === 'max') ? 'max' : 'typical'
  const usual = history.usualOutput(client.id, model)
  return estimateOutput({ requested, modelMaximum, usual, choices }, mode, rules().maxOutput)
}

/** How an attempt ends. `isLeft`: its client left. */
type AttemptCharge = { readonly end: ChargedEnd; readonly isLeft?: boolean }

/** What an attempt costs that ends so, or would if it ended now. */
export const chargeOf = (
  state: AccountsState,
  { received, demand }: OpenCall,
  { target, source, estimate, modelMaximum, asked, unknownPrice }: OpenAttempt,
  { end, isLeft = false }: AttemptCharge,
): Charged => {
  const { instance, model } = target.candidate
  const owed = () => {
    if (demand.output !== 'text') return fixedOutput(demand)
    const isUnseen = isLeft && demand.isWhole === true
    const known = { reserved: estimate.output, isUnseen, maxOutput: state.rules().maxOutput }
    const { requested } = demandAt(target.candidate, demand)
    return owedOutput({ requested, choices: demand.choices, modelMaximum }, known)
  }
  const { usage: counted, source: usageSource } = chargedUsage(isFree(demand) ? 'shared' : end, {
    reported: source?.usage() ?? undefined,
    estimatedInput: () => estimate.input,
    estimatedOutput: () => fixedOutput(demand) || (source ? outputTokens(source.output()) : 0),
    textLength: () => source?.output().length ?? 0,
    owedOutput: owed,
  })
  const isUncounted = demand.isAudio === true && usageSource === 'estimated'
  const usage = isUncounted ? { ...counted, audioOutput: counted.output } : withUnits(counted, demand, end)
  const answering = source?.model() ?? null
  const priced = { instance, model, answering, at: received, usage, asked, unknownPrice }
  const cost = state.prices().costOfAttempt(priced)
  if (isNothing(usage) && (cost.nano === null || cost.source === 'assumed'))
    return { usage, usageSource, cost: NO_COST }
  if (cost.source === 'assumed') return { usage, usageSource: 'estimated', cost }
  const isCounted = end === 'answered' && cost.nano !== null && cost.byUnits
  return { usage, usageSource: isCounted ? 'exact' : usageSource, cost }
}

/**
 * With the units of the request, if the answer states none, or fewer before it is complete: the provider may bill all. What used
 * nothing used no units.
 */
const withUnits = (usage: PricedUsage, { units }: CallDemand, end: ChargedEnd): PricedUsage => {
  if (!units || isNothing(usage)) return usage
  const { most: _, ...asked } = units
  const stated = usage.units
  const isStated = stated && (end === 'answered' || (stated.count ?? 0) >= (asked.count ?? 0))
  return isStated ? usage : { ...usage, units: asked }
}

const isNothing = ({ input, output, units, summed }: PricedUsage): boolean =>
  input === 0 && output === 0 && !units && summed === undefined

/** No tokens cost nothing, also at an unknown price. */
const NO_COST = { nano: 0, source: 'catalogue', version: 'none' } as const
