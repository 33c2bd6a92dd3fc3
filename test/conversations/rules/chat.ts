/** Rules of vendors that copy OpenAI's chat completions. OpenAI's own rules are in openai.ts. */
import { isObject, type JsonObject, list, object, text } from '../../../src/core/json.ts'
import {
  callIds,
  firstOf,
  indexed,
  isEmpty,
  objects,
  openaiError,
  partsOf,
  type Rule,
  type Rules,
  thinkingType,
  unknownMember,
  type VendorRefusal,
} from '../rule.ts'
import { deepseekLimits, groqLimits } from './limits.ts'

/**
 * Every call of an assistant message is answered by the `tool` messages right after it, and no `tool` message stands
 * anywhere else. Sources: aliasrobotics/cai#182, google-gemini/gemini-cli#5031 (checked 2026-11-21).
 */
const toolMessageFollowsCall: Rule = ({ messages }) => {
  let open: Set<string> | null = null
  const unanswered = () =>
    open && open.size > 0
      ? openaiError(
          `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${[...open].join(', ')}`,
          { param: 'messages' },
        )
      : null
  for (const [index, message] of indexed(messages)) {
    if (message.role === 'tool') {
      if (!open?.delete(text(message.tool_call_id) ?? ''))
        return openaiError(
          "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
          { param: `messages.[${index}].role` },
        )
      continue
    }
    const refusal = unanswered()
    if (refusal) return refusal
    open = message.role === 'assistant' ? new Set(callIds(message)) : null
  }
  return unanswered()
}

/** Rules of every vendor of chat completions except Perplexity, which does not support tools. */
export const anyChat: Rules = { 'chat.tool-message-follows-call': toolMessageFollowsCall }

/** The first image part of a chat request. */
const imageIn = ({ messages }: JsonObject): number | undefined =>
  indexed(messages).find(([, { content }]) => partsOf(content).some(({ type }) => type === 'image_url'))?.[0]

/** Models without vision accept string content only. Sources: sam3gp8/jarvis-aio#17 (Groq); the other models' cards. */
export const noImages: Rules = {
  'image (capability)': (body) => {
    const index = imageIn(body)
    return index === undefined ? null : openaiError(`messages[${index}].content must be a string`)
  },
}

const GROQ_ASSISTANT = new Set(['role', 'content', 'name', 'tool_calls', 'function_call', 'reasoning'])

/**
 * A closed schema for messages. Sources: janhq/jan#8136, NousResearch/hermes-agent#11089 (`reasoning_content`),
 * tashfeenahmed/freellmapi#1070, ServiceStack/llms#17. `reasoning` is a member of its SDK's types since 2025.
 */
const groqMessageMember: Rule = ({ messages }) =>
  firstOf(messages, (message, index) => {
    if (message.role !== 'assistant') return null
    const name = unknownMember(message, GROQ_ASSISTANT)
    return name === undefined
      ? null
      : openaiError(
          `'messages.${index}' : for 'role:assistant' the following must be satisfied[('messages.${index}' : property '${name}' is unsupported)]`,
        )
  })

const GROQ_BODY = new Set(
  'citation_options compound_custom disable_tool_validation documents exclude_domains frequency_penalty function_call functions include_domains include_reasoning logit_bias logprobs max_completion_tokens max_tokens messages metadata model n parallel_tool_calls presence_penalty reasoning_effort reasoning_format response_format search_settings seed service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p user'.split(
    ' ',
  ),
)

/** Sources: musistudio/llms#64, fanenr/chatbot#21; the members are those of its reference (2026-11-21). */
const groqParameter: Rule = (body) => {
  const name = unknownMember(body, GROQ_BODY)
  return name === undefined ? null : openaiError(`property '${name}' is unsupported`)
}

export const groq: Rules = {
  ...anyChat,
  ...noImages,
  'groq.message-member': groqMessageMember,
  'groq.parameter': groqParameter,
  ...groqLimits,
}

/** Cerebras's error format: no `error` object, and one code for every schema violation. */
const cerebrasError = (message: string): VendorRefusal => ({
  status: 400,
  body: { message, type: 'invalid_request_error', param: 'validation_error', code: 'wrong_api_format' },
})

const CEREBRAS_ASSISTANT = new Set(['role', 'content', 'name', 'tool_calls', 'reasoning'])

