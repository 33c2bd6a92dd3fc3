/** The frame of a page: head, navigation, contents, next page. Only the page of the search has a script. */
import { posix } from 'node:path'
import { escapeHtml, type Heading, type Rendered } from './markdown.ts'
import type { ListedPage, Section } from './pages.ts'

/** The file of a page: `clients/codex.md` is `clients/codex.html`. */
export const fileOf = (path: string): string => path.replace(/\.md$/, '.html')

/** The page of the search, which also has the headings of all pages. */
export const FIND_FILE = 'find.html'

/** The list, and the version of the gateway. */
export type Site = { readonly sections: readonly Section[]; readonly version: string }

/** An address as seen from a page, so that the site works in every folder. */
const from = (page: string, to: string): string => posix.relative(posix.dirname(page), to)

const navigation = (site: Site, page: string): string => {
  const item = ({ path, title }: ListedPage) => {
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
  const link = (listed: ListedPage | undefined, rel: 'prev' | 'next', label: string) =>
    listed
      ? `<a rel="${rel}" href="${escapeHtml(from(page, fileOf(listed.path)))}">${label}: ${escapeHtml(listed.title)}</a>`
      : ''
  return `<p class="neighbours">${link(pages[at - 1], 'prev', 'Before')} ${link(pages[at + 1], 'next', 'Next')}</p>`
}

/** The whole file of a page. */
export const frame = (site: Site, page: string, { title, html, headings }: Rendered): string => {
  const [heading = '', rest = ''] = html.split(/(?<=<\/h1>\n)/, 2)
  const source =
    page === FIND_FILE ? '' : `<a href="${escapeHtml(from(page, page.replace(/html$/, 'md')))}">As Markdown</a>`
  const field = searchField(from(page, FIND_FILE))
  const script = page === FIND_FILE ? '\n<script type="module" src="find.js"></script>' : ''
  const name = title === 'Headgate' ? title : `${title} · Headgate`
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(name)}</title>
<link rel="icon" href="${from(page, 'icon.svg')}">
<link rel="stylesheet" href="${from(page, 'style.css')}">${script}
</head>
<body>
<a class="skip" href="#page-text">To the text</a>
<header><a class="brand" href="${from(page, 'index.html')}">Headgate</a> <span class="version">${escapeHtml(site.version)}</span>
<span class="tools"><a class="to-pages" href="#page-list">Pages</a> ${page === FIND_FILE ? '' : field} ${source}</span></header>
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

/** A field that leads to the page of the search; `action`: its address. */
const searchField = (action: string): string =>
  `<form role="search" action="${escapeHtml(action)}"><input type="search" name="q" placeholder="Search" aria-label="Search the documentation" maxlength="200"></form>`

/** The page of the search, with all headings by page in the order of the list. */
export const findPage = (rendered: ReadonlyMap<string, Rendered>): Rendered => {
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
  const results = `${searchField(FIND_FILE)}\n<div id="results" aria-live="polite"></div>`
  const html = `<h1 id="find">Find</h1>\n${results}\n<p>The headings of all pages:</p><div class="headings">${parts.join('\n')}</div>`
  return { title: 'Find', html, headings: [{ depth: 1, text: 'Find', anchor: 'find' }] }
}
