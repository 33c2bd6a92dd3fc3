/** Fits the texts and lists of a request body into the limits of a provider (`core/accepts.ts`). */
import type { ListLimit, MemberLimits, TextLimit } from '../../core/accepts.ts'
import { isList, isObject, type Json, type JsonObject, list } from '../../core/json.ts'
import { mapMember } from '../../core/json-edit.ts'
import { memoizeBy } from '../../core/memoize-by.ts'
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

/** The limits of a translated body. Returns the same object each time. */
export const translatedLimits = (limits: MemberLimits | undefined): MemberLimits => {
  return limits ? translated(limits) : TRANSLATED
}
const translated = memoizeBy((limits: MemberLimits): MemberLimits => ({ ...TRANSLATED, ...limits }))

/** A limit with the steps to its members: a list is a step of its own, `each`. */
type Rule = { readonly steps: readonly PathStep[]; readonly limit: TextLimit | ListLimit }
type PathStep = { readonly member: string; readonly each: boolean }

const rulesOf = memoizeBy((limits: MemberLimits): readonly Rule[] =>
  Object.entries(limits).map(([path, limit]) => ({
    limit,
    steps: path.split('.').map((segment) => {
      const each = segment.endsWith('[]')
      return { member: each ? segment.slice(0, -2) : segment, each }
    }),
  })),
)

/** The body within the limits. Reports the path of each changed member. Returns the same object if nothing changes. */
export const withinLimits = (
  body: JsonObject,
  limits: MemberLimits | undefined,
  changed: (path: string) => void,
): JsonObject => {
  if (!limits) return body
  let fitted = body
  for (const rule of rulesOf(limits))
    if (!isWithin(fitted, rule, 0)) fitted = fitMember(fitted, '', { ...rule, changed }, 0)
  return fitted
}

/** Whether every member of the rule is within its limit. Allocates nothing: most bodies are. */
const isWithin = (of: JsonObject, rule: Rule, depth: number): boolean => {
  const step = rule.steps[depth]
  const value = step && of[step.member]
  if (step === undefined || value === undefined || value === null) return true
  if (step.each) {
    for (const entry of list(value)) if (isObject(entry) && !isWithin(entry, rule, depth + 1)) return false
    return true
  }
  if (depth + 1 === rule.steps.length) return fitValue(value, rule.limit) === value
  return !isObject(value) || isWithin(value, rule, depth + 1)
}

type Fit = Rule & { readonly changed: (path: string) => void }

const fitMember = (of: JsonObject, at: string, fit: Fit, depth: number): JsonObject => {
  const step = fit.steps[depth]
  const value = step && of[step.member]
  if (step === undefined || value === undefined || value === null) return of
  const path = at + step.member
  if (step.each)
    return mapMember(of, step.member, (entry, index) =>
      isObject(entry) ? fitMember(entry, `${path}[${index}].`, fit, depth + 1) : entry,
    )
  if (depth + 1 < fit.steps.length) {
    const inner = isObject(value) ? fitMember(value, `${path}.`, fit, depth + 1) : value
    return inner === value ? of : { ...of, [step.member]: inner }
  }
  const fitted = fitValue(value, fit.limit)
  if (fitted === value) return of
  fit.changed(path)
  return { ...of, [step.member]: fitted }
}

const fitValue = (value: Json, limit: TextLimit | ListLimit): Json => {
  if ('maxItems' in limit)
    return isList(value) && value.length > limit.maxItems ? value.slice(0, limit.maxItems) : value
  return typeof value === 'string' ? fitText(value, limit) : value
}

/** The kind of an identifier, which some vendors check: `call_`, `rs_`. */
const PREFIX = /^[a-z]{2,6}_/

/** The text, or a digest of it. It depends on the text only, so that a call and its result still match. */
const fitText = (text: string, { maxLength, minLength = 0, pattern }: TextLimit): string => {
  const isValid = text.length <= maxLength && text.length >= minLength && (pattern?.test(text) ?? true)
  return isValid ? text : ((PREFIX.exec(text)?.[0] ?? '') + digest(text)).slice(0, maxLength)
}
