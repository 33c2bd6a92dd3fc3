/** What is measured and what it has to reach: rows of figures, and how a figure comes out of rounds. Pure. */

/** What one window told of one contestant. Times in µs, memory in KB, a rate in answers a second. */
export const MEASURES = [
  'rate',
  'cpu',
  'cpuChunk',
  'p50',
  'p99',
  'first50',
  'first99',
  /** Answers that came out right. */
  'right',
  /** What as many cores as it has processes would give if they did nothing else, by the CPU of all of them. */
  'capacity',
  /** The same by the CPU of the busiest, times its processes: as if no other were ever fuller. */
  'fullest',
  /** Growth of resident memory a stream: at its highest, and the part that is the process's own. */
  'resident',
  'own',
  /** Streams asked for whose whole answer did not come. */
  'lost',
  /** TLS connections made in the window, and those of them that resumed a session. */
  'connections',
  'resumed',
  /** ms from the start of the process to the first answer. */
  'start',
  /** Cores that had nothing to do with it were busy meanwhile. */
  'noise',
] as const
export type Measure = (typeof MEASURES)[number]

export type Sample = {
  readonly numbers: Readonly<Partial<Record<Measure, number>>>
  /** How many answers were wrong, by what was wrong. */
  readonly errors: Readonly<Record<string, number>>
}

/**
 * Windows of several at the same time, as of one: counts are added, and a cost is that of all requests. What each load saw
 * of the other is no noise.
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

/** One after the other within seconds: what is compared stands in the same round. By contestant. */
export type Round = Readonly<Record<string, Sample>>

