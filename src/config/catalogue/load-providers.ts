/** Loads all providers at start. A new provider is a new file in the folder. */
import type { Provider, Providers } from '../../core/provider.ts'
import { type ProviderFile, providerFiles } from './provider-files.ts'

/** Loads every provider. Throws if a file has no provider or a name is used twice, which is a bug in this project. */
export const loadProviders = async (folder?: URL): Promise<Providers> => {
  const all = (await providerFiles(folder)).map(providerIn)
  all.sort((a, b) => a.order - b.order)
  const taken = new Set<string>()
  for (const provider of all)
    for (const name of [provider.name, ...(provider.aliases ?? [])]) {
      if (taken.has(name)) throw new Error(`Two providers use the name ${name}.`)
      taken.add(name)
    }
  return new Map(all.map((provider) => [provider.name, provider]))
}

const providerIn = ([file, { default: found }]: ProviderFile): Provider => {
  if (!isProvider(found)) throw new Error(`${file} in the provider folder has no provider as its default export.`)
  if (found.name !== file.slice(0, -3))
    throw new Error(`${file} in the provider folder has the provider name ${found.name}.`)
  return found
}

/** The rest is checked by `satisfies Provider` at compile time. */
const isProvider = (value: unknown): value is Provider =>
  typeof value === 'object' && value !== null && 'name' in value && 'order' in value && 'speaks' in value

/** The provider with this name or alias: `google` is `gemini`. */
export const findProvider = (providers: Providers, name: string): Provider | undefined => {
  const known = providers.get(name)
  if (known) return known
  for (const provider of providers.values()) if (provider.aliases?.includes(name)) return provider
  return undefined
}
