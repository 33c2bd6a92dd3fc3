/** The ranges of time by which usage is exported, and the names of their objects. All times are ms since 1970, in UTC. */

/** Length of a range. Its objects are named for its start, so it never changes. */
export const RANGE = 600_000
const DAY = 86_400_000

export type ExportRange = { readonly from: number; readonly to: number }

export const rangeFrom = (from: number): ExportRange => ({ from, to: from + RANGE })

/** The start of the first range of an export that begins now: the start of the day. */
export const firstRange = (now: number): number => now - (now % DAY)

/**
 * The name of an object: `2026-11-27/2026-11-27T10-10-00Z.gateway-a1b2c3.000.jsonl.gz`. It follows from the range, the ledger
 * and the place of its rows among those of the range, so that a second upload replaces the first one.
 */
export const objectName = ({ from }: ExportRange, ledger: string, part: number): string => {
  const start = new Date(from).toISOString()
  const time = `${start.slice(0, 19).replaceAll(':', '-')}Z`
  return `${start.slice(0, 10)}/${time}.${ledger}.${String(part).padStart(3, '0')}.jsonl.gz`
}
