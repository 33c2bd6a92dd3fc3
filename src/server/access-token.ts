/** Access tokens that the gateway issues: JWS compact serialization (RFC 7515) with HS256 by `sso.secret`. */
import { timingSafeEqual } from 'node:crypto'
import { isObject, type JsonObject } from '../core/json.ts'
import type { Secret } from '../core/secret.ts'
import { ACCESS_TOKEN } from './signed-tokens.ts'
import { keyedDigest } from './sso-keys.ts'

/** Characters of a token. A header block has 16 KiB. */
const MAX_TOKEN = 8_192

/** Signs claims with the first secret. */
export const signAccessToken = ([secret]: readonly Secret[], claims: JsonObject): string => {
  if (!secret) throw new Error('single sign-on has no secret')
  const signed = ACCESS_TOKEN + Buffer.from(JSON.stringify(claims)).toString('base64url')
  return `${signed}.${keyedDigest(secret, 'access', signed).toString('base64url')}`
}

/** The claims of a token that one of the secrets has signed; null: none has. Times are not checked. */
export const verifyAccessToken = (secrets: readonly Secret[], token: string): JsonObject | null => {
  // One header only: a token cannot choose how it is verified.
  if (!token.startsWith(ACCESS_TOKEN) || token.length > MAX_TOKEN) return null
  const at = token.lastIndexOf('.')
  const signed = token.slice(0, at)
  const given = Buffer.from(token.slice(at + 1))
  const isValid = secrets.some((secret) => {
    const expected = Buffer.from(keyedDigest(secret, 'access', signed).toString('base64url'))
    return given.length === expected.length && timingSafeEqual(given, expected)
  })
  if (!isValid) return null
  // Signed, so this program has written it.
  const claims: unknown = JSON.parse(Buffer.from(signed.slice(ACCESS_TOKEN.length), 'base64url').toString())
  return isObject(claims) ? claims : null
}
