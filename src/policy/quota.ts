/** What an upstream's headers say is left of a key's quota. */
import type { HeaderLookup } from '../core/protocol.ts'

/** Families of headers that come in pairs: OpenAI's and those who took them over, Anthropic's. */
const PAIRS = ['requests', 'tokens'].flatMap((what) => [
  [`x-ratelimit-limit-${what}`, `x-ratelimit-remaining-${what}`],
  [`anthropic-ratelimit-${what}-limit`, `anthropic-ratelimit-${what}-remaining`],
])

/** The scarcest of its limits as a share that is left, from 1 to 0; undefined when nothing is said. */
export const shareLeft = (headers: HeaderLookup): number | undefined => {
  let least: number | undefined
  for (const [limitName = '', leftName = ''] of PAIRS) {
    const limit = count(headers(limitName))
    const left = count(headers(leftName))
    if (limit === undefined || left === undefined || limit === 0) continue
    least = Math.min(least ?? 1, left / limit)
  }
  return least
}

const count = (value: string | undefined): number | undefined =>
  value !== undefined && /^[0-9]{1,15}$/.test(value) ? Number(value) : undefined
