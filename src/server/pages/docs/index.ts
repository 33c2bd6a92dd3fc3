/** Serves the documentation: the pages that belong to the running version, without a network. */
import { readdir, readFile } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import { ThreadClient } from '../../../storage/thread/connect-thread.ts'
import { DOCS_BASE, type Pages, rootFrom } from '../../page-request.ts'
import { HTML, type PageFile, pageFiles, pageHeaders, respond, sendFile, typeOf } from '../respond.ts'
import { SMALL_STYLE } from '../small-pages.ts'
import { type PageOptions, pageSource } from '../source.ts'
import { docsPlan } from './plan.ts'

/** The search is a form and a script that reads a file; pages cannot bring any others. */
const HEADERS = pageHeaders([
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
])

const SMALL_STYLE_PATH = `${DOCS_BASE}/small.css`

/** The files of a build, by names such as `clients/codex.html`, so that a path can lead to no other file. */
const readFiles = async (folder: string): Promise<ReadonlyMap<string, PageFile> | null> => {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  const paths = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
  // A file is missing: another process replaces the folder.
  const contents = await Promise.all(paths.map((path) => readFile(path))).catch((): readonly Buffer[] => [])
  const files = pageFiles(
    contents.map((content, index) => [
      relative(folder, paths[index] ?? '')
        .split(sep)
        .join('/'),
      content,
    ]),
  )
  return files.has('index.html') ? files : null
}

/** The files that the thread makes, by name. */
type SiteTexts = ReadonlyMap<string, string>

/** A file of the package (`dashboard/site/thread.ts`). */
const PROGRAM = new URL('./docs-thread.mjs', import.meta.url)
type SiteProgram = (data: null) => { readonly methods: { readonly make: (root: string) => SiteTexts } }

/** The files in the package, which has the pages as Markdown. Their HTML is made once, in a thread. */
const makeFiles = async (home: string): Promise<ReadonlyMap<string, PageFile> | string> => {
  const thread = new ThreadClient<SiteProgram>({
    program: PROGRAM,
    data: () => null,
    memory: { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 32 },
    restart: 'when called',
  })
  const result = await thread.call('make', home, { limit: null })
  void thread.close(0)
  return 'value' in result ? pageFiles(result.value) : result.problem
}

/** The name of the file at a path: `/docs/errors` is `errors.html`. */
const nameOf = (path: string): string => {
  if (!path.startsWith(DOCS_BASE)) return path.slice(1)
  const name = path.slice(DOCS_BASE.length + 1)
  if (name === '') return 'index.html'
  return typeOf(name) === undefined ? `${name}.html` : name
}

const NO_PAGE =
  `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Headgate: no such page</title>` +
  `<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="{root}docs/small.css"></head>` +
  `<body><main><h1>No such page</h1><p><a href="{root}docs/">All pages</a> · ` +
  `<a href="{root}docs/find.html">Search</a></p></main></body></html>`

/** Opens the documentation. */
export const openDocs = ({ home, ...options }: PageOptions): Pages => {
  const source = pageSource({
    ...options,
    plan: docsPlan(home),
    packaged: () => makeFiles(home),
    texts: { title: 'The documentation', command: 'npm run build:docs', style: `{root}${SMALL_STYLE_PATH.slice(1)}` },
    read: readFiles,
  })
  return {
    async serve({ method, path, headers, local }, reply) {
      const answer = (status: number, more: Readonly<Record<string, string>>, text: string) =>
        respond(reply, status, { ...HEADERS, ...more }, text)
      if (path === DOCS_BASE) return answer(302, { location: `.${DOCS_BASE}/` }, '')
      if (path === SMALL_STYLE_PATH)
        return answer(200, { 'content-type': 'text/css', 'cache-control': 'no-cache' }, SMALL_STYLE)
      const root = rootFrom(path)
      const found = await source({ local, keep: false })
      if (typeof found === 'string')
        return answer(
          503,
          { 'content-type': HTML, 'cache-control': 'no-store', 'retry-after': '1' },
          found.replaceAll('{root}', root),
        )
      const file = found.get(nameOf(path))
      if (file === undefined)
        return answer(404, { 'content-type': HTML, 'cache-control': 'no-store' }, NO_PAGE.replaceAll('{root}', root))
      return sendFile(reply, file, { method, headers, common: HEADERS, immutable: false })
    },
  }
}
