import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fail } from '../../core/failure.ts'
import { statedWait, withStatedWait } from './stated-wait.ts'

const NOW = Date.UTC(2026, 10, 26, 12, 0, 0)
const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** [source, message, wait in ms (undefined: none), offset of times without a zone] */
const messages: readonly (readonly [string, string, number | undefined, string?])[] = [
  [
    'Groq, continuedev/continue#10920',
    'Rate limit reached for model `llama-3.3-70b-versatile` in organization `org_01kjh7p9n8f1qs6nz2bz77vy6b` service tier `on_demand` on tokens per day (TPD): Limit 100000, Used 97050, Requested 3619. Please try again in 9m38.016s. Need more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing',
    9 * MINUTE + 38_016,
  ],
  [
    'OpenAI, BuilderIO/micro-agent#86',
    'Rate limit reached for gpt-4o in organization org-uOtiSEwvUnroadaOnJJquBEC on tokens per min (TPM): Limit 30000, Used 29937, Requested 385. Please try again in 644ms.',
    644,
  ],
  [
    'OpenAI, FoundationAgents/MetaGPT#523',
    'Rate limit reached for gpt-4 in organization org-uVqpjtJiKqvVJMVfvpaounIh on tokens per min (TPM): Limit 10000, Used 8554, Requested 3082. Please try again in 9.816s. Visit https://platform.openai.com/account/rate-limits to learn more.',
    9_816,
  ],
  [
    'Azure, icereed/paperless-gpt#814',
    'Your requests to gpt-4.1-nano for gpt-4.1-nano in Sweden Central have exceeded the token rate limit for your current AIServices S0 pricing tier. This request was for ChatCompletions_Create under Azure OpenAI API version 2023-05-15. Please retry after 45 seconds.',
    45 * SECOND,
  ],
  [
    'Azure, Azure-Samples/azure-search-openai-demo#177',
    'Rate limit is exceeded. Try again in 30 seconds.',
    30 * SECOND,
  ],
  [
    'Gemini, diegosouzapw/OmniRoute#9504',
    'You exceeded your current quota, please check your plan and billing details. For more information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits. To monitor your current usage, head to: https://ai.dev/rate-limit. \n* Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 20, model: gemini-3.6-flash\nPlease retry in 36.429760048s.',
    36_429.760048,
  ],
  [
    'Google, liuw1535/antigravity2api-nodejs#44',
    'You have exhausted your capacity on this model. Your quota will reset after 161h39m41s.',
    161 * HOUR + 39 * MINUTE + 41 * SECOND,
  ],
  [
    'Copilot, microsoft/vscode-copilot-release#3210',
    'Sorry, your request is rate-limited. Please wait 8 hours 24 minutes and try again',
    8 * HOUR + 24 * MINUTE,
  ],
  [
    'Copilot, github/copilot-cli#2696',
    "Sorry, you've hit a rate limit that restricts the number of Copilot model requests you can make within a specific time period. Please try again in 58 hours. Please review our Terms of Service.",
    58 * HOUR,
  ],
  [
    'Codex, openai/codex#3899',
    "You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing) or try again in 5 days 22 hours 11 minutes.",
    5 * DAY + 22 * HOUR + 11 * MINUTE,
  ],
  [
    'another gateway, NousResearch/hermes-agent#76225',
    '[claude/claude-opus-5] [429]: rate limited (reset after 2m 13s)',
    133 * SECOND,
  ],
  ['ruwiss/ai-auto-free#47', 'getting rate limiting on the model, try again in an hour', HOUR],
  [
    'Z.ai, Yeachan-Heo/gajae-code#1821',
    '[1310][Weekly/Monthly Limit Exhausted. Your limit will reset at 2026-12-14 07:49:08]',
    Date.UTC(2026, 11, 13, 23, 49, 8) - NOW,
    '+08:00',
  ],
  [
    'Z.ai, hugalafutro/model-hotel#955',
    'Usage limit reached for 5 hour. Your limit will reset at 2026-11-26 20:38:28',
    38 * MINUTE + 28 * SECOND,
    '+08:00',
  ],
  [
    'Z.ai, can1357/oh-my-pi#11014',
    '[1308][Usage limit reached for 5 hour. Your limit will reset at 2026-11-27 00:35:41][20260912001903b4955568412247d7]',
    4 * HOUR + 35 * MINUTE + 41 * SECOND,
    '+08:00',
  ],
  ['a stated zone comes before the usual one', 'It resets at 2026-11-26 12:30:00 UTC', 30 * MINUTE, '+08:00'],
  ['a time without a zone', 'Your limit will reset at 2026-11-26 12:38:28', 38 * MINUTE + 28 * SECOND],
  [
    'Zhipu, NanmiCoder/cc-haha#1266',
    '[1308][已达到 5 小时的使用上限。您的限额将在 2026-11-26 20:09:21 重置。]',
    9 * MINUTE + 21 * SECOND,
  ],
  ['openai/codex#3465', 'limit resets at: 2026-11-26T13:13:01+0000', HOUR + 13 * MINUTE + SECOND],
  ['with an offset', 'It will reset at 2026-11-26 20:30:00 +0800 CST', 30 * MINUTE],
  [
    'Anthropic, a used-up monthly limit',
    'You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.',
    4 * DAY + 12 * HOUR,
  ],
  ['a Unix time', 'Limit reached. Try again after 1795694460', 1_795_694_460_000 - NOW],

  ['in the past', 'Your limit will reset at 2026-11-14 07:49:08', undefined],
  ['not a date', 'Your limit will reset at 2026-19-44 07:49:08', undefined],
  ['a limit per time', 'Limit 100 requests per 30 seconds. The limit resets every 5 minutes.', undefined],
  ['no time', 'Resource has been exhausted (e.g. check quota). Please try again later.', undefined],
  ['a window of time', 'Usage limit reached for 5 hour.', undefined],
  ['the word within another', 'Set the preset 5 days ago; presets in 5 days', undefined],
  ['quoted', 'Rate limited. The prompt "please try again in 3 days" counts as 5 tokens.', undefined],
  ['after 2,000 characters', `${'x '.repeat(1_000)}try again in 5 minutes`, undefined],
  [
    'an error of another gateway as JSON',
    '{"error":{"message":"Rate limit reached. Please try again in 3.5s.","code":"rate_limit_exceeded"}}',
    3_500,
  ],
]
for (const [name, message, wait, offset] of messages)
  test(`stated wait: ${name}`, () => assert.equal(statedWait(message, { now: NOW, offset })?.wait, wait))

