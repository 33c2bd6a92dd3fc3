/**
 * Rules of Claude at Anthropic and Amazon Bedrock. The model's rules are the same; error messages and formats differ.
 */
import { isObject, type JsonObject, list, object, text } from '../../../src/core/json.ts'
import {
  firstOf,
  indexed,
  isEmpty,
  objects,
  type Rule,
  type Rules,
  thinkingType,
  unknownMember,
  type VendorRefusal,
} from '../rule.ts'

type Refuse = (message: string) => VendorRefusal

const anthropicError: Refuse = (message) => ({
  status: 400,
  body: { type: 'error', error: { type: 'invalid_request_error', message }, request_id: 'req_fake' },
})

const bedrockError: Refuse = (message) => ({ status: 400, body: { message } })
const claudeInBedrock: Refuse = (message) => bedrockError(`The model returned the following errors: ${message}`)

// ── Anthropic ────────────────────────────────────────────────────────────────────────────────────────────────────

const BODY = new Set(
  'cache_control container context_management inference_geo max_tokens mcp_servers messages metadata model output_config output_format service_tier speed stop_sequences stream system temperature thinking tool_choice tools top_k top_p'.split(
    ' ',
  ),
)
const BLOCK: { readonly [type: string]: ReadonlySet<string> } = {
  text: new Set(['type', 'text', 'cache_control', 'citations']),
  image: new Set(['type', 'source', 'cache_control']),
  document: new Set(['type', 'source', 'cache_control', 'citations', 'context', 'title']),
  thinking: new Set(['type', 'thinking', 'signature']),
  redacted_thinking: new Set(['type', 'data']),
  tool_use: new Set(['type', 'id', 'name', 'input', 'cache_control', 'caller']),
  tool_result: new Set(['type', 'tool_use_id', 'content', 'is_error', 'cache_control']),
}

/** The first refusal that `check` returns for a content block of any message. */
const firstBlock = (
  { messages }: JsonObject,
  check: (block: JsonObject, path: string) => VendorRefusal | null,
): VendorRefusal | null =>
  firstOf(messages, ({ content }, at) =>
    firstOf(list(content), (block, index) => check(block, `messages.${at}.content.${index}`)),
  )

/** Sources: anthropics/claude-code#4378, Wei-Shaw/claude-relay-service#667, Anthropic's published schema (2026-11-21). */
const anthropicExtra: Rule = (body) => {
  const refused = (path: string) => anthropicError(`${path}: Extra inputs are not permitted`)
  const name = unknownMember(body, BODY)
  if (name !== undefined) return refused(name)
  return (
    firstOf(body.messages, (message, index) => {
      const member = unknownMember(message, new Set(['role', 'content']))
      return member === undefined ? null : refused(`messages.${index}.${member}`)
    }) ??
    firstBlock(body, (block, path) => {
      const type = text(block.type) ?? ''
      const member = unknownMember(block, BLOCK[type] ?? new Set())
      return member === undefined ? null : refused(`${path}.${type}.${member}`)
    })
  )
}

/** Source: Anthropic's published schema. */
const anthropicMaxTokens: Rule = (body) =>
  typeof body.max_tokens === 'number' ? null : anthropicError('max_tokens: Field required')

/** Sources: ding113/claude-code-hub#518, anthropics/anthropic-sdk-python#1598, langchain-ai/langchain#29971. */
const anthropicSignature: Rule = (body, { isOwn }) =>
  firstBlock(body, ({ type, signature }, path) => {
    if (type !== 'thinking') return null
    if (typeof signature !== 'string') return anthropicError(`${path}.thinking.signature: Field required`)
    return isOwn(signature) ? null : anthropicError(`${path}: Invalid \`signature\` in \`thinking\` block`)
  })

/** Sources: BerriAI/litellm#15601, openai/openai-agents-python#1704, RooCodeInc/Roo-Code#10351. */
const thinkingFirst = (path: string, found: string): string =>
  `${path}.type: Expected \`thinking\` or \`redacted_thinking\`, but found \`${found}\`. When \`thinking\` is enabled, a final \`assistant\` message must start with a thinking block (preceeding the lastmost set of \`tool_use\` and \`tool_result\` blocks). We recommend you include thinking blocks from previous turns. To avoid this requirement, disable \`thinking\`.`

