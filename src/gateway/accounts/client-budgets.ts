/** The budgets that count one client, and the counters that paid for its latest targets: nearly all requests use them again. */
import type { Budget } from '../../core/accounts.ts'
import type { BudgetScope, NamedOwners } from '../../policy/accounts/budget-scope.ts'
import type { AccessTarget } from '../../policy/accounts/key-access.ts'
import type { OwnerCell } from './owner-cells.ts'

/** Clients choose the names of models. */
const MAX_MODELS = 8
const MAX_NAME = 200

type PayingCell = OwnerCell & {
  readonly periodStart: number
  readonly periodEnd: number
  readonly budget: Budget
  readonly isKnown: boolean
}

type PaidTarget<Cell> = {
  readonly requested: string | null | undefined
  readonly provider: string | undefined
  readonly session: string | null
  readonly cells: readonly Cell[]
}

export class ClientBudgets<Cell extends PayingCell> {
  readonly scopes: readonly BudgetScope[]
  readonly #countsSessions: boolean
  /** By model; empty: the target was not known. */
  readonly #paid = new Map<string, PaidTarget<Cell>>()

  constructor(scopes: readonly BudgetScope[]) {
    this.scopes = scopes
    this.#countsSessions = scopes.some(({ budget }) => budget.per === 'session')
  }

  /** The counters that were kept for this target; null: they have to be selected. */
  find(target: AccessTarget | null, named: NamedOwners, received: number): readonly Cell[] | null {
    const paid = this.#paid.get(target?.model ?? '')
    if (!paid || paid.requested !== target?.requested || paid.provider !== target?.provider) return null
    if (this.#countsSessions && paid.session !== named.session) return null
    for (const cell of paid.cells) if (!isCurrent(cell, named.endUser, received)) return null
    return paid.cells
  }

  keep(target: AccessTarget | null, { session }: NamedOwners, cells: readonly Cell[]): void {
    const { requested, provider, model = '' } = target ?? {}
    if (model.length + (requested?.length ?? 0) > MAX_NAME) return
    if (this.#paid.size >= MAX_MODELS) this.#paid.clear()
    this.#paid.set(model, { requested, provider, session, cells })
  }
}

/** Whether a counter is still that of its owner, for a request of this time and end user. */
const isCurrent = (cell: PayingCell, endUser: string | null, received: number): boolean =>
  cell.isKnown &&
  !cell.isDropped &&
  cell.periodStart <= received &&
  received < cell.periodEnd &&
  (cell.budget.per !== 'end_user' || cell.owner === (endUser ?? ''))
