import { createHash, timingSafeEqual } from 'node:crypto'

const digest = (value: string): Buffer => createHash('sha256').update(value).digest()

/** Who asks, where client keys are needed: no key can be found from it. */
export const clientOf = (presented: string | undefined): string =>
  digest(presented ?? '')
    .toString('hex')
    .slice(0, 32)

/** Stands for a text of any length. */
export const fingerprint = (value: string): string => digest(value).toString('base64')

/**
 * Whether a presented credential is one of these. Digests are compared, all of them, in constant time: neither the
 * length nor a shared beginning of a guess shows in how long the answer takes.
 */
export const keyRing = (keys: readonly string[]): ((presented: string | undefined) => boolean) => {
  const known = keys.map(digest)
  return (presented) => {
    if (presented === undefined || known.length === 0) return false
    const asked = digest(presented)
    let found = false
    for (const key of known) found = timingSafeEqual(key, asked) || found
    return found
  }
}
