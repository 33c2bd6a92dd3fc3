/** Fits the texts and lists of a request body into the limits of a provider (`core/accepts.ts`). */
import type { Limits, ListLimit, TextLimit } from '../../core/accepts.ts'
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'
import { mapMember } from '../../core/json-edit.ts'
import { digest } from './call-ids.ts'

/**
 * Limits in translated bodies where the provider states none. Other formats allow longer identifiers: Claude Code's
 * `metadata.user_id` has 150 characters and more (maximhq/bifrost#1000). Compatible servers and relays may have OpenAI's limits.
 */
const TRANSLATED: { readonly [member: string]: TextLimit } = {
  user: { maxLength: 64 },
  safety_identifier: { maxLength: 64 },
  prompt_cache_key: { maxLength: 64 },
}

/** The limits of a translated body. */
export const translatedLimits = (limits: Limits | undefined): Limits =>
  limits ? { ...TRANSLATED, ...limits } : TRANSLATED

/** The body within the limits. Reports the path of each changed member. Returns the same object if nothing changes. */
export const withinLimits = (
  body: JsonObject,
  limits: Limits | undefined,
  changed: (path: string) => void,
): JsonObject => {
  let fitted = body
  for (const path in limits) {
    const limit = limits[path]
    if (limit) fitted = fitMember(fitted, path.split('.'), '', { limit, changed })
  }
  return fitted
}

type Fit = { readonly limit: TextLimit | ListLimit; readonly changed: (path: string) => void }

const fitMember = (of: JsonObject, [segment = '', ...rest]: readonly string[], at: string, fit: Fit): JsonObject => {
  const isEach = segment.endsWith('[]')
  const member = isEach ? segment.slice(0, -2) : segment
  const value = of[member]
  if (value === undefined || value === null) return of
  if (isEach)
    return mapMember(of, member, (entry, index) =>
      isObject(entry) ? fitMember(entry, rest, `${at}${member}[${index}].`, fit) : entry,
    )
  const fitted: Json =
    rest.length === 0
      ? fitValue(value, at + member, fit)
      : isObject(value)
        ? fitMember(value, rest, `${at}${member}.`, fit)
        : value
  return fitted === value ? of : { ...of, [member]: fitted }
}

const fitValue = (value: Json, at: string, { limit, changed }: Fit): Json => {
  const fitted =
    'maxItems' in limit
      ? isList(value) && value.length > limit.maxItems
        ? value.slice(0, limit.maxItems)
        : value
      : typeof value === 'string'
        ? fitText(value, limit)
        : value
  if (fitted !== value) changed(at)
  return fitted
}

/** The kind of an identifier, which some vendors check: `call_`, `rs_`. */
const PREFIX = /^[a-z]{2,6}_/

/** The text, or a digest of it. It depends on the text only, so that a call and its result still match. */
const fitText = (text: string, { maxLength, minLength = 0, pattern }: TextLimit): string => {
  const isValid = text.length <= maxLength && text.length >= minLength && (pattern?.test(text) ?? true)
  return isValid ? text : ((PREFIX.exec(text)?.[0] ?? '') + digest(text)).slice(0, maxLength)
}
