/**
 * Decodes requests of the legacy completions API as chat requests: the prompt becomes one user message. Requests that chat
 * cannot express (token prompts, several prompts, a suffix) are rejected with a remedy.
 */
import type { ChatRequest, Extra, GenerationSettings } from '../../core/chat.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { isList, type Json, type JsonObject } from '../../core/json.ts'
import { type Problems, type RequestFields, requestedModel, requestFields } from '../shared/request-fields.ts'
import { decodeSampling, presentSettings, settingAt } from '../shared/setting-decoders.ts'

/** Decodes a completions request, or returns the first problem. */
export const decodeRequest = (body: JsonObject): Outcome<ChatRequest> => {
  const problems: Problems = {}
  const fields = requestFields(body, '', problems)
  const model = requestedModel(fields)
  const stream = fields.flag('stream') ?? false
  const prompt = readPrompt(fields, problems)
  rejectUnsupported(fields, problems)
  const settings = readSettings(fields, problems)
  const options = fields.fields('stream_options')
  const usage = options?.flag('include_usage')
  const best = readBestOf(fields)
  const extras = [...fields.unread(), ...(options?.unread() ?? []), ...best]
  if (problems.first) return bad(problems.first)
  return good({
    model,
    stream,
    messages: [{ role: 'user', at: 'prompt', content: [{ type: 'text', at: 'prompt', text: prompt }] }],
    tools: [],
    settings: { ...settings, ...(usage && { streamUsage: { value: true, at: 'stream_options.include_usage' } }) },
    extras,
  })
}

/** The prompt to prepend to the completion if the client requested `echo`; otherwise empty. */
export const echoOf = ({ echo, prompt }: JsonObject): string => (echo === true ? (promptText(prompt) ?? '') : '')

/** The prompt as text: a string, or a list with one string (LangChain always sends a list). */
const promptText = (prompt: Json | undefined): string | undefined => {
  const only = isList(prompt) && prompt.length === 1 ? prompt[0] : prompt
  return typeof only === 'string' ? only : undefined
}

const reject = (problems: Problems, param: string, message: string): void => {
  problems.first ??= fail('unsupported', message, { param })
}

const readPrompt = (fields: RequestFields, problems: Problems): string => {
  const prompt = fields.any('prompt')
  const allowed = 'the text to complete'
  if (prompt === undefined || prompt === '') {
    // OpenAI treats a missing prompt as the start of any document. A chat model needs a message.
    if (prompt === undefined) fields.missing('prompt', allowed)
    else fields.invalid('prompt', allowed)
    return ''
  }
  const text = promptText(prompt)
  if (text !== undefined) {
    if (text === '') fields.invalid('prompt', allowed)
    return text
  }
  const entries = isList(prompt) ? prompt : []
  const isTokens = (value: Json | undefined) => isList(value) && value.length > 0 && value.every(Number.isInteger)
  if (isTokens(entries) || (entries.length > 0 && entries.every(isTokens)))
    reject(problems, 'prompt', 'The prompt is a list of tokens, which are specific to one model. Send text instead.')
  else if (entries.length > 1 && entries.every((entry) => typeof entry === 'string'))
    reject(problems, 'prompt', 'The request has several prompts; only one is supported. Send one request per prompt.')
  else fields.invalid('prompt', `${allowed}: a string, or a list with one`)
  return ''
}

/** Rejects essential members that no chat format has. */
const rejectUnsupported = (fields: RequestFields, problems: Problems): void => {
  if (fields.string('suffix'))
    reject(
      problems,
      'suffix',
      'Chat models do not support `suffix`. Remove it, or describe in the prompt what follows.',
    )
  // Chat formats differ in how they return several answers; this format decodes one.
  const count = fields.number('n', { least: 1, most: 128, whole: true })
  if (count !== undefined && count > 1)
    reject(problems, 'n', '`n` above 1 is not supported for completions. Send the request once per completion.')
  if (fields.flag('echo') && fields.number('logprobs', LOGPROBS) !== undefined)
    reject(
      problems,
      'echo',
      '`echo` with `logprobs` is not supported: chat models return no log probabilities for the prompt. Remove one of them.',
    )
}

/** `best_of` above 1 needs support by the upstream; 1 is the default. */
const readBestOf = (fields: RequestFields): readonly Extra[] => {
  const value = fields.number('best_of', { least: 1, most: 20, whole: true })
  return value === undefined || value === 1 ? [] : [{ at: 'best_of', name: 'best_of', value, essential: false }]
}

/** OpenAI documents a maximum of 5; chat supports 20. */
const LOGPROBS = { least: 0, most: 20, whole: true }

const readSettings = (fields: RequestFields, problems: Problems): GenerationSettings => {
  const logprobs = fields.number('logprobs', LOGPROBS)
  return presentSettings({
    // OpenAI's default of 16 tokens may be used up by reasoning alone, so the upstream's default applies.
    maxOutputTokens: settingAt('max_tokens', readLimit(fields, problems)),
    ...decodeSampling(fields),
    logprobs: settingAt('logprobs', logprobs === undefined ? undefined : true),
    topLogprobs: settingAt('logprobs', logprobs || undefined),
    user: settingAt('user', fields.string('user')),
  })
}

/** `max_tokens: 0` was used to score the prompt only, which chat cannot do. */
const readLimit = (fields: RequestFields, problems: Problems): number | undefined => {
  const limit = fields.number('max_tokens', { least: 0, whole: true })
  if (limit !== 0) return limit
  reject(problems, 'max_tokens', '`max_tokens` is 0; chat models need at least 1. Raise it or leave it out.')
  return undefined
}
