/** Limits and combinations that vendors refuse, although the client's format allows them. */
import { isObject, type Json, type JsonObject, list, number, object, text } from '../../../src/core/json.ts'
import { firstOf, isEmpty, openaiError, type Rule, type Rules, thinkingType, type VendorRefusal } from '../rule.ts'

// ── OpenAI and Azure OpenAI ──────────────────────────────────────────────────────────────────────────────────────

const tooLong = (path: string, value: Json | undefined, most: number): VendorRefusal | null =>
  typeof value === 'string' && value.length > most
    ? openaiError(
        `Invalid '${path}': string too long. Expected a string with maximum length ${most}, but got a string with length ${value.length} instead.`,
        { param: path, code: 'string_above_max_length' },
      )
    : null

/**
 * Sources: maximhq/bifrost#1000 (`user`), OpenAI's OpenAPI document (`safety_identifier`), vybestack/llxprt-code#2135
 * (`prompt_cache_key`).
 */
const textLength: Rule = (body) =>
  tooLong('user', body.user, 64) ??
  tooLong('safety_identifier', body.safety_identifier, 64) ??
  tooLong('prompt_cache_key', body.prompt_cache_key, 64)

/** Sources: can1357/oh-my-pi#284 (items), AnswerDotAI/fastllm#45 (calls). */
const itemTextLength: Rule = (body, context) =>
  textLength(body, context) ??
  firstOf(
    body.input,
    (item, index) => tooLong(`input[${index}].id`, item.id, 64) ?? tooLong(`input[${index}].call_id`, item.call_id, 64),
  )

/** Sources: continuedev/continue#2461, QwenLM/Qwen-Agent#228 (Azure). */
const stopLength: Rule = ({ stop }) =>
  list(stop).length > 4
    ? openaiError(
        `Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array with length ${list(stop).length} instead.`,
        { param: 'stop', code: 'array_above_max_length' },
      )
    : null

const isUntyped = ({ type }: JsonObject): boolean => type !== 'object'

const invalidSchema = (name: Json | undefined, problem: string, param: string | null): VendorRefusal =>
  openaiError(`Invalid schema for function '${text(name)}': ${problem}`, {
    param,
    code: param === null ? null : 'invalid_function_parameters',
  })

const OBJECT = `schema must be a JSON Schema of 'type: "object"', got 'type:`

/** Sources: containers/kubernetes-mcp-server#717, spring-projects/spring-ai#4776, everruns/everruns#984 (responses). */
const functionParameters: Rule = ({ tools }) =>
  firstOf(tools, (tool, index) => {
    const declared = object(tool.function) ?? tool
    const parameters = object(declared.parameters)
    if (tool.type !== 'function' || !parameters) return null
    const param = `tools[${index}].${tool.function ? 'function.' : ''}parameters`
    if (isUntyped(parameters)) return invalidSchema(declared.name, `${OBJECT} "None"'.`, param)
    return isObject(parameters.properties)
      ? null
      : invalidSchema(declared.name, 'In context=(), object schema missing properties.', param)
  })

/** Sources: QwenLM/qwen-code#243, BerriAI/litellm#23108. */
const metadataWithoutStore: Rule = ({ metadata, store }) =>
  metadata === undefined || store === true
    ? null
    : openaiError("The 'metadata' parameter is only allowed when 'store' is enabled.", { param: 'metadata' })

/** The requested model decides, so that one fake stands for several. */
const isPlain = ({ model }: JsonObject): boolean => /^gpt-(?:3|4)/.test(text(model) ?? '')

/** Sources: davidmigloz/langchain_dart#712, umputun/tg-spam#304, musistudio/claude-code-router#724 (Azure). */
const effortOfPlainModel: Rule = (body) =>
  isPlain(body) && body.reasoning_effort !== undefined
    ? openaiError('Unrecognized request argument supplied: reasoning_effort')
    : null

