/**
 * The smallest request of a shape, for live checks. It has nothing of the requests that have the shape: its texts are fixed, its
 * tools are `drill_1` to `drill_n`, and it names no user, session or stored thing.
 */
import type { ChatRequest, Extra, GenerationSettings, Message, OutputFormat, Part, Tool } from '../../core/chat.ts'
import { EFFORTS } from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { type Feature, SCHEMA_KEYWORDS, type SchemaKeyword } from './features.ts'
import { mediaOf } from './media-samples.ts'
import type { SchemaPrefix, Shape } from './shape.ts'

/** What is never sent: what providers run, keep or fetch, and what has no small form. Requests with it are not drilled. */
const NEVER: ReadonlySet<string> = new Set([
  'part.foreign',
  ...['image.url', 'image.id', 'image.other', 'file.url', 'file.id', 'file.office', 'file.other', 'audio.other'],
  ...[
    'container',
    'mcp_servers',
    'background',
    'conversation',
    'previous_response_id',
    'prompt',
    'web_search_options',
    'cachedContent',
    'audio',
    'modalities',
    'suffix',
    'echo',
    'best_of',
  ].map((name) => `extra.${name}`),
])

/** What a request is sent without: marks of users and caches, tiers of another price, and what another vendor has signed. */
const WITHOUT: ReadonlySet<string> = new Set([
  'reasoning.signed',
  'cache.marks',
  'set.user',
  'set.promptCacheKey',
  'set.serviceTier',
  'set.metadata',
  'set.store',
  ...['cache_control', 'safety_identifier', 'speed', 'inference_geo', 'context_management'].map(
    (name) => `extra.${name}`,
  ),
])

const isBeta = (feature: Feature): boolean => feature.startsWith('beta.')
const isNever = (feature: Feature): boolean => NEVER.has(feature) || feature.startsWith('hosted.')

/** Why requests of a shape are not drilled; null: they are. */
export const undrilled = ({ style, features }: Shape): Feature | 'embeddings' | null =>
  style === 'embeddings' ? 'embeddings' : (features.find(isNever) ?? null)

/** The parts that the smallest request of a shape lacks although targets may refuse them. `others`: members without a name. */
export const unsentParts = ({ features, others }: Shape): readonly (Feature | 'others')[] => [
  ...(others > 0 ? (['others'] as const) : []),
  ...features.filter(isNever),
]

/** The part of a shape that its smallest request has. Sizes are those of the request itself. */
export const drilledPart = ({ style, features, tools, media, depth }: Shape): Shape => {
  const sent = features.filter((one) => !isNever(one) && !WITHOUT.has(one) && !isBeta(one))
  return {
    style,
    features: sent,
    tools,
    depth: tools > 0 || sent.some((one) => HAS_SCHEMA.test(one)) ? Math.max(2, depth) : 0,
    media: sent.some((one) => HAS_MEDIA.test(one)) ? Math.max(1, media) : 0,
    others: 0,
    input: 0,
    output: 0,
  }
}

const HAS_SCHEMA = /^(?:schema|tool|strict|format)\./
const HAS_MEDIA = /^(?:image|file|audio)\.|^history\.images$/

/** Output tokens. Vendors refuse less than 16, and a model that reasons ends with an error where its reasoning has no room. */
const OUTPUT = { plain: 16, reasoning: 2_048 }
const THINKING = 1_024

const SAID = 'Reply with OK.'
/** OpenAI refuses JSON mode unless the prompt names it. */
const SAID_IN_JSON = 'Reply with OK in JSON.'

/** `reasons`: the target's model reasons, by the catalogue. */
export const smallestRequest = (shape: Shape, model: string, reasons: boolean): ChatRequest => {
  const has = new Set<Feature>(drilledPart(shape).features)
  const tools = toolsOf(shape, has)
  return {
    model,
    stream: has.has('stream'),
    messages: messagesOf(shape, has, tools),
    tools,
    settings: settingsOf(shape, has, reasons),
    extras: extrasOf(has),
  }
}

