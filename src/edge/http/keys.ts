import { hash, randomBytes } from 'node:crypto'

/** Who asks, where client keys are needed: no key can be found from it. */
export const clientOf = (presented: string | undefined): string => hash('sha256', presented ?? '', 'hex').slice(0, 32)

/** Stands for a text of any length. */
export const fingerprint = (value: string): string => hash('sha256', value, 'base64')

/**
 * Whether a presented credential is one of these, in the same time however many there are. What is looked up is a digest
 * with a salt of this ring's own that nobody else knows: how far two of them agree, which a look-up's time may show,
 * says nothing of how far a guess agrees with a key.
 */
export const keyRing = (keys: readonly string[]): ((presented: string | undefined) => boolean) => {
  const salt = randomBytes(32).toString('base64')
  const salted = (value: string): string => hash('sha256', salt + value, 'base64')
  const known = new Set(keys.map(salted))
  return (presented) => presented !== undefined && known.has(salted(presented))
}
