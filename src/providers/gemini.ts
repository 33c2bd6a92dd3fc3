import { isObject, type Json, list, object, text } from '../core/json.ts'
import type { Provider } from '../core/provider.ts'
import { errorIn, meant, TOO_LONG } from './quirks/failures.ts'
import { chatIds } from './quirks/model-list.ts'
import { olderChat } from './quirks/request.ts'

/** The address ends in the version; people also write the compatible endpoint's own, one segment longer. */
const versionOnly = (url: string): string => url.replace(/\/+$/, '').replace(/\/openai$/, '')

/** A model's name without the `models/` its list and many people write in front of it. */
const bareName = (name: string): string => name.replace(/^models\//, '')

/** Its list says what each model can be asked for; names tell which of those write text. */
const writingModels = (body: Json): readonly string[] => {
  const writing = list(object(body)?.models).flatMap((entry) => {
    const name = text(object(entry)?.name)
    return name && list(object(entry)?.supportedGenerationMethods).includes('generateContent') ? [{ id: name }] : []
  })
  return chatIds({ data: writing }).map(bareName)
}

/** People write `models/gemini-…` where the path says `models/` already. */
const onceModels = (path: string): string => path.replace('/models/models%2F', '/models/')

/**
 * Errors are google.rpc's, on the compatible endpoint inside an array (errors.reported gemini-chat-400-7). A bad key is a 400
 * (recording gemini-gemini-chat-error-handling-with-gemini-gemini-2-5-flash-f0deb6d7), and so are a country without
 * service and an account without billing (`FAILED_PRECONDITION`): none of them is the request's fault.
 */
const googleErrors = (status: number, body: Json | undefined) => {
  const error = errorIn(body)
  if (status !== 400 || !error) return undefined
  const reasons = list(error.details).flatMap((detail) => (isObject(detail) ? [text(detail.reason)] : []))
  const words = text(error.message) ?? ''
  if (
    reasons.includes('API_KEY_INVALID') ||
    reasons.includes('API_KEY_EXPIRED') ||
    words.startsWith('API key not valid')
  )
    return meant('auth', "Google did not accept the gateway's key.", status, error)
  if (error.status === 'FAILED_PRECONDITION')
    return meant('permission', "The gateway's key may not use this API from here.", status, error)
  // Recording vertex-gemini-chat-real-error-scenarios-vertexai-gemini-2-5-fl-a4fc5d9c.
  if (/input token count .{0,40}exceeds the maximum number of tokens/i.test(words))
    return meant('context_length', TOO_LONG, status, error)
  return undefined
}

export default {
  name: 'gemini',
  aliases: ['google'],
  title: 'Google Gemini',
  order: 30,
  baseUrl: 'https://generativelanguage.googleapis.com/v1beta',
  normalizeBaseUrl: versionOnly,
  speaks: [{ protocol: 'gemini' }],
  alsoSpeaks: [
    {
      protocol: 'openai-chat',
      path: '/openai/chat/completions',
      auth: { header: 'authorization', prefix: 'Bearer ' },
    },
  ],
  auth: { header: 'x-goog-api-key' },
  defaultModel: 'gemini-2.5-flash',
  models: { path: '/models?pageSize=1000', decode: writingModels },
  quirks: { requestBody: olderChat, path: onceModels, failure: googleErrors },
  note: 'Spoken to in its own format; `GEMINI_STYLES=chat` uses its OpenAI-compatible endpoint. The base URL ends in the version (`…/v1beta`).',
} satisfies Provider
