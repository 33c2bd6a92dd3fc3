/**
 * The closed vocabulary of shapes: names of features that a target may refuse. No text, tool, property or user name of a request
 * enters it. The order is stored, so names are added at the end and never removed; `shape.test.ts` pins it.
 */
import { EFFORTS } from '../../core/chat.ts'

/** Keywords of JSON Schema that vendors are known to refuse, and those that they take in one dialect only. */
export const SCHEMA_KEYWORDS = [
  '$ref',
  'additionalProperties',
  'allOf',
  'anyOf',
  'oneOf',
  'not',
  'if',
  'const',
  'default',
  'enum',
  'format',
  'pattern',
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
  'multipleOf',
  'minItems',
  'maxItems',
  'uniqueItems',
  'prefixItems',
  'patternProperties',
  'propertyNames',
  'type[]',
] as const
export type SchemaKeyword = (typeof SCHEMA_KEYWORDS)[number]

/** Types of tools that providers run, without their dates. */
export const HOSTED_TOOLS = [
  'web_search',
  'web_fetch',
  'file_search',
  'code_interpreter',
  'code_execution',
  'image_generation',
  'mcp',
  'tool_search',
  'computer',
  'bash',
  'text_editor',
  'memory',
  'local_shell',
  'apply_patch',
  'google_search',
  'other',
] as const

/** Settings of the canonical form, by whether the client has written them. */
export const SET_NAMES = [
  'temperature',
  'topP',
  'topK',
  'stop',
  'seed',
  'presencePenalty',
  'frequencyPenalty',
  'logitBias',
  'choices',
  'logprobs',
  'topLogprobs',
  'thinkingBudget',
  'reasoningSummary',
  'encryptedReasoning',
  'verbosity',
  'user',
  'promptCacheKey',
  'serviceTier',
  'metadata',
  'store',
  'streamUsage',
] as const

/** Outermost members without a canonical name. */
export const EXTRA_NAMES = [
  'thinking',
  'cache_control',
  'container',
  'context_management',
  'mcp_servers',
  'background',
  'conversation',
  'previous_response_id',
  'prompt',
  'include',
  'truncation',
  'modalities',
  'audio',
  'prediction',
  'web_search_options',
  'safety_identifier',
  'speed',
  'inference_geo',
  'safetySettings',
  'cachedContent',
  'suffix',
  'echo',
  'best_of',
] as const

/** Betas of Anthropic's API, without their dates. */
export const BETA_NAMES = [
  'computer-use',
  'context-1m',
  'context-management',
  'compact',
  'interleaved-thinking',
  'fine-grained-tool-streaming',
  'advanced-tool-use',
  'tool-search-tool',
  'effort',
  'web-search',
  'structured-outputs',
  'output-128k',
  'token-efficient-tools',
  'claude-code',
  'prompt-caching-scope',
  'files-api',
  'mcp-client',
  'code-execution',
  'skills',
] as const

const MEDIA_SOURCES = ['data', 'url', 'id'] as const
export const IMAGE_TYPES = ['png', 'jpeg', 'gif', 'webp'] as const
export const FILE_TYPES = ['pdf', 'text', 'office'] as const
export const AUDIO_TYPES = ['wav', 'mp3'] as const

const named = <Prefix extends string, Name extends string>(prefix: Prefix, names: readonly Name[]) =>
  names.map((name): `${Prefix}.${Name}` => `${prefix}.${name}`)

/** All features, in the order in which they are stored. */
export const FEATURES = [
  'stream',
  'prefill',
  'system.middle',
  'reasoning.signed',
  'cache.marks',
  'part.foreign',
  'parallel.off',
  'tool.strict',
  'tool.custom',
  'history.calls',
  'history.results',
  'history.images',
  'format.json',
  'format.schema',
  'format.strict',
  ...named('choice', ['none', 'required', 'tool', 'allowed']),
  ...named('image', MEDIA_SOURCES),
  ...named('image', [...IMAGE_TYPES, 'other']),
  ...named('file', MEDIA_SOURCES),
  ...named('file', [...FILE_TYPES, 'other']),
  ...named('audio', [...AUDIO_TYPES, 'other']),
  ...named('effort', EFFORTS),
  ...named('schema', SCHEMA_KEYWORDS),
  ...named('tool', SCHEMA_KEYWORDS),
  ...named('hosted', HOSTED_TOOLS),
  ...named('set', SET_NAMES),
  ...named('extra', EXTRA_NAMES),
  ...named('beta', BETA_NAMES),
  // Of strict tools; `tool` is of others.
  ...named('strict', SCHEMA_KEYWORDS),
] as const

/** A thing in a request that a target may refuse: `schema.pattern`. */
export type Feature = (typeof FEATURES)[number]

const PLACES: ReadonlyMap<string, number> = new Map(FEATURES.map((name, place) => [name, place]))

/** Its place in the order. */
export const placeOf = (feature: Feature): number => PLACES.get(feature) ?? -1

export const isFeature = (name: string): name is Feature => PLACES.has(name)

/** Another value of these is another request, not a smaller one, so a set with them implies nothing about one without. */
export const isExclusive = (feature: Feature): boolean => feature === 'prefill' || /^(?:choice|effort)\./.test(feature)