/** Source: RageAgainstThePixel/OpenAI-DotNet#500. */
const reasoningOfPlainModel: Rule = (body) =>
  isPlain(body) && object(body.reasoning)?.effort !== undefined
    ? openaiError("Unsupported parameter: 'reasoning.effort' is not supported with this model.", {
        param: 'reasoning.effort',
        code: 'unsupported_parameter',
      })
    : null

/** Source: google-deepmind/concordia#164. */
const verbosityOfPlainModel: Rule = (body) =>
  isPlain(body) && (body.verbosity ?? 'medium') !== 'medium'
    ? openaiError(
        `Unsupported value: 'verbosity' does not support '${text(body.verbosity)}' with this model. Supported values are: 'medium'.`,
        { param: 'verbosity', code: 'unsupported_value' },
      )
    : null

export const openaiChatLimits: Rules = {
  'chat.text-length': textLength,
  'chat.stop-length': stopLength,
  'chat.function-parameters': functionParameters,
  'chat.metadata-without-store': metadataWithoutStore,
  'chat.effort-of-plain-model': effortOfPlainModel,
  'chat.verbosity-of-plain-model': verbosityOfPlainModel,
}

export const openaiResponsesLimits: Rules = {
  'responses.text-length': itemTextLength,
  'responses.function-parameters': functionParameters,
  'responses.effort-of-plain-model': reasoningOfPlainModel,
}

// ── Others ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** Source: ujisati/claude-code-provider-proxy#11. */
export const openrouterLimits: Rules = { 'openrouter.user-length': ({ user }) => tooLong('user', user, 128) }

/** Source: looplj/axonhub#1669. Its words name `user_id`; that `user` is checked too is inferred. */
const zaiUser: Rule = ({ user, user_id: id }) =>
  [user, id].some((value) => typeof value === 'string' && (value.length < 6 || value.length > 128))
    ? {
        status: 400,
        body: {
          error: { message: 'user_id: The unique ID of the user must be between 6 and 128 characters in length.' },
        },
      }
    : null

export const zaiLimits: Rules = { 'zai.user-length': zaiUser }

const forces = (choice: Json | undefined): boolean => choice === 'required' || isObject(choice)

const DEEPSEEK = { code: 'invalid_request_error' }

/** Sources: farion1231/cc-switch#2600, deepseek-ai/DeepSeek-V3#1277. That `user` is checked too is inferred. */
const deepseekUser: Rule = ({ user, user_id: id }) =>
  [user, id].some((value) => typeof value === 'string' && !/^[a-zA-Z0-9_-]{1,512}$/.test(value))
    ? openaiError(
        "Invalid 'user_id': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
        DEEPSEEK,
      )
    : null

/** Sources: tickernelz/opencode-mem#253 (measured), deepseek-ai/DeepSeek-V3#1376, JetBrains/koog#2179. */
const deepseekToolChoice: Rule = (body) =>
  thinkingType(body) !== 'disabled' && forces(body.tool_choice)
    ? openaiError('Thinking mode does not support this tool_choice', DEEPSEEK)
    : null

/** Sources: UKGovernmentBEIS/inspect_ai#4916, llm-exe/llm-exe#662. */
const deepseekFormat: Rule = ({ response_format: format }) =>
  object(format)?.type === 'json_schema' ? openaiError('This response_format type is unavailable now', DEEPSEEK) : null

/** Source: end-4/dots-hyprland#3640 (measured): `{}` is refused, `{"type":"object","properties":{}}` is not. */
const deepseekParameters: Rule = ({ tools }) =>
  firstOf(tools, (tool) => {
    const parameters = object(object(tool.function)?.parameters)
    return parameters && isUntyped(parameters)
      ? invalidSchema(object(tool.function)?.name, `${OBJECT} null'.`, null)
      : null
  })

