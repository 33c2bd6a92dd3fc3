/** Markdown to HTML. Pages cannot contain HTML of their own, so that none can bring a script or a form. */
import { Marked, type Token, type Tokens } from 'marked'
import { anchors } from './anchors.ts'

/** A heading of a page. */
export type Heading = { readonly depth: number; readonly text: string; readonly anchor: string }

/** A page as HTML. */
export type Rendered = { readonly title: string; readonly html: string; readonly headings: readonly Heading[] }

/**
 * The address of a link's target. Null: the target is no part of the site, and is named instead of linked. `path`: as in
 * the page, without anchor.
 */
export type Resolve = (path: string) => string | null

const ENTITIES: { readonly [letter: string]: string } = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

/** A text as HTML. */
export const escapeHtml = (text: string): string => text.replace(/[&<>"]/g, (letter) => ENTITIES[letter] ?? '')

/** The text of inline content without its markup. */
const plainText = (tokens: readonly Token[]): string =>
  tokens
    .map((token) => ('tokens' in token && token.tokens ? plainText(token.tokens) : 'text' in token ? token.text : ''))
    .join('')

/** Characters of a code span that stays on one line. */
const SHORT = 24

const COMMENT = /^<!--[\s\S]*?-->\s*$/

/** The name in a cell that consists of one code span. */
const nameIn = (cell: Tokens.TableCell | undefined): string | null => {
  const [only, ...others] = cell?.tokens ?? []
  return only?.type === 'codespan' && others.length === 0 ? only.text : null
}

/** Renders a page. Throws for HTML in it, and for a link that is neither relative nor HTTP. */
export const renderPage = (markdown: string, resolve: Resolve): Rendered => {
  const headings: Heading[] = []
  const anchor = anchors()
  const marked = new Marked({ gfm: true })
  const address = (href: string): string | null => {
    if (/^https?:\/\//.test(href) || href.startsWith('#')) return href
    if (/^[a-z][a-z0-9+.-]*:|^\//i.test(href)) throw new Error(`a link leads to ${href}`)
    const [path = '', fragment] = href.split('#')
    const found = resolve(path)
    return found === null || fragment === undefined ? found : `${found}#${fragment}`
  }
  marked.use({
    renderer: {
      html({ text }) {
        if (COMMENT.test(text)) return ''
        throw new Error(`HTML is not allowed: ${text.trim().slice(0, 60)}`)
      },
      heading({ tokens, depth }) {
        const text = plainText(tokens)
        const id = anchor(text)
        headings.push({ depth, text, anchor: id })
        const inner = this.parser.parseInline(tokens)
        if (depth === 1) return `<h1 id="${escapeHtml(id)}">${inner}</h1>\n`
        return `<h${depth} id="${escapeHtml(id)}">${inner} <a class="anchor" href="#${encodeURIComponent(id)}" aria-label="Link to ${escapeHtml(text)}">#</a></h${depth}>\n`
      },
      // A name is not broken at its hyphens.
      codespan({ text }) {
        return `<code${text.length <= SHORT ? ' class="short"' : ''}>${escapeHtml(text)}</code>`
      },
      // The keyboard can scroll what is wider than the window.
      code({ text, lang }) {
        const [language = ''] = (lang ?? '').split(' ')
        return `<pre tabindex="0"><code${language && ` class="language-${escapeHtml(language)}"`}>${escapeHtml(text)}\n</code></pre>\n`
      },
      table(token) {
        const cells = (row: readonly Tokens.TableCell[], name: 'td' | 'th') =>
          row.map(({ tokens }) => `<${name}>${this.parser.parseInline(tokens)}</${name}>`).join('')
        const rows = token.rows.map((row) => {
          // A row about a setting, a code or a metric has an anchor too.
          const name = nameIn(row[0])
          return `<tr${name === null ? '' : ` id="${escapeHtml(anchor(name))}"`}>${cells(row, 'td')}</tr>`
        })
        const head = plainText(token.header.flatMap(({ tokens }) => tokens)).trim()
        return `<div class="table" tabindex="0"><table>${head && `<thead><tr>${cells(token.header, 'th')}</tr></thead>`}<tbody>${rows.join('\n')}</tbody></table></div>\n`
      },
      link({ href, tokens }) {
        const inner = this.parser.parseInline(tokens)
        const to = address(href)
        const named = href.replace(/^(?:\.\.\/)+/, '')
        if (to !== null) return `<a href="${escapeHtml(to)}">${inner}</a>`
        return plainText(tokens) === named ? `<code>${inner}</code>` : `${inner} (<code>${escapeHtml(named)}</code>)`
      },
      image({ href, text }) {
        const to = address(href)
        // The npm package has no pictures.
        if (to === null) return `<em>(Picture: ${escapeHtml(text)})</em>`
        return `<a href="${escapeHtml(to)}"><img src="${escapeHtml(to)}" alt="${escapeHtml(text)}"></a>`
      },
    },
  })
  const html = marked.parse(markdown, { async: false })
  const [first] = headings
  if (first?.depth !== 1 || headings.filter(({ depth }) => depth === 1).length !== 1)
    throw new Error('a page begins with its title, the only heading of the first level')
  return { title: first.text, html, headings }
}
