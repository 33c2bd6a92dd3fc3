/** The frame of a page: head, navigation, contents, next page. No script is needed, and none is allowed. */
import { posix } from 'node:path'
import { escapeHtml, type Heading, type Rendered } from './markdown.ts'
import type { Listed, Section } from './pages.ts'

/** The file of a page: `clients/codex.md` is `clients/codex.html`. */
export const fileOf = (path: string): string => path.replace(/\.md$/, '.html')

/** The file with the headings of all pages. */
export const HEADINGS_FILE = 'headings.html'

/** The list, and the version of the gateway. */
export type Site = { readonly sections: readonly Section[]; readonly version: string }

/** An address as seen from a page, so that the site works in every folder. */
const from = (page: string, to: string): string => posix.relative(posix.dirname(page), to)

const navigation = (site: Site, page: string): string => {
  const item = ({ path, title }: Listed) => {
    const current = fileOf(path) === page ? ' aria-current="page"' : ''
    return `<li><a href="${escapeHtml(from(page, fileOf(path)))}"${current}>${escapeHtml(title)}</a></li>`
  }
  const part = ({ title, pages }: Section) => `<h2>${escapeHtml(title)}</h2><ul>${pages.map(item).join('')}</ul>`
  return `<nav id="page-list" aria-label="Pages">${site.sections.map(part).join('\n')}</nav>`
}

/** Headings above which a page has a list of its contents. */
const FEW = 3

const contents = (headings: readonly Heading[]): string => {
  const parts = headings.filter(({ depth }) => depth === 2)
  if (parts.length < FEW) return ''
  const items = parts.map(
    ({ text, anchor }) => `<li><a href="#${encodeURIComponent(anchor)}">${escapeHtml(text)}</a></li>`,
  )
  return `<details class="contents"><summary>On this page</summary><ul>${items.join('')}</ul></details>`
}

const neighbours = ({ sections }: Site, page: string): string => {
  const pages = sections.flatMap((section) => section.pages)
  const at = pages.findIndex(({ path }) => fileOf(path) === page)
  if (at === -1) return ''
  const link = (listed: Listed | undefined, rel: 'prev' | 'next', label: string) =>
    listed
      ? `<a rel="${rel}" href="${escapeHtml(from(page, fileOf(listed.path)))}">${label}: ${escapeHtml(listed.title)}</a>`
      : ''
  return `<p class="neighbours">${link(pages[at - 1], 'prev', 'Before')} ${link(pages[at + 1], 'next', 'Next')}</p>`
}

/** The whole file of a page. */
export const frame = (site: Site, page: string, { title, html, headings }: Rendered): string => {
  const [heading = '', rest = ''] = html.split(/(?<=<\/h1>\n)/, 2)
  const source =
    page === HEADINGS_FILE ? '' : `<a href="${escapeHtml(from(page, page.replace(/html$/, 'md')))}">As Markdown</a>`
  const name = title === 'Headgate' ? title : `${title} · Headgate`
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(name)}</title>
<link rel="icon" href="${from(page, 'icon.svg')}">
<link rel="stylesheet" href="${from(page, 'style.css')}">
</head>
<body>
<a class="skip" href="#page-text">To the text</a>
<header><a class="brand" href="${from(page, 'index.html')}">Headgate</a> <span class="version">${escapeHtml(site.version)}</span>
<span class="tools"><a class="to-pages" href="#page-list">Pages</a> <a href="${from(page, HEADINGS_FILE)}">Find</a> ${source}</span></header>
<div class="columns">
<main id="page-text">
${heading}${contents(headings)}${rest}${neighbours(site, page)}
</main>
${navigation(site, page)}
</div>
</body>
</html>
`
}

/** The page of all headings, by page in the order of the list. */
export const headingsPage = (rendered: ReadonlyMap<string, Rendered>): Rendered => {
  const parts = [...rendered].map(([file, { title, headings }]) => {
    const items = headings
      .slice(1)
      .map(
        ({ text, anchor, depth }) =>
          `<li class="depth-${depth}"><a href="${escapeHtml(`${file}#${encodeURIComponent(anchor)}`)}">${escapeHtml(text)}</a></li>`,
      )
    const list = items.length > 0 ? `<ul>${items.join('')}</ul>` : ''
    return `<h2><a href="${escapeHtml(file)}">${escapeHtml(title)}</a></h2>${list}`
  })
  const html = `<h1 id="find">Find</h1>\n<p>The headings of all pages. Search this page with your browser (Ctrl+F).</p><div class="headings">${parts.join('\n')}</div>`
  return { title: 'Find', html, headings: [{ depth: 1, text: 'Find', anchor: 'find' }] }
}
