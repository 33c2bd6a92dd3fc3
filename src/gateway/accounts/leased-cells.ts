/** The leases of the counters of a request. Without a book this process alone has the counters. */
import type { World } from '../../core/world.ts'
import type { HeldLease } from '../../policy/accounts/held-lease.ts'
import { levelOf } from '../../policy/accounts/token-bucket.ts'
import type { AccountCells } from './authority.ts'
import type { BudgetCell } from './budget-counters.ts'
import { counterOf } from './counter-store.ts'
import { bookedOf, type LeaseBook } from './lease-book.ts'

/** Opens the leases that are not open. */
export const openLeases = (
  book: LeaseBook | null,
  { slots, rates, budgets }: AccountCells,
  world: Pick<World, 'now' | 'date'>,
): void => {
  if (!book) return
  for (const cell of slots)
    cell.lease ??= book.open(`slots ${cell.id}`, 'slots', {
      terms: () => ({ limit: cell.limit, refill: 0, life: HOUR }),
      show: (lease) => {
        cell.live = lease.othersHeld + lease.held
      },
    })
  for (const cell of rates)
    cell.lease ??= book.open(`${cell.unit} ${cell.id}`, 'rate', {
      terms: () => ({ limit: cell.perMinute, refill: cell.perMinute / 60_000, life: HOUR }),
      show: (lease) => {
        const at = world.now()
        const { used } = lease
        const level = cell.perMinute - lease.othersUsed - used
        cell.bucket = { level: levelOf({ level, at }, cell.perMinute, at), at }
      },
    })
  for (const cell of budgets) {
    cell.lease ??= book.open(counterOf(cell.charge), 'budget', {
      terms: () => ({ limit: cell.granted, refill: 0, life: lifeOf(cell, world.date()) }),
      show: (lease) => {
        cell.used = lease.othersUsed + lease.used
        cell.held = lease.othersHeld + lease.held
      },
    })
    if (cell.isKnown) cell.lease.isKnown = true
  }
}

/** The lease of a budget; null: it has none. */
export const leaseOf = (
  book: LeaseBook | null,
  cell: BudgetCell,
  world: Pick<World, 'now' | 'date'>,
): HeldLease | null => {
  openLeases(book, { slots: [], rates: [], budgets: [cell] }, world)
  return cell.lease
}

/** The leases were used. */
export const touchLeases = (book: LeaseBook | null, { slots, rates, budgets }: AccountCells, now: number): void => {
  if (!book) return
  for (const { lease } of slots) if (lease) book.touch(bookedOf(lease), now)
  for (const { lease } of rates) if (lease) book.touch(bookedOf(lease), now)
  for (const { lease } of budgets) if (lease) book.touch(bookedOf(lease), now)
}

const HOUR = 3_600_000
const DAY = 24 * HOUR
/** ms for which a budget without an end is kept after its last use. */
const MAX_LIFE = 400 * DAY

/** ms for which a counter is kept: to one day after its period. */
const lifeOf = ({ periodEnd }: BudgetCell, date: number): number =>
  Math.round(Math.min(MAX_LIFE, Math.max(DAY, periodEnd + DAY - date)))
