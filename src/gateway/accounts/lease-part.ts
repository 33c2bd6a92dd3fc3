/** The part of a limit that a process uses while no store divides it. */
import { freeOf, type HeldLease, overdraw } from '../../policy/accounts/held-lease.ts'

/** ms of the monotonic clock: the last answer, and when a part of a rate was added last. */
type RateLease = HeldLease & { readonly answeredAt: number; sharedAt: number }

/** What a process uses of a budget without a grant: half of the overdraft is for those that start while the store is away. */
export const overdraftOf = (part: number, percent: number): number => Math.floor((part * percent) / 200)

/** Others may be granted soon what this process has not used. */
export const dropFree = (lease: HeldLease): void => {
  if (lease.kind === 'budget' && lease.id !== '') lease.granted = Math.min(lease.granted, lease.used + lease.held)
}

/**
 * Slots: a process begins requests as long as fewer than its part are in progress. Those of all processes together are within the
 * limit, but for requests that were in progress before.
 */
export const keepPart = (lease: HeldLease, part: number): void => {
  if (lease.kind === 'slots') lease.granted = Math.max(lease.held, 1, Math.floor(part))
}

/** A rate: what has come back of the part since the last answer. */
export const sharePart = (lease: RateLease, part: number, now: number): void => {
  const since = Math.max(lease.sharedAt, lease.answeredAt)
  const back = since === Number.NEGATIVE_INFINITY ? part : ((now - since) * part) / 60_000
  lease.sharedAt = now
  overdraw(lease, Math.max(0, Math.min(back, part - freeOf(lease))))
}
