/** What encoders of requests do alike: a row for each setting, and where things come from. */
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

/** A row for each setting there is, saying what becomes of it: a forgotten one does not compile. */
export type SettingEncoders<Draft> = {
  readonly [Name in SettingName]: (setting: NonNullable<GenerationSettings[Name]>, draft: Draft) => void
}

/** Every setting the client made, through its row. */
export const encodeSettings = <Draft>(
  settings: GenerationSettings,
  table: SettingEncoders<Draft>,
  draft: Draft,
): void => {
  // The table's names are the settings' names.
  for (const name of Object.keys(table) as SettingName[]) carry(name, settings, table, draft)
}

const carry = <Name extends SettingName, Draft>(
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
  // Storage is lost only when the client enables it.
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
  sealedReasoning: encodedElsewhere,
} satisfies Partial<SettingEncoders<unknown>>

/**
 * The client's name for the conversation: `messages`, `input`. Without any message it is the member that refers to one
 * stored at a provider: `prompt`.
 */
export const conversationMember = ({ messages, extras }: ChatRequest): string => {
  const first =
    messages.find(({ role }) => role !== 'system') ?? messages[0] ?? extras.find(({ essential }) => essential)
  return /^[^.[]*/.exec(first?.at ?? '')?.[0] || 'messages'
}

/** Asks for any JSON in the system prompt, where a format has no member for it. */
export const JSON_INSTRUCTION =
  'Unless you call a tool, answer with one valid JSON object and nothing else: no explanation and no code fence.'

/** The name a format gets in the middle when the client's has none. */
export const DEFAULT_FORMAT_NAME = 'response'

/** The schema of an answer with its format's name and description, which live on in the schema's own members for them. */
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

/** A tool as a function, with the schema of its arguments; undefined: it has none. */
export type DeclareFunction = (
  tool: Exclude<Tool, { readonly kind: 'foreign' }>,
  parameters: JsonObject | undefined,
  losses: Losses,
) => JsonObject

/** The tools for formats that know nothing but functions: free-form input is an object with one text there. */
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

/** A choice among some of the tools, where a format has no word for it: only those are sent, which says the same. */
export const allowedTools = (tools: readonly Tool[], choice: ToolChoice | undefined): readonly Tool[] => {
  if (choice?.kind !== 'allowed') return tools
  const names = new Set(choice.names)
  return tools.filter((tool) => tool.kind !== 'foreign' && names.has(tool.name))
}
