/** Names of the headers in which upstreams say what is left of their limits. A row is one limit of one family. */

export type LimitHeaders = {
  /** What may still be asked for. */
  readonly left: string
  /** What the whole of it is. */
  readonly whole: string
  /** When it is whole again. */
  readonly reset: string
  /** The length of its window (s), which says in what unit a bare figure of `reset` is. */
  readonly period: string
  /** ms of its window, where its name says so. */
  readonly window?: number
}

/** OpenAI's names and those made after them, with what the limit is of at the end. */
const openai = (of: string): LimitHeaders => ({
  left: `x-ratelimit-remaining${of}`,
  whole: `x-ratelimit-limit${of}`,
  reset: `x-ratelimit-reset${of}`,
  period: `x-ratelimit-renewalperiod${of}`,
})

/** Anthropic's, with what the limit is of in the middle. */
const anthropic = (of: string): LimitHeaders => ({
  left: `anthropic-ratelimit-${of}-remaining`,
  whole: `anthropic-ratelimit-${of}-limit`,
  reset: `anthropic-ratelimit-${of}-reset`,
  period: '',
})

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

const windows = [
  ['10-second', 10 * SECOND],
  ['minute', MINUTE],
  ['hour', HOUR],
  ['day', 24 * HOUR],
  ['month', 30 * 24 * HOUR],
] as const

/**
 * Who says which (their pages on rate limits, read 2026-11; those marked * as recorded): DeepSeek, Gemini, Bedrock and
 * most servers one runs oneself say nothing.
 */
export const LIMIT_HEADERS: readonly LimitHeaders[] = [
  // OpenAI, Groq, xAI* (no reset), Azure* (reset in s, formerly ms; beside it the length of the window).
  ...['-requests', '-tokens', '-project-tokens', '-input-images', '-tokens_usage_based'].map(openai),
  // Groq: accounts with separate limits for what goes in and what comes out. Fireworks names the same otherwise.
  ...['-input-tokens', '-output-tokens', '-tokens-prompt', '-tokens-generated', '-tokens-cache-adjusted-prompt'].map(
    openai,
  ),
  // Cerebras (`requests-day`, `tokens-minute`), Mistral* (`req-minute`, `tokens-minute`, `req-10-second`; no reset).
  ...windows.flatMap(([name, window]) =>
    ['requests', 'req', 'tokens'].map((of) => ({ ...openai(`-${of}-${name}`), window })),
  ),
  // Together* (s), OpenRouter (ms since 1970).
  openai(''),
  ...['requests', 'tokens', 'input-tokens', 'output-tokens'].map(anthropic),
  // The IETF's draft in its older form (draft-ietf-httpapi-ratelimit-headers-06): reset in s.
  { left: 'ratelimit-remaining', whole: 'ratelimit-limit', reset: 'ratelimit-reset', period: '' },
]
