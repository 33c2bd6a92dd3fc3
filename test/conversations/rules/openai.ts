/** Rules of OpenAI and Azure OpenAI: chat completions and responses. */
import { type JsonObject, list, object, text } from '../../../src/core/json.ts'
import {
  callIds,
  firstOf,
  isEmpty,
  objects,
  openaiError,
  partsOf,
  type Rule,
  type Rules,
  unknownMember,
  type VendorRefusal,
} from '../rule.ts'
import { anyChat } from './chat.ts'
import { openaiChatLimits, openaiResponsesLimits } from './limits.ts'

const unknownParameter = (path: string): VendorRefusal =>
  openaiError(`Unknown parameter: '${path}'.`, { param: path, code: 'unknown_parameter' })

const CHAT_BODY = new Set(
  'audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages metadata modalities model moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity web_search_options'.split(
    ' ',
  ),
)

/** Sources: teabranch/open-responses-server#41, nashsu/llm_wiki#336; the members are those of OpenAI's OpenAPI document. */
const chatUnknownParameter: Rule = (body) => {
  const name = unknownMember(body, CHAT_BODY)
  return name === undefined ? null : unknownParameter(name)
}

/**
 * GPT-5 only accepts the newer limit, because it counts hidden tokens. Source: a recorded 400 of OpenAI's chat
 * completions.
 */
const chatMaxTokens: Rule = (body) =>
  body.max_tokens === undefined
    ? null
    : openaiError(
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        { param: 'max_tokens', code: 'unsupported_parameter' },
      )

const effortOf = (body: JsonObject): string =>
  text(body.reasoning_effort) ?? text(object(body.reasoning)?.effort) ?? 'none'

/** Reasoning models accept default sampling only. Source: recorded 400s of OpenAI's chat completions. */
const samplingWhileReasoning: Rule = (body) => {
  const refused = ['temperature', 'top_p'].find((name) => (body[name] ?? 1) !== 1)
  return effortOf(body) === 'none' || refused === undefined
    ? null
    : openaiError(`Unsupported parameter: '${refused}' is not supported with this model.`, {
        param: refused,
        code: 'unsupported_parameter',
      })
}

/**
 * GPT-5.4 and later accept function tools with an effort in the responses API only. Sources: openai/openai-openapi#541,
 * pipecat-ai/pipecat#4043, BerriAI/litellm#34569.
 */
const toolsWithEffort: Rule = (body, { model }) =>
  isEmpty(body.tools) || effortOf(body) === 'none'
    ? null
    : openaiError(
        `Function tools with reasoning_effort are not supported for ${model} in /v1/chat/completions. Please use /v1/responses instead.`,
        { param: 'reasoning_effort' },
      )

/** Sources: agno-agi/agno#5382 (40 characters), openclaw/openclaw#875 (64). */
const toolIdLength: Rule = ({ messages }) =>
  firstOf(messages, (message, index) => {
    const at = callIds(message).findIndex((id) => id.length > 40)
    return at === -1
      ? null
      : openaiError(
          `Invalid 'messages[${index}].tool_calls[${at}].id': string too long. Expected a string with maximum length 40, but got a longer one instead.`,
          { param: `messages[${index}].tool_calls[${at}].id`, code: 'string_above_max_length' },
        )
  })

/** Source: nraiden/cofounder#72. */
const imageType: Rule = (body) =>
  firstOf(body.messages, ({ content }) =>
    partsOf(content).some(({ type, image_url: image }) => {
      const url = text(object(image)?.url) ?? ''
      return type === 'image_url' && url.startsWith('data:') && !url.startsWith('data:image/')
    })
      ? openaiError('Invalid MIME type. Only image types are supported.', { code: 'invalid_image_format' })
      : null,
  )

export const openaiChat: Rules = {
  'chat.image-type': imageType,
  'chat.unknown-parameter': chatUnknownParameter,
  'chat.max-tokens': chatMaxTokens,
  'chat.sampling-while-reasoning': samplingWhileReasoning,
  'chat.tools-with-effort': toolsWithEffort,
  'chat.tool-id-length': toolIdLength,
  ...openaiChatLimits,
  ...anyChat,
}

