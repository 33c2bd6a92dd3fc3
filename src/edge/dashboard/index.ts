/** Serves the files of the dashboard. */
import { join } from 'node:path'
import { HTML, pageHeaders, respond, sendFile } from '../built-pages/respond.ts'
import { SMALL_STYLE } from '../built-pages/small-pages.ts'
import { type PageOptions, pageSource } from '../built-pages/source.ts'
import { DASHBOARD_BASE, type Pages } from '../http/app/page-request.ts'
import { readFiles } from './files.ts'
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

/** Opens the dashboard. */
export const openDashboard = ({ home, ...options }: PageOptions): Pages => {
  const source = pageSource({
    ...options,
    plan: dashboardPlan(home),
    packaged: async () => (await readFiles(join(home, 'dist', 'dashboard'))) ?? 'dist/dashboard is not complete',
    texts: { title: 'The dashboard', command: 'npm run build:dashboard', style: SMALL_STYLE_PATH },
    read: readFiles,
  })
  return {
    async serve({ method, path, headers, local }, reply) {
      const answer = (status: number, more: Readonly<Record<string, string>>, text: string) =>
        respond(reply, status, { ...HEADERS, ...more }, text)
      if (path === DASHBOARD_BASE) return answer(302, { location: `${DASHBOARD_BASE}/` }, '')
      if (path === SMALL_STYLE_PATH)
        return answer(200, { 'content-type': 'text/css', 'cache-control': 'no-cache' }, SMALL_STYLE)
      const isAsset = path.startsWith(ASSETS)
      const found = await source({ local, keep: isAsset })
      if (typeof found === 'string')
        return answer(503, { 'content-type': HTML, 'cache-control': 'no-store', 'retry-after': '1' }, found)
      const file = found.get(isAsset ? path.slice(ASSETS.length) : 'index.html')
      if (!file) return answer(404, { 'content-type': 'text/plain', 'cache-control': 'no-store' }, 'No such file.\n')
      return sendFile(reply, file, { method, headers, common: HEADERS, immutable: isAsset })
    },
  }
}
