/**
 * Generates the configuration reference: headgate.schema.json, docs/configuration.md and .env.example (`npm run schema`). A
 * test fails if they are out of date.
 */
import { writeFile } from 'node:fs/promises'
import { loadProviders } from '../../src/config/catalogue/load-providers.ts'
import { configurationPage, publishedSchema, sampleEnv } from './schema/reference.ts'

const root = new URL('../../', import.meta.url)
const providers = await loadProviders()
const files = {
  'headgate.schema.json': publishedSchema(),
  'docs/configuration.md': configurationPage(),
  '.env.example': sampleEnv(providers),
}
for (const [path, text] of Object.entries(files)) {
  await writeFile(new URL(path, root), text)
  process.stdout.write(`${path}\n`)
}
