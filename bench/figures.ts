/** The rows of figures with their targets, and how a figure is calculated from rounds. Pure. */

/** Measurements of one contestant in one window. Times in µs, memory in KB, rates in answers per second. */
export const MEASURES = [
  'rate',
  'cpu',
  'cpuChunk',
  /** Of these, the main thread, and the other threads: of the gateway, and V8's. */
  'mainThread',
  'otherThreads',
  'p50',
  'p99',
  'first50',
  'first99',
  /** Correct answers. */
  'right',
  /** Rate of as many whole cores as it has processes, by the CPU of all processes. */
  'capacity',
  /** The same by the CPU of the busiest process, times the number of processes. */
  'fullest',
  /** Maximum growth of memory per stream: resident, and the process's own share. */
  'resident',
  'own',
  /** Requested streams without a complete answer. */
  'lost',
  /** TLS connections in the window, and how many of them resumed a session. */
  'connections',
  'resumed',
  /** ms from the start of the process to the first answer. */
  'start',
  /** Cores used by unrelated processes. */
  'noise',
] as const
export type Measure = (typeof MEASURES)[number]

export type Sample = {
  readonly numbers: Readonly<Partial<Record<Measure, number>>>
  /** Number of wrong answers by kind of error. */
  readonly errors: Readonly<Record<string, number>>
}

/**
 * Merges simultaneous windows of several contestants: counts are added, and a cost is that of all requests. Their noise is
 * dropped, since each load is noise for the other.
 */
export const together = (samples: readonly Sample[]): Sample => {
  const [first, ...more] = samples
  if (first && more.length === 0) return first
  const sum = (of: (numbers: Sample['numbers']) => number | undefined): number =>
    samples.reduce((all, { numbers }) => all + (of(numbers) ?? 0), 0)
  const right = sum((numbers) => numbers.right)
  const spent = sum(({ cpu, right }) => (cpu ?? 0) * (right ?? 0))
  const errors: Record<string, number> = {}
  for (const { errors: each } of samples)
    for (const [kind, count] of Object.entries(each)) errors[kind] = (errors[kind] ?? 0) + count
  return {
    numbers: {
      rate: sum(({ rate }) => rate),
      right,
      ...(right > 0 && { cpu: Number((spent / right).toPrecision(5)) }),
    },
    errors,
  }
}

/** What a row has measured, or why it has not. */
export type RowOutcome = {
  readonly rounds: readonly Round[]
  readonly skipped?: string
  readonly notes?: readonly string[]
}

/** Samples by contestant, taken within seconds of each other; comparisons are made within a round. */
export type Round = Readonly<Record<string, Sample>>

export type Figure = {
  readonly what: string
  readonly measure: Measure
  readonly unit: 'µs' | 'ms' | 'KB' | '/s' | ''
  readonly ours: string
  /** The contestant to compare with. */
  readonly base?: string
  /** A contestant whose value is subtracted from both. */
  readonly over?: string
  /** `ratio`: ours divided by the base's; `difference`: ours less the base's; `itself`: ours. */
  readonly as: 'ratio' | 'difference' | 'itself'
  /** Target in the figure's unit; undefined: reported only. */
  readonly most?: number
  readonly least?: number
}

export type Row = { readonly what: string; readonly figures: readonly Figure[] }

const against = { ours: 'headgate', base: 'nginx' } as const
const ratio = (what: string, measure: 'cpu' | 'cpuChunk', most?: number): Figure => ({
  what,
  measure,
  unit: 'µs',
  ...against,
  as: 'ratio',
  ...(most !== undefined && { most }),
})
const threads: readonly Figure[] = [
  { what: 'of these, the main thread', measure: 'mainThread', unit: 'µs', ...against, as: 'itself' },
  { what: 'of these, other threads', measure: 'otherThreads', unit: 'µs', ...against, as: 'itself' },
]
const rate: Figure = { what: 'answers per second, one core', measure: 'rate', unit: '/s', ...against, as: 'ratio' }
const translated = (what: string): Row => ({ what, figures: [ratio('CPU per chunk', 'cpuChunk', 1.6)] })