// ── Tools ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The last function is strict, and has the keywords of strict tools alone; the first has those of others. */
const toolsOf = ({ tools, depth }: Shape, has: ReadonlySet<Feature>): readonly Tool[] => {
  const functions = has.has('tool.custom') ? tools - 1 : tools
  return Array.from({ length: tools }, (_, index): Tool => {
    const base = { at: `tools[${index}]`, name: `drill_${index + 1}`, description: 'Does nothing.' }
    if (index === functions) return { kind: 'custom', ...base }
    const isStrict = has.has('tool.strict') && index === functions - 1
    const prefixes: readonly SchemaPrefix[] = [...(index === 0 ? TOOL : []), ...(isStrict ? STRICT : [])]
    const parameters = schemaOf(prefixes, has, index === 0 ? depth : 2, isStrict)
    return { kind: 'function', ...base, parameters, ...(isStrict && { strict: true }) }
  })
}
const TOOL = ['tool'] as const
const STRICT = ['strict'] as const

const STRING = { type: 'string' }
const BRANCHES = [STRING, { type: 'number' }]
const arrayWith = (members: JsonObject): JsonObject => ({ type: 'array', items: STRING, ...members })

/** A property with each keyword; null: it belongs to the whole schema. The values are those that most vendors take. */
const PROPERTIES: { readonly [keyword in SchemaKeyword]: JsonObject | null } = {
  $ref: { $ref: '#/$defs/part' },
  additionalProperties: null,
  allOf: { allOf: [STRING] },
  anyOf: { anyOf: BRANCHES },
  oneOf: { oneOf: BRANCHES },
  not: { type: 'string', not: { type: 'number' } },
  if: { if: STRING, else: STRING },
  const: { type: 'string', const: 'OK' },
  default: { type: 'string', default: 'OK' },
  enum: { type: 'string', enum: ['OK'] },
  format: { type: 'string', format: 'date-time' },
  pattern: { type: 'string', pattern: '^[A-Z]+$' },
  minLength: { type: 'string', minLength: 1 },
  maxLength: { type: 'string', maxLength: 9 },
  minimum: { type: 'integer', minimum: 0 },
  maximum: { type: 'integer', maximum: 9 },
  multipleOf: { type: 'integer', multipleOf: 1 },
  minItems: arrayWith({ minItems: 1 }),
  maxItems: arrayWith({ maxItems: 9 }),
  uniqueItems: arrayWith({ uniqueItems: true }),
  prefixItems: arrayWith({ prefixItems: [STRING] }),
  patternProperties: { type: 'object', patternProperties: { '^x': STRING } },
  propertyNames: { type: 'object', propertyNames: { maxLength: 9 } },
  'type[]': { type: ['string', 'null'] },
}

/** Strict schemas must close their objects, whether the shape says so or not. */
const schemaOf = (
  prefixes: readonly SchemaPrefix[],
  has: ReadonlySet<Feature>,
  depth: number,
  isStrict: boolean,
): JsonObject => {
  const used = SCHEMA_KEYWORDS.filter((keyword) => prefixes.some((prefix) => has.has(`${prefix}.${keyword}`)))
  const closed = isStrict || used.includes('additionalProperties') ? { additionalProperties: false } : {}
  const objectOf = (properties: JsonObject): JsonObject => ({
    type: 'object',
    properties,
    required: Object.keys(properties),
    ...closed,
  })
  const properties: { [name: string]: Json } = { value: STRING }
  for (const [index, keyword] of used.entries()) {
    const property = PROPERTIES[keyword]
    if (property) properties[`value_${index + 1}`] = property.type === 'object' ? { ...property, ...closed } : property
  }
  let nested: JsonObject = STRING
  for (let level = 3; level <= depth; level++) nested = objectOf({ value: nested })
  if (depth > 2) properties.nested = nested
  return { ...objectOf(properties), ...(used.includes('$ref') && { $defs: { part: STRING } }) }
}

// ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

const text = (at: string, said: string): Part => ({ type: 'text', at: `${at}.content[0]`, text: said })

const messagesOf = ({ media }: Shape, has: ReadonlySet<Feature>, tools: readonly Tool[]): readonly Message[] => {
  const messages: Message[] = []
  const place = () => `messages[${messages.length}]`
  const add = (role: 'user' | 'assistant', said: string) =>
    messages.push({ role, at: place(), content: [text(place(), said)] })
  const attached = mediaOf(has, media)
  const said = has.has('format.json') ? SAID_IN_JSON : SAID
  messages.push({
    role: 'user',
    at: place(),
    content: [text(place(), said), ...(has.has('history.images') ? [] : attached)],
  })
  if (has.has('system.middle')) {
    add('assistant', 'OK')
    messages.push({ role: 'system', as: 'system', at: place(), content: [text(place(), 'Reply in one word.')] })
    add('user', said)
  }
  if (has.has('history.calls') || has.has('history.results')) {
    const id = 'call_drill1'
    const [tool] = tools
    const custom = tool?.kind === 'custom'
    const call = {
      type: 'tool-call',
      id,
      name: tool?.kind === 'foreign' ? 'drill_1' : (tool?.name ?? 'drill_1'),
    } as const
    const written = custom ? { arguments: 'OK', custom } : { arguments: '{"value":"OK"}' }
    messages.push({ role: 'assistant', at: place(), content: [{ ...call, ...written, at: `${place()}.content[0]` }] })
    const images = has.has('history.images') ? attached : []
    messages.push({ role: 'tool', callId: id, at: place(), content: [text(place(), 'OK'), ...images] })
  }
  if (has.has('prefill')) add('assistant', 'O')
  return messages
}

// ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** The value of each setting that a shape names. Others are left out. */
const VALUES = {
  topK: 40,
  stop: ['DRILL'],
  seed: 1,
  presencePenalty: 0.1,
  frequencyPenalty: 0.1,
  logitBias: { '50': -1 },
  choices: 2,
  logprobs: true,
  topLogprobs: 1,
  thinkingBudget: THINKING,
  reasoningSummary: 'auto',
  encryptedReasoning: true,
  verbosity: 'low',
  streamUsage: true,
} as const

const settingsOf = ({ tools, depth }: Shape, has: ReadonlySet<Feature>, reasons: boolean): GenerationSettings => {
  const effort = EFFORTS.find((one) => has.has(`effort.${one}`))
  const thinks =
    has.has('set.thinkingBudget') || has.has('extra.thinking') || (effort !== undefined && effort !== 'none')
  // Models that think take a temperature of 1 and a top_p near it alone.
  const sampling = reasons || thinks ? { temperature: 1, topP: 0.95 } : { temperature: 0.5, topP: 0.9 }
  const named = Object.entries({ ...VALUES, ...sampling }).flatMap(([name, value]) =>
    has.has(`set.${name}` as Feature) ? [[name, { value, at: name }] as const] : [],
  )
  const choice = (['none', 'required', 'tool', 'allowed'] as const).find((kind) => has.has(`choice.${kind}`))
  // The depth is that of the deepest schema: beside tools it is taken for one of theirs.
  const format = formatOf(has, tools > 0 ? 2 : depth)
  return {
    ...Object.fromEntries(named),
    maxOutputTokens: { value: reasons || thinks ? OUTPUT.reasoning : OUTPUT.plain, at: 'maxOutputTokens' },
    store: { value: false, at: 'store' },
    ...(effort && { effort: { value: effort, at: 'effort' } }),
    ...(choice && { toolChoice: { value: CHOICES[choice], at: 'toolChoice' } }),
    ...(has.has('parallel.off') && { parallelToolCalls: { value: false, at: 'parallelToolCalls' } }),
    ...(format && { format: { value: format, at: 'format' } }),
  }
}

const CHOICES = {
  none: { kind: 'none' },
  required: { kind: 'required' },
  tool: { kind: 'tool', name: 'drill_1' },
  allowed: { kind: 'allowed', mode: 'auto', names: ['drill_1'] },
} as const

const formatOf = (has: ReadonlySet<Feature>, depth: number): OutputFormat | undefined => {
  const strict = has.has('format.strict')
  if (strict || has.has('format.schema'))
    return {
      kind: 'schema',
      name: 'drill',
      schema: schemaOf(['schema'], has, depth, strict),
      ...(strict && { strict }),
    }
  return has.has('format.json') ? { kind: 'json' } : undefined
}

/** Members without a canonical name that have a harmless value. */
const EXTRAS: readonly (readonly [Feature, Json])[] = [
  ['extra.include', []],
  ['extra.truncation', 'auto'],
  ['extra.prediction', { type: 'content', content: 'OK' }],
  ['extra.safetySettings', []],
]

/** Budgets are a setting. Beside one, the extra is a request to leave the thoughts out. */
const thinkingExtra = (has: ReadonlySet<Feature>): readonly [Feature, Json] => [
  'extra.thinking',
  has.has('set.thinkingBudget')
    ? { type: 'enabled', budget_tokens: THINKING, display: 'omitted' }
    : { type: 'adaptive' },
]

const extrasOf = (has: ReadonlySet<Feature>): readonly Extra[] =>
  [thinkingExtra(has), ...EXTRAS].flatMap(([feature, value]) => {
    const name = feature.slice('extra.'.length)
    return has.has(feature) ? [{ at: name, name, value, essential: false }] : []
  })
