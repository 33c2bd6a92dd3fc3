import type { ChatRequest, Effort, Extra, GenerationSettings, OutputFormat, Setting } from '../../core/chat.ts'
import { bad, good, type Outcome } from '../../core/failure.ts'
import { isList, type Json, type JsonObject } from '../../core/json.ts'
import { isStrict } from '../shared/claude-schema.ts'
import { type Problems, type RequestFields, requestedModel } from '../shared/request-fields.ts'
import { presentSettings, settingAt } from '../shared/setting-decoders.ts'
import { DEFAULT_FORMAT_NAME } from '../shared/setting-encoders.ts'
import { decodeContents, decodeSystem } from './decode-contents.ts'
import { decodeTools } from './decode-tools.ts'
import { openapiToJsonSchema } from './openapi-schema.ts'
import { protoFields, protoFieldsIn } from './proto-fields.ts'
import { bareModel, calledMethod, queryProblem } from './request-path.ts'

/** A generateContent request. Model and stream are in its path; without one they are in the body. */
export const decodeRequest = (body: JsonObject, path?: string, query = ''): Outcome<ChatRequest> => {
  const refused = queryProblem(query)
  if (refused) return bad(refused)
  const problems: Problems = {}
  const fields = protoFields(body, '', problems)
  const called = calledMethod(path)
  const named = called ? fields.any('model') : requestedModel(fields)
  const model = called?.model ?? bareModel(typeof named === 'string' ? named : '')
  const asked = fields.flag('stream') ?? false
  const stream = called ? called.method === 'streamGenerateContent' : asked
  return decodeContent(fields, { model, stream }, problems)
}

/** What a count is made of: contents, or the whole request that would be sent. */
export const decodeCountedRequest = (body: JsonObject, path?: string): Outcome<ChatRequest> => {
  const problems: Problems = {}
  const outer = protoFields(body, '', problems)
  const inner = protoFieldsIn(outer, 'generateContentRequest', problems)
  if (!inner) return decodeRequest(body, path)
  const named = inner.string('model') ?? ''
  return decodeContent(inner, { model: calledMethod(path)?.model ?? bareModel(named), stream: false }, problems)
}

/** Members without which the answer is another: content that is stored at Google. */
const ESSENTIAL = new Set(['cachedContent'])

const decodeContent = (
  fields: RequestFields,
  call: Pick<ChatRequest, 'model' | 'stream'>,
  problems: Problems,
): Outcome<ChatRequest> => {
  const system = decodeSystem(fields, problems)
  const messages = decodeContents(fields, problems)
  const { tools, settings: choice, extras: ofTools } = decodeTools(fields, problems)
  const config = protoFieldsIn(fields, 'generationConfig', problems)
  const { settings, extras } = config ? decodeConfig(config, problems) : { settings: {}, extras: [] }
  // Must be the last read: it returns the members not read before.
  const rest = fields.unread((name) => ESSENTIAL.has(name))
  if (problems.first) return bad(problems.first)
  return good({
    ...call,
    messages: [...system, ...messages],
    tools,
    settings: { ...settings, ...choice },
    extras: [...ofTools, ...extras, ...rest],
  })
}

type DecodedConfig = { readonly settings: GenerationSettings; readonly extras: readonly Extra[] }