/**
 * The index of the last assistant message if its calls are answered and no message of its turn begins with a thinking
 * block; otherwise -1. All calls and results since the last user message are one turn, in which Claude thinks once
 * (github.com/dust-tt/srchd/pull/41, 2025-11-04: one thinking block before 101 calls).
 */
const unthought = (
  messages: readonly JsonObject[],
  hasResult: (block: JsonObject) => boolean,
  isThought: (block: JsonObject) => boolean,
): number => {
  const question = messages.findLastIndex(({ role, content }) => role === 'user' && !objects(content).some(hasResult))
  const turn = messages.slice(question + 1)
  const isAnswered = turn.at(-1)?.role === 'user'
  const begins = turn.some(({ role, content }) => role === 'assistant' && objects(content).slice(0, 1).some(isThought))
  return isAnswered && !begins ? messages.findLastIndex(({ role }) => role === 'assistant') : -1
}

const anthropicThinkingFirst: Rule = (body) => {
  if (thinkingType(body) !== 'enabled') return null
  const messages = objects(body.messages)
  const at = unthought(
    messages,
    ({ type }) => type === 'tool_result',
    ({ type }) => type === 'thinking' || type === 'redacted_thinking',
  )
  const first = text(objects(messages[at]?.content)[0]?.type)
  return at === -1 ? null : anthropicError(thinkingFirst(`messages.${at}.content.0`, first ?? 'text'))
}

