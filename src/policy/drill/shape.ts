/**
 * The shape of a request: what a target may refuse in it, in a closed vocabulary (`features.ts`) and amounts in steps. It has no
 * text, name or address of the request, so it can be stored and exported.
 */
import type { ChatRequest, Extra, GenerationSettings, MediaSource, Message, Part, Tool } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'
import { REQUEST_STYLES, type RequestStyle } from '../../core/request-styles.ts'
import {
  AUDIO_TYPES,
  BETA_NAMES,
  EXTRA_NAMES,
  FEATURES,
  type Feature,
  type FILE_TYPES,
  HOSTED_TOOLS,
  IMAGE_TYPES,
  isExclusive,
  isFeature,
  placeOf,
  SCHEMA_KEYWORDS,
  SET_NAMES,
} from './features.ts'

/** Amounts of a shape. `others`: members without a name in the vocabulary. `input`, `output`: tokens; output 0: not stated. */
export const AMOUNTS = ['tools', 'depth', 'media', 'others', 'input', 'output'] as const
export type Amounts = { readonly [name in (typeof AMOUNTS)[number]]: number }

/** What a target may refuse in a request. `features`: in the order of the vocabulary. Amounts are the upper ends of their steps. */
export type Shape = { readonly style: RequestStyle; readonly features: readonly Feature[] } & Amounts

/** The stored text of requests beyond the bounds: nothing is known of them. */
export const OTHER = 'other'

/** Steps of counts; 129: more than 128. */
const COUNTS = [0, 1, 8, 32, 128, 129] as const
/** Deeper schemas have this depth. */
const MAX_DEPTH = 12
/** Steps of tokens are powers of two from the first to the last. */
const [LEAST_TOKENS, MOST_TOKENS] = [1_024, 2 ** 24]
/** Further tools and nodes of schemas are not read. */
const MAX_TOOLS = 64
const MAX_NODES = 2_000
/** Tokens of an attachment, and of a node of a schema, about. */
const ATTACHMENT = 1_500
const NODE = 8
const CHARACTERS_PER_TOKEN = 4

const countStep = (count: number): number => COUNTS.find((step) => count <= step) ?? 129

/** The least count of a step. */
export const leastOf = (step: number): number => (COUNTS.findLast((one) => one < step) ?? -1) + 1

/** The step that these tokens are in: the power of two from 1,024 that is not below them. */
export const tokenStep = (tokens: number): number => {
  let step = LEAST_TOKENS
  while (step < tokens && step < MOST_TOKENS) step *= 2
  return step
}

/** The parts of a shape that are collected. */
type ShapeParts = {
  readonly flags: Uint8Array
  media: number
  others: number
  depth: number
  characters: number
  nodes: number
}

/** The shape of a chat request. `betas`: those that it names. */
export const shapeOf = (request: ChatRequest, style: RequestStyle, betas: readonly string[] = NO_BETAS): Shape => {
  const { messages, tools, settings, extras, stream } = request
  const found: ShapeParts = {
    flags: new Uint8Array(FEATURES.length),
    media: 0,
    others: 0,
    depth: 0,
    characters: 0,
    nodes: 0,
  }
  if (stream) add(found, 'stream')
  readMessages(messages, found)
  for (let at = 0; at < tools.length && at < MAX_TOOLS; at++) {
    const tool = tools[at]
    if (tool) readTool(tool, found)
  }
  readSettings(settings, found)
  for (const extra of extras) addNamed('extra', EXTRA_LIST, extra.name, found)
  for (const beta of betas) addNamed('beta', BETA_LIST, beta.replace(DATE, ''), found)
  const perTool = tools.length > MAX_TOOLS ? tools.length / MAX_TOOLS : 1
  const input = found.characters / CHARACTERS_PER_TOKEN + found.media * ATTACHMENT + found.nodes * NODE * perTool
  const asked = settings.maxOutputTokens?.value
  return {
    style,
    features: FEATURES.filter((_, place) => found.flags[place] === 1),
    tools: countStep(tools.length),
    depth: Math.min(found.depth, MAX_DEPTH),
    media: countStep(found.media),
    others: countStep(found.others),
    input: tokenStep(input),
    output: asked === undefined ? 0 : tokenStep(asked),
  }
}

const NO_BETAS: readonly string[] = []
const DATE = /-\d{4}-?\d\d-?\d\d$/
const EXTRA_LIST: ReadonlySet<string> = new Set(EXTRA_NAMES)
const BETA_LIST: ReadonlySet<string> = new Set(BETA_NAMES)

const add = ({ flags }: ShapeParts, feature: Feature): void => {
  flags[placeOf(feature)] = 1
}

/** Adds the feature with this name; a name that is not in the list is counted. */
const addNamed = (prefix: 'extra' | 'beta', list: ReadonlySet<string>, name: string, found: ShapeParts): void => {
  const feature = `${prefix}.${name}`
  if (list.has(name) && isFeature(feature)) add(found, feature)
  else found.others += 1
}

