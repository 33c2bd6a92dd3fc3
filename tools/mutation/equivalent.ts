/** Mutants that no test can detect, because the changed program behaves the same. */
export type Equivalent = {
  readonly file: string
  /** The code that is replaced. */
  readonly before: string
  /** The replacement; undefined: any. */
  readonly after?: string
  /** Part of the line, if `before` occurs in other lines too. */
  readonly line?: string
  readonly because: string
}

const within = (name: string, rows: readonly Omit<Equivalent, 'file'>[]): readonly Equivalent[] =>
  rows.map((row) => ({ file: `src/policy/${name}.ts`, ...row }))

export const EQUIVALENT: readonly Equivalent[] = [
  ...within('routing/choose-protocol', [
    {
      before: '!byModel && missing.size === 0',
      after: 'false',
      because: 'a shortcut: without model patterns and excluded protocols the filters keep everything',
    },
    {
      before: 'before',
      after: 'false',
      line: 'if (before)',
      because: 'a cache: the list is computed again, and equal',
    },
  ]),
  ...within('idempotency-key', [
    { before: 'raw !== undefined', after: 'false', because: 'JSON.stringify writes a raw number unchanged' },
    { before: '<', after: '<=', line: 'source.length', because: 'the character after the end of a text is undefined' },
  ]),
  ...within('access', [
    {
      before: String.raw`/^\[::ffff:(?:127\.(?:[0-9]{1,3}\.){2}[0-9]{1,3}|7f[0-9a-f]{2}:[0-9a-f]{1,4})\]$/`,
      line: '::ffff:',
      because: 'a parsed host name has brackets only at its beginning and end',
    },
    { before: "''", line: 'MAX_AUTHORITY', because: 'neither value is a name of this machine' },
  ]),
  ...within('retry/retry-after', [
    { before: '?.', line: 'object(detail)', because: '`details` returns objects only' },
    { before: '?.', line: 'object(delay)?.nanos', because: 'reached only if `delay` is an object with `seconds`' },
    { before: '<', after: '<=', line: 'at < source.length', because: 'after the end there is neither digit nor unit' },
  ]),
  ...within('retry/retry-budget', [
    {
      before: '{ n: 0, firsts: 0, repeats: noRepeats }',
      because: 'the first slot is replaced before anything is counted in it',
    },
  ]),
  ...within('health/breaker', [
    { before: '+', after: '-', line: 'nextId: id + 1', because: 'IDs differ either way; their order is not used' },
    {
      before: '+',
      after: '-',
      line: 'breaker.early?.id ?? 0',
      because: 'IDs differ either way; their order is not used',
    },
    {
      before: '>',
      after: '>=',
      line: 'bucket.at > from',
      because: 'a bucket begins at a multiple of its width, and `from` is half a width earlier',
    },
    {
      before: '>',
      after: '>=',
      line: 'bucket.successes > 0',
      because: 'a success that is taken back was counted there',
    },
    {
      before: 'ends.length < rules.probes',
      after: 'false',
      because: 'an index beyond the list returns undefined, which becomes null',
    },
    {
      before: 'breaker.probes.filter((slot) => isActive(slot, now))',
      because: 'expired slots are ignored wherever the list is read',
    },
    {
      before: '(latest ? [...earlier, latest] : earlier).filter((bucket) => bucket.at > from)',
      because: 'every sum ignores buckets outside the window; the filter only keeps the list short',
    },
  ]),
  ...within('health/slow-start', [{ before: 'inFlight < 1', after: 'false', because: 'zero has no binary digits' }]),
]
