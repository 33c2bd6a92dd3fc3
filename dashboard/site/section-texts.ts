/** The texts that the search reads: one for each heading, without markup. */
import type { Rendered } from './markdown.ts'
import { fileOf } from './page-frame.ts'
import type { Section } from './pages.ts'

/** A part of a page from a heading to the next one. `file`: its address below the folder of the site. */
export type SectionText = {
  readonly file: string
  readonly anchor: string
  readonly page: string
  readonly heading: string
  readonly text: string
  /** The page lists things instead of explaining how to do one: a guide that has the words comes first. */
  readonly isList?: true
}

/** Sections of docs/index.md whose pages are no guides. */
const LISTS: ReadonlySet<string> = new Set(['Reference', 'Develop'])

const NAMED: { readonly [entity: string]: string } = {
  '&amp;': '&',
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&#39;': "'",
}

/** HTML of the renderer as text. */
const plain = (html: string): string =>
  html
    .replace(/<a class="anchor".*?<\/a>/g, '')
    .replace(/<\/?(?:code|a|strong|em|del)\b[^>]*>/g, '')
    .replace(/<[^>]*>/g, ' ')
    .replace(/&(?:amp|lt|gt|quot|#39);/g, (entity) => NAMED[entity] ?? entity)
    .replace(/\s+/g, ' ')
    .trim()

/** The texts of all pages, in their order. `sections`: of docs/index.md. */
export const textsOf = (
  rendered: ReadonlyMap<string, Rendered>,
  sections: readonly Section[],
): readonly SectionText[] => {
  const guides = new Set(
    sections.filter(({ title }) => !LISTS.has(title)).flatMap(({ pages }) => pages.map(({ path }) => fileOf(path))),
  )
  return [...rendered].flatMap(([file, { title, html, headings }]) =>
    // Each heading begins a part; there is no text before the title.
    html.split(/(?=<h[1-6] id=)/).map((part, index) => {
      const { text: heading = title, anchor = '' } = headings[index] ?? {}
      const text = plain(part.replace(/^<h[1-6].*?<\/h[1-6]>/s, ''))
      return { file, anchor, page: title, heading, text, ...(!guides.has(file) && { isList: true }) }
    }),
  )
}
