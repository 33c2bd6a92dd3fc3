/** Tables that encode the settings of a request, and other parts that request encoders share. */
import type { ChatRequest, GenerationSettings, OutputFormat, SettingName, Tool, ToolChoice } from '../../core/chat.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import {
  defaultTierOnly,
  encodedElsewhere,
  type Losses,
  loseExtras,
  lost,
  lostUnlessNeutral,
  singleChoiceOnly,
} from './losses.ts'
import { freeInputSchema } from './tool-arguments.ts'

/** One row per setting; a missing row is a compile error. A row writes the setting to the draft or reports a loss. */
export type SettingEncoders<Draft> = {
  readonly [Name in SettingName]: (setting: NonNullable<GenerationSettings[Name]>, draft: Draft) => void
}

/** Encodes every setting of the request with its row. */
export const encodeSettings = <Draft>(
  settings: GenerationSettings,
  table: SettingEncoders<Draft>,
  draft: Draft,
): void => {
  // The table's names are the settings' names.
  for (const name of Object.keys(table) as SettingName[]) encodeSetting(name, settings, table, draft)
}

const encodeSetting = <Name extends SettingName, Draft>(
  name: Name,
  settings: GenerationSettings,
  table: SettingEncoders<Draft>,
  draft: Draft,
): void => {
  const setting = settings[name]
  const row: SettingEncoders<Draft>[Name] = table[name]
  if (setting) row(setting, draft)
}

/**
 * Rows of a format that has none of these members: neutral values are dropped silently, others are reported as lost or,
 * for several choices, as unfit. Spread into a table before the rows that differ.
 */
export const UNSUPPORTED_SETTINGS = {
  logitBias: lostUnlessNeutral,
  choices: singleChoiceOnly,
  logprobs: lostUnlessNeutral,
  topLogprobs: lostUnlessNeutral,
  verbosity: lost,
  user: lost,
  promptCacheKey: lost,
  serviceTier: defaultTierOnly,
  metadata: lostUnlessNeutral,
  // Reported only if the client enables storage.
  store: lostUnlessNeutral,
  // Every upstream stream includes usage.
  streamUsage: encodedElsewhere,
} satisfies Partial<SettingEncoders<{ readonly losses: Losses }>>

/** Rows of a format that encodes tool choice beside its tools. */
export const TOOL_SETTINGS_ELSEWHERE = {
  toolChoice: encodedElsewhere,
  parallelToolCalls: encodedElsewhere,
} satisfies Partial<SettingEncoders<unknown>>

/** Rows of a format that encodes all reasoning settings together. */
export const REASONING_SETTINGS_ELSEWHERE = {
  effort: encodedElsewhere,
  thinkingBudget: encodedElsewhere,
  reasoningSummary: encodedElsewhere,
  // Signatures are always returned with the reasoning.
  encryptedReasoning: encodedElsewhere,
} satisfies Partial<SettingEncoders<unknown>>

/**
 * The request member that holds the conversation: `messages` or `input`. Without messages it is `prompt`, which
 * refers to a conversation stored at a provider.
 */
export const conversationMember = ({ messages, extras }: ChatRequest): string => {
  const first =
    messages.find(({ role }) => role !== 'system') ?? messages[0] ?? extras.find(({ essential }) => essential)
  return topMember(first) || 'messages'
}

/** The outermost member of a part's path: `messages` for `messages[0].content`. Empty without a path. */
export const topMember = (part: { readonly at: string } | undefined): string => part?.at.split(/[.[]/, 1)[0] ?? ''

/** A system prompt for JSON mode in formats without a member for it. */
export const JSON_INSTRUCTION =
  'Unless you call a tool, answer with one valid JSON object and nothing else: no explanation and no code fence.'

/** The name of a response format that the client left unnamed. */
export const DEFAULT_FORMAT_NAME = 'response'

/** `response_format` of chat completions and Mistral. */
export const chatResponseFormat = (format: OutputFormat): JsonObject => {
  switch (format.kind) {
    case 'text':
      return { type: 'text' }
    case 'json':
      return { type: 'json_object' }
    case 'schema': {
      const { name, schema, description, strict } = format
      const json_schema = {
        name: name || 'answer',
        ...(description !== undefined && { description }),
        schema,
        ...(strict !== undefined && { strict }),
      }
      return { type: 'json_schema', json_schema }
    }
    default:
      throw new Error(`unknown format ${JSON.stringify(format satisfies never)}`)
  }
}

/** A response schema whose `title` and `description` carry the name and description of its format. */
export const withFormatLabels = (
  schema: JsonObject,
  { name, description }: OutputFormat & { readonly kind: 'schema' },
): JsonObject => ({
  ...schema,
  ...(name !== DEFAULT_FORMAT_NAME && schema.title === undefined && { title: name }),
  ...(description && {
    description:
      typeof schema.description === 'string' && schema.description !== description
        ? `${description}\n\n${schema.description}`
        : description,
  }),
})

/** Encodes a function declaration; `parameters` is undefined for a function without arguments. */
export type DeclareFunction = (
  tool: Exclude<Tool, { readonly kind: 'foreign' }>,
  parameters: JsonObject | undefined,
  losses: Losses,
) => JsonObject

/** Encodes tools for formats with functions only: free-form input becomes an object with one text member. */
export const toolsAsFunctions = (
  tools: readonly Tool[],
  declare: DeclareFunction,
  losses: Losses,
): readonly JsonObject[] =>
  tools.flatMap((tool) => {
    switch (tool.kind) {
      case 'function': {
        loseExtras(tool.extras, losses)
        const schema = tool.parameters ?? undefined
        if (schema === undefined || isObject(schema)) return [declare(tool, schema, losses)]
        losses.unfit(tool.at)
        return []
      }
      case 'custom':
        return [declare(tool, freeInputSchema(tool, losses), losses)]
      case 'foreign':
        losses.unfit(tool.at)
        return []
      default:
        throw new Error(`unknown tool ${JSON.stringify(tool satisfies never)}`)
    }
  })

/** For formats without `allowed_tools`: sends only the allowed tools, which has the same effect. */
export const allowedTools = (tools: readonly Tool[], choice: ToolChoice | undefined): readonly Tool[] => {
  if (choice?.kind !== 'allowed') return tools
  const names = new Set(choice.names)
  return tools.filter((tool) => tool.kind !== 'foreign' && names.has(tool.name))
}
