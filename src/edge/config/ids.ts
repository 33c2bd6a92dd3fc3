import { createHmac } from 'node:crypto'
import type { ProviderKey } from '../../core/provider.ts'
import { Secret } from '../../core/secret.ts'

/** Set apart from every other use of the same hash. Changing it changes every key's id. */
const LABEL = 'headgate provider key id'
const SHORTEST = 4

const digest = (value: string): string => createHmac('sha256', LABEL).update(value).digest('hex')

export type KeyDraft = { readonly value: string; readonly weight: number }

/**
 * One provider's keys with the ids people see instead of them: four hex digits of a keyed hash, stable over restarts;
 * two keys that share them get more. The same key twice is one key, with the weight given last.
 */
export const keysFrom = (drafts: readonly KeyDraft[]): readonly ProviderKey[] => {
  const weights = new Map(drafts.map(({ value, weight }) => [value, weight]))
  const entries = [...weights].map(([value, weight]) => ({ value, weight, hash: digest(value) }))
  const shortest = (hash: string): string => {
    let length = SHORTEST
    while (entries.some((other) => other.hash !== hash && other.hash.startsWith(hash.slice(0, length)))) length++
    return hash.slice(0, length)
  }
  return entries.map(({ value, weight, hash }) => ({ id: shortest(hash), secret: new Secret(value), weight }))
}

/** The one key of a server that asks for none. */
export const keyless = (instance: string): readonly ProviderKey[] => [
  { id: digest(`no key: ${instance}`).slice(0, SHORTEST), secret: null, weight: 1 },
]

/** How the environment and the file may write a provider's or instance's name: `MY_LLM`, `my_llm` and `my-llm` are one. */
export const instanceName = (written: string): string => written.toLowerCase().replaceAll('_', '-')

/** The beginning of an instance's variables: `my-llm` has `MY_LLM_API_KEY`. */
export const envPrefix = (name: string): string => name.toUpperCase().replaceAll(/[-.]/g, '_')

/** What an instance may be called: it stands before a slash in model names, in headers, logs and labels. */
export const NAME = /^[a-z0-9][a-z0-9.-]{0,62}$/
export const NAME_ALLOWED = 'a name of letters, digits, - and ., beginning with a letter or digit, 63 at most'