const RESPONSES_BODY = new Set(
  'background context_management conversation include input instructions max_output_tokens max_tool_calls metadata model moderation parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user'.split(
    ' ',
  ),
)

/** Source: teabranch/open-responses-server#41 (the same validator). */
const responsesUnknownParameter: Rule = (body) => {
  const name = unknownMember(body, RESPONSES_BODY)
  return name === undefined ? null : unknownParameter(name)
}

const ITEM: { readonly [type: string]: ReadonlySet<string> } = {
  message: new Set(['type', 'role', 'content', 'id', 'status', 'phase']),
  reasoning: new Set(['type', 'id', 'summary', 'content', 'encrypted_content', 'status']),
  function_call: new Set(['type', 'id', 'call_id', 'name', 'arguments', 'status', 'namespace']),
  function_call_output: new Set(['type', 'id', 'call_id', 'output', 'status']),
}
const typeOf = (item: JsonObject): string => text(item.type) ?? 'message'

/** Source: earendil-works/pi#8208. */
const unknownItemMember: Rule = ({ input }) =>
  firstOf(input, (item, index) => {
    const known = ITEM[typeOf(item)]
    const name = known && unknownMember(item, known)
    return name === undefined ? null : unknownParameter(`input[${index}].${name}`)
  })

/** Sources: musistudio/claude-code-router#1783, querymt/querymt#976. */
const reasoningContent: Rule = ({ input }) =>
  firstOf(input, (item, index) =>
    item.type === 'reasoning' && list(item.content).length > 0
      ? openaiError(
          `Invalid 'input[${index}].content': array too long. Expected an array with maximum length 0, but got an array with length ${list(item.content).length} instead.`,
          { param: `input[${index}].content`, code: 'array_above_max_length' },
        )
      : null,
  )

const PREFIX: { readonly [type: string]: string } = { reasoning: 'rs', message: 'msg', function_call: 'fc' }

/** Sources: continuedev/continue#11785, can1357/oh-my-pi#284, langchain-ai/langchainjs#11045. */
const itemId: Rule = ({ input }) =>
  firstOf(input, (item, index) => {
    const id = text(item.id)
    const prefix = item.role === 'user' || item.role === 'system' ? undefined : PREFIX[typeOf(item)]
    return id === undefined || prefix === undefined || id.startsWith(prefix)
      ? null
      : openaiError(`Invalid 'input[${index}].id': '${id}'. Expected an ID that begins with '${prefix}'.`, {
          param: `input[${index}].id`,
          code: 'invalid_value',
        })
  })

const isOfTheModel = (item: JsonObject | undefined): boolean =>
  item !== undefined &&
  (item.role === 'assistant' || ['reasoning', 'function_call', 'message'].includes(text(item.type) ?? ''))

/** Sources: vercel/ai#7099, pydantic/pydantic-ai#2861, earendil-works/pi#3634. */
const reasoningAlone: Rule = ({ input }) =>
  firstOf(input, (item, index) => {
    const next = object(list(input)[index + 1])
    return item.type !== 'reasoning' || (isOfTheModel(next) && next?.role !== 'user')
      ? null
      : openaiError(`Item '${text(item.id)}' of type 'reasoning' was provided without its required following item.`, {
          param: 'input',
        })
  })

/**
 * A stored call that followed reasoning must be sent with it. Sources: TanStack/ai#1212, continuedev/continue#10018.
 */
const callWithoutReasoning: Rule = ({ input }, { isOwn }) =>
  firstOf(input, (item, index) => {
    const id = text(item.id)
    if (item.type !== 'function_call' || id === undefined || !isOwn(id)) return null
    const before = objects(list(input).slice(0, index))
    const lastUser = before.findLastIndex((one) => !isOfTheModel(one))
    return before.slice(lastUser + 1).some(({ type }) => type === 'reasoning')
      ? null
      : openaiError(
          `Item '${id}' of type 'function_call' was provided without its required 'reasoning' item: '${id.replace('fc_', 'rs_')}'.`,
          { param: 'input' },
        )
  })