const readMessages = (messages: readonly Message[], found: ShapeParts): void => {
  let hasTurns = false
  for (const message of messages) {
    if (message.role !== 'system') hasTurns = true
    else if (hasTurns) add(found, 'system.middle')
    if (message.role === 'tool') add(found, 'history.results')
    if (message.extras) readExtras(message.extras, found)
    for (const part of message.content) readPart(part, message.role === 'tool', found)
  }
  if (messages.at(-1)?.role === 'assistant') add(found, 'prefill')
}

/** Extras of parts, messages and tools: marks of prompt caches are known, others are counted. */
const readExtras = (extras: readonly Extra[], found: ShapeParts): void => {
  for (const { name } of extras)
    if (name === 'cache_control' || name === 'cachePoint') add(found, 'cache.marks')
    else found.others += 1
}

const readPart = (part: Part, isResult: boolean, found: ShapeParts): void => {
  if ('extras' in part && part.extras) readExtras(part.extras, found)
  switch (part.type) {
    case 'text':
    case 'refusal':
      found.characters += part.text.length
      return
    case 'reasoning':
      found.characters += part.text.length
      if (part.signature) add(found, 'reasoning.signed')
      return
    case 'tool-call':
      found.characters += part.arguments.length
      add(found, 'history.calls')
      return
    case 'image':
      found.media += 1
      if (isResult) add(found, 'history.images')
      addMedia('image', part.source, imageType, found)
      return
    case 'file':
      found.media += 1
      addMedia('file', part.source, fileType, found)
      return
    case 'audio':
      found.media += 1
      add(found, `audio.${AUDIO_TYPES.find((type) => type === part.format) ?? 'other'}`)
      return
    case 'foreign':
      add(found, 'part.foreign')
      return
    default:
      throw new Error(`unknown part ${JSON.stringify(part satisfies never)}`)
  }
}

const addMedia = <Kind extends 'image' | 'file'>(
  kind: Kind,
  source: MediaSource,
  typeOf: (mediaType: string) => Kind extends 'image' ? ImageType : FileType,
  found: ShapeParts,
): void => {
  for (const name of [source.kind, ...(source.kind === 'data' ? [typeOf(source.mediaType)] : [])]) {
    const feature = `${kind}.${name}`
    if (isFeature(feature)) add(found, feature)
  }
}

type ImageType = (typeof IMAGE_TYPES)[number] | 'other'
type FileType = (typeof FILE_TYPES)[number] | 'other'

const imageType = (mediaType: string): ImageType => IMAGE_TYPES.find((type) => mediaType === `image/${type}`) ?? 'other'

const fileType = (mediaType: string): FileType => {
  if (mediaType === 'application/pdf') return 'pdf'
  if (mediaType.startsWith('text/')) return 'text'
  return OFFICE.test(mediaType) ? 'office' : 'other'
}
const OFFICE = /^application\/(?:msword|vnd\.(?:ms-|openxmlformats))/

const readTool = (tool: Tool, found: ShapeParts): void => {
  found.nodes += 1
  switch (tool.kind) {
    case 'function': {
      const isStrict = tool.strict === true && tool.paths?.strict !== null
      if (isStrict) add(found, 'tool.strict')
      if (tool.extras) readExtras(tool.extras, found)
      found.characters += tool.description?.length ?? 0
      readSchema(tool.parameters, isStrict ? STRICT_KEYWORDS : TOOL_KEYWORDS, found)
      return
    }
    case 'custom':
      found.characters += tool.description?.length ?? 0
      add(found, 'tool.custom')
      return
    case 'foreign':
      add(found, `hosted.${hostedType(tool.raw)}`)
      return
    default:
      throw new Error(`unknown tool ${JSON.stringify(tool satisfies never)}`)
  }
}

/** The type of a tool without its date, its vendor and its variant; Gemini names it by its only member. */
const hostedType = (raw: JsonObject): (typeof HOSTED_TOOLS)[number] => {
  const name = typeof raw.type === 'string' ? raw.type : snakeCase(Object.keys(raw)[0] ?? '')
  const plain = name.replace(/^openrouter:/, '')
  return HOSTED_TOOLS.find((type) => plain === type || plain.startsWith(`${type}_`)) ?? 'other'
}
const snakeCase = (name: string): string => name.slice(0, 40).replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

