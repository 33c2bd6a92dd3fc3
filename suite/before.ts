/** Family A: what breaks before the first content. */
import { advisory, atLeast, atMost, bounded, type Scenario, slowest } from './scenario.ts'
import type { Behaviour, Script } from './wall.ts'

const gapOf = (attempts: readonly { readonly at: number }[]): number =>
  (attempts[1]?.at ?? Number.POSITIVE_INFINITY) - (attempts[0]?.at ?? 0)

export const BUSY: Behaviour = {
  error: { status: 503, type: 'server_error', code: 'overloaded', message: 'The engine is currently overloaded.' },
}
export const LIMITED = (seconds?: number): Behaviour => ({
  error: { status: 429, type: 'rate_limit_error', code: 'rate_limit_exceeded', message: 'Rate limit reached.' },
  ...(seconds !== undefined && { headers: { 'retry-after': String(seconds) } }),
})
const NO_CREDIT: Behaviour = {
  error: {
    status: 429,
    type: 'insufficient_quota',
    code: 'insufficient_quota',
    message: 'You exceeded your current quota, please check your plan and billing details.',
  },
}
const NO_CREDIT_MESSAGES: Behaviour = {
  error: {
    status: 400,
    type: 'invalid_request_error',
    code: '',
    message:
      'Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.',
  },
}
/** The message has the key, as vendors' messages have the end of it. */
export const BAD_KEY: Script = ({ key }) => ({
  error: {
    status: 401,
    type: 'authentication_error',
    code: 'invalid_api_key',
    message: `Incorrect API key provided: ${key}.`,
  },
})

const FAILOVERBENCH = 'https://github.com/failoverbench/failoverbench/blob/main/scenarios/catalogue.yaml'

export const BEFORE: readonly Scenario[] = [
  {
    id: 'a01',
    title: 'connection refused',
    source: 'https://www.rfc-editor.org/rfc/rfc9293#section-3.5.2',
    ideal: 'answer',
    place: 'refused',
    script: () => ({}),
    checks: (run) => [atMost('ms', slowest(run), 15_000)],
  },
  {
    id: 'a02',
    title: 'reset before the head',
    source: `${FAILOVERBENCH} (S05)`,
    ideal: 'answer',
    script: () => ({ fault: 'reset' }),
    checks: (run) => [bounded(run)],
  },
  {
    id: 'a03',
    title: 'closed after the request',
    source: 'https://www.rfc-editor.org/rfc/rfc9112#section-9.6',
    ideal: 'answer',
    script: () => ({ response: () => ({ head: null, pieces: [], end: 'closed' }) }),
    checks: (run) => [bounded(run)],
  },
  {
    id: 'a04',
    title: 'silence',
    source: `${FAILOVERBENCH} (S06)`,
    ideal: 'answer',
    script: () => ({ fault: 'silence' }),
    checks: (run) => [
      atMost('ms', slowest(run), 100_000 * run.scale),
      advisory(atMost('attempts at the silent vendor', run.attempts('primary').length, 1)),
    ],
  },
  {
    id: 'a05',
    title: 'head, then silence',
    source: `${FAILOVERBENCH} (S07)`,
    ideal: 'answer',
    script: () => ({ response: (response) => ({ ...response, pieces: [], end: 'open' }) }),
    checks: (run) => [atMost('ms', slowest(run), 100_000 * run.scale)],
  },
  {
    id: 'a06',
    title: '429 with Retry-After',
    source: `${FAILOVERBENCH} (S01)`,
    ideal: 'answer',
    script: ({ attempt }) => (attempt === 1 ? LIMITED(2) : {}),
    checks: (run) => {
      const attempts = run.attempts('primary')
      const early = attempts.filter(({ at }) => at - (attempts[0]?.at ?? 0) < 1_500).length
      return [
        atMost('attempts within 1.5 s', early, 2),
        advisory(atLeast('attempts at the primary', attempts.length, 2)),
        advisory(atLeast('ms between them', Math.min(gapOf(attempts), 1e9), 1_800)),
      ]
    },
  },
  {
    id: 'a07',
    title: '429 for ever',
    source: `${FAILOVERBENCH} (S02)`,
    ideal: 'answer',
    script: () => LIMITED(),
    checks: (run) => {
      const attempts = run.attempts('primary')
      return [
        bounded(run),
        atMost('attempts within 3 s', attempts.filter(({ at }) => at - (attempts[0]?.at ?? 0) < 3_000).length, 4),
      ]
    },
  },
  {
    id: 'a08',
    title: '500 once',
    source: `${FAILOVERBENCH} (S03)`,
    ideal: 'answer',
    script: ({ attempt }) =>
      attempt === 1
        ? {
            error: {
              status: 500,
              type: 'server_error',
              code: 'server_error',
              message: 'The server had an error while processing your request.',
            },
          }
        : {},
    checks: (run) => [bounded(run), advisory(atLeast('attempts at the primary', run.attempts('primary').length, 2))],
  },
  {
    id: 'a09',
    title: '503 for ever',
    source: `${FAILOVERBENCH} (S04)`,
    ideal: 'answer',
    script: () => BUSY,
    checks: (run) => [bounded(run)],
  },
  {
    id: 'a10',
    title: '529 for ever',
    source: 'https://platform.claude.com/docs/en/api/errors',
    ideal: 'answer',
    script: () => ({ error: { status: 529, type: 'overloaded_error', code: 'overloaded', message: 'Overloaded' } }),
    checks: (run) => [bounded(run)],
  },
  {
    id: 'a11',
    title: '401 at the first key',
    source: 'https://platform.openai.com/docs/guides/error-codes',
    ideal: 'answer',
    place: 'two keys',
    script: (attempt, since) => (attempt.key.includes('-two-') ? {} : BAD_KEY(attempt, since)),
    checks: (run) => [bounded(run, 3)],
  },
  {
    id: 'a12',
    title: 'no credit',
    source: 'https://platform.openai.com/docs/guides/error-codes',
    ideal: 'answer',
    script: ({ style }) => (style === 'messages' ? NO_CREDIT_MESSAGES : NO_CREDIT),
    checks: (run) => [bounded(run, 3), advisory(bounded(run, 1))],
  },
  {
    id: 'a13',
    title: 'error inside a 200',
    source: 'https://platform.claude.com/docs/en/build-with-claude/streaming#error-events',
    ideal: 'answer',
    // The stream begins as usual, so that its style is known, and has no content.
    script: ({ style }) => ({ fault: `error@${style === 'chat' ? 1 : 2}` }),
    checks: (run) => [bounded(run)],
  },
]
