/** What is in the folder of providers. The build puts a table of the same shape in this file's place (`scripts/build.ts`). */
import { readdir } from 'node:fs/promises'

/** A file's name, and what it exports. */
export type ProviderFile = readonly [file: string, module: { readonly default?: unknown }]

const FOLDER = new URL('../providers/', import.meta.url)
/** Not their tests, not declarations. */
export const PROVIDER_FILE = /^[a-z0-9-]+\.ts$/

/** Every provider's file, by name. Throws what the file system or a file itself throws. */
export const providerFiles = async (folder: URL = FOLDER): Promise<readonly ProviderFile[]> => {
  const files = (await readdir(folder)).filter((file) => PROVIDER_FILE.test(file)).sort()
  return Promise.all(files.map(async (file) => [file, await import(new URL(file, folder).href)] as const))
}
