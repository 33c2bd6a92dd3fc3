/**
 * A text of a model as Markdown: headings, lists, quotes, code, tables, emphasis and links. It becomes elements of this list, never
 * HTML: what it has of HTML is shown as text, images are named and not loaded, and only links to the web can be followed.
 * The repetitions within a line are bounded, so that no text takes long.
 */
import { type ComponentChild, Fragment, h } from 'preact'

/** Characters above which a text stays as it is, and elements within each other. */
const MOST = { text: 50_000, depth: 24 }

type Found = { readonly node: ComponentChild; readonly next: number }
/** Reads a block that begins at a line; null: there is none of this kind. */
type Reader = (lines: readonly string[], at: number, depth: number) => Found | null

const ENTITIES: { readonly [name: string]: string } = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  nbsp: '\u00a0',
}

/** A text with the entities that models write decoded. */
const decoded = (text: string): string =>
  text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-z]{2,4}));/g, (whole, decimal, hex, name) => {
    if (name !== undefined) return ENTITIES[name] ?? whole
    const code = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal)
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole
  })

const INLINE = new RegExp(
  [
    /\\(?<escaped>[!-/:-@[-`{-~])/,
    /(?<!`)(?<ticks>`{1,9})(?!`)(?<code>[\s\S]{1,1000}?)(?<!`)\k<ticks>(?!`)/,
    /(?<image>!?)\[(?<label>(?:[^[\]]|\[[^[\]]{0,200}\]){0,500})\]\((?:<(?<angled>[^<>\n]{0,1000})>|(?<href>[^\s()]{0,1000}(?:\([^\s()]{0,1000}\)[^\s()]{0,1000}){0,9}))(?: +"[^"\n]{0,500}")?\)/,
    /<?(?<url>https?:\/\/[^\s<>"`]{0,1000}[^\s<>"`.,;:!?)\]*_])>?/,
    /(?<!\*)\*\*(?=\S)(?<strong>[\s\S]{1,1000}?)(?<=\S)\*\*(?!\*)/,
    /(?<!\w)__(?=\S)(?<strong2>[\s\S]{1,1000}?)(?<=\S)__(?!\w)/,
    /\*(?![\s*])(?<em>(?:[^*]|\*\*){1,1000}?)(?<!\s)\*(?!\*)/,
    /(?<!\w)_(?![\s_])(?<em2>[^_]{1,1000}?)(?<!\s)_(?!\w)/,
    /~~(?=\S)(?<struck>[\s\S]{1,1000}?)(?<=\S)~~/,
    /(?<br> {2}|\\)\n/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'g',
)

/** A link to the web; the address of any other, and of an image, is text. */
const linkOf = (href: string, inner: ComponentChild, isImage = false): ComponentChild =>
  isImage || !/^https?:\/\//i.test(href)
    ? h(Fragment, null, inner, ' (', h('code', null, href), ')')
    : h('a', { href, title: href, target: '_blank', rel: 'noopener noreferrer' }, inner)

const inlineNode = (whole: string, found: { readonly [name: string]: string | undefined }, depth: number) => {
  const { escaped, code, image, label, angled, href, url, strong, strong2, em, em2, struck, br } = found
  const bold = strong ?? strong2
  const stressed = em ?? em2
  if (escaped !== undefined) return escaped
  if (code !== undefined) return h('code', null, /^ .*\S.* $/s.test(code) ? code.slice(1, -1) : code)
  if (label !== undefined) {
    const isImage = image === '!'
    return linkOf(angled ?? href ?? '', isImage ? decoded(label) : inline(label, depth), isImage)
  }
  if (url !== undefined) return linkOf(url, url)
  if (bold !== undefined) return h('strong', null, inline(bold, depth))
  if (stressed !== undefined) return h('em', null, inline(stressed, depth))
  if (struck !== undefined) return h('s', null, inline(struck, depth))
  return br === undefined ? whole : h('br', null)
}

const inline = (text: string, depth: number): ComponentChild => {
  if (depth > MOST.depth) throw new RangeError('The text is nested too deep.')
  const nodes: ComponentChild[] = []
  let end = 0
  for (const match of text.matchAll(INLINE)) {
    nodes.push(decoded(text.slice(end, match.index)), inlineNode(match[0], match.groups ?? {}, depth + 1))
    end = match.index + match[0].length
  }
  return h(Fragment, null, ...nodes, decoded(text.slice(end)))
}

/** The first line at or after one that does not match. */
const endOf = (lines: readonly string[], at: number, matches: (line: string) => boolean): number => {
  let end = at
  for (let line = lines[end]; line !== undefined && matches(line); line = lines[end]) end += 1
  return end
}
const codeOf = (lines: readonly string[]) => h('pre', { class: 'markdown-code' }, lines.join('\n'))

const fence: Reader = (lines, at) => {
  const [, indent = '', mark] = /^( {0,3})(`{3,}|~{3,})(?!.*`)/.exec(lines[at] ?? '') ?? []
  if (mark === undefined) return null
  const end = endOf(lines, at + 1, (line) => !(line.trim().startsWith(mark) && /^\s*(`+|~+)\s*$/.test(line)))
  const code = lines.slice(at + 1, end).map((line) => line.slice(Math.min(indent.length, line.search(/\S|$/))))
  return { node: codeOf(code), next: end + 1 }
}

const indented: Reader = (lines, at) => {
  if (!lines[at]?.startsWith('    ')) return null
  const next = endOf(lines, at, (line) => line.startsWith('    '))
  return { node: codeOf(lines.slice(at, next).map((line) => line.slice(4))), next }
}

/** Headings are those of the page, so that those of an answer are none. */
const headingOf = (level: number, text: string, depth: number) =>
  h('p', { class: 'markdown-heading', 'data-level': level }, inline(text, depth))

const heading: Reader = (lines, at, depth) => {
  const [, marks, text = ''] = /^ {0,3}(#{1,6})\s(.*)$/.exec(lines[at] ?? '') ?? []
  return marks === undefined
    ? null
    : { node: headingOf(marks.length, text.trim().replace(/(?:^|\s)#+$/, ''), depth), next: at + 1 }
}

const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/
const rule: Reader = (lines, at) => (RULE.test(lines[at] ?? '') ? { node: h('hr', null), next: at + 1 } : null)

const QUOTE = /^ {0,3}> ?/
const quote: Reader = (lines, at, depth) => {
  const next = endOf(lines, at, (line) => QUOTE.test(line))
  if (next === at) return null
  const inner = lines.slice(at, next).map((line) => line.replace(QUOTE, ''))
  return { node: h('blockquote', null, ...blocks(inner, depth + 1)), next }
}

const ITEM = /^( {0,3})([-*+]|(\d{1,9})[.)])( {1,4}|$)/
const isBlank = (line: string): boolean => line.trim() === ''
/** Lines that end a paragraph. */
const STARTS = /^ {0,3}(?:`{3}|~{3}|#{1,6}\s|>|(?:[-*+]|1[.)]) +\S)/

const itemOf = (lines: readonly string[], isTight: boolean, depth: number): ComponentChild => {
  const [, box, rest = ''] = /^\[([ xX])\] (.*)$/.exec(lines[0] ?? '') ?? []
  if (box === undefined) return h('li', null, ...blocks(lines, depth, isTight))
  return h('li', null, box === ' ' ? '☐ ' : '☑ ', ...blocks([rest, ...lines.slice(1)], depth, isTight))
}

const list: Reader = (lines, at, depth) => {
  const first = ITEM.exec(lines[at] ?? '')
  if (!first || RULE.test(lines[at] ?? '')) return null
  const [, indent = '', , start] = first
  const items: string[][] = []
  let next = at
  let blanks = 0
  let isTight = true
  for (let line = lines[next]; line !== undefined; next += 1, line = lines[next]) {
    const found = RULE.test(line) ? null : ITEM.exec(line)
    const isInner = line.search(/\S/) >= indent.length + 2
    if (isBlank(line)) blanks += 1
    else if (found && !isInner && (found[3] === undefined) === (start === undefined)) {
      if (blanks > 0) isTight = false
      items.push([line.slice(found[0].length)])
      blanks = 0
    } else if (isInner || (blanks === 0 && !STARTS.test(line) && !RULE.test(line))) {
      if (blanks > 0) isTight = false
      const inner = line.slice(Math.min(first[0].length, line.search(/\S/)))
      items.at(-1)?.push(...Array<string>(blanks).fill(''), inner)
      blanks = 0
    } else break
  }
  const shown = items.map((item) => itemOf(item, isTight, depth + 1))
  return { node: start === undefined ? h('ul', null, ...shown) : h('ol', { start: Number(start) }, ...shown), next }
}

const cellsOf = (line: string): readonly string[] =>
  line
    .trim()
    .replace(/^\||(?<!\\)\|$/g, '')
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll('\\|', '|'))

const table: Reader = (lines, at, depth) => {
  const head = lines[at] ?? ''
  if (!head.includes('|')) return null
  const marks = cellsOf(lines[at + 1] ?? '')
  const heads = cellsOf(head)
  if (marks.length !== heads.length || !marks.every((mark) => /^:?-+:?$/.test(mark))) return null
  const aligns = marks.map((mark) => (mark.endsWith(':') ? (mark.startsWith(':') ? 'center' : 'right') : undefined))
  const next = endOf(lines, at + 2, (line) => line.includes('|'))
  const row = (Cell: 'td' | 'th', texts: readonly string[]) =>
    h('tr', null, ...heads.map((_, n) => h(Cell, { style: { textAlign: aligns[n] } }, inline(texts[n] ?? '', depth))))
  const rows = lines.slice(at + 2, next).map((line) => row('td', cellsOf(line)))
  const parts = [h('thead', null, row('th', heads)), h('tbody', null, ...rows)]
  return { node: h('div', { class: 'markdown-table' }, h('table', null, ...parts)), next }
}

const READERS: readonly Reader[] = [fence, indented, heading, rule, quote, list, table]

const paragraph = (lines: readonly string[], at: number, depth: number, isTight: boolean): Found => {
  const next = endOf(lines, at + 1, (line) => !isBlank(line) && !STARTS.test(line) && !RULE.test(line))
  const inner = lines.slice(at, next).map((line, index) => (index > 0 ? line.trimStart() : line))
  const content = inline(inner.join('\n').trim(), depth)
  return { node: isTight ? content : h('p', null, content), next }
}

const blocks = (lines: readonly string[], depth: number, isTight = false): readonly ComponentChild[] => {
  if (depth > MOST.depth) throw new RangeError('The text is nested too deep.')
  const nodes: ComponentChild[] = []
  for (let at = 0; at < lines.length; ) {
    if (isBlank(lines[at] ?? '')) {
      at += 1
      continue
    }
    const found = READERS.reduce<Found | null>((one, read) => one ?? read(lines, at, depth), null)
    const { node, next } = found ?? paragraph(lines, at, depth, isTight)
    nodes.push(node)
    at = next
  }
  return nodes
}

/** The elements of a text; null: it is too long, or nested too deep. */
export const markdownNodes = (text: string): readonly ComponentChild[] | null => {
  if (text.length > MOST.text) return null
  try {
    return blocks(text.replaceAll('\r\n', '\n').replaceAll('\t', '    ').split('\n'), 0)
  } catch (error) {
    if (error instanceof RangeError) return null
    throw error
  }
}

export const Markdown = ({ text }: { readonly text: string }) => {
  const nodes = markdownNodes(text)
  return nodes ? h(Fragment, null, ...nodes) : h('div', { class: 'playground-text' }, text)
}
