/** IDs of what the file contains, and fingerprints of its secrets. */
import { createHash, createHmac } from 'node:crypto'

/** The ID of an entry of the file: `team_` and 12 lower-case letters of a digest of its kind and name. */
export const fileId = (prefix: 'team' | 'key' | 'bud' | 'prc', name: string): string => {
  const bytes = createHash('sha256').update(`headgate ${prefix}\0${name}`).digest()
  return `${prefix}_${[...bytes.subarray(0, 12)].map((byte) => String.fromCharCode(A + (byte % LETTERS))).join('')}`
}
const A = 'a'.charCodeAt(0)
const LETTERS = 26

/** Changes with the values, without revealing them. */
export const fingerprint = (values: readonly (string | undefined)[]): string =>
  createHmac('sha256', 'headgate fingerprint').update(JSON.stringify(values)).digest('hex').slice(0, 8)