/** Sources: QwenLM/qwen-code#11045, proxysoul/Empryo#209 (measured), Kilo-Org/kilocode#10375. Status 400 since spring 2026. */
const cerebrasMessageMember: Rule = ({ messages }) =>
  firstOf(messages, (message, index) => {
    const name = message.role === 'assistant' ? unknownMember(message, CEREBRAS_ASSISTANT) : undefined
    const path = `messages.${index}.assistant.${name}`
    return name === undefined ? null : cerebrasError(`${path}: property '${path}' is unsupported`)
  })

const CEREBRAS_REFUSED = ['store', 'frequency_penalty', 'presence_penalty', 'logit_bias']

/**
 * Sources: huggingface/huggingface.js#2268, Gitlawb/openclaude#740, anomalyco/opencode#6648, proxysoul/Empryo#209. Only
 * members that a source names.
 */
const cerebrasParameter: Rule = (body) => {
  const name = CEREBRAS_REFUSED.find((member) => body[member] !== undefined)
  return name === undefined ? null : cerebrasError(`body.${name}: property 'body.${name}' is unsupported`)
}

export const cerebras: Rules = {
  ...anyChat,
  ...noImages,
  'cerebras.message-member': cerebrasMessageMember,
  'cerebras.parameter': cerebrasParameter,
}

/** Sources: NousResearch/hermes-agent#15353, earendil-works/pi#3636, rikkahub/rikkahub#1587. V4 thinks unless disabled. */
const deepseekReasoningMissing: Rule = (body) =>
  thinkingType(body) === 'disabled'
    ? null
    : firstOf(body.messages, (message) =>
        message.role === 'assistant' && callIds(message).length > 0 && typeof message.reasoning_content !== 'string'
          ? openaiError('The `reasoning_content` in the thinking mode must be passed back to the API.', {
              code: 'invalid_request_error',
            })
          : null,
      )

const DESERIALIZE = 'Failed to deserialize the JSON body into the target type:'

/** Source: public issues about `developer` (November 2026); the roles are those of its reference. */
const deepseekRole: Rule = ({ messages }) =>
  firstOf(messages, ({ role }, index) =>
    ['system', 'user', 'assistant', 'tool'].includes(text(role) ?? '')
      ? null
      : openaiError(
          `${DESERIALIZE} messages[${index}].role: unknown variant \`${text(role)}\`, expected one of \`system\`, \`user\`, \`assistant\`, \`tool\` at line 1 column 53`,
          { status: 422, code: 'invalid_request_error' },
        ),
  )

/** Sources: rikkahub/rikkahub#1433, yilewang/llm-for-zotero#143. */
const deepseekImage: Rule = (body) => {
  const index = imageIn(body)
  return index === undefined
    ? null
    : openaiError(
        `${DESERIALIZE} messages[${index}]: unknown variant \`image_url\`, expected \`text\` at line 1 column 190`,
        {
          code: 'invalid_request_error',
        },
      )
}

export const deepseek: Rules = {
  ...anyChat,
  'deepseek.role': deepseekRole,
  'deepseek.image (capability)': deepseekImage,
  'deepseek.reasoning-missing': deepseekReasoningMissing,
  ...deepseekLimits,
}

/** Sources: miaoxworld/NativeTavern#83, huggingface/smolagents#1766, lobehub/lobehub#13332: its reasoning models. */
const xaiParameter: Rule = (body) => {
  const name = ['stop', 'presence_penalty', 'frequency_penalty'].find((member) => !isEmpty(body[member]))
  return name === undefined
    ? null
    : {
        status: 400,
        body: {
          code: 'Client specified an invalid argument',
          error: `Argument not supported on this model: ${name}`,
        },
      }
}

export const xai: Rules = { ...anyChat, 'xai.parameter': xaiParameter }

const FIREWORKS_BODY = new Set(
  'context_length_exceeded_behavior echo frequency_penalty function_call functions ignore_eos logit_bias logprobs max_completion_tokens max_tokens messages metadata min_p mirostat_lr mirostat_target model n parallel_tool_calls perf_metrics_in_response prediction presence_penalty prompt_cache_isolation_key prompt_cache_key prompt_truncate_len raw_output reasoning_effort reasoning_history repetition_penalty response_format safe_tokenization seed service_tier speculation stop store stream stream_options temperature thinking tool_choice tools top_k top_logprobs top_p typical_p user'.split(
    ' ',
  ),
)

