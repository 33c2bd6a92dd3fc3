/**
 * Builds the documentation into a folder of static files: `node dashboard/site/build.ts FOLDER`. The gateway runs this at the
 * first request for `/docs/` in a clone. Pages keep their Markdown beside them.
 */
import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { publish } from '../publish.ts'
import { siteFiles } from './files.ts'

const ROOT = join(import.meta.dirname, '..', '..')

/** Builds into a folder, which appears complete or not at all. `root`: the folder of the project. */
export const buildSite = (folder: string, root: string = ROOT): void => {
  const files = siteFiles(root)
  const making = `${folder}.${process.pid}`
  for (const [name, text] of files) {
    mkdirSync(dirname(join(making, name)), { recursive: true })
    writeFileSync(join(making, name), text)
  }
  cpSync(join(root, 'docs', 'images'), join(making, 'images'), { recursive: true })
  publish(making, folder, () => [...files.keys()].every((name) => existsSync(join(folder, name))))
}

if (import.meta.main) {
  const [, , folder] = process.argv
  if (folder === undefined) {
    process.stderr.write('usage: node dashboard/site/build.ts FOLDER\n')
    process.exit(1)
  }
  buildSite(folder)
}
