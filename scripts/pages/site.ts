/**
 * The documentation as a web site, and the list of its pages for language models.
 *
 *   npm run site              writes llms.txt
 *   npm run site -- FOLDER    writes the site: FOLDER/docs, FOLDER/llms.txt, FOLDER/llms-full.txt
 */
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { buildSite } from '../../dashboard/site/build.ts'
import { llmsText } from '../../dashboard/site/pages.ts'

const ROOT = join(import.meta.dirname, '..', '..')

/** The root leads to the documentation, at whatever path the site is. */
const START = '<!doctype html><title>Headgate</title><meta http-equiv="refresh" content="0; url=docs/">\n'

/** Writes the site into a folder, for a web server that serves it at its root. */
export const writeSite = (folder: string): void => {
  const docs = join(resolve(folder), 'docs')
  mkdirSync(resolve(folder), { recursive: true })
  rmSync(docs, { recursive: true, force: true })
  buildSite(docs)
  for (const name of ['llms.txt', 'llms-full.txt']) renameSync(join(docs, name), join(folder, name))
  writeFileSync(join(folder, 'index.html'), START)
}

if (import.meta.main) {
  const [, , folder] = process.argv
  writeFileSync(join(ROOT, 'llms.txt'), llmsText(join(ROOT, 'docs')))
  if (folder !== undefined) writeSite(folder)
}
