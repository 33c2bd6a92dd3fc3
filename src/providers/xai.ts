import type { ErrorTable } from '../core/error-table.ts'
import { isObject, list, object, text } from '../core/json.ts'
import { mapMember, withoutMember } from '../core/json-edit.ts'
import type { Provider } from '../core/provider.ts'
import { chatIds } from './quirks/model-list.ts'
import { inOrder, onlyResponses, type RequestQuirk } from './quirks/request.ts'

/** Models whose names contain `non-reasoning` accept stop sequences; the others refuse them. */
const TAKES_STOP = /non-reasoning/
/** Reasoning models that refuse an effort (github.com/NousResearch/hermes-agent/pull/23435, 2026-05-10, measured). */
const REFUSES_EFFORT = /^grok-(?:3(?!-mini)|4(?:-|$)|4\.20(?!-multi-agent)|code-fast|build)/

/**
 * Refused settings: penalties, even zero (github.com/miaoxworld/NativeTavern/issues/83, 2026-09-15), stop sequences by reasoning
 * models (github.com/huggingface/smolagents/issues/1766), an effort by some.
 */
const dropRefused: RequestQuirk = (body, model, lost) => {
  const refused = TAKES_STOP.test(model) ? [] : ['stop']
  for (const member of refused) if (list(body[member]).length > 0 || text(body[member])) lost(member)
  const accepted = withoutMember(body, ...refused)
  if (!REFUSES_EFFORT.test(model)) return accepted
  if (text(accepted.reasoning_effort) !== undefined) lost('reasoning_effort')
  const reasoning = object(accepted.reasoning)
  if (text(reasoning?.effort) === undefined) return withoutMember(accepted, 'reasoning_effort')
  lost('reasoning.effort')
  return { ...withoutMember(accepted, 'reasoning_effort'), reasoning: withoutMember(reasoning ?? {}, 'effort') }
}

/**
 * Refuses `content: null` in reasoning items, as Codex returns it, with 422 (github.com/Wei-Shaw/sub2api/issues/4237, 2026-07-14).
 * An item with plain-text reasoning and no encryption is another vendor's, so its ID is removed; the text may be read.
 */
const reasoningItems: RequestQuirk = onlyResponses((body) =>
  mapMember(body, 'input', (item) => {
    if (!isObject(item) || item.type !== 'reasoning') return item
    if (item.content === null) return withoutMember(item, 'content')
    return list(item.content).length > 0 && !text(item.encrypted_content) ? withoutMember(item, 'id') : item
  }),
)

/** `{code, error}` with the message as a string and the code a sentence for the status: only the message identifies the kind. */
const errors: ErrorTable = {
  checked: '2026-11-21',
  rows: [
    {
      when: { status: 400, message: /^incorrect api key provided/i },
      kind: 'auth',
      seen: 'github.com/continuedev/continue/issues/10778 (2026-02-24)',
    },
    {
      when: { status: 403, message: /^your newly created teams? doesn't have any credits/i },
      kind: 'quota',
      seen: 'github.com/continuedev/continue/issues/12670 (2026-06-16)',
    },
    // With status 403 or 429.
    {
      when: { message: /^your team .{0,80} has either used all available credits/i },
      kind: 'quota',
      seen: 'github.com/continuedev/continue/issues/10373 (2026-02-09)',
    },
    {
      when: { status: 403, message: /^you have run out of credits/i },
      kind: 'quota',
      seen: 'github.com/Wei-Shaw/sub2api/issues/4069 (2026-07-11)',
    },
    {
      when: { status: 403, message: /^content violates usage guidelines/i },
      kind: 'content_policy',
      seen: 'github.com/UKGovernmentBEIS/inspect_ai/pull/2267 (2025-08-12)',
    },
  ],
}

const GENERATED = ['grok-imagine-image-quality', 'grok-imagine-image']

export default {
  name: 'xai',
  aliases: ['grok'],
  promptCache: [
    {
      least: 1_024,
      from: 'request',
      automatic: true,
      owner: 'unknown',
      source: 'https://docs.x.ai/developers/advanced-api-usage/prompt-caching/best-practices',
      read: '2026-11-28',
    },
  ],
  title: 'xAI',
  order: 60,
  family: 'x-ai',
  baseUrl: 'https://api.x.ai/v1',
  speaks: [
    { protocol: 'openai-chat', accepts: { refuses: { presence_penalty: 0, frequency_penalty: 0 } } },
    { protocol: 'openai-responses' },
  ],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'grok-4.3',
  // Recordings of grok-4.3 (xai-responses-*) have encrypted reasoning; grok-4-fast-non-reasoning does not reason.
  encryptsReasoning: /^grok-(?:4|[5-9])(?!.*non-reasoning)/,
  models: { path: '/models', decode: chatIds },
  quirks: { requestBody: inOrder(dropRefused, reasoningItems), errors },
  // docs.x.ai/developers/model-capabilities/images/generation (2026-11-28).
  relays: {
    images: { models: GENERATED },
    // "The OpenAI SDK's images.edit() method is not supported […] because it uses multipart/form-data" (the same page, 2026-11-28).
    'image-edits': { models: GENERATED, body: 'json' },
    // docs.litellm.ai/docs/providers/xai_realtime (2026-10-06): the paths and events of OpenAI, and the model in the query.
    realtime: { models: ['grok-voice-latest'] },
  },
  note: 'Requests in the responses style use its responses API; with `XAI_STYLES=chat` they use chat completions.',
} satisfies Provider
