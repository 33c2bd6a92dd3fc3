/** Draws a folded profile as a flame graph: one box per call, its width the share of the time, callees above. Pure. */
import type { Call } from './profile.ts'

const WIDTH = 1200
const LINE = 16
/** Title and legend. */
const TOP = 56
/** Narrower boxes are left out. px */
const NARROWEST = 0.6
/** Width of a monospaced letter of 11 px. */
const LETTER = 6.6
/** Width of a letter of 9 px. */
const SMALL_LETTER = 5.5
/** Maximum size in bytes; larger pictures drop narrow boxes. */
const LARGEST = 190_000

const COLOURS: readonly (readonly [RegExp, string])[] = [
  [/^headgate: client/, '#f2a65a'],
  [/^headgate: server/, '#e8c547'],
  [/^headgate: log/, '#c9b79c'],
  [/^headgate: protocols/, '#8fbc5a'],
  [/^headgate/, '#6fb98f'],
  [/^node: http/, '#7fa7d9'],
  [/^node/, '#a7c4e5'],
  [/^garbage/, '#d98fa8'],
  [/^kernel/, '#d9736b'],
]
const OTHER = '#cccccc'
const colour = (area: string): string => COLOURS.find(([pattern]) => pattern.test(area))?.[1] ?? OTHER

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

type Box = { readonly call: Call; readonly x: number; readonly width: number; readonly depth: number }

/** Boxes of at least this width, each above its caller, the larger first. */
const boxesOf = (root: Call, narrowest: number): readonly Box[] => {
  const boxes: Box[] = []
  const place = (call: Call, x: number, depth: number): void => {
    const width = (call.total / root.total) * WIDTH
    if (width < narrowest) return
    boxes.push({ call, x, width, depth })
    let left = x
    for (const inner of call.calls.toSorted((a, b) => b.total - a.total)) {
      place(inner, left, depth + 1)
      left += (inner.total / root.total) * WIDTH
    }
  }
  if (root.total > 0) place(root, 0, 0)
  return boxes
}

const draw = (root: Call, title: string, boxes: readonly Box[]): string => {
  const deepest = boxes.reduce((most, { depth }) => Math.max(most, depth), 0)
  const height = TOP + (deepest + 1) * LINE + 10
  const parts = boxes.map(({ call, x, width, depth }) => {
    const y = height - 10 - (depth + 1) * LINE
    const percent = ((100 * call.total) / root.total).toFixed(1)
    const letters = Math.floor((width - 4) / LETTER)
    const { name } = call
    const label = letters < 3 ? '' : name.length <= letters ? name : `${name.slice(0, letters - 1)}…`
    const box = `<rect x="${x.toFixed(1)}" y="${y}" width="${Math.max(0.3, width - 0.4).toFixed(1)}" height="15" fill="${colour(call.area)}"/>`
    const text = label === '' ? '' : `<text x="${(x + 2).toFixed(1)}" y="${y + 11.5}">${escaped(label)}</text>`
    const where = call.place === '' ? '' : ` ${call.place}`
    return `<g><title>${escaped(`${name}${where} ${percent} %`)}</title>${box}${text}</g>`
  })
  let [left, line] = [2, 32]
  const legend = [...new Set(boxes.map(({ call }) => call.area))]
    .filter(Boolean)
    .sort()
    .map((area) => {
      const width = area.length * SMALL_LETTER + 24
      if (left + width > WIDTH) [left, line] = [2, line + 12]
      const svg = `<rect x="${left}" y="${line - 8}" width="9" height="9" fill="${colour(area)}"/><text class="l" x="${left + 12}" y="${line}">${escaped(area)}</text>`
      left += width
      return svg
    })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}">`,
    '<style>text{font:11px ui-monospace,monospace;fill:#111}.l{font-size:9px}.t{font-weight:bold}</style>',
    `<rect width="${WIDTH}" height="${height}" fill="#fff"/><text class="t" x="2" y="14">${escaped(title)}</text>`,
    ...legend,
    ...parts,
    '</svg>\n',
  ].join('\n')
}

export const flame = (root: Call, title: string): string => {
  for (let narrowest = NARROWEST; ; narrowest *= 1.5) {
    const boxes = boxesOf(root, narrowest)
    const svg = draw(root, title, boxes)
    if (svg.length <= LARGEST || boxes.length < 10) return svg
  }
}
