/**
 * Reading a range of time in parts. A statement is short whatever the number of rows, other queries run between two of them, and
 * an answer whose time is over states how far it has searched.
 */
import type { LedgerReads, TimedPart } from './ledger-source.ts'
import type { TimeRange } from './queries.ts'

/** The first part in ms, the least one, and by how much the next one may be wider. */
const WIDTH = { first: 300_000, least: 1_000, factor: 4, most: 16 }
/** ms that a statement should take. */
const TAKES = 80

/** The share of the time for an answer after which each ends. */
const SHARES: { readonly [part in TimedPart]: number } = { list: 0.5, count: 0.6, buckets: 0.7, samples: 0.9 }

/** Whether it is time to answer with what was found. `within`: ms for an answer. */
export const isTimeFor =
  (time: () => number, within: number) =>
  (part: TimedPart): boolean =>
    time() > within * SHARES[part]

export type Direction = 'newest first' | 'oldest first'

/** The parts of a range. Their width follows the time that the caller takes for one. */
export async function* slicesOf(
  reads: Pick<LedgerReads, 'time' | 'turn'>,
  { from, to }: TimeRange,
  direction: Direction,
): AsyncGenerator<TimeRange> {
  const length = to - from
  let width = WIDTH.first
  for (let done = 0; done < length; ) {
    if (done > 0) await reads.turn()
    const end = Math.min(length, done + width)
    const began = reads.time()
    yield direction === 'newest first' ? { from: to - end, to: to - done } : { from: from + done, to: from + end }
    const took = reads.time() - began
    if (took < TAKES / WIDTH.most) width *= WIDTH.most
    else if (took < TAKES / WIDTH.factor) width *= WIDTH.factor
    else if (took > TAKES) width = Math.max(WIDTH.least, Math.floor((width * TAKES) / took))
    done = end
  }
}

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