export const deepseekLimits: Rules = {
  'deepseek.user-id': deepseekUser,
  'deepseek.tool-choice': deepseekToolChoice,
  'deepseek.response-format': deepseekFormat,
  'deepseek.function-parameters': deepseekParameters,
}

/** Sources: vercel/ai#16540, agno-agi/agno#1065. */
const groqFormat: Rule = ({ tools, response_format: format }) =>
  !isEmpty(tools) && (object(format)?.type ?? 'text') !== 'text'
    ? openaiError('json mode cannot be combined with tool/function calling')
    : null

export const groqLimits: Rules = { 'groq.format-with-tools': groqFormat }

/** Sources: google-gemini/cookbook#1290, vercel/ai#8943. */
const geminiPenalty: Rule = ({ generationConfig }) =>
  ['presencePenalty', 'frequencyPenalty'].some((name) => object(generationConfig)?.[name] !== undefined)
    ? {
        status: 400,
        body: { error: { code: 400, message: 'Penalty is not enabled for this model', status: 'INVALID_ARGUMENT' } },
      }
    : null

export const geminiLimits: Rules = { 'gemini.penalty': geminiPenalty }

/** Sources: Bike4Mind/bike4mind#1089, Warma10032/VideoAdGuard#34; google-gemini/gemini-cli#18977 (`top_p`). */
const moonshotSampling: Rule = (body) => {
  const only = { temperature: thinkingType(body) === 'disabled' ? 0.6 : 1, top_p: 0.95 }
  const refused = Object.entries(only).find(([name, value]) => (number(body[name]) ?? value) !== value)
  return refused ? openaiError(`invalid ${refused[0]}: only ${refused[1]} is allowed for this model`) : null
}

/** Sources: AstrBotDevs/AstrBot#7805, can1357/oh-my-pi#1077. */
const moonshotToolChoice: Rule = (body) =>
  thinkingType(body) !== 'disabled' && forces(body.tool_choice)
    ? openaiError(
        `tool_choice ${body.tool_choice === 'required' ? "'required'" : 'specified'} is incompatible with thinking enabled`,
      )
    : null

/** Sources: bytedance/deer-flow#3043, anomalyco/opencode#16318, Kilo-Org/kilocode#5544. An empty text is accepted. */
const moonshotReasoning: Rule = (body) =>
  thinkingType(body) === 'disabled'
    ? null
    : firstOf(body.messages, (message, index) =>
        list(message.tool_calls).length > 0 && typeof message.reasoning_content !== 'string'
          ? openaiError(
              `thinking is enabled but reasoning_content is missing in assistant tool call message at index ${index}`,
            )
          : null,
      )

export const moonshotLimits: Rules = {
  'moonshot.reasoning-missing': moonshotReasoning,
  'moonshot.sampling': moonshotSampling,
  'moonshot.tool-choice': moonshotToolChoice,
}

/** Sources: cloudwego/eino#994 (measured), QwenLM/qwen-code#7659. Its model thinks unless disabled. */
const alibabaToolChoice: Rule = ({ tool_choice: choice, enable_thinking: enabled }) =>
  enabled !== false && forces(choice)
    ? openaiError(
        '<400> InternalError.Algo.InvalidParameter: The tool_choice parameter does not support being set to required or object in thinking mode',
        { code: 'invalid_parameter_error' },
      )
    : null

/** Sources: QuantumNous/new-api#1109, coze-dev/coze-studio#324, vybestack/llxprt-code#229: the open Qwen3. */
const alibabaWholeThinking: Rule = ({ model, stream, enable_thinking: enabled }) =>
  /^qwen3-[0-9]{1,3}b/.test(text(model) ?? '') && stream !== true && enabled !== false
    ? openaiError('parameter.enable_thinking must be set to false for non-streaming calls', {
        code: 'invalid_parameter_error',
      })
    : null

export const alibabaLimits: Rules = {
  'alibaba.tool-choice': alibabaToolChoice,
  'alibaba.whole-thinking': alibabaWholeThinking,
}
