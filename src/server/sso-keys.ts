/** Keys derived from `sso.secret`, one for each purpose. */
import { createHmac, hkdfSync } from 'node:crypto'
import type { Secret } from '../core/secret.ts'

/**
 * `cookie`: begun sign-ins in a browser. `token`: tokens of issuers in the database. `device`: a code that a browser confirms. `access`:
 * signs access tokens. `refresh`: derives a refresh token from the one before.
 */
export type SecretPurpose = 'cookie' | 'token' | 'device' | 'access' | 'refresh'

/** 32 bytes. */
export const purposeKey = (secret: Secret, purpose: SecretPurpose): Buffer =>
  Buffer.from(hkdfSync('sha256', secret.reveal(), '', `headgate sign-in ${purpose}`, 32))

/** HMAC-SHA-256 of a text. */
export const keyedDigest = (secret: Secret, purpose: SecretPurpose, text: string): Buffer =>
  createHmac('sha256', purposeKey(secret, purpose)).update(text).digest()