/** Sources: openai/codex#8145, QuantumNous/new-api#4662, Kilo-Org/kilo#110. */
const encryptedContent: Rule = ({ input }, { isOwn }) =>
  firstOf(input, ({ type, encrypted_content: encrypted }) =>
    type !== 'reasoning' || typeof encrypted !== 'string' || isOwn(encrypted)
      ? null
      : openaiError(
          `The encrypted content ${encrypted.slice(0, 4)}... could not be verified. Reason: Encrypted content could not be decrypted or parsed.`,
          { code: 'invalid_encrypted_content' },
        ),
  )

/** Source: NousResearch/hermes-agent#10788. */
const reasoningNotFound: Rule = ({ input }, { isStored }) =>
  firstOf(input, ({ type, id, encrypted_content: encrypted }) =>
    type !== 'reasoning' || typeof id !== 'string' || typeof encrypted === 'string' || isStored(id)
      ? null
      : openaiError(
          `Item with id '${id}' not found. Items are not persisted when \`store\` is set to false. Try again with \`store\` set to true, or remove this item from your input.`,
          { status: 404, param: 'input' },
        ),
  )

/** Source: continuedev/continue#11785. */
const outputFollowsCall: Rule = ({ input }) => {
  const called = new Set(objects(input).flatMap((item) => (item.type === 'function_call' ? [item.call_id] : [])))
  const answered = new Set(
    objects(input).flatMap((item) => (item.type === 'function_call_output' ? [item.call_id] : [])),
  )
  const orphan = [...answered].find((id) => !called.has(id))
  if (orphan !== undefined)
    return openaiError(`No tool call found for function call output with call_id ${orphan}.`, { param: 'input' })
  const open = [...called].find((id) => !answered.has(id))
  return open === undefined ? null : openaiError(`No tool output found for function call ${open}.`, { param: 'input' })
}

/** A response that this vendor has not stored. Recorded for OpenAI, Azure and xAI. */
const previousId: Rule = ({ previous_response_id: id }, { isStored }) =>
  typeof id !== 'string' || isStored(id)
    ? null
    : openaiError(`Previous response with id '${id}' not found.`, {
        param: 'previous_response_id',
        code: 'previous_response_not_found',
      })

/** Parts of an assistant message are output parts. Source: a recorded 400 of OpenAI's responses. */
const assistantContent: Rule = ({ input }) =>
  firstOf(input, (item, index) => {
    const at = item.role === 'assistant' ? partsOf(item.content).findIndex(({ type }) => type === 'input_text') : -1
    return at === -1
      ? null
      : openaiError("Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'.", {
          param: `input[${index}].content[${at}]`,
          code: 'invalid_value',
        })
  })

export const openaiResponses: Rules = {
  'responses.unknown-parameter': responsesUnknownParameter,
  'responses.previous-id': previousId,
  'responses.unknown-item-member': unknownItemMember,
  'responses.assistant-content': assistantContent,
  'responses.reasoning-content': reasoningContent,
  'responses.item-id': itemId,
  'responses.encrypted-content': encryptedContent,
  'responses.reasoning-not-found': reasoningNotFound,
  'responses.reasoning-alone': reasoningAlone,
  'responses.call-without-reasoning': callWithoutReasoning,
  'responses.output-follows-call': outputFollowsCall,
  'responses.sampling-while-reasoning': samplingWhileReasoning,
  ...openaiResponsesLimits,
}

/** The rules of OpenAI that xAI shares. Its refusal of other vendors' encrypted reasoning is inferred. */
export const xaiResponses: Rules = {
  'responses.previous-id': previousId,
  'xai.encrypted-content': encryptedContent,
  'responses.output-follows-call': outputFollowsCall,
}

/** DeepSeek's responses API: no image parts. Sources as for its chat completions. */
export const deepseekResponses: Rules = {
  'deepseek.image (capability)': ({ input }) =>
    firstOf(input, ({ content }, index) =>
      partsOf(content).some(({ type }) => type === 'input_image')
        ? openaiError(`input[${index}]: unknown variant \`input_image\`, expected \`input_text\``, {
            code: 'invalid_request_error',
          })
        : null,
    ),
  'responses.output-follows-call': outputFollowsCall,
}
