import { hash, randomBytes } from 'node:crypto'
import { clientKeyIds } from '../../config/ids.ts'

/** Who asks, where client keys are needed: no key can be found from it. */
export const clientOf = (presented: string | undefined): string => hash('sha256', presented ?? '', 'hex').slice(0, 32)

/** Stands for a text of any length. */
export const fingerprint = (value: string): string => hash('sha256', value, 'base64')

/** The id of a presented credential; undefined: it is not in the ring. */
export type Ring = (presented: string | undefined) => string | undefined

/**
 * Looks a credential up in the same time however many there are. What is looked up is a digest with a random salt of this
 * ring: how far two digests agree, which the time of a look-up may show, says nothing about how far a guess agrees with
 * a key.
 */
export const keyRing = (keys: readonly string[]): Ring => {
  const salt = randomBytes(32).toString('base64')
  const salted = (value: string): string => hash('sha256', salt + value, 'base64')
  const known = new Map([...clientKeyIds(keys)].map(([key, id]) => [salted(key), id]))
  return (presented) => (presented === undefined ? undefined : known.get(salted(presented)))
}
