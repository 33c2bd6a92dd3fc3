/** What a request of this format has besides its body: the model, the method, how a stream is written, how long the client waits. */

import { type Failure, fail } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { percentDecoded } from '../../core/percent-decoded.ts'

/** The model and the method of `/v1beta/models/gemini-2.5-pro:streamGenerateContent`. */
export type CalledMethod = { readonly model: string; readonly method: string }

const CALL = /\/models\/(.+):([A-Za-z]+)\/?$/s

/** Undefined for other paths, such as `/v1/route`: there the body names the model. */
export const calledMethod = (path: string | undefined): CalledMethod | undefined => {
  const [, model, method] = CALL.exec(path ?? '') ?? []
  return model === undefined || method === undefined
    ? undefined
    : { model: bareModel(percentDecoded(model) ?? model), method }
}

/** A model name without the prefix that Google's lists have. */
export const bareModel = (name: string): string => name.replace(/^models\//, '')

/** Whether a stream is one JSON list: Google's form without `alt=sse`. */
export const asksForList = (query: string): boolean => new URLSearchParams(query).get('alt') !== 'sse'

/** What a query asks for that is not served: a part of the answer, or another form of it. */
export const queryProblem = (query: string): Failure | undefined => {
  if (query === '') return undefined
  const parameters = new URLSearchParams(query)
  const alt = parameters.get('alt') ?? parameters.get('$alt') ?? 'json'
  if (alt !== 'json' && alt !== 'sse')
    return fail('unsupported', 'The query parameter `alt` is `sse` or `json` here.', { param: 'alt' })
  const mask = ['fields', '$fields'].find((name) => parameters.has(name))
  return mask === undefined
    ? undefined
    : fail('unsupported', 'Answers are always sent in full. Leave out the query parameter `fields`.', { param: mask })
}

/** ms after which the client gives up, which the SDKs state in seconds if a timeout is set. */
export const serverTimeout = (headers: HeaderLookup): number | undefined => {
  const seconds = Number(headers('x-server-timeout') ?? Number.NaN)
  return seconds > 0 && Number.isFinite(seconds) ? seconds * 1000 : undefined
}
