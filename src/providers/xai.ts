import type { Usage } from '../core/chat.ts'
import { type Json, number, text } from '../core/json.ts'
import type { Provider } from '../core/provider.ts'
import { errorIn, meant, TOO_LONG } from './quirks/failures.ts'
import { chatIds } from './quirks/model-list.ts'

/**
 * On chat completions `completion_tokens` leaves the hidden reasoning out: the total is prompt + completion +
 * reasoning in every recorded exchange that has reasoning (xai-chat-*), while the responses API counts like everybody
 * else. The total tells which it was.
 */
const reasoningBesideOutput = (usage: Usage): Usage => {
  const { input, output, reasoning = 0 } = usage
  const total = number(usage.raw?.total_tokens)
  return reasoning > 0 && total === input + output + reasoning ? { ...usage, output: output + reasoning } : usage
}

/** `{code, error}` with the words as a string, and a bad key as a 400 that blames the request. */
const flatErrors = (status: number, body: Json | undefined) => {
  const whole = errorIn(body)
  const words = text(whole?.error)
  if (words === undefined || status < 400 || status >= 500) return undefined
  const kind = /incorrect api key|api key .{0,60}(?:invalid|blocked|disabled)|no api key/i.test(words)
    ? 'auth'
    : /credits? .{0,60}(?:exhausted|used|run out)|spending limit|purchase (?:more )?credits|raise your spending/i.test(
          words,
        )
      ? 'quota'
      : /maximum prompt length|context (?:length|window)/i.test(words) && status < 402
        ? 'context_length'
        : undefined
  const sentence = kind === 'context_length' ? TOO_LONG : "xAI did not take the gateway's key."
  return kind && meant(kind, sentence, status, whole, words)
}

export default {
  name: 'xai',
  aliases: ['grok'],
  title: 'xAI',
  order: 60,
  baseUrl: 'https://api.x.ai/v1',
  speaks: [{ protocol: 'openai-chat' }, { protocol: 'openai-responses' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'grok-4.3',
  models: { path: '/models', decode: chatIds },
  quirks: { usage: reasoningBesideOutput, failure: flatErrors },
  note: 'Responses calls go to its responses API; `XAI_STYLES=chat` keeps them on chat completions.',
} satisfies Provider
