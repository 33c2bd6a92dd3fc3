/** The built files of the dashboard in memory. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type PageFile, pageFiles } from '../respond.ts'

/** Reads the files of a build, by name. Null: there is no complete build in this folder. */
export const readFiles = async (folder: string): Promise<ReadonlyMap<string, PageFile> | null> => {
  const names = await readdir(folder).catch((): readonly string[] => [])
  if (!names.includes('index.html')) return null
  // A file is missing: an interrupted copy, or another process replaces the folder.
  const contents = await Promise.all(names.map((name) => readFile(join(folder, name)))).catch(() => null)
  return contents && pageFiles(names.map((name, index) => [name, contents[index] ?? '']))
}
