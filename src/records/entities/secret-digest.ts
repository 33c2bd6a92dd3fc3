/** The stored forms of a secret. */
import { createHmac, hash } from 'node:crypto'

/** `s1:` and SHA-256 in hexadecimal: enough for generated keys, which have 190 random bits. */
export const plainDigest = (secret: string): string => `s1:${hash('sha256', secret, 'hex')}`

/** `h1:` and HMAC-SHA-256 with the pepper: without the pepper a copy of the database does not help to guess imported keys. */
export const pepperedDigest = (secret: string, pepper: string): string =>
  `h1:${createHmac('sha256', pepper).update(secret).digest('hex')}`

/** Every form in which a secret may be stored. */
export const digestsOf = (secret: string, pepper: string | undefined): readonly string[] => [
  plainDigest(secret),
  ...(pepper === undefined ? [] : [pepperedDigest(secret, pepper)]),
]

/** The form in which a new secret is stored. */
export const storedDigest = (secret: string, pepper: string | undefined): string =>
  pepper === undefined ? plainDigest(secret) : pepperedDigest(secret, pepper)