export type Figure = {
  readonly what: string
  readonly measure: Measure
  readonly unit: 'µs' | 'ms' | 'KB' | '/s' | ''
  readonly ours: string
  /** Who it is compared with; without, it stands by itself. */
  readonly base?: string
  /** Both are counted from here on: what a contestant adds. */
  readonly over?: string
  /** `ratio`: ours divided by the base's; `difference`: ours less the base's; `itself`: ours. */
  readonly as: 'ratio' | 'difference' | 'itself'
  /** In the figure's unit. Without either it is reported only. */
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
const rate: Figure = { what: 'answers a second, one core', measure: 'rate', unit: '/s', ...against, as: 'ratio' }
const translated = (what: string): Row => ({ what, figures: [ratio('CPU a chunk', 'cpuChunk', 1.6)] })

const beside = (ours: string, measure: 'capacity' | 'fullest' | 'rate', what: string): Figure => ({
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
      ratio('CPU a request', 'cpu', 1.5),
      // The quickest gateway measured elsewhere on one core gave 20,910 a second where nginx gave 29,889.
      { ...rate, least: 0.7 },
    ],
  },
  'chat-30k': { what: '30 KB of history, 64 connections', figures: [ratio('CPU a request', 'cpu', 3), rate] },
  'stream-20ms': {
    what: 'stream, same style, 290-byte chunks every 20 ms, 200 at once',
    figures: [
      ratio('CPU a chunk', 'cpuChunk', 1.2),
      {
        what: 'added until the first content, p50',
        measure: 'first50',
        unit: 'ms',
        ...against,
        over: 'direct',
        as: 'difference',
        most: 0.2,
      },
    ],
  },
  burst: { what: 'stream without pauses, many chunks a read', figures: [ratio('CPU a chunk', 'cpuChunk', 1.3)] },
  'chat-of-responses': translated('stream, a chat client of a responses provider'),
  'responses-of-chat': translated('stream, a responses client of a chat provider'),
  'chat-of-anthropic': translated('stream, a chat client of an Anthropic provider'),
  'idle-10k': {
    what: '10,000 idle streams',
    figures: [
      { what: 'memory a stream, resident', measure: 'resident', unit: 'KB', ...against, as: 'itself', most: 16 },
      { what: 'memory a stream, its own pages', measure: 'own', unit: 'KB', ...against, as: 'itself' },
      { what: 'streams lost', measure: 'lost', unit: '', ...against, as: 'itself', most: 0 },
    ],
  },
  'open-1000': {
    what: 'open loop, 1,000 a second',
    figures: [
      { what: 'added, p50', measure: 'p50', unit: 'ms', ...against, over: 'direct', as: 'difference', most: 0.1 },
      { what: 'added, p99', measure: 'p99', unit: 'ms', ...against, over: 'direct', as: 'difference' },
    ],
  },
  failover: {
    what: 'dead first target, circuit open, against a single target',
    figures: [
      {
        what: 'CPU a request',
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
      ratio('CPU a request', 'cpu'),
      { what: 'connections made in a window', measure: 'connections', unit: '', ...against, as: 'itself' },
      { what: 'of these, sessions resumed', measure: 'resumed', unit: '', ...against, as: 'itself' },
      { what: 'requests in a window', measure: 'right', unit: '', ...against, as: 'itself' },
    ],
  },
  start: {
    what: 'start, exec to first answer',
    figures: [
      started('of the package, nothing kept', 'package, first start', 150),
      started('of the package, compiled before', 'package', 150),
      started('from source, nothing kept', 'source, first start', 400),
      started('from source, compiled before', 'source', 400),
      started('of a server of nothing but node:http', 'node:http alone'),
    ],
  },
  workers: {
    what: 'two worker processes against one',
    figures: [
      { ...beside('two', 'capacity', 'answers a second of two whole cores, derived'), least: 1.8 },
      beside('two', 'fullest', 'by the busier alone'),
      beside('two', 'rate', 'answers a second, load on the same two cores'),
      { what: 'CPU a request', measure: 'cpu', unit: 'µs', ours: 'two', base: 'one', as: 'ratio' },
      beside('apart', 'capacity', 'two that have nothing in common: derived'),
      beside('apart', 'fullest', 'by the busier alone'),
      beside('apart', 'rate', 'answers a second, load on the same two cores'),
    ],
  },
} as const satisfies Readonly<Record<string, Row>>
export type RowName = keyof typeof ROWS
export const ROW_NAMES = Object.keys(ROWS) as readonly RowName[] // the keys of a constant are what its type says

export const median = (numbers: readonly number[]): number | undefined => {
  const sorted = numbers.toSorted((a, b) => a - b)
  const [low, high] = [sorted[Math.floor((sorted.length - 1) / 2)], sorted[Math.floor(sorted.length / 2)]]
  return low === undefined || high === undefined ? undefined : (low + high) / 2
}

const PER_UNIT: Readonly<Partial<Record<Figure['unit'], number>>> = { ms: 1000 }
/** Times are in µs wherever they are measured, but for those of a start. */
const scaled = ({ unit, measure }: Figure, value: number): number =>
  measure === 'start' ? value : value / (PER_UNIT[unit] ?? 1)

/** What a contestant showed in a round, in the figure's unit. */
export const shown = (figure: Figure, round: Round, who: string | undefined): number | undefined => {
  const value = who === undefined ? undefined : round[who]?.numbers[figure.measure]
  if (value === undefined) return undefined
  if (figure.over === undefined) return scaled(figure, value)
  const floor = round[figure.over]?.numbers[figure.measure]
  return floor === undefined ? undefined : scaled(figure, value - floor)
}

const compared = (figure: Figure, round: Round): number | undefined => {
  const ours = shown(figure, round, figure.ours)
  if (ours === undefined || figure.as === 'itself') return ours
  const base = shown(figure, round, figure.base)
  if (base === undefined) return undefined
  return figure.as === 'difference' ? ours - base : base > 0 ? ours / base : undefined
}

export type Found = {
  /** Medians over the rounds, in the figure's unit. */
  readonly ours: number | undefined
  readonly base: number | undefined
  /** The median of what each round compared, and the least and most of it. */
  readonly value: number | undefined
  readonly low: number | undefined
  readonly high: number | undefined
  readonly met: 'yes' | 'no' | 'unknown' | 'no target'
}

const isNumber = (value: number | undefined): value is number => value !== undefined && Number.isFinite(value)

export const find = (figure: Figure, rounds: readonly Round[]): Found => {
  const of = (who: string | undefined) => median(rounds.map((round) => shown(figure, round, who)).filter(isNumber))
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

/** Every answer that was wrong, in words; nothing where all were right. */
export const wrongs = (rounds: readonly Round[]): readonly string[] => {
  const counts = new Map<string, number>()
  for (const round of rounds)
    for (const [who, { errors }] of Object.entries(round))
      for (const [kind, count] of Object.entries(errors))
        if (count > 0) counts.set(`${who}: ${kind}`, (counts.get(`${who}: ${kind}`) ?? 0) + count)
  return [...counts].map(([what, count]) => `${what} ×${count}`)
}
