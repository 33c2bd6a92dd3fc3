/** Mutants that no test can notice, since they mean the same program. */
export type Equivalent = {
  readonly file: string
  readonly before: string
  /** Absent: whatever it became. */
  readonly after?: string
  /** What stands in its line, where the change alone could be meant elsewhere. */
  readonly line?: string
  readonly because: string
}

const within = (name: string, rows: readonly Omit<Equivalent, 'file'>[]): readonly Equivalent[] =>
  rows.map((row) => ({ file: `src/policy/${name}.ts`, ...row }))

export const EQUIVALENT: readonly Equivalent[] = [
  ...within('routing/choose-protocol', [
    { before: 'lacking.size === 0', after: 'false', because: 'the filter with nothing lacking keeps everything' },
    { before: 'fit.length < 2', after: 'false', because: 'one alone is in the same place however it is sorted' },
  ]),
  ...within('idempotency-key', [
    { before: 'raw !== undefined', after: 'false', because: 'JSON.stringify writes a raw number as it was written' },
    { before: '<', after: '<=', line: 'source.length', because: 'behind the end of a text there is no character' },
  ]),
  ...within('access', [
    {
      before: String.raw`/^\[::ffff:(?:127\.(?:[0-9]{1,3}\.){2}[0-9]{1,3}|7f[0-9a-f]{2}:[0-9a-f]{1,4})\]$/`,
      line: '::ffff:',
      because: 'a name that has been read holds a bracket at its beginning and its end only',
    },
    { before: "''", line: 'MAX_AUTHORITY', because: 'either is no name of this machine' },
  ]),
  ...within('retry/retry-after', [
    { before: '?.', because: 'what is read of is there whenever this line is reached with a body' },
    { before: 'said === undefined', after: 'false', because: 'a text that is not there is no figure and no moment' },
    { before: '<', after: '<=', line: 'at < source.length', because: 'behind the end there is no figure and no unit' },
  ]),
  ...within('retry/retry-budget', [
    {
      before: '{ n: 0, firsts: 0, repeats: noRepeats }',
      because: 'the first slot is left as soon as one is counted in',
    },
  ]),
  ...within('health/breaker', [
    { before: '+', after: '-', line: 'nextId: id + 1', because: 'ids differ either way; nothing counts them' },
    { before: '+', after: '-', line: 'breaker.early?.id ?? 0', because: 'ids differ either way; nothing counts them' },
    {
      before: '>',
      after: '>=',
      line: 'bucket.at > from',
      because: 'a bucket begins at a whole width, and what it is held against is half of one earlier',
    },
    { before: '>', after: '>=', line: 'bucket.successes > 0', because: 'what is taken back had been booked there' },
    {
      before: 'ends.length < rules.probes',
      after: 'false',
      because: 'beyond the first of the list there is none: null',
    },
    {
      before: 'breaker.probes.filter((slot) => isActive(slot, now))',
      because: 'places that have expired are passed over wherever they are looked at',
    },
    {
      before: 'buckets.filter((bucket) => bucket.at > from)',
      because: 'buckets that have left the window are passed over by every sum; this keeps the list short',
    },
  ]),
  ...within('health/slow-start', [{ before: 'underWay < 1', after: 'false', because: 'nothing has no binary digits' }]),
]
