/**
 * Reading a range of time in parts. A statement is short whatever the number of rows, other queries run between two of them, and
 * an answer whose time is over states how far it has searched.
 */
import type { LedgerReads, TimedPart } from './ledger-source.ts'
import type { TimeRange } from './queries.ts'

/** The share of the time for an answer after which each ends. */
const SHARES: { readonly [part in TimedPart]: number } = { list: 0.5, count: 0.6, buckets: 0.7, samples: 0.9 }

/** Whether it is time to answer with what was found. `within`: ms for an answer. */
export const isTimeFor =
  (time: () => number, within: number) =>
  (part: TimedPart): boolean =>
    time() > within * SHARES[part]

export type ReadBuckets<Value> = {
  /** In the order of time. */
  readonly buckets: readonly { readonly range: TimeRange; readonly value: Value }[]
  /** ms since 1970: earlier buckets were not read, because the time was over. Null: all were read. */
  readonly searchedUntil: number | null
}

/** Reads the values of buckets, the newest first, until the time for that is over. */
export const readNewest = async <Value>(
  reads: Pick<LedgerReads, 'isOver' | 'turn'>,
  buckets: readonly TimeRange[],
  read: (bucket: TimeRange) => Promise<Value>,
): Promise<ReadBuckets<Value>> => {
  const found: { range: TimeRange; value: Value }[] = []
  for (const range of buckets.toReversed()) {
    const last = found.at(-1)
    if (last && reads.isOver('buckets')) return { buckets: found.toReversed(), searchedUntil: last.range.from }
    if (last) await reads.turn()
    found.push({ range, value: await read(range) })
  }
  return { buckets: found.toReversed(), searchedUntil: null }
}