const decodeConfig = (config: RequestFields, problems: Problems): DecodedConfig => {
  const at = (name: string) => config.path(name)
  const whole = (name: string, least: number) => settingAt(at(name), config.number(name, { least, whole: true }))
  const sequences = config.list('stopSequences') ?? []
  const stop = sequences.filter((sequence) => typeof sequence === 'string')
  if (stop.length < sequences.length) config.invalid('stopSequences', 'a list of strings')
  const thinking = protoFieldsIn(config, 'thinkingConfig', problems)
  const { settings: thought, extras: ofThinking } = thinking ? decodeThinking(thinking) : { settings: {}, extras: [] }
  const { format, extras: ofFormat } = decodeFormat(config)
  const settings = presentSettings({
    maxOutputTokens: whole('maxOutputTokens', 0),
    temperature: settingAt(at('temperature'), config.number('temperature', { least: 0, most: 2 })),
    topP: settingAt(at('topP'), config.number('topP', { least: 0, most: 1 })),
    topK: settingAt(at('topK'), config.number('topK', { least: 0 })),
    stop: settingAt(at('stopSequences'), stop.length > 0 ? stop : undefined),
    seed: whole('seed', -(2 ** 31)),
    // Default values are omitted; they would only be reported as lost.
    presencePenalty: settingAt(at('presencePenalty'), config.number('presencePenalty') || undefined),
    frequencyPenalty: settingAt(at('frequencyPenalty'), config.number('frequencyPenalty') || undefined),
    choices: whole('candidateCount', 1),
    logprobs: settingAt(at('responseLogprobs'), config.flag('responseLogprobs')),
    topLogprobs: whole('logprobs', 0),
    format,
    ...thought,
  })
  const rest = config.unread((name, value) => isEssentialSetting(name, value))
  return { settings, extras: [...ofThinking, ...ofFormat, ...rest] }
}

/** Settings for an answer that is not text. */
const isEssentialSetting = (name: string, value: Json): boolean =>
  name === 'responseModalities'
    ? isList(value) && value.some((one) => String(one).toUpperCase() !== 'TEXT')
    : name === 'speechConfig' || name === 'imageConfig'

const EFFORTS: { readonly [level: string]: Effort } = { MINIMAL: 'minimal', LOW: 'low', MEDIUM: 'medium', HIGH: 'high' }

const decodeThinking = (thinking: RequestFields): DecodedConfig => {
  const budget = thinking.number('thinkingBudget', { least: -1, whole: true })
  const level = thinking.string('thinkingLevel')?.toUpperCase()
  const effort = level !== undefined && Object.hasOwn(EFFORTS, level) ? EFFORTS[level] : undefined
  if (level !== undefined && effort === undefined && level !== 'THINKING_LEVEL_UNSPECIFIED')
    thinking.invalid('thinkingLevel', 'MINIMAL, LOW, MEDIUM or HIGH')
  const included = thinking.flag('includeThoughts')
  const settings = presentSettings({
    // -1: the model decides, as without a budget.
    thinkingBudget: settingAt(thinking.path('thinkingBudget'), budget === -1 ? undefined : budget),
    effort: settingAt(thinking.path('thinkingLevel'), effort),
    reasoningSummary: settingAt(thinking.path('includeThoughts'), included ? 'auto' : undefined),
  })
  return { settings, extras: thinking.unread() }
}

type DecodedFormat = { readonly format: Setting<OutputFormat> | undefined; readonly extras: readonly Extra[] }

const decodeFormat = (config: RequestFields): DecodedFormat => {
  const type = config.string('responseMimeType')
  const given = config.object('responseJsonSchema')
  const subset = config.object('responseSchema')
  const schema = given ?? (subset && openapiToJsonSchema(subset))
  if (type === undefined || type === 'text/plain') return { format: undefined, extras: [] }
  // Other types (`text/x.enum`) restrict the answer in a way that no other format has.
  if (type !== 'application/json')
    return {
      format: undefined,
      extras: [{ at: config.path('responseMimeType'), name: 'responseMimeType', value: type, essential: true }],
    }
  if (!schema) return { format: { at: config.path('responseMimeType'), value: { kind: 'json' } }, extras: [] }
  const name = typeof schema.title === 'string' ? schema.title.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, 64) : ''
  const at = config.path(given ? 'responseJsonSchema' : 'responseSchema')
  // This format always enforces the schema. Elsewhere `strict` also makes every member required.
  const strict = isStrict(schema) && { strict: true }
  return { format: { at, value: { kind: 'schema', name: name || DEFAULT_FORMAT_NAME, schema, ...strict } }, extras: [] }
}