const failure = (message: string, kind: 'rate_limited' | 'quota' | 'overloaded' | 'status', more = {}) =>
  fail(kind, message, { upstream: { message }, ...more })
const RETRY = 'Please try again in 25m14.4s.'

test('stated wait: is set for rate limits and used-up quotas only, and is at most an hour', () => {
  const waitOf = (kind: Parameters<typeof failure>[1], message = RETRY) =>
    withStatedWait(failure(message, kind), () => '', { now: NOW }).retryAfter
  assert.equal(waitOf('rate_limited'), 1_514_400)
  assert.equal(waitOf('quota'), 1_514_400)
  assert.equal(waitOf('overloaded'), undefined)
  assert.equal(waitOf('status'), undefined)
  assert.equal(waitOf('rate_limited', 'Your quota will reset in 3 days.'), HOUR)
})

test('stated wait: a wait from the headers is kept', () => {
  assert.equal(withStatedWait(failure(RETRY, 'rate_limited', { retryAfter: 7 }), () => '', { now: NOW }).retryAfter, 7)
})

test('stated wait: words of the request do not set a wait', () => {
  const request = JSON.stringify({ messages: [{ role: 'user', content: 'Say: try again in 25m14.4s, please' }] })
  assert.equal(withStatedWait(failure(RETRY, 'rate_limited'), () => request, { now: NOW }).retryAfter, undefined)
  assert.equal(
    withStatedWait(failure(RETRY, 'rate_limited'), () => '{"messages":[]}', { now: NOW }).retryAfter,
    1_514_400,
  )
})

test('stated wait: long and repetitive messages are read in linear time', () => {
  for (const part of ['try again in 1', 'reset ', '1 h ', '1h1m', 'retry: ', '2026-11-26 ', '"', 'wait an '])
    assert.doesNotThrow(() => statedWait(part.repeat(100_000), { now: NOW }))
})

test('stated wait: units, articles, quotes, and times that have passed', () => {
  const wait = (message: string) => statedWait(message, { now: NOW })?.wait
  assert.equal(wait('Retry in 5 milliseconds'), 5)
  assert.equal(wait('Retry in 5 mins'), 5 * MINUTE)
  assert.equal(wait('Try again in a minute'), MINUTE)
  assert.equal(wait('Try again in an hour'), HOUR)
  assert.equal(wait('Bad text `retry in 5s`, retry in 7s'), 7 * SECOND)
  assert.equal(wait('Bad text “retry in 5s”, retry in 7s'), 7 * SECOND)
  assert.equal(wait('Retry at 2026-11-26T12:00:00Z'), undefined)
  assert.equal(wait('Retry at 2026-11-26T12:00:01Z'), SECOND)
})

test('stated wait: a failure without a text of the provider states none', () => {
  const failure = fail('rate_limited', 'retry in 5s')
  assert.equal(
    withStatedWait(failure, () => '', { now: NOW }),
    failure,
  )
})
