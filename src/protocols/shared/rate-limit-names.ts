import type { RateLimitNames } from '../../core/protocol.ts'

/** OpenAI's names of rate limit headers. Constants: a member whose name is concatenated costs ten times as much. */
export const openaiRateLimits: RateLimitNames = {
  requests: {
    limit: 'x-ratelimit-limit-requests',
    remaining: 'x-ratelimit-remaining-requests',
    reset: 'x-ratelimit-reset-requests',
  },
  tokens: {
    limit: 'x-ratelimit-limit-tokens',
    remaining: 'x-ratelimit-remaining-tokens',
    reset: 'x-ratelimit-reset-tokens',
  },
  resetAs: 'duration',
}
