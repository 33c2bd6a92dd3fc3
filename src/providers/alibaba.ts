import type { ErrorTable } from '../core/error-table.ts'
import type { Provider } from '../core/provider.ts'
import { chatIds } from './quirks/model-list.ts'
import { inOrder, olderChat, onlyChat, type RequestQuirk } from './quirks/request.ts'
import { forcedCallsWithoutThinking } from './quirks/thinking.ts'

/** Qwen3.5 and later, and the open Qwen3: they think unless disabled. Their variants for one mode only cannot switch. */
const THINKS_BY_DEFAULT = /^qwen3(?:\.[5-9]|-[0-9]{1,3}b)(?!.*(?:instruct|thinking|coder))/

/**
 * "The tool_choice parameter does not support being set to required or object in thinking mode"
 * (github.com/cloudwego/eino/issues/994, 2026-04-24, measured; github.com/QwenLM/qwen-code/issues/7659, 2026-07-24). Without
 * thinking it is accepted (github.com/agentscope-ai/agentscope/issues/1608, 2026-09-07).
 */
const forcedCalls = forcedCallsWithoutThinking({
  thinks: ({ enable_thinking: enabled }, model) =>
    (enabled === true && !model.includes('-thinking')) || ((enabled ?? null) === null && THINKS_BY_DEFAULT.test(model)),
  off: { enable_thinking: false },
})

/** The open Qwen3 without its variants for one mode. */
const OPEN_QWEN3 = /^qwen3-[0-9]{1,3}b(?!.*(?:instruct|thinking|coder))/

/**
 * "parameter.enable_thinking must be set to false for non-streaming calls": the open Qwen3 thinks by default, in streams only
 * (github.com/QuantumNous/new-api/pull/1109, 2025-05-26; github.com/coze-dev/coze-studio/issues/324, 2025-07-30). So a whole
 * answer is written without thinking; it is reported if the client asked for it.
 */
const wholeWithoutThinking: RequestQuirk = (body, model, lost) => {
  if (body.stream === true || body.enable_thinking === false || !OPEN_QWEN3.test(model)) return body
  if (body.enable_thinking === true) lost('enable_thinking')
  return { ...body, enable_thinking: false }
}

/** Unpaid bills and refused content are reported with status 400. */
const errors: ErrorTable = {
  checked: '2026-11-21',
  rows: [
    {
      when: { word: 'Arrearage' },
      kind: 'quota',
      seen: 'github.com/hsliuping/TradingAgents-CN/issues/170 (2025-07-25)',
    },
    {
      when: { word: 'data_inspection_failed' },
      kind: 'content_policy',
      seen: 'github.com/camel-ai/owl/issues/432 (2025-03-28)',
    },
    {
      when: { status: 400, message: /InternalError\.Algo\.DataInspectionFailed/ },
      kind: 'content_policy',
      seen: 'github.com/QwenLM/qwen-code/issues/3145 (2026-04-11)',
    },
  ],
}

/** "batch size is invalid, it should not be larger than 10" (memodb-io/memobase#142, 2025-11); v1 and v2: 25 (langchain4j/langchain4j#1140). */
const embedLimits = (model: string) => ({ inputs: /-v[12]$/.test(model) ? 25 : 10 })

export default {
  name: 'alibaba',
  aliases: ['dashscope'],
  title: 'Alibaba Cloud Model Studio',
  order: 200,
  family: 'qwen',
  baseUrl: 'https://dashscope-intl.aliyuncs.com/compatible-mode/v1',
  speaks: [{ protocol: 'openai-chat' }],
  // Ignores unlisted members, including `instructions` on the page of 2026-02-24
  // (alibabacloud.com/help/en/model-studio/qwen-api-via-openai-responses).
  alsoSpeaks: [
    { protocol: 'openai-responses' },
    { protocol: 'anthropic-messages', path: '/apps/anthropic/v1/messages', atHost: true },
  ],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'qwen-plus',
  models: { path: '/models', decode: chatIds },
  quirks: { requestBody: inOrder(olderChat, onlyChat(inOrder(forcedCalls, wholeWithoutThinking))), errors },
  note: 'The international address; accounts in China set `ALIBABA_BASE_URL=https://dashscope.aliyuncs.com/compatible-mode/v1`.',
  embeds: { protocol: 'openai-embeddings', models: ['text-embedding-v4'], limits: embedLimits },
} satisfies Provider
