/**
 * The text form of client keys and admin tokens: `hgk_` or `hga_`, 32 random base62 characters (190 bits), and the CRC-32
 * of all these as 6 base62 characters. A scanner can recognise a key, and a mistyped key is found without a look-up.
 * The same scheme as GitHub's tokens (GitHub blog, "Behind GitHub's new authentication token formats", 2021-04-05).
 */

const PREFIXES = { client: 'hgk_', admin: 'hga_' } as const
export type KeyKind = keyof typeof PREFIXES

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const LETTERS = 'abcdefghijklmnopqrstuvwxyz'
const RANDOM_LENGTH = 32
/** 62^6 is above 2^32. */
const CHECKSUM_LENGTH = 6

/** Returns this number of random bytes from a cryptographic source. */
export type RandomBytes = (count: number) => Uint8Array

/** Creates a key. Throws if the source of randomness is broken; see `randomText`. */
export const createKey = (kind: KeyKind, random: RandomBytes): string => {
  const text = PREFIXES[kind] + randomText(BASE62, RANDOM_LENGTH, random)
  return text + checksum(text)
}

/** Creates the ID of a team, key, budget or token: a prefix and 12 lower-case letters, such as `key_kdvbwqhzmrtc`. */
export const createAccountId = (prefix: string, random: RandomBytes): string =>
  `${prefix}_${randomText(LETTERS, 12, random)}`

/** The kind of a key by its prefix. Undefined: not a key of this gateway, such as an imported one. */
export const keyKindOf = (text: string): KeyKind | undefined =>
  text.startsWith(PREFIXES.client) ? 'client' : text.startsWith(PREFIXES.admin) ? 'admin' : undefined

const KEY = /^hg[ka]_[0-9A-Za-z]{38}$/
const KEYS = /\bhg[ka]_[0-9A-Za-z]{38}\b/g

/** Whether a text has the form of a key and a correct checksum. Any one changed character is found. */
export const isWellFormedKey = (text: string): boolean =>
  KEY.test(text) && text.endsWith(checksum(text.slice(0, -CHECKSUM_LENGTH)))

/** All keys with a correct checksum in a text, in order. */
export const keysIn = (text: string): readonly string[] =>
  [...text.matchAll(KEYS)].map(([key]) => key).filter(isWellFormedKey)

/** The end of a key, by which people recognise it. */
export const last4 = (key: string): string => key.slice(-4)

/** How often random bytes are drawn. Each draw yields enough characters with a probability above 99.9 %. */
const MAX_DRAWS = 100

/**
 * Chooses characters with equal probability. Bytes above the largest multiple of the alphabet's length are dropped, because
 * they would favour the first characters. Throws if 100 draws are not enough.
 */
const randomText = (alphabet: string, length: number, random: RandomBytes): string => {
  const limit = 256 - (256 % alphabet.length)
  let text = ''
  for (let draw = 0; draw < MAX_DRAWS; draw++)
    for (const byte of random(2 * length)) {
      if (byte < limit) text += alphabet[byte % alphabet.length]
      if (text.length === length) return text
    }
  throw new Error('The source of randomness returns no usable bytes.')
}

const checksum = (text: string): string => {
  let rest = crc32(text)
  let digits = ''
  for (let n = 0; n < CHECKSUM_LENGTH; n++) {
    digits = BASE62.charAt(rest % BASE62.length) + digits
    rest = Math.floor(rest / BASE62.length)
  }
  return digits
}

/** The reversed polynomial of CRC-32 (ISO/IEC 3309, as in zlib and PNG). */
const POLYNOMIAL = 0xed_b8_83_20

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ POLYNOMIAL : value >>> 1
  return value
})

/** CRC-32 of a text of ASCII characters. */
const crc32 = (text: string): number => {
  let crc = 0xff_ff_ff_ff
  for (let at = 0; at < text.length; at++) crc = (crc >>> 8) ^ (CRC_TABLE[(crc ^ text.charCodeAt(at)) & 0xff] ?? 0)
  return (crc ^ 0xff_ff_ff_ff) >>> 0
}
