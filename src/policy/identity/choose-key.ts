/** The one key of an issuer's set with which a token is verified. */
import { isObject, type Json, type JsonObject, list, text } from '../../core/json.ts'
import type { TokenAlgorithm } from '../../core/token-rule.ts'

/** Keys of a set that are used. */
const MAX_KEYS = 100

/** A public key of a set (JWK, RFC 7517), with its public members only. */
export type PublicKey = {
  readonly kid: string | undefined
  readonly algorithm: string | undefined
  readonly jwk: JsonObject
}

/** The public members of each type of key. A set with symmetric keys is wrong, and they are not used. */
const MEMBERS: { readonly [type: string]: readonly string[] } = {
  RSA: ['kty', 'n', 'e'],
  EC: ['kty', 'crv', 'x', 'y'],
  OKP: ['kty', 'crv', 'x'],
}

/** The keys of a set that verify signatures; undefined: it is no key set. */
export const publicKeysOf = (set: Json | undefined): readonly PublicKey[] | undefined => {
  if (!isObject(set) || !Array.isArray(set.keys)) return undefined
  return list(set.keys)
    .slice(0, MAX_KEYS)
    .flatMap((jwk): readonly PublicKey[] => {
      if (!isObject(jwk) || !verifies(jwk)) return []
      const type = text(jwk.kty) ?? ''
      const members = Object.hasOwn(MEMBERS, type) ? MEMBERS[type] : undefined
      if (!members?.every((name) => typeof jwk[name] === 'string')) return []
      const own = Object.fromEntries(members.map((name) => [name, jwk[name] ?? null]))
      return [{ kid: text(jwk.kid), algorithm: text(jwk.alg), jwk: own }]
    })
}

const verifies = ({ use, key_ops }: JsonObject): boolean =>
  (use === undefined || use === 'sig') && (key_ops === undefined || list(key_ops).includes('verify'))

/** Whether a key may be used with an algorithm. A key that names its algorithm is used with no other (RFC 8725, section 3.1). */
const fits = ({ algorithm: own, jwk: { kty, crv } }: PublicKey, algorithm: TokenAlgorithm): boolean => {
  if (own !== undefined && own !== algorithm && !(own === 'Ed25519' && algorithm === 'EdDSA')) return false
  if (algorithm === 'EdDSA') return kty === 'OKP' && crv === 'Ed25519'
  if (algorithm.startsWith('ES')) return kty === 'EC' && crv === CURVES[algorithm]
  return kty === 'RSA'
}

const CURVES: { readonly [algorithm: string]: string } = { ES256: 'P-256', ES384: 'P-384', ES512: 'P-521' }

/**
 * The key with this ID for the algorithm. A token without an ID has the key of a set with one key only: trying all keys would let
 * each of them sign for every other. Undefined: none.
 */
export const chooseKey = (
  keys: readonly PublicKey[],
  { kid, algorithm }: { readonly kid: string | undefined; readonly algorithm: TokenAlgorithm },
): PublicKey | undefined => {
  if (kid === undefined) return keys.length === 1 ? keys.find((key) => fits(key, algorithm)) : undefined
  const [only, another] = keys.filter((key) => key.kid === kid && fits(key, algorithm))
  return another === undefined ? only : undefined
}
