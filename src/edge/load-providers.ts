/** Reads the folder of providers at start. A new provider is a new file there and nothing else. */
import type { Provider } from '../core/provider.ts'
import { type ProviderFile, providerFiles } from './provider-files.ts'

/** By name, in the order in which they are tried. */
export type Providers = ReadonlyMap<string, Provider>

/** Every provider there is. Throws if a file is none, or if two claim a name: that is a bug of ours, found at the first start. */
export const loadProviders = async (folder?: URL): Promise<Providers> => {
  const all = (await providerFiles(folder)).map(providerIn)
  all.sort((a, b) => a.order - b.order)
  const taken = new Set<string>()
  for (const provider of all)
    for (const name of [provider.name, ...(provider.aliases ?? [])]) {
      if (taken.has(name)) throw new Error(`two providers are called ${name}`)
      taken.add(name)
    }
  return new Map(all.map((provider) => [provider.name, provider]))
}

const providerIn = ([file, { default: found }]: ProviderFile): Provider => {
  if (!isProvider(found)) throw new Error(`${file} in the folder of providers has no provider as its default export`)
  if (found.name !== file.slice(0, -3)) throw new Error(`${file} in the folder of providers is called ${found.name}`)
  return found
}

/** `satisfies Provider` has checked the rest when the file was written. */
const isProvider = (value: unknown): value is Provider =>
  typeof value === 'object' && value !== null && 'name' in value && 'order' in value && 'speaks' in value

/** The provider of this name, or with this other name: `google` is `gemini`. */
export const findProvider = (providers: Providers, name: string): Provider | undefined => {
  const known = providers.get(name)
  if (known) return known
  for (const provider of providers.values()) if (provider.aliases?.includes(name)) return provider
  return undefined
}
