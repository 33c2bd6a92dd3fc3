/** The form of signed tokens (JWS compact serialization, RFC 7515), read before anything in them is trusted. */
import { isObject, type JsonObject, text } from '../../core/json.ts'
import { TOKEN_ALGORITHMS, type TokenAlgorithm } from '../../core/token-rule.ts'

/** Characters of a token. A header block has 16 KiB. */
export const MAX_TOKEN = 8_192

/** Why a token is refused: a short text for the log. */
export type RefusedToken = { readonly ok: false; readonly reason: string }
export const refused = (reason: string): RefusedToken => ({ ok: false, reason })

export type ReadToken = {
  readonly ok: true
  readonly algorithm: TokenAlgorithm
  /** Undefined: the header names no key. */
  readonly kid: string | undefined
  readonly claims: JsonObject
}

const SEGMENTS = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/

/** Whether a credential has the form of a signed token: a header that begins with `{"`, and three segments. */
export const isTokenLike = (presented: string): boolean =>
  presented.startsWith('eyJ') && presented.length <= 4 * MAX_TOKEN && SEGMENTS.test(presented)

/**
 * Reads header and claims. Nothing is verified. Keys that the header brings along or points to (`jwk`, `jku`, `x5u`, `x5c`) are
 * ignored. An algorithm that is not in the list of asymmetric ones and a critical extension are refused (RFC 8725, 3.1 and 3.10).
 */
export const readToken = (token: string): ReadToken | RefusedToken => {
  if (token.length > MAX_TOKEN) return refused(`size: ${token.length} characters (limit ${MAX_TOKEN})`)
  const [first = '', second = ''] = token.split('.')
  const header = segmentObject(first)
  const claims = segmentObject(second)
  if (!header || !claims) return refused('form: header or claims are no JSON object')
  if (Object.hasOwn(header, 'crit')) return refused('crit')
  const algorithm =
    TOKEN_ALGORITHMS.find((name) => name === header.alg) ?? (header.alg === 'Ed25519' ? 'EdDSA' : undefined)
  if (!algorithm) return refused('alg')
  if (!isIdentityType(header.typ) || Object.hasOwn(claims, 'events')) return refused('typ')
  const { kid } = header
  if (kid !== undefined && (typeof kid !== 'string' || kid.length > MAX_NAME)) return refused('kid')
  return { ok: true, algorithm, kid: text(kid), claims }
}

/** Characters of a key ID. */
const MAX_NAME = 512

/**
 * ID tokens and access tokens (RFC 9068). Tokens with another explicit type, such as logout tokens and security events, are issued
 * for the same audience and identify no caller (RFC 8725, 3.11).
 */
const isIdentityType = (typ: unknown): boolean =>
  typ === undefined || (typeof typ === 'string' && /^(?:application\/)?(?:jwt|at\+jwt)$/i.test(typ))

const segmentObject = (segment: string): JsonObject | undefined => {
  try {
    const bytes = Uint8Array.from(atob(segment.replaceAll('-', '+').replaceAll('_', '/')), (char) => char.charCodeAt(0))
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}
