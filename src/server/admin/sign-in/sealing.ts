/** Encrypts what leaves the process or is stored: by `sso.secret`, with a key of its own for each purpose. */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import type { Secret } from '../../../core/secret.ts'
import { purposeKey, type SecretPurpose } from '../../sso-keys.ts'

type SealPurpose = Extract<SecretPurpose, 'cookie' | 'token' | 'device'>

const CIPHER = 'aes-256-gcm'
const LENGTHS = { nonce: 12, tag: 16 }

/** Encrypts a text with the first secret, as base64url. */
export const seal = ([secret]: readonly Secret[], purpose: SealPurpose, text: string): string => {
  if (!secret) throw new Error('single sign-on has no secret')
  const nonce = randomBytes(LENGTHS.nonce)
  const cipher = createCipheriv(CIPHER, purposeKey(secret, purpose), nonce)
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
    const decipher = createDecipheriv(CIPHER, purposeKey(secret, purpose), nonce, { authTagLength: LENGTHS.tag })
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
