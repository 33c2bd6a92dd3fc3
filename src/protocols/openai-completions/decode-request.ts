/**
 * A completion asked for in the older way, as a question to a chat model: the prompt is one user message. What a
 * conversation has no place for at all (tokens in place of text, several prompts, a text to fill in) is refused with
 * what to do instead, since no upstream here could carry it.
 */
import type { ChatRequest, Extra, GenerationSettings, Setting } from '../../core/chat.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { isList, type Json, type JsonObject, sourceOf } from '../../core/json.ts'
import { type Problems, type RequestFields, requestedModel, requestFields } from '../shared/request-fields.ts'

export const decodeRequest = (body: JsonObject): Outcome<ChatRequest> => {
  const problems: Problems = {}
  const fields = requestFields(body, '', problems)
  const model = requestedModel(fields)
  const stream = fields.flag('stream') ?? false
  const prompt = readPrompt(fields, problems)
  refuseWhatNobodyCarries(fields, problems)
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

/** What is put before the completion, if the client wants its prompt back with it. */
export const echoOf = ({ echo, prompt }: JsonObject): string => (echo === true ? (textOf(prompt) ?? '') : '')

/** A prompt as text: it may stand alone, or as the only one of a list (LangChain's clients always send a list). */
const textOf = (prompt: Json | undefined): string | undefined => {
  const only = isList(prompt) && prompt.length === 1 ? prompt[0] : prompt
  return typeof only === 'string' ? only : undefined
}

const refuse = (problems: Problems, param: string, message: string): void => {
  problems.first ??= fail('unsupported', message, { param })
}

const readPrompt = (fields: RequestFields, problems: Problems): string => {
  const prompt = fields.any('prompt')
  const allowed = 'the text to complete'
  if (prompt === undefined || prompt === '') {
    // OpenAI takes a missing one for the beginning of any document. A chat model has to be asked something.
    if (prompt === undefined) fields.missing('prompt', allowed)
    else fields.invalid('prompt', allowed)
    return ''
  }
  const text = textOf(prompt)
  if (text !== undefined) {
    if (text === '') fields.invalid('prompt', allowed)
    return text
  }
  const entries = isList(prompt) ? prompt : []
  const isTokens = (value: Json | undefined) => isList(value) && value.length > 0 && value.every(Number.isInteger)
  if (isTokens(entries) || (entries.length > 0 && entries.every(isTokens)))
    refuse(
      problems,
      'prompt',
      'The prompt is a list of tokens, which only the tokenizer of one model can read. Send the text itself.',
    )
  else if (entries.length > 1 && entries.every((entry) => typeof entry === 'string'))
    refuse(problems, 'prompt', 'There are several prompts in this request. Send a request for each of them.')
  else fields.invalid('prompt', `${allowed}: a string, or a list with one`)
  return ''
}

/** Without these the answer would be another one, and no format of a conversation has them. */
const refuseWhatNobodyCarries = (fields: RequestFields, problems: Problems): void => {
  if (fields.string('suffix'))
    refuse(
      problems,
      'suffix',
      'Text to be put in before a suffix cannot be asked of a chat model. Leave `suffix` out, or say in the prompt what follows.',
    )
  // Each chat format that has several answers at all tells them in a way of its own; here one is read.
  const count = fields.number('n', { least: 1, most: 128, whole: true })
  if (count !== undefined && count > 1)
    refuse(
      problems,
      'n',
      'Several completions of a prompt are not given in one answer. Send the request once for each.',
    )
  if (fields.flag('echo') && fields.number('logprobs', LOGPROBS) !== undefined)
    refuse(
      problems,
      'echo',
      'The prompt can be given back, but not with its log probabilities: chat models do not tell them. Leave out `echo` or `logprobs`.',
    )
}

/** A best of several is chosen where the model runs. One of one is what every answer is. */
const readBestOf = (fields: RequestFields): readonly Extra[] => {
  const value = fields.number('best_of', { least: 1, most: 20, whole: true })
  return value === undefined || value === 1 ? [] : [{ at: 'best_of', name: 'best_of', value, essential: false }]
}

/** The published most is 5; chat has up to 20 and nobody is served by less. */
const LOGPROBS = { least: 0, most: 20, whole: true }

const readSettings = (fields: RequestFields, problems: Problems): GenerationSettings => {
  const logprobs = fields.number('logprobs', LOGPROBS)
  const wishes = {
    // Without it OpenAI stops after 16 tokens. That is what a model may think before its first word; it stays the upstream's.
    maxOutputTokens: put('max_tokens', readLimit(fields, problems)),
    temperature: put('temperature', fields.number('temperature')),
    topP: put('top_p', fields.number('top_p')),
    topK: put('top_k', fields.number('top_k', { whole: true })),
    stop: put('stop', readStop(fields)),
    seed: put('seed', readSeed(fields)),
    presencePenalty: put('presence_penalty', fields.number('presence_penalty') || undefined),
    frequencyPenalty: put('frequency_penalty', fields.number('frequency_penalty') || undefined),
    logitBias: put('logit_bias', unlessEmpty(fields.object('logit_bias'))),
    logprobs: put('logprobs', logprobs === undefined ? undefined : true),
    topLogprobs: put('logprobs', logprobs || undefined),
    user: put('user', fields.string('user')),
  }
  // Only absent members are left out, so what remains has the types of Settings without undefined.
  return Object.fromEntries(Object.entries(wishes).filter(([, wish]) => wish !== undefined)) as GenerationSettings
}

const put = <T>(at: string, value: T | undefined): Setting<T> | undefined =>
  value === undefined ? undefined : { value, at }

const unlessEmpty = (value: JsonObject | undefined): JsonObject | undefined =>
  value && Object.keys(value).length > 0 ? value : undefined

/** Nothing at all (0) was a way to have only the prompt weighed. */
const readLimit = (fields: RequestFields, problems: Problems): number | undefined => {
  const limit = fields.number('max_tokens', { least: 0, whole: true })
  if (limit !== 0) return limit
  refuse(
    problems,
    'max_tokens',
    'A chat model cannot be asked for no token at all. Ask for at least one, or leave it out.',
  )
  return undefined
}

const readStop = (fields: RequestFields): readonly string[] | undefined => {
  const stop = fields.any('stop')
  const words = isList(stop) ? stop : stop === undefined ? [] : [stop]
  const texts = words.filter((word) => typeof word === 'string')
  if (texts.length < words.length) fields.invalid('stop', 'a string or a list of strings')
  return texts.length > 0 ? texts : undefined
}

/** An integer of 64 bits: larger ones than a double holds are kept as they were written. */
const readSeed = (fields: RequestFields): Json | undefined => {
  const seed = fields.any('seed')
  if (seed === undefined || Number.isInteger(seed) || sourceOf(seed) !== undefined) return seed
  fields.invalid('seed', 'a whole number')
  return undefined
}
