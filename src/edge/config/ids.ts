import { createHmac } from 'node:crypto'
import type { ProviderKey } from '../../core/provider.ts'
import { Secret } from '../../core/secret.ts'

/** Set apart from every other use of the same hash. Changing one changes every such key's id. */
const PROVIDER_KEY = 'headgate provider key id'
const CLIENT_KEY = 'headgate client key id'
const SHORTEST = 4

const digest = (label: string, value: string): string => createHmac('sha256', label).update(value).digest('hex')

/** An id for each value: the first hex digits of its keyed hash, four or as many as set it apart from the others. */
const idsFor = (label: string, values: Iterable<string>): ReadonlyMap<string, string> => {
  const hashed = [...new Set(values)].map((value) => ({ value, hash: digest(label, value) }))
  hashed.sort((one, other) => (one.hash < other.hash ? -1 : 1))
  const shared = (one = '', other = ''): number => {
    let length = 0
    while (length < one.length && one[length] === other[length]) length++
    return length
  }
  return new Map(
    hashed.map(({ value, hash }, at) => {
      const alike = Math.max(shared(hash, hashed[at - 1]?.hash), shared(hash, hashed[at + 1]?.hash))
      return [value, hash.slice(0, Math.max(SHORTEST, alike + 1))]
    }),
  )
}

/** The ids of client keys, as logs and metrics show them: a keyed hash like those of provider keys, stable over restarts. */
export const clientKeyIds = (keys: readonly string[]): ReadonlyMap<string, string> => idsFor(CLIENT_KEY, keys)

export type KeyDraft = { readonly value: string; readonly weight: number }

/**
 * One provider's keys with the ids people see instead of them: four hex digits of a keyed hash, stable over restarts;
 * two keys that share them get more. The same key twice is one key, with the weight given last.
 */
export const keysFrom = (drafts: readonly KeyDraft[]): readonly ProviderKey[] => {
  const weights = new Map(drafts.map(({ value, weight }) => [value, weight]))
  const ids = idsFor(PROVIDER_KEY, weights.keys())
  return [...weights].map(([value, weight]) => ({ id: ids.get(value) ?? '', secret: new Secret(value), weight }))
}

/** The one key of a server that asks for none. */
export const keyless = (instance: string): readonly ProviderKey[] => [
  { id: digest(PROVIDER_KEY, `no key: ${instance}`).slice(0, SHORTEST), secret: null, weight: 1 },
]

/** How the environment and the file may write a provider's or instance's name: `MY_LLM`, `my_llm` and `my-llm` are one. */
export const instanceName = (written: string): string => written.toLowerCase().replaceAll('_', '-')

/** The beginning of an instance's variables: `my-llm` has `MY_LLM_API_KEY`. */
export const envPrefix = (name: string): string => name.toUpperCase().replaceAll(/[-.]/g, '_')

/** What an instance may be called: it stands before a slash in model names, in headers, logs and labels. */
export const NAME = /^[a-z0-9][a-z0-9.-]{0,62}$/
export const NAME_ALLOWED = 'a name of letters, digits, - and ., beginning with a letter or digit, 63 at most'