const comparedWithOne = (ours: string, measure: 'capacity' | 'fullest' | 'rate', what: string): Figure => ({
  what,
  measure,
  unit: '/s',
  ours,
  base: 'one',
  as: 'ratio',
})

const started = (what: string, ours: string, most?: number): Figure => ({
  what,
  measure: 'start',
  unit: 'ms',
  ours,
  as: 'itself',
  ...(most !== undefined && { most }),
})

export const ROWS = {
  'chat-1k': {
    what: 'small chat, not streamed, 64 connections',
    figures: [
      ratio('CPU per request', 'cpu', 1.5),
      ...threads,
      // The fastest gateway measured elsewhere on one core reached 20,910 per second, nginx 29,889.
      { ...rate, least: 0.7 },
    ],
  },
  'chat-30k': {
    what: '30 KB of history, 64 connections',
    figures: [ratio('CPU per request', 'cpu', 3), ...threads, rate],
  },
  'stream-20ms': {
    what: 'stream, same style, 290-byte chunks every 20 ms, 200 concurrent',
    figures: [
      ratio('CPU per chunk', 'cpuChunk', 1.2),
      ...threads,
      {
        what: 'added time to first content, p50',
        measure: 'first50',
        unit: 'ms',
        ...against,
        over: 'direct',
        as: 'difference',
        most: 0.2,
      },
    ],
  },
  burst: { what: 'stream without pauses, many chunks per read', figures: [ratio('CPU per chunk', 'cpuChunk', 1.3)] },
  'chat-of-responses': translated('stream, a chat client of a responses provider'),
  'responses-of-chat': translated('stream, a responses client of a chat provider'),
  'chat-of-anthropic': translated('stream, a chat client of an Anthropic provider'),
  'idle-10k': {
    what: '10,000 idle streams',
    figures: [
      { what: 'memory per stream, resident', measure: 'resident', unit: 'KB', ...against, as: 'itself', most: 16 },
      { what: 'memory per stream, its own pages', measure: 'own', unit: 'KB', ...against, as: 'itself' },
      { what: 'streams lost', measure: 'lost', unit: '', ...against, as: 'itself', most: 0 },
    ],
  },
  'open-1000': {
    what: 'open loop, 1,000 per second',
    figures: [
      { what: 'added, p50', measure: 'p50', unit: 'ms', ...against, over: 'direct', as: 'difference', most: 0.1 },
      { what: 'added, p99', measure: 'p99', unit: 'ms', ...against, over: 'direct', as: 'difference' },
    ],
  },
  failover: {
    what: 'dead first target, circuit open, against a single target',
    figures: [
      {
        what: 'CPU per request',
        measure: 'cpu',
        unit: 'µs',
        ours: 'second target',
        base: 'single target',
        as: 'ratio',
        most: 1.1,
      },
    ],
  },
  tls: {
    what: 'small chat, TLS to the provider',
    figures: [
      ratio('CPU per request', 'cpu'),
      { what: 'connections in a window', measure: 'connections', unit: '', ...against, as: 'itself' },
      { what: 'of these, sessions resumed', measure: 'resumed', unit: '', ...against, as: 'itself' },
      { what: 'requests in a window', measure: 'right', unit: '', ...against, as: 'itself' },
    ],
  },
  start: {
    what: 'start, exec to first answer',
    figures: [
      started('package, without compile cache', 'package, first start', 150),
      started('package, with compile cache', 'package', 150),
      started('source, without compile cache', 'source, first start', 400),
      started('source, with compile cache', 'source', 400),
      started('a server of node:http alone', 'node:http alone'),
    ],
  },
  workers: {
    what: 'two worker processes against one',
    figures: [
      { ...comparedWithOne('two', 'capacity', 'answers per second of two whole cores, derived'), least: 1.8 },
      comparedWithOne('two', 'fullest', 'by the busier alone'),
      comparedWithOne('two', 'rate', 'answers per second, load on the same two cores'),
      { what: 'CPU per request', measure: 'cpu', unit: 'µs', ours: 'two', base: 'one', as: 'ratio' },
      comparedWithOne('apart', 'capacity', 'two that share nothing: derived'),
      comparedWithOne('apart', 'fullest', 'by the busier alone'),
      comparedWithOne('apart', 'rate', 'answers per second, load on the same two cores'),
    ],
  },
} as const satisfies Readonly<Record<string, Row>>
export type RowName = keyof typeof ROWS
export const ROW_NAMES = Object.keys(ROWS) as readonly RowName[] // the keys of a constant

