/** The pages as tests read them. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export const ROOT = join(import.meta.dirname, '..', '..')

/** A code block. `info`: the words after the fence, which the forge does not show. */
export type Block = {
  readonly page: string
  readonly line: number
  readonly info: readonly string[]
  readonly text: string
}

/** A page. `prose`: without code blocks. */
type Page = { readonly path: string; readonly prose: string; readonly blocks: readonly Block[] }

const BLOCK = /^```(.*)\n([\s\S]*?)^```$/gm

const readPage = (path: string): Page => {
  const text = readFileSync(join(ROOT, path), 'utf8')
  const blocks = [...text.matchAll(BLOCK)].map(({ 1: info = '', 2: content = '', index }) => ({
    page: path,
    line: text.slice(0, index).split('\n').length,
    info: info.split(' '),
    text: content,
  }))
  return { path, prose: text.replace(BLOCK, ''), blocks }
}

/** The pages for users. Notes on decisions and releases quote what was. */
export const PAGES: readonly Page[] = globSync(['README.md', 'SECURITY.md', 'docs/**/*.md'], { cwd: ROOT })
  .map((path) => path.replaceAll('\\', '/'))
  .filter((path) => !path.startsWith('docs/decisions/'))
  .sort()
  .map(readPage)

/** Their code blocks of a language. */
export const blocksOf = (language: string): readonly Block[] =>
  PAGES.flatMap(({ blocks }) => blocks.filter(({ info }) => info[0] === language))

export const placeOf = ({ page, line }: Block): string => `${page}:${line}`
