/**
 * A registry of counters, gauges and histograms with labels, and their Prometheus text format. Label values may come from
 * clients, so the values per label and the series per metric are limited; further ones are counted as `other`.
 */

export type Labels = { readonly [name: string]: string | number }

/**
 * The current value of a gauge, or of a counter that is kept elsewhere, without the `headgate_` prefix. Readings of the same
 * name are adjacent.
 */
export type Reading = {
  readonly name: string
  readonly help: string
  readonly labels: Labels
  readonly value: number
  readonly kind?: 'counter'
}

type MetricKind = 'counter' | 'gauge' | 'histogram'

type LabelTree = Map<string | number | undefined, LabelTree | Series>

/** `of` returns the series with these labels. Callers on hot paths keep it, since the lookup costs more than counting. */
export type Counter = { add(labels: Labels, by?: number): void; of(labels: Labels): { add(by?: number): void } }
export type Gauge = { set(labels: Labels, value: number): void }
export type Histogram = {
  record(labels: Labels, value: number): void
  of(labels: Labels): { record(value: number): void }
}

export type Registry = {
  counter(name: string, help: string, labels: readonly string[]): Counter
  gauge(name: string, help: string, labels: readonly string[]): Gauge
  histogram(name: string, help: string, labels: readonly string[], bounds: readonly number[]): Histogram
  /** The text format, version 0.0.4. */
  text(): string
}

const MAX_VALUES = 1000
/** Maximum lines per metric; a histogram's series has one for each bucket. */
const MAX_LINES = 20_000
/** Maximum characters of a label value; longer values are truncated. */
export const MAX_VALUE_LENGTH = 200
/** The label value for everything beyond the limits. */
export const OTHER = 'other'
// Control characters are replaced in label values, so joined values are unambiguous.
const SEPARATOR = '\u0000'

// Lone surrogates cannot be encoded as UTF-8, and control characters would break the format.
const clean = (value: string | number): string =>
  copied(
    String(value)
      .slice(0, MAX_VALUE_LENGTH)
      .toWellFormed()
      .replace(/\p{Cc}/gu, '\u{fffd}'),
  )

/** A copy with its own memory. A V8 slice keeps the whole original text alive, which may be a request body. */
export const copied = (value: string): string => Buffer.from(value, 'utf16le').toString('utf16le')

const escapeLabel = (value: string): string => value.replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\n/g, '\\n')
const escapeHelp = (value: string): string => value.replace(/\\/g, '\\\\').replace(/\n/g, '\\n')

const numberText = (value: number): string =>
  value === Number.POSITIVE_INFINITY ? '+Inf' : value === Number.NEGATIVE_INFINITY ? '-Inf' : String(value)

class Series {
  readonly values: readonly string[]
  readonly buckets: number[]
  value = 0
  readonly #bounds: readonly number[]

  constructor(values: readonly string[], bounds: readonly number[]) {
    this.values = values
    this.buckets = [...bounds.map(() => 0), 0]
    this.#bounds = bounds
  }

  add(by = 1): void {
    if (isCount(by)) this.value += by
  }

  record(value: number): void {
    if (!Number.isFinite(value)) return
    this.value += value
    let at = 0
    while (at < this.#bounds.length && value > (this.#bounds[at] ?? 0)) at++
    this.buckets[at] = (this.buckets[at] ?? 0) + 1
  }
}

const isCount = (by = 1): boolean => by >= 0 && Number.isFinite(by)

type MetricDefinition = {
  readonly name: string
  readonly help: string
  readonly kind: MetricKind
  readonly labels: readonly string[]
  readonly bounds?: readonly number[]
}

class Metric {
  readonly name: string
  readonly help: string
  readonly kind: MetricKind
  readonly labels: readonly string[]
  readonly bounds: readonly number[]
  readonly #maxSeries: number
  readonly #seen: readonly Set<string>[]
  readonly #series = new Map<string, Series>()
  /** Caches series by the labels as given, one map level per label, since cleaning and joining labels is slow. */
  readonly #given: LabelTree = new Map()
  #cached = 0

  constructor({ name, help, kind, labels, bounds = [] }: MetricDefinition) {
    this.name = name
    this.help = help
    this.kind = kind
    this.labels = labels
    this.bounds = bounds
    this.#maxSeries = Math.floor(MAX_LINES / (bounds.length + 3))
    this.#seen = labels.map(() => new Set())
  }

  #bounded(index: number, given: string | number | undefined): string {
    const seen = this.#seen[index]
    const value = clean(given ?? '')
    if (!seen || seen.has(value)) return value
    if (seen.size >= MAX_VALUES) return OTHER
    seen.add(value)
    return value
  }

