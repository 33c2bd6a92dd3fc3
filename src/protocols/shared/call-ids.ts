/** IDs of tool calls that are shortened, or derived where the provider returned none. */

/** A 53-bit hash of a text (cyrb53). Each seed gives an independent hash. */
const hash53 = (text: string, seed: number): number => {
  let a = 0xdeadbeef ^ seed
  let b = 0x41c6ce57 ^ seed
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    a = Math.imul(a ^ code, 2_654_435_761)
    b = Math.imul(b ^ code, 1_597_334_677)
  }
  a = Math.imul(a ^ (a >>> 16), 2_246_822_507) ^ Math.imul(b ^ (b >>> 13), 3_266_489_909)
  b = Math.imul(b ^ (b >>> 16), 2_246_822_507) ^ Math.imul(a ^ (a >>> 13), 3_266_489_909)
  return 4_294_967_296 * (2_097_151 & b) + (a >>> 0)
}

/** The length of a digest. */
export const DIGEST_LENGTH = 40

/** A digest of 40 lower-case letters and digits. Deterministic across processes and versions; not cryptographic. */
export const digest = (text: string): string =>
  [1, 2, 3, 4].map((seed) => hash53(text, seed).toString(36).padStart(11, '0').slice(-10)).join('')

/** A call ID within a length limit: the ID itself, or a digest of it. Truncation could make two IDs equal. */
export const shortId = (id: string, longest = 64): string =>
  id.length <= longest ? id : `call_${digest(id).slice(0, longest - 'call_'.length)}`

/** A call ID where the provider returned none, derived from the answer and the call's position in it. */
export const derivedCallId = (...of: readonly (string | number | undefined)[]): string =>
  `call_${digest(JSON.stringify(of)).slice(0, 24)}`