/** Every `tool_use` is answered in the next message. Sources: anthropics/claude-code#2697, edison7009/EchoBird#338. */
const anthropicResultNext: Rule = ({ messages }) => {
  const all = objects(messages)
  const used = (message: JsonObject | undefined) =>
    objects(message?.content).flatMap((block) => (block.type === 'tool_use' ? [text(block.id) ?? ''] : []))
  const given = (message: JsonObject | undefined) =>
    objects(message?.content).flatMap((block) => (block.type === 'tool_result' ? [text(block.tool_use_id) ?? ''] : []))
  for (const [index, message] of all.entries()) {
    const next = given(all[index + 1])
    const missing = used(message).filter((id) => !next.includes(id))
    if (missing.length > 0)
      return anthropicError(
        `messages.${index}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${missing.join(', ')}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
      )
    const orphan = given(message).find((id) => !used(all[index - 1]).includes(id))
    if (orphan !== undefined)
      return anthropicError(
        `messages.${index}.content.0: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${orphan}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`,
      )
  }
  return null
}

/** Source: aliasrobotics/cai#182. */
const anthropicEmpty: Rule = (body) =>
  firstOf(body.messages, ({ role, content }, index) =>
    isEmpty(content) && !(role === 'assistant' && index === list(body.messages).length - 1)
      ? anthropicError(
          `messages.${index}: all messages must have non-empty content except for the optional final assistant message`,
        )
      : null,
  ) ??
  firstBlock(body, ({ type, text: words }) =>
    type === 'text' && words === '' ? anthropicError('messages: text content blocks must be non-empty') : null,
  )

/** Claude 4.6 and later. Sources: langchain-ai/deepagents#1585, anthropics/claude-code#52433, vercel/ai#12296. */
const anthropicPrefill: Rule = ({ messages }, { model }) =>
  objects(messages).at(-1)?.role === 'assistant' && !/-4-[015](?:-|$)/.test(model)
    ? anthropicError(
        'This model does not support assistant message prefill. The conversation must end with a user message.',
      )
    : null

/** Recorded at Anthropic. */
const anthropicFirstUser: Rule = ({ messages }) =>
  objects(messages)[0]?.role === 'user' ? null : anthropicError('messages: first message must use the "user" role')

/** Anthropic's guide to extended thinking (2026-11-21). */
const thinkingWith = (
  thinking: JsonObject | undefined,
  given: { readonly temperature: unknown; readonly maxTokens: unknown; readonly forced: boolean },
): string | null => {
  if (thinking?.type !== 'enabled') return null
  if ((given.temperature ?? 1) !== 1) return '`temperature` may only be set to 1 when thinking is enabled.'
  if (given.forced) return 'Thinking may not be enabled when tool_choice forces tool use.'
  return Number(given.maxTokens) > Number(thinking.budget_tokens)
    ? null
    : '`max_tokens` must be greater than `thinking.budget_tokens`.'
}

const anthropicThinkingWith: Rule = (body) => {
  const choice = text(object(body.tool_choice)?.type)
  const given = {
    temperature: body.temperature,
    maxTokens: body.max_tokens,
    forced: choice === 'any' || choice === 'tool',
  }
  const message = thinkingWith(object(body.thinking), given)
  return message === null ? null : anthropicError(message)
}

/** The pattern of Anthropic's published schema. */
const anthropicToolId: Rule = (body) =>
  firstBlock(body, ({ type, id, tool_use_id: answered }, path) => {
    const found = type === 'tool_use' ? id : type === 'tool_result' ? answered : 'x'
    return /^[a-zA-Z0-9_-]+$/.test(text(found) ?? '')
      ? null
      : anthropicError(`${path}.${text(type)}.id: String should match pattern '^[a-zA-Z0-9_-]+$'`)
  })

/** Base64 of the first bytes of PNG, JPEG and GIF. */
const STARTS: readonly (readonly [start: string, type: string])[] = [
  ['iVBORw0KGgo', 'image/png'],
  ['/9j/', 'image/jpeg'],
  ['R0lGOD', 'image/gif'],
]

/** Sources: vybestack/llxprt-code#2130, palmier-io/palmier-pro#27. */
const anthropicMediaType: Rule = (body) => {
  const check = (block: JsonObject, path: string): VendorRefusal | null => {
    if (block.type === 'tool_result')
      return firstOf(list(block.content), (inner, at) => check(inner, `${path}.tool_result.content.${at}`))
    const { type, media_type: declared, data } = object(block.source) ?? {}
    if (block.type !== 'image' || type !== 'base64') return null
    const found = STARTS.find(([start]) => text(data)?.startsWith(start))?.[1]
    return found === undefined || found === declared
      ? null
      : anthropicError(
          `${path}.image.source.base64: The image was specified using the ${text(declared)} media type, but the image appears to be a ${found} image`,
        )
  }
  return firstBlock(body, check)
}

/** Sources: Wei-Shaw/sub2api#176, avante-corp/avante.nvim#425. */
const anthropicCacheMarks: Rule = (body) => {
  const found = JSON.stringify(body).split('"cache_control":{').length - 1
  return found <= 4 ? null : anthropicError(`A maximum of 4 blocks with cache_control may be provided. Found ${found}.`)
}

export const anthropic: Rules = {
  'anthropic.media-type': anthropicMediaType,
  'anthropic.cache-marks': anthropicCacheMarks,
  'anthropic.extra': anthropicExtra,
  'anthropic.max-tokens': anthropicMaxTokens,
  'anthropic.tool-id': anthropicToolId,
  'anthropic.empty': anthropicEmpty,
  'claude.first-user': anthropicFirstUser,
  'claude.prefill': anthropicPrefill,
  'claude.tool-result-next': anthropicResultNext,
  'claude.thinking-with': anthropicThinkingWith,
  'claude.signature': anthropicSignature,
  'claude.thinking-first': anthropicThinkingFirst,
}

// ── Bedrock's Converse ───────────────────────────────────────────────────────────────────────────────────────────

const bedrockBlocks = (body: JsonObject): readonly (readonly [path: string, block: JsonObject])[] =>
  indexed(body.messages).flatMap(([at, { content }]) =>
    indexed(content).map(([index, block]) => [`messages.${at}.content.${index}`, block] as const),
  )

/** Sources: vxcontrol/pentagi#196, onyx-dot-app/onyx#7842, aws-samples/bedrock-access-gateway#239. */
const bedrockToolConfig: Rule = (body) =>
  body.toolConfig === undefined && bedrockBlocks(body).some(([, { toolUse, toolResult }]) => toolUse ?? toolResult)
    ? bedrockError('The toolConfig field must be defined when using toolUse and toolResult content blocks.')
    : null

/** Sources: NousResearch/hermes-agent#55092 (measured), OpenHands/OpenHands#5339, archestra-ai/archestra#4220. */
const bedrockBlank: Rule = (body) => {
  const blank = bedrockBlocks(body).find(([, block]) => typeof block.text === 'string' && block.text.trim() === '')
  return blank
    ? bedrockError(
        `The text field in the ContentBlock object at ${blank[0]} is blank. Add text to the text field, and try again.`,
      )
    : null
}

/** AWS's guide to Converse (2026-11-21). */
const bedrockAlternation: Rule = ({ messages }) =>
  objects(messages).every(({ role }, index) => role === (index % 2 === 0 ? 'user' : 'assistant'))
    ? null
    : bedrockError(
        'A conversation must alternate between user and assistant roles. Make sure the conversation alternates between user and assistant roles and try again.',
      )

/** The pattern of AWS's published model. */
const bedrockToolId: Rule = (body) => {
  const bad = bedrockBlocks(body)
    .map(([, { toolUse, toolResult }]) => text((object(toolUse) ?? object(toolResult))?.toolUseId))
    .find((id) => id !== undefined && !/^[a-zA-Z0-9_.:-]{1,64}$/.test(id))
  return bad === undefined
    ? null
    : bedrockError(
        `1 validation error detected: Value '${bad}' at 'toolUseId' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.:-]+`,
      )
}

const bedrockFirstUser: Rule = ({ messages }) =>
  objects(messages)[0]?.role === 'user'
    ? null
    : bedrockError(
        'A conversation must start with a user message. Try again with a conversation that starts with a user message.',
      )

const idsOf = (message: JsonObject | undefined, kind: 'toolUse' | 'toolResult'): readonly string[] =>
  objects(message?.content).flatMap((block) => {
    const id = text(object(block[kind])?.toolUseId)
    return id === undefined ? [] : [id]
  })

/** The same rule as Anthropic's, with Bedrock's message. */
const bedrockResultNext: Rule = ({ messages }) => {
  const all = objects(messages)
  for (const [index, message] of all.entries()) {
    const given = idsOf(all[index + 1], 'toolResult')
    const missing = idsOf(message, 'toolUse').filter((id) => !given.includes(id))
    if (missing.length > 0)
      return bedrockError(
        `Expected toolResult blocks at messages.${index + 1}.content for the following Ids: ${missing.join(', ')}`,
      )
    const before = idsOf(all[index - 1], 'toolUse')
    if (idsOf(message, 'toolResult').some((id) => !before.includes(id)))
      return bedrockError(
        `The number of toolResult blocks at messages.${index}.content exceeds the number of toolUse blocks of previous turn.`,
      )
  }
  return null
}

const reasoningIn = (block: JsonObject | undefined): JsonObject | undefined => object(block?.reasoningContent)

const bedrockSignature: Rule = (body, { isOwn }) => {
  for (const [path, block] of bedrockBlocks(body)) {
    const reasoning = object(reasoningIn(block)?.reasoningText)
    if (reasoning && !isOwn(text(reasoning.signature) ?? ''))
      return claudeInBedrock(`${path}: Invalid \`signature\` in \`thinking\` block`)
  }
  return null
}

