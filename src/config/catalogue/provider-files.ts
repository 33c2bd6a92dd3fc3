/** Lists the provider folder. The build replaces this file with a table of the same shape (`scripts/build.ts`). */
import { readdir } from 'node:fs/promises'

/** A file's name and its module. */
export type ProviderFile = readonly [file: string, module: { readonly default?: unknown }]

const FOLDER = new URL('../../providers/', import.meta.url)
/** Excludes tests and declarations. */
export const PROVIDER_FILE = /^[a-z0-9-]+\.ts$/

/** Loads all provider files, by name. Throws file system errors and errors of the files themselves. */
export const providerFiles = async (folder: URL = FOLDER): Promise<readonly ProviderFile[]> => {
  const files = (await readdir(folder)).filter((file) => PROVIDER_FILE.test(file)).sort()
  return Promise.all(files.map(async (file) => [file, await import(new URL(file, folder).href)] as const))
}
