/** Encrypts what leaves the process or is stored: by `sso.secret`, with a key of its own for each purpose. */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import type { Secret } from '../../../core/secret.ts'

/** `cookie`: begun sign-ins in a browser. `token`: tokens of issuers in the database. */
export type SealPurpose = 'cookie' | 'token'

const CIPHER = 'aes-256-gcm'
const LENGTHS = { key: 32, nonce: 12, tag: 16 }

const keyOf = (secret: Secret, purpose: SealPurpose): Buffer =>
  Buffer.from(hkdfSync('sha256', secret.reveal(), '', `headgate sign-in ${purpose}`, LENGTHS.key))

/** Encrypts a text with the first secret, as base64url. */
export const seal = ([secret]: readonly Secret[], purpose: SealPurpose, text: string): string => {
  if (!secret) throw new Error('single sign-on has no secret')
  const nonce = randomBytes(LENGTHS.nonce)
  const cipher = createCipheriv(CIPHER, keyOf(secret, purpose), nonce)
  const content = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return Buffer.concat([nonce, cipher.getAuthTag(), content]).toString('base64url')
}

/** The text; null: no secret has encrypted it for this purpose, or it was changed. */
export const unseal = (secrets: readonly Secret[], purpose: SealPurpose, sealed: string): string | null => {
  const bytes = Buffer.from(sealed, 'base64url')
  if (bytes.length < LENGTHS.nonce + LENGTHS.tag) return null
  const nonce = bytes.subarray(0, LENGTHS.nonce)
  const tag = bytes.subarray(LENGTHS.nonce, LENGTHS.nonce + LENGTHS.tag)
  for (const secret of secrets) {
    const decipher = createDecipheriv(CIPHER, keyOf(secret, purpose), nonce, { authTagLength: LENGTHS.tag })
    decipher.setAuthTag(tag)
    try {
      const content = bytes.subarray(LENGTHS.nonce + LENGTHS.tag)
      return Buffer.concat([decipher.update(content), decipher.final()]).toString('utf8')
    } catch {
      // Another secret may have encrypted it.
    }
  }
  return null
}
