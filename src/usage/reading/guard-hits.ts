/** What guards have found, by rule, phase and action. */
import { columnVerdicts } from '../../core/guard-verdict.ts'
import type { LedgerReads } from './ledger-source.ts'
import { bucketsOf } from './outcome-counts.ts'
import type { GuardHit, GuardHits, GuardHitsQuery } from './queries.ts'
import { isoTime } from './request-shape.ts'
import { readNewest } from './slices.ts'

const HOUR = 3_600_000

export const guardHitsOf = async (reads: LedgerReads, { from, to }: GuardHitsQuery): Promise<GuardHits> => {
  const { buckets, searchedUntil } = await readNewest(reads, bucketsOf({ from, to }, HOUR), (bucket) =>
    reads.db
      .selectFrom('request')
      .select(({ fn }) => ['guards', fn.countAll<number>().as('requests')])
      .where('received', '>=', Math.max(from, bucket.from))
      .where('received', '<', Math.min(to, bucket.to))
      .where('guards', 'is not', null)
      .groupBy('guards')
      .execute(),
  )
  const hits = new Map<string, GuardHit>()
  for (const { guards, requests: count } of buckets.flatMap(({ value }) => value)) {
    const requests = Number(count)
    for (const { guard, phase, action, counts } of columnVerdicts(guards).verdicts) {
      const name = JSON.stringify([guard, phase, action])
      const known = hits.get(name) ?? { guard, phase, action, requests: 0, found: 0 }
      const found = Object.values(counts).reduce((sum, one) => sum + one, 0) * requests
      hits.set(name, { ...known, requests: known.requests + requests, found: known.found + found })
    }
  }
  return { data: [...hits.values()], searched_until: searchedUntil === null ? null : isoTime(searchedUntil) }
}