/** Sources: web-infra-dev/midscene#1322, FlowiseAI/Flowise#2866; the members are those of its reference (2026-11-21). */
const fireworksParameter: Rule = (body) => {
  const name = unknownMember(body, FIREWORKS_BODY)
  return name === undefined ? null : openaiError(`Extra inputs are not permitted, field: '${name}'`)
}

export const fireworks: Rules = { ...anyChat, 'fireworks.parameter': fireworksParameter }

/** Whether roles after the leading system messages alternate, beginning with the user; `tool` counts as given. */
const alternates = (messages: readonly JsonObject[], asUser: ReadonlySet<string>): boolean => {
  const start = messages.findIndex(({ role }) => role !== 'system')
  return messages
    .slice(Math.max(0, start))
    .every(({ role }, index) => (index % 2 === 0 ? asUser.has(text(role) ?? '') : role === 'assistant'))
}

/** Sources: perplexityai/api-discussion#265, iamsrikanthnani/pluely#71, anomalyco/opencode#9416. */
const perplexityAlternation: Rule = ({ messages }) =>
  alternates(objects(messages), new Set(['user', 'tool']))
    ? null
    : {
        status: 400,
        body: {
          error: {
            message:
              'After the (optional) system message(s), user or tool message(s) should alternate with assistant message(s).',
            type: 'invalid_message',
            code: 400,
          },
        },
      }

/** Sources: pipecat-ai/pipecat#4862, BerriAI/litellm#11665. */
const perplexityTools: Rule = (body) =>
  isEmpty(body.tools) && objects(body.messages).every((message) => callIds(message).length === 0)
    ? null
    : {
        status: 400,
        body: {
          error: { message: 'Tool calling is not supported for this model.', type: 'invalid_request', code: 400 },
        },
      }

export const perplexity: Rules = {
  'perplexity.tools (capability)': perplexityTools,
  'perplexity.alternation': perplexityAlternation,
}

/**
 * A chat template that raises an error. Sources: vllm-project/vllm#6862, suitenumerique/conversations#197,
 * sterlp/eclipse-peon-ai#75. The template of Mistral's models ignores calls and results.
 */
const vllmAlternation: Rule = ({ messages }) => {
  const spoken = objects(messages).filter((message) => message.role !== 'tool' && callIds(message).length === 0)
  return alternates(spoken, new Set(['user']))
    ? null
    : {
        status: 400,
        body: {
          object: 'error',
          message:
            'After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results.',
          type: 'BadRequestError',
          param: null,
          code: 400,
        },
      }
}

export const vllm: Rules = { ...anyChat, 'vllm.alternation': vllmAlternation }

const MISTRAL_BODY = new Set(
  'frequency_penalty guardrails max_tokens messages metadata model n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_mode random_seed reasoning_effort response_format safe_prompt stop stream temperature tool_choice tools top_p'.split(
    ' ',
  ),
)
const MISTRAL_MESSAGE: { readonly [role: string]: ReadonlySet<string> } = {
  system: new Set(['role', 'content']),
  user: new Set(['role', 'content']),
  assistant: new Set(['role', 'content', 'tool_calls', 'prefix']),
  tool: new Set(['role', 'content', 'tool_call_id', 'name']),
}

/**
 * Additional members are forbidden. Sources: BerriAI/litellm#30835, charmbracelet/crush#1590,
 * editor-code-assistant/eca#231, and Mistral's published OpenAPI schema (2026-11-21).
 */
const mistralExtra: Rule = (body) => {
  const refused = (...loc: readonly (string | number)[]): VendorRefusal => ({
    status: 422,
    body: {
      object: 'error',
      message: { detail: [{ type: 'extra_forbidden', loc: ['body', ...loc], msg: 'Extra inputs are not permitted' }] },
      type: 'invalid_request_error',
      param: null,
      code: null,
      raw_status_code: 422,
    },
  })
  const name = unknownMember(body, MISTRAL_BODY)
  if (name !== undefined) return refused(name)
  return firstOf(body.messages, (message, index) => {
    const role = text(message.role) ?? ''
    const member = unknownMember(message, MISTRAL_MESSAGE[role] ?? new Set())
    return member === undefined ? null : refused('messages', index, role, member)
  })
}

