import type { Accepts, TextLimit } from '../core/accepts.ts'
import type { ErrorTable } from '../core/error-table.ts'
import { isObject, type Json, type JsonObject, object, text } from '../core/json.ts'
import { mapMember, withoutMember } from '../core/json-edit.ts'
import type { Provider } from '../core/provider.ts'
import {
  developerAsSystem,
  exceptResponses,
  inOrder,
  olderChat,
  onlyChat,
  onlyResponses,
  type RequestQuirk,
} from './quirks/request.ts'
import { forcedCallsWithoutThinking, thoughtsOfCalls } from './quirks/thinking.ts'

/**
 * "Invalid 'user_id': string does not match pattern" (github.com/deepseek-ai/DeepSeek-V3/issues/1277, 2026-05-06). Its reference
 * has the pattern and the length (github.com/vercel/ai/issues/19380, 2026-08-24).
 */
const userId: TextLimit = { maxLength: 512, pattern: /^[a-zA-Z0-9_-]+$/ }

/** Refuses parameters of functions without a type (github.com/end-4/dots-hyprland/pull/3640, 2026-09-11, measured). */
const accepts: Accepts = {
  reasoning: ['reasoning_content'],
  limits: { user: userId, user_id: userId },
  objectParameters: true,
}

/**
 * "Thinking mode does not support this tool_choice": V4 thinks by default, and answers with `thinking: disabled`
 * (github.com/deepseek-ai/DeepSeek-V3/issues/1376, 2026-08; github.com/JetBrains/koog/issues/2179; both models, measured:
 * github.com/tickernelz/opencode-mem/issues/253, 2026-08-27). `deepseek-chat` does not think.
 */
const forcedCalls = forcedCallsWithoutThinking({
  thinks: ({ thinking }, model) => object(thinking)?.type !== 'disabled' && !model.startsWith('deepseek-chat'),
  off: { thinking: { type: 'disabled' } },
})

/**
 * "This response_format type is unavailable now" (github.com/UKGovernmentBEIS/inspect_ai/issues/4916, 2026-08;
 * github.com/llm-exe/llm-exe/issues/662). Its responses API supports schemas, so chat completions are unfit.
 */
const noSchemas: RequestQuirk = (body, _model, lost) => {
  if (object(body.response_format)?.type === 'json_schema') lost('response_format', true)
  return body
}

/** Its Responses API treats `developer` as `user` (DeepSeek's guide to its Responses API, 2026-11-21). */
const developerItems = developerAsSystem('input')

/** Supported tools; the only one with free text is Codex's patch. */
const isKnown = (tool: Json): boolean => {
  const type = isObject(tool) ? text(tool.type) : undefined
  return (
    type === 'function' ||
    type?.startsWith('web_search') === true ||
    (type === 'custom' && object(tool)?.name === 'apply_patch')
  )
}

/** Members that are accepted without effect according to its guide and reference (2026-11-21), with their neutral values. */
const IGNORED: { readonly [member: string]: Json } = {
  parallel_tool_calls: true,
  max_tool_calls: null,
  truncation: 'disabled',
}

/**
 * Its Responses API silently ignores unknown members. A tool that it would ignore makes the request unfit for it; other
 * settings are removed and reported as dropped.
 */
const dropIgnored: RequestQuirk = (body, _model, lost) => {
  let now: JsonObject = body
  for (const [member, usual] of Object.entries(IGNORED)) {
    const value = now[member] ?? null
    if (value === null || value === usual) continue
    lost(member)
    now = withoutMember(now, member)
  }
  // Its reasoning is plain text, never encrypted.
  now = mapMember(now, 'include', (value, at) => {
    if (value === 'reasoning.encrypted_content') return value
    lost(`include[${at}]`)
    return undefined
  })
  const format = object(now.text)
  if (format && (format.verbosity ?? null) !== null) {
    lost('text.verbosity')
    now = { ...now, text: withoutMember(format, 'verbosity') }
  }
  return mapMember(now, 'tools', (tool, at) => {
    if (isKnown(tool)) return tool
    lost(`tools[${at}]`, true)
    return undefined
  })
}

/** Every error has the code `invalid_request_error`, so only the message identifies the kind of a 400. */
const errors: ErrorTable = {
  checked: '2026-11-21',
  rows: [
    {
      when: { status: 400, message: /^model not exist/i },
      kind: 'model_missing',
      seen: 'github.com/langbot-app/LangBot/issues/1643 (2025-09-02)',
    },
    {
      when: { status: 400, message: /^content exists risk/i },
      kind: 'content_policy',
      seen: 'github.com/666ghj/BettaFish/issues/108 (2025-11-04)',
    },
  ],
}

export default {
  name: 'deepseek',
  promptCache: [
    {
      least: 1_024,
      from: 'request',
      automatic: true,
      owner: 'account',
      source: 'https://api-docs.deepseek.com/guides/kv_cache',
      read: '2026-11-28',
    },
  ],
  title: 'DeepSeek',
  order: 70,
  baseUrl: 'https://api.deepseek.com',
  // Both are native; responses support schemas and searches, chat completions do not (recordings deepseek-responses-*).
  // No image input: github.com/rikkahub/rikkahub/issues/1433 (2026-07-03).
  speaks: [
    { protocol: 'openai-chat', accepts, lacks: ['images'] },
    {
      protocol: 'openai-responses',
      stateless: true,
      lacks: ['images'],
      accepts: { limits: { user: userId }, objectParameters: true },
    },
  ],
  alsoSpeaks: [
    {
      protocol: 'anthropic-messages',
      path: '/anthropic/v1/messages',
      auth: { header: 'x-api-key' },
      accepts: { limits: { 'metadata.user_id': userId } },
    },
  ],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'deepseek-v4-flash',
  models: { path: '/models' },
  // Its thinking models require the reasoning of a turn while tools are being called.
  acceptsReasoning: true,
  quirks: {
    requestBody: inOrder(
      olderChat,
      exceptResponses(forcedCalls),
      // V4 thinks by default and requires them (github.com/earendil-works/pi/issues/3636, 2026-04-24;
      // github.com/nowledge-co/nowledge-mem/issues/36). An empty text is accepted (github.com/NousResearch/hermes-agent/issues/15353).
      onlyChat(inOrder(noSchemas, thoughtsOfCalls)),

      onlyResponses(inOrder(developerItems, dropIgnored)),
    ),
    errors,
  },
  note: 'Requests in the responses style use its responses API if it supports them; with `DEEPSEEK_STYLES=chat` they use chat completions.',
} satisfies Provider
