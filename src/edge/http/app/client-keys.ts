/** Digests and look-up of client keys. */
import { hash, randomBytes } from 'node:crypto'
import { clientKeyIds } from '../../config/ids.ts'

/** Identifies a client by a digest of its key, 32 hexadecimal digits; the key cannot be derived from it. */
export const clientOf = (presented: string | undefined): string => hash('sha256', presented ?? '', 'hex').slice(0, 32)

/** A digest that stands for a text of any length. */
export const fingerprint = (value: string): string => hash('sha256', value, 'base64')

/** Returns the ID of a presented key; undefined: unknown. */
export type Ring = (presented: string | undefined) => string | undefined

/**
 * Looks keys up in constant time for any number of keys. The map holds digests with a random salt: the time of a look-up
 * may show how far two digests agree, which reveals nothing about how far a guess agrees with a key.
 */
export const keyRing = (keys: readonly string[]): Ring => {
  const salt = randomBytes(32).toString('base64')
  const salted = (value: string): string => hash('sha256', salt + value, 'base64')
  const known = new Map([...clientKeyIds(keys)].map(([key, id]) => [salted(key), id]))
  return (presented) => (presented === undefined ? undefined : known.get(salted(presented)))
}
