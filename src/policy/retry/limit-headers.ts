/** Names of the headers in which upstreams report the remaining part of their rate limits. */

/** The header names of one limit. */
export type LimitHeaders = {
  /** The remaining requests or tokens. */
  readonly left: string
  /** The limit itself. */
  readonly whole: string
  /** When the full limit is available again: a duration or a time, see `resetIn`. */
  readonly reset: string
  /** The length of the window in seconds, which decides the unit of a bare number in `reset`. Empty: no such header. */
  readonly period: string
  /** The length of the window in ms, if the header names contain it. */
  readonly window?: number
}

/** OpenAI's names, which other vendors use too. `of`: the suffix that names what is limited. */
const openai = (of: string): LimitHeaders => ({
  left: `x-ratelimit-remaining${of}`,
  whole: `x-ratelimit-limit${of}`,
  reset: `x-ratelimit-reset${of}`,
  period: `x-ratelimit-renewalperiod${of}`,
})

/** Anthropic's names. `of`: what is limited. */
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
 * All known limits, from the vendors' pages on rate limits (read 2026-11) and, where marked *, from recordings. DeepSeek,
 * Gemini, Bedrock and most self-hosted servers send none.
 */
export const LIMIT_HEADERS: readonly LimitHeaders[] = [
  // OpenAI, Groq, xAI* (no reset), Azure* (reset in s, formerly ms; beside it the length of the window).
  ...['-requests', '-tokens', '-project-tokens', '-input-images', '-tokens_usage_based'].map(openai),
  // Groq: accounts with separate limits for input and output. Fireworks has other names for them.
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
  // The older form of the IETF draft (draft-ietf-httpapi-ratelimit-headers-06): reset in s.
  { left: 'ratelimit-remaining', whole: 'ratelimit-limit', reset: 'ratelimit-reset', period: '' },
]