const mistralError = (message: string, type: string, code: string): VendorRefusal => ({
  status: 400,
  body: { object: 'error', message, type, param: null, code, raw_status_code: 400 },
})

/** Sources: karthink/gptel#1203, nearai/ironclaw#1241, zed-industries/zed#53034. */
const mistralToolId: Rule = ({ messages }) =>
  firstOf(messages, (message) => {
    const ids = [...callIds(message), ...(message.role === 'tool' ? [text(message.tool_call_id) ?? ''] : [])]
    const bad = ids.find((id) => !/^[a-zA-Z0-9]{9}$/.test(id))
    return bad === undefined
      ? null
      : mistralError(
          `Tool call id was ${bad} but must be a-z, A-Z, 0-9, with a length of 9.`,
          'invalid_function_call',
          '3280',
        )
  })

/** Sources: avante-corp/avante.nvim#2695, datapizza-labs/datapizza-ai#98, charmbracelet/crush#279. */
const mistralOrder: Rule = ({ messages }) =>
  firstOf(messages, ({ role }, index) => {
    const before = text(object(list(messages)[index - 1])?.role)
    return before === 'tool' && role === 'user'
      ? mistralError("Unexpected role 'user' after role 'tool'", 'invalid_request_message_order', '3230')
      : null
  })

/** Sources: mistralai/client-ts#106, camel-ai/camel#1467. */
const mistralPairs: Rule = (body, context) =>
  toolMessageFollowsCall(body, context)
    ? mistralError('Not the same number of function calls and responses', 'invalid_request_message_order', '3230')
    : null

/** Sources: OpenHands/OpenHands#8685, solbrowse/extension#16. */
const mistralEmptyAssistant: Rule = ({ messages }) =>
  firstOf(messages, (message) =>
    message.role === 'assistant' && isEmpty(message.content) && callIds(message).length === 0
      ? mistralError(
          'Assistant message must have either content or tool_calls, but not none.',
          'invalid_request_assistant_message',
          '3240',
        )
      : null,
  )

export const mistral: Rules = {
  'mistral.extra': mistralExtra,
  'mistral.tool-id': mistralToolId,
  'mistral.order': mistralOrder,
  'mistral.pairs': mistralPairs,
  'mistral.empty-assistant': mistralEmptyAssistant,
}

const COHERE_BODY = new Set(
  'citation_options documents frequency_penalty k logprobs max_tokens messages model p presence_penalty priority raw_prompting response_format safety_mode seed stop_sequences stream strict_tools temperature thinking tool_choice tools'.split(
    ' ',
  ),
)

const cohereError = (message: string): VendorRefusal => ({ status: 400, body: { id: 'cohere-fake', message } })

/** Source: agno-agi/agno#3503; the members are those of its reference (2026-11-21). */
const cohereUnknownField: Rule = (body) => {
  const name = unknownMember(body, COHERE_BODY)
  return name === undefined ? null : cohereError(`unknown field: parameter '${name}' is not a valid field`)
}

/** Source: ethz-spylab/agentdojo#200. The wording for an unanswered call is not published, and is invented here. */
const coherePairs: Rule = (body, context) =>
  toolMessageFollowsCall(body, context)
    ? cohereError('invalid request: each tool call must be followed by its tool result')
    : null

export const cohere: Rules = {
  'cohere.unknown-field': cohereUnknownField,
  'cohere.pairs': coherePairs,
}

/** Typed members of Go structs. Sources: BerriAI/litellm#11273, aliasrobotics/cai#76, neuron-core/neuron-ai#219. */
const ollamaTypes: Rule = ({ messages }) => {
  const wrong = (found: string, field: string, wanted: string): VendorRefusal => ({
    status: 400,
    body: { error: `json: cannot unmarshal ${found} into Go struct field ChatRequest.${field} of type ${wanted}` },
  })
  return firstOf(messages, (message) => {
    if (message.content !== undefined && message.content !== null && typeof message.content !== 'string')
      return wrong('array', 'messages.content', 'string')
    return objects(message.tool_calls).some((call) => !isObject(object(call.function)?.arguments))
      ? wrong('string', 'messages.tool_calls.function.arguments', 'api.ToolCallFunctionArguments')
      : null
  })
}

export const ollama: Rules = { 'ollama.types': ollamaTypes }