export const median = (numbers: readonly number[]): number | undefined => {
  const sorted = numbers.toSorted((a, b) => a - b)
  const [low, high] = [sorted[Math.floor((sorted.length - 1) / 2)], sorted[Math.floor(sorted.length / 2)]]
  return low === undefined || high === undefined ? undefined : (low + high) / 2
}

const PER_UNIT: Readonly<Partial<Record<Figure['unit'], number>>> = { ms: 1000 }
/** Times are measured in µs, those of a start in ms. */
const scaled = ({ unit, measure }: Figure, value: number): number =>
  measure === 'start' ? value : value / (PER_UNIT[unit] ?? 1)

/** A contestant's value in a round, in the figure's unit. */
export const figureValue = (figure: Figure, round: Round, who: string | undefined): number | undefined => {
  const value = who === undefined ? undefined : round[who]?.numbers[figure.measure]
  if (value === undefined) return undefined
  if (figure.over === undefined) return scaled(figure, value)
  const floor = round[figure.over]?.numbers[figure.measure]
  return floor === undefined ? undefined : scaled(figure, value - floor)
}

const compared = (figure: Figure, round: Round): number | undefined => {
  const ours = figureValue(figure, round, figure.ours)
  if (ours === undefined || figure.as === 'itself') return ours
  const base = figureValue(figure, round, figure.base)
  if (base === undefined) return undefined
  return figure.as === 'difference' ? ours - base : base > 0 ? ours / base : undefined
}

export type Found = {
  /** Medians over the rounds, in the figure's unit. */
  readonly ours: number | undefined
  readonly base: number | undefined
  /** Median, minimum and maximum of the comparisons of each round. */
  readonly value: number | undefined
  readonly low: number | undefined
  readonly high: number | undefined
  readonly met: 'yes' | 'no' | 'unknown' | 'no target'
}

const isNumber = (value: number | undefined): value is number => value !== undefined && Number.isFinite(value)

export const find = (figure: Figure, rounds: readonly Round[]): Found => {
  const of = (who: string | undefined) =>
    median(rounds.map((round) => figureValue(figure, round, who)).filter(isNumber))
  const values = rounds.map((round) => compared(figure, round)).filter(isNumber)
  const value = median(values)
  const { most, least } = figure
  const met = (): Found['met'] => {
    if (most === undefined && least === undefined) return 'no target'
    if (value === undefined) return 'unknown'
    return value <= (most ?? Number.POSITIVE_INFINITY) && value >= (least ?? Number.NEGATIVE_INFINITY) ? 'yes' : 'no'
  }
  return {
    ours: of(figure.ours),
    base: of(figure.base),
    value,
    low: values.length > 0 ? Math.min(...values) : undefined,
    high: values.length > 0 ? Math.max(...values) : undefined,
    met: met(),
  }
}

/** Describes all wrong answers. */
export const wrongs = (rounds: readonly Round[]): readonly string[] => {
  const counts = new Map<string, number>()
  for (const round of rounds)
    for (const [who, { errors }] of Object.entries(round))
      for (const [kind, count] of Object.entries(errors))
        if (count > 0) counts.set(`${who}: ${kind}`, (counts.get(`${who}: ${kind}`) ?? 0) + count)
  return [...counts].map(([what, count]) => `${what} ×${count}`)
}