const readSettings = (settings: GenerationSettings, found: ShapeParts): void => {
  const { toolChoice, parallelToolCalls, format, effort } = settings
  const choice = toolChoice?.value.kind
  if (choice !== undefined && choice !== 'auto') add(found, `choice.${choice}`)
  if (parallelToolCalls?.value === false) add(found, 'parallel.off')
  if (effort) add(found, `effort.${effort.value}`)
  if (format?.value.kind === 'json') add(found, 'format.json')
  if (format?.value.kind === 'schema') {
    add(found, 'format.schema')
    if (format.value.strict) add(found, 'format.strict')
    readSchema(format.value.schema, FORMAT_KEYWORDS, found)
  }
  // An empty path is a default of the client's format.
  for (const name of SET_NAMES) if (settings[name] && settings[name].at !== '') add(found, `set.${name}`)
}

/** Schemas of tools, of strict tools and of answers. */
export type SchemaPrefix = 'tool' | 'strict' | 'schema'

/** Where the keywords of a schema are in the order. */
const keywordPlaces = (prefix: SchemaPrefix): ReadonlyMap<string, number> =>
  new Map(SCHEMA_KEYWORDS.map((name) => [name, placeOf(`${prefix}.${name}`)]))
const TOOL_KEYWORDS = keywordPlaces('tool')
const STRICT_KEYWORDS = keywordPlaces('strict')
const FORMAT_KEYWORDS = keywordPlaces('schema')
/** Their members are names of properties with schemas. */
const MAPS: ReadonlySet<string> = new Set(['properties', '$defs', 'definitions', 'patternProperties'])
/** Their values are no schemas. */
const VALUES: ReadonlySet<string> = new Set(['enum', 'const', 'default', 'examples', 'required'])

/** Reads a schema. `places`: of its keywords. */
const readSchema = (
  schema: Json | undefined,
  places: ReadonlyMap<string, number>,
  found: ShapeParts,
  depth = 1,
): void => {
  if (found.nodes >= MAX_NODES || depth > MAX_DEPTH) return
  if (isList(schema)) {
    for (const one of schema) readSchema(one, places, found, depth)
    return
  }
  if (!isObject(schema)) return
  found.nodes += 1
  if (depth > found.depth) found.depth = depth
  for (const name in schema) {
    const value = schema[name]
    const place = places.get(name === 'type' && isList(value) ? 'type[]' : name)
    if (place !== undefined) found.flags[place] = 1
    if (typeof value !== 'object' || VALUES.has(name)) continue
    if (MAPS.has(name) && isObject(value))
      for (const property in value) readSchema(value[property], places, found, depth + 1)
    else readSchema(value, places, found, depth + 1)
  }
}

// ── Text ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const VERSION = '1'

/** The text in which a shape is stored, at most 400 bytes: its style, its amounts, and a bit for each feature, four a digit. */
export const shapeText = (shape: Shape): string => {
  const digits = new Uint8Array(Math.ceil(FEATURES.length / 4))
  for (const feature of shape.features) {
    const place = placeOf(feature)
    const digit = place >> 2
    digits[digit] = (digits[digit] ?? 0) | (1 << (place & 3))
  }
  let last = digits.length - 1
  while (last > 0 && digits[last] === 0) last--
  let text = `${VERSION}:${shape.style}`
  for (const name of AMOUNTS) text += `:${shape[name]}`
  text += ':'
  for (let digit = 0; digit <= last; digit++) text += HEX.charAt(digits[digit] ?? 0)
  return text
}
const HEX = '0123456789abcdef'

const TEXT = /^1:([a-z]{1,20})((?::\d{1,9}){6}):([0-9a-f]{1,120})$/

/** Parses the text of a shape. Undefined: it is malformed, of a later version, or `other`. */
export const parseShape = (text: string): Shape | undefined => {
  const [, styleText, amounts = '', hex = ''] = TEXT.exec(text) ?? []
  const style = REQUEST_STYLES.find((one) => one === styleText)
  if (style === undefined) return undefined
  const [tools = 0, depth = 0, media = 0, others = 0, input = 0, output = 0] = amounts.slice(1).split(':').map(Number)
  const shape = { style, features: featuresOf(hex), tools, depth, media, others, input, output }
  return shapeText(shape) === text && areSteps(shape) ? shape : undefined
}

const featuresOf = (hex: string): readonly Feature[] =>
  FEATURES.filter((_, place) => (Number.parseInt(hex.charAt(place >> 2) || '0', 16) & (1 << (place & 3))) !== 0)

const areSteps = ({ tools, depth, media, others, input, output }: Amounts): boolean =>
  [tools, media, others].every((count) => countStep(count) === count) &&
  depth <= MAX_DEPTH &&
  tokenStep(input) === input &&
  (output === 0 || tokenStep(output) === output)

/**
 * Whether a target that accepts `whole` accepts `part`: it has no other feature and no larger amount, and the same of those that
 * exclude each other.
 */
export const isWithin = (part: Shape, whole: Shape): boolean =>
  part.style === whole.style &&
  AMOUNTS.every((name) => part[name] <= whole[name]) &&
  part.features.every((feature) => whole.features.includes(feature)) &&
  whole.features.every((feature) => !isExclusive(feature) || part.features.includes(feature))
