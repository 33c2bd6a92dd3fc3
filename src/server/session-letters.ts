import { hash } from 'node:crypto'
import type { SessionLetters } from '../gateway/accounts/session-ids.ts'

const [A, LETTERS, COUNT] = ['a'.charCodeAt(0), 26, 12]

/** The letters of the ID of a session. */
export const sessionLetters: SessionLetters = (text) => {
  const digest = hash('sha256', `headgate ${text}`, 'buffer')
  return String.fromCharCode(...digest.subarray(0, COUNT).map((byte) => A + (byte % LETTERS)))
}
