/** The files of the documentation, as texts: every page as HTML and as Markdown, the lists for language models, the style. */
import { existsSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { finder, icon, style } from './assets.ts'
import { type Rendered, renderPage } from './markdown.ts'
import { FIND_FILE, fileOf, findPage, frame } from './page-frame.ts'
import { llmsText, pagesIn, readPage, sectionsIn } from './pages.ts'
import { textsOf } from './section-texts.ts'

/** The pages in their order: those of the list, then all others. */
const inOrder = (docs: string): readonly string[] => {
  const listed = sectionsIn(readPage(docs, 'index.md')).flatMap(({ pages }) => pages.map(({ path }) => path))
  return [...new Set(['index.md', ...listed, ...pagesIn(docs)])]
}

/** All pages as one text, for language models. */
const wholeText = (docs: string): string =>
  inOrder(docs)
    .map((path) => `<!-- docs/${path} -->\n\n${readPage(docs, path).trim()}\n`)
    .join('\n')

/** Renders the pages of a folder. Throws an error that names the page. */
const renderAll = (docs: string): ReadonlyMap<string, Rendered> => {
  const render = (path: string): [string, Rendered] => {
    const resolve = (link: string) => {
      const target = posix.join(posix.dirname(path), link)
      // A link out of the folder leads to a file of the repository.
      if (target.startsWith('..') || !existsSync(join(docs, target))) return null
      return link.endsWith('.md') ? fileOf(link) : link
    }
    try {
      return [fileOf(path), renderPage(readPage(docs, path), resolve)]
    } catch (error) {
      // The package adds a second line to messages.
      const [message] = String(error instanceof Error ? error.message : error).split('\n')
      throw new Error(`docs/${path}: ${message}`, { cause: error })
    }
  }
  return new Map(inOrder(docs).map(render))
}

/** All files but pictures, by name. `root`: the folder of the project or package. */
export const siteFiles = (root: string): ReadonlyMap<string, string> => {
  const docs = join(root, 'docs')
  const { version }: { readonly version: string } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const site = { sections: sectionsIn(readPage(docs, 'index.md')), version }
  const rendered = renderAll(docs)
  const pages = [...rendered, [FIND_FILE, findPage(rendered)] as const]
  return new Map([
    ...pagesIn(docs).map((path): [string, string] => [path, readPage(docs, path)]),
    ...pages.map(([file, page]): [string, string] => [file, frame(site, file, page)]),
    ['llms.txt', llmsText(docs)],
    ['llms-full.txt', wholeText(docs)],
    ['sections.json', JSON.stringify(textsOf(rendered, site.sections))],
    ['find.js', finder],
    ['icon.svg', icon],
    ['style.css', style],
  ])
}
