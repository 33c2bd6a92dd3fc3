import { createHmac } from 'node:crypto'
import type { ProviderKey } from '../../core/provider.ts'
import { Secret } from '../../core/secret.ts'

/** Separate HMAC keys per purpose. Changing one changes the IDs of all such keys. */
const PROVIDER_KEY = 'headgate provider key id'
const CLIENT_KEY = 'headgate client key id'
const MIN_DIGITS = 4

const digest = (label: string, value: string): string => createHmac('sha256', label).update(value).digest('hex')

/** An ID for each value: the first hex digits of its keyed hash, four or as many as make it unique. */
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
      return [value, hash.slice(0, Math.max(MIN_DIGITS, alike + 1))]
    }),
  )
}

/** Client key IDs for logs and metrics: keyed hashes that are stable over restarts. */
export const clientKeyIds = (keys: readonly string[]): ReadonlyMap<string, string> => idsFor(CLIENT_KEY, keys)

export type KeyDraft = { readonly value: string; readonly weight: number; readonly cacheScope?: string | undefined }

/**
 * One provider's keys with their public IDs: four hex digits of a keyed hash, stable over restarts, or more if two keys
 * share them. A duplicate key is one key, with the last weight and cache scope.
 */
export const keysFrom = (drafts: readonly KeyDraft[]): readonly ProviderKey[] => {
  const known = new Map(drafts.map((draft) => [draft.value, draft]))
  const ids = idsFor(PROVIDER_KEY, known.keys())
  return [...known].map(([value, { weight, cacheScope }]) => ({
    ...{ id: ids.get(value) ?? '', secret: new Secret(value), weight },
    ...(cacheScope !== undefined && { cacheScope }),
  }))
}

/** The single key entry of a server without keys. */
export const keyless = (instance: string): readonly ProviderKey[] => [
  { id: digest(PROVIDER_KEY, `no key: ${instance}`).slice(0, MIN_DIGITS), secret: null, weight: 1 },
]

/** Normalises a provider or instance name: `MY_LLM`, `my_llm` and `my-llm` are equal. */
export const instanceName = (written: string): string => written.toLowerCase().replaceAll('_', '-')

/** The prefix of an instance's variables: `my-llm` has `MY_LLM_API_KEY`. */
export const envPrefix = (name: string): string => name.toUpperCase().replaceAll(/[-.]/g, '_')

/** Allowed instance names: they are used in model names before a slash, in headers, logs and labels. */
export const NAME = /^[a-z0-9][a-z0-9.-]{0,62}$/
export const NAME_ALLOWED =
  'a name of letters, digits, - and ., beginning with a letter or digit, at most 63 characters'