  series(labels: Labels): Series {
    let found: LabelTree | Series | undefined = this.#given
    for (const name of this.labels) {
      if (!(found instanceof Map)) break
      found = found.get(labels[name])
    }
    if (found !== undefined && !(found instanceof Map)) return found
    if (this.labels.length === 0) return this.#make([])
    const values = this.labels.map((name, index) => this.#bounded(index, labels[name]))
    const series =
      this.#series.has(values.join(SEPARATOR)) || this.#series.size < this.#maxSeries
        ? this.#make(values)
        : this.#make(this.labels.map(() => OTHER))
    this.#cache(labels, series)
    return series
  }

  #cache(labels: Labels, series: Series): void {
    const isLong = (value: string | number | undefined) => typeof value === 'string' && value.length > MAX_VALUE_LENGTH
    const given = this.labels.map((name) => {
      const value = labels[name]
      return typeof value === 'string' && !isLong(value) ? copied(value) : value
    })
    const last = given.pop()
    if (this.#cached >= this.#maxSeries || isLong(last) || given.some(isLong)) return
    let level = this.#given
    for (const value of given) {
      const below = level.get(value)
      const next: LabelTree = below instanceof Map ? below : new Map()
      level.set(value, next)
      level = next
    }
    level.set(last, series)
    this.#cached++
  }

  #make(values: readonly string[]): Series {
    const key = values.join(SEPARATOR)
    const known = this.#series.get(key)
    if (known) return known
    const made = new Series(values, this.bounds)
    this.#series.set(key, made)
    return made
  }

  lines(): readonly string[] {
    const lines = [`# HELP ${this.name} ${escapeHelp(this.help)}`, `# TYPE ${this.name} ${this.kind}`]
    for (const series of this.#series.values()) {
      const named = this.labels.map((label, index) => `${label}="${escapeLabel(series.values[index] ?? '')}"`)
      const line = (name: string, more: readonly string[], value: number) => {
        const all = [...named, ...more]
        lines.push(`${name}${all.length === 0 ? '' : `{${all.join(',')}}`} ${numberText(value)}`)
      }
      if (this.kind !== 'histogram') {
        line(this.name, [], series.value)
        continue
      }
      let total = 0
      for (const [index, bound] of this.bounds.entries()) {
        total += series.buckets[index] ?? 0
        line(`${this.name}_bucket`, [`le="${numberText(bound)}"`], total)
      }
      const count = total + (series.buckets[this.bounds.length] ?? 0)
      line(`${this.name}_bucket`, ['le="+Inf"'], count)
      line(`${this.name}_sum`, [], series.value)
      line(`${this.name}_count`, [], count)
    }
    return lines
  }
}

export const createRegistry = (): Registry => {
  const metrics: Metric[] = []
  const register = (definition: MetricDefinition): Metric => {
    const metric = new Metric(definition)
    metrics.push(metric)
    return metric
  }
  return {
    counter(name, help, labels) {
      const metric = register({ name, help, kind: 'counter', labels })
      return {
        add(given, by) {
          // A value that cannot be counted does not create a series.
          if (isCount(by)) metric.series(given).add(by)
        },
        of: (given) => metric.series(given),
      }
    },
    gauge(name, help, labels) {
      const metric = register({ name, help, kind: 'gauge', labels })
      return {
        set(given, value) {
          metric.series(given).value = value
        },
      }
    },
    histogram(name, help, labels, bounds) {
      const metric = register({ name, help, kind: 'histogram', labels, bounds })
      return {
        record(given, value) {
          if (Number.isFinite(value)) metric.series(given).record(value)
        },
        of: (given) => metric.series(given),
      }
    },
    text: () => `${metrics.flatMap((metric) => metric.lines()).join('\n')}\n`,
  }
}

/** Readings as a page of their own. */
export const readingsText = (readings: readonly Reading[]): string => {
  const registry = createRegistry()
  addReadings(registry, readings)
  return registry.text()
}

/** Adds the current values of gauges and counters. */
export const addReadings = (registry: Registry, readings: readonly Reading[]): void => {
  const setters = new Map<string, (labels: Labels, value: number) => void>()
  for (const { name, help, labels, value, kind } of readings) {
    const full = `headgate_${name}`
    const names = Object.keys(labels)
    const set =
      setters.get(name) ?? (kind ? registry.counter(full, help, names).add : registry.gauge(full, help, names).set)
    setters.set(name, set)
    set(labels, value)
  }
}
