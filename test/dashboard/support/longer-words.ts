/** The pages with longer words. Those of the gateway have their texts as constants, so they are bundled with other tables. */
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { bundle } from '../../../dashboard/build.ts'
import { rootFrom } from '../../../src/server/page-request.ts'

const words = {
  name: 'longer-words',
  resolveId: (id: string, importer: string | undefined) =>
    id === './words.ts' && importer?.includes(join('dashboard', 'src', 'words'))
      ? join(import.meta.dirname, 'pseudo-words.ts')
      : null,
}

/** The page loads its files with longer words from now on. */
export const withLongerWords = async (page: Page, url: string): Promise<void> => {
  const files = await bundle({ words })
  await page.route(`${url}/dashboard/**`, async (route) => {
    const { pathname } = new URL(route.request().url())
    const [, asset] = /\/assets\/(.+)$/.exec(pathname) ?? []
    const body = (files.get(asset ?? 'index.html') ?? '').replaceAll('{root}', rootFrom(pathname))
    if (asset === undefined) await route.fulfill({ response: await route.fetch(), body })
    else await route.fulfill({ body, contentType: asset.endsWith('.css') ? 'text/css' : 'text/javascript' })
  })
}
