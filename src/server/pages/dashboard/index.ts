/** Serves the files of the dashboard. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DASHBOARD_BASE, type Pages, rootFrom } from '../../page-request.ts'
import { HTML, type PageFile, pageFiles, pageHeaders, respond, sendFile } from '../respond.ts'
import { SMALL_STYLE } from '../small-pages.ts'
import { type PageOptions, pageSource } from '../source.ts'
import { dashboardPlan } from './plan.ts'

const HEADERS = pageHeaders([
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'self'",
])

const ASSETS = `${DASHBOARD_BASE}/assets/`
const SMALL_STYLE_PATH = `${DASHBOARD_BASE}/small.css`
/** Addresses with more segments have no page. */
const MAX_DEPTH = 12

/** The page for each relative root; one map for each build. */
const indexes = new WeakMap<ReadonlyMap<string, PageFile>, Map<string, PageFile>>()

/** The page with addresses relative to one with this root. Undefined: the address is too deep. */
const indexFor = (files: ReadonlyMap<string, PageFile>, root: string): PageFile | undefined => {
  const index = files.get('index.html')
  if (!index || root.length > MAX_DEPTH * '../'.length) return undefined
  const byRoot = indexes.get(files) ?? new Map<string, PageFile>()
  indexes.set(files, byRoot)
  const known = byRoot.get(root)
  if (known) return known
  const text = index.plain.toString().replaceAll('{root}', root)
  const made = pageFiles([['index.html', text]]).get('index.html')
  if (made) byRoot.set(root, made)
  return made
}

/** Opens the dashboard. */
export const openDashboard = ({ home, ...options }: PageOptions): Pages => {
  const source = pageSource({
    ...options,
    plan: dashboardPlan(home),
    packaged: async () => (await readFiles(join(home, 'dist', 'dashboard'))) ?? 'dist/dashboard is not complete',
    texts: { title: 'The dashboard', command: 'npm run build:dashboard', style: `{root}${SMALL_STYLE_PATH.slice(1)}` },
    read: readFiles,
  })
  return {
    async serve({ method, path, headers, local }, reply) {
      const answer = (status: number, more: Readonly<Record<string, string>>, text: string) =>
        respond(reply, status, { ...HEADERS, ...more }, text)
      if (path === DASHBOARD_BASE) return answer(302, { location: `.${DASHBOARD_BASE}/` }, '')
      if (path === SMALL_STYLE_PATH)
        return answer(200, { 'content-type': 'text/css', 'cache-control': 'no-cache' }, SMALL_STYLE)
      const isAsset = path.startsWith(ASSETS)
      const root = rootFrom(path)
      const found = await source({ local, keep: isAsset })
      if (typeof found === 'string')
        return answer(
          503,
          { 'content-type': HTML, 'cache-control': 'no-store', 'retry-after': '1' },
          found.replaceAll('{root}', root),
        )
      const file = isAsset ? found.get(path.slice(ASSETS.length)) : indexFor(found, root)
      if (!file) return answer(404, { 'content-type': 'text/plain', 'cache-control': 'no-store' }, 'No such file.\n')
      return sendFile(reply, file, { method, headers, common: HEADERS, immutable: isAsset })
    },
  }
}

/** Reads the files of a build, by name. Null: there is no complete build in this folder. */
const readFiles = async (folder: string): Promise<ReadonlyMap<string, PageFile> | null> => {
  const names = await readdir(folder).catch((): readonly string[] => [])
  if (!names.includes('index.html')) return null
  // A file is missing: an interrupted copy, or another process replaces the folder.
  const contents = await Promise.all(names.map((name) => readFile(join(folder, name)))).catch(() => null)
  return contents && pageFiles(names.map((name, index) => [name, contents[index] ?? '']))
}
