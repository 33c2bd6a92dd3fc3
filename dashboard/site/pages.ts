/** The pages of the documentation, and their order: docs/index.md is the list. */
import { globSync, readFileSync } from 'node:fs'
import { join, sep } from 'node:path'

/** A page in the list. `path`: below `docs`. */
export type ListedPage = { readonly path: string; readonly title: string; readonly about: string }
/** A part of the list. */
export type Section = { readonly title: string; readonly pages: readonly ListedPage[] }

/** Every page below `docs`, as `clients/codex.md`. */
export const pagesIn = (docs: string): readonly string[] =>
  globSync('**/*.md', { cwd: docs })
    .map((path) => path.split(sep).join('/'))
    .sort()

/** The text of a page. */
export const readPage = (docs: string, path: string): string => readFileSync(join(docs, path), 'utf8')

const ITEM = /^- \[(.+?)\]\((\S+?\.md)\): (.+)$/

/** The list in a text: below each heading of the third level, one line for each page. */
export const sectionsIn = (text: string): readonly Section[] =>
  text
    .split(/^### /m)
    .slice(1)
    .map((part) => {
      const [title = '', ...lines] = part.split(/^## /m)[0]?.split('\n') ?? []
      const pages = lines.flatMap((line): ListedPage[] => {
        const [, name, path, about] = ITEM.exec(line) ?? []
        return name === undefined || path === undefined || about === undefined ? [] : [{ title: name, path, about }]
      })
      return { title, pages }
    })

/** The text before the first heading of the second level, without the title. */
const introductionIn = (text: string): string =>
  text
    .replace(/^# .*\n/, '')
    .split(/^## /m)[0]
    ?.trim() ?? ''

/** The list for language models: `llms.txt`, beside the folder of the pages. */
export const llmsText = (docs: string): string => {
  const index = readPage(docs, 'index.md')
  const parts = sectionsIn(index).map(
    ({ title, pages }) =>
      `## ${title}\n\n${pages.map(({ title: name, path, about }) => `- [${name}](docs/${path}): ${about}\n`).join('')}`,
  )
  const introduction = introductionIn(index).replaceAll('\n', '\n> ')
  return `# Headgate\n\n> ${introduction}\n\nAll pages in one file: \`/llms-full.txt\` of a running gateway.\n\n${parts.join('\n')}`
}