const bedrockThinking = (body: JsonObject): JsonObject | undefined =>
  object(object(body.additionalModelRequestFields)?.thinking)

const bedrockThinkingFirst: Rule = (body) => {
  if (bedrockThinking(body)?.type !== 'enabled') return null
  const messages = objects(body.messages)
  const at = unthought(
    messages,
    ({ toolResult }) => isObject(toolResult),
    (block) => reasoningIn(block) !== undefined,
  )
  const first = objects(messages[at]?.content)[0]
  return at === -1
    ? null
    : claudeInBedrock(thinkingFirst(`messages.${at}.content.0`, first?.toolUse ? 'tool_use' : 'text'))
}

const bedrockThinkingWith: Rule = (body) => {
  const inference = object(body.inferenceConfig)
  const choice = object(object(body.toolConfig)?.toolChoice)
  const given = {
    temperature: inference?.temperature,
    maxTokens: inference?.maxTokens,
    forced: choice?.any !== undefined || choice?.tool !== undefined,
  }
  const message = thinkingWith(bedrockThinking(body), given)
  return message === null ? null : claudeInBedrock(message)
}

/** Sources: anthropics/claude-code#24168, musistudio/claude-code-router#1161. */
const bedrockReserved: Rule = ({ system }) =>
  objects(system).some((block) => text(block.text)?.startsWith('x-anthropic-billing-header'))
    ? bedrockError('x-anthropic-billing-header is a reserved keyword and may not be used in the system prompt.')
    : null

export const bedrock: Rules = {
  'bedrock.reserved': bedrockReserved,
  'claude.first-user': bedrockFirstUser,
  'bedrock.alternation': bedrockAlternation,
  'bedrock.blank': bedrockBlank,
  'bedrock.tool-id': bedrockToolId,
  'bedrock.tool-config': bedrockToolConfig,
  'claude.tool-result-next': bedrockResultNext,
  'claude.thinking-with': bedrockThinkingWith,
  'claude.signature': bedrockSignature,
  'claude.thinking-first': bedrockThinkingFirst,
}
