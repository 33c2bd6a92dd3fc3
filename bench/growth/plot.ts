/** Draws a plot as SVG: a logarithmic x axis, lines with their names at the end, for light and dark backgrounds. */

export type Point = { readonly n: number; readonly value: number }
export type Series = { readonly name: string; readonly points: readonly Point[] }
export type Plot = {
  readonly title: string
  /** Label of the x axis. */
  readonly x: string
  /** Label of the y axis, with its unit. */
  readonly y: string
  readonly series: readonly Series[]
}

const WIDTH = 760
const HEIGHT = 400
const LEFT = 74
const RIGHT = 190
const TOP = 44
const BOTTOM = 56
// Readable on white and on black.
const COLOURS = ['#2f81f7', '#e0823d', '#2da44e', '#bf5af2', '#d1495b', '#8a8f98']

/** Ratio of the largest to the smallest value above which the y axis is logarithmic. */
const LINEAR_UP_TO = 25

export const svgOf = ({ title, x, y, series }: Plot): string => {
  const points = series.flatMap((one) => one.points)
  const ns = points.map(({ n }) => n)
  const values = points.map(({ value }) => value)
  const [least, most] = [Math.min(...values), Math.max(...values)]
  const logarithmic = least > 0 && most / least > LINEAR_UP_TO
  const across = scale(decades(Math.min(...ns), Math.max(...ns)), LEFT, WIDTH - RIGHT, true)
  const yTicks = logarithmic ? decades(least, most) : rounds(most)
  const up = scale(yTicks, HEIGHT - BOTTOM, TOP, logarithmic)
  const out = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" role="img" aria-label="${escaped(title)}" font-family="system-ui, sans-serif" font-size="12">`,
    '<style>text{fill:#4d5560}.title{font-size:15px;font-weight:600}.axis{stroke:#8a8f98}.grid{stroke:#8a8f98;stroke-opacity:.25}@media(prefers-color-scheme:dark){text{fill:#b6bec8}}</style>',
    `<text class="title" x="${LEFT}" y="24">${escaped(title)}</text>`,
  ]
  for (const tick of across.ticks) {
    const at = across.place(tick)
    out.push(`<line class="grid" x1="${at}" y1="${TOP}" x2="${at}" y2="${HEIGHT - BOTTOM}"/>`)
    out.push(`<text x="${at}" y="${HEIGHT - BOTTOM + 18}" text-anchor="middle">${short(tick)}</text>`)
  }
  for (const tick of up.ticks) {
    const at = up.place(tick)
    out.push(`<line class="grid" x1="${LEFT}" y1="${at}" x2="${WIDTH - RIGHT}" y2="${at}"/>`)
    out.push(`<text x="${LEFT - 8}" y="${at + 4}" text-anchor="end">${short(tick)}</text>`)
  }
  out.push(`<line class="axis" x1="${LEFT}" y1="${HEIGHT - BOTTOM}" x2="${WIDTH - RIGHT}" y2="${HEIGHT - BOTTOM}"/>`)
  out.push(`<line class="axis" x1="${LEFT}" y1="${TOP}" x2="${LEFT}" y2="${HEIGHT - BOTTOM}"/>`)
  const middle = (LEFT + WIDTH - RIGHT) / 2
  out.push(`<text x="${middle}" y="${HEIGHT - 12}" text-anchor="middle">${escaped(x)} (logarithmic)</text>`)
  const label = `${escaped(y)}${logarithmic ? ' (logarithmic)' : ''}`
  const half = (TOP + HEIGHT - BOTTOM) / 2
  out.push(`<text x="18" y="${half}" text-anchor="middle" transform="rotate(-90 18 ${half})">${label}</text>`)
  const heights = apart(series.map((one) => up.place(one.points.at(-1)?.value ?? least)))
  for (const [at, { name, points }] of series.entries()) {
    const colour = COLOURS[at % COLOURS.length]
    const spots = points.map(({ n, value }) => ({ x: across.place(n), y: up.place(value) }))
    const line = spots.map((spot) => `${spot.x},${spot.y}`).join(' ')
    out.push(`<polyline points="${line}" fill="none" stroke="${colour}" stroke-width="2"/>`)
    for (const spot of spots) out.push(`<circle cx="${spot.x}" cy="${spot.y}" r="3.5" fill="${colour}"/>`)
    const end = spots.at(-1)
    if (!end) continue
    out.push(`<text x="${end.x + 10}" y="${(heights[at] ?? end.y) + 4}" style="fill:${colour}">${escaped(name)}</text>`)
  }
  return `${out.join('\n')}\n</svg>\n`
}

/** The powers of ten around the values. */
const decades = (least: number, most: number): readonly number[] => {
  const from = Math.floor(Math.log10(least) + 1e-9)
  const until = Math.max(from + 1, Math.ceil(Math.log10(most) - 1e-9))
  return Array.from({ length: until - from + 1 }, (_, at) => 10 ** (from + at))
}

/** Round steps from zero to above the largest value. */
const rounds = (most: number): readonly number[] => {
  const rough = Math.max(most, 1e-9) / 5
  const unit = 10 ** Math.floor(Math.log10(rough))
  const step = ([1, 2, 5, 10].find((times) => times * unit >= rough) ?? 10) * unit
  return Array.from({ length: Math.ceil((most * 1.02) / step) + 1 }, (_, at) => Number((at * step).toPrecision(6)))
}

const scale = (ticks: readonly number[], from: number, until: number, logarithmic: boolean) => {
  const of = (value: number) => (logarithmic ? Math.log10(value) : value)
  const [low, high] = [of(ticks[0] ?? 0), of(ticks.at(-1) ?? 1)]
  return {
    ticks,
    place: (value: number) => Math.round((from + ((of(value) - low) / (high - low)) * (until - from)) * 10) / 10,
  }
}

/** Moves overlapping names down. */
const apart = (heights: readonly number[]): readonly number[] => {
  const out = [...heights]
  let last = Number.NEGATIVE_INFINITY
  for (const at of heights.map((_, index) => index).sort((a, b) => (heights[a] ?? 0) - (heights[b] ?? 0))) {
    last = Math.max(heights[at] ?? 0, last + 15)
    out[at] = last
  }
  return out
}

const short = (value: number): string =>
  value >= 1e6 ? `${value / 1e6} M` : value >= 10_000 ? `${value / 1000},000` : value.toLocaleString('en')

const escaped = (text: string): string => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/"/g, '&quot;')
