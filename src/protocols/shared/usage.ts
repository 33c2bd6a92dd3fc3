import type { Usage } from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { isObject, list, text } from '../../core/json.ts'
import { tokenCount } from './numbers.ts'

/** What an answer used; undefined: not reported. */
type ReportedUsage = { readonly [member in Exclude<keyof Usage, 'raw'>]?: Usage[member] | undefined }

/** Longest name of a service tier. */
const MAX_TIER = 40

/**
 * Usage without the members that were not reported. Parts that most answers do not have are left out if they are 0. Undefined
 * if neither input nor output was reported.
 */
export const usageOf = (reported: ReportedUsage, raw: JsonObject): Usage | undefined => {
  const { input, output, cacheRead, cacheWrite, cacheWrite1h, reasoning } = reported
  const { audioInput, imageInput, audioOutput, toolCalls, reportedCost } = reported
  if (input === undefined && output === undefined) return undefined
  const serviceTier = reported.serviceTier?.toLowerCase()
  return {
    input: input ?? 0,
    output: output ?? 0,
    ...(cacheRead !== undefined && { cacheRead }),
    ...(cacheWrite !== undefined && { cacheWrite }),
    ...(cacheWrite1h && { cacheWrite1h }),
    ...(reasoning !== undefined && { reasoning }),
    ...(audioInput && { audioInput }),
    ...(imageInput && { imageInput }),
    ...(audioOutput && { audioOutput }),
    ...(toolCalls && { toolCalls }),
    ...(serviceTier && serviceTier.length <= MAX_TIER && { serviceTier }),
    ...(reportedCost !== undefined && { reportedCost }),
    raw,
  }
}

/** Calls of tools by name, without those that were not called. Undefined: none. */
export const toolCallsOf = (calls: { readonly [name: string]: Json | undefined }): Usage['toolCalls'] => {
  const made = Object.entries(calls).flatMap(([name, value]) => {
    const count = tokenCount(value)
    return count ? [[name, count] as const] : []
  })
  return made.length === 0 ? undefined : Object.fromEntries(made)
}

/** xAI's own cost, in ticks of 0.1 nano-dollars. Grok on Azure reports 0 ticks for every answer, so 0 is unknown. */
export const costOfTicks = (ticks: Json | undefined): number | undefined =>
  typeof ticks === 'number' && ticks > 0 ? ticks / 10 : undefined

/** The tokens of one modality in Gemini's `[{modality, tokenCount}]`. */
export const tokensOfModality = (details: Json | undefined, modality: string): number =>
  list(details)
    .filter(isObject)
    .filter((detail) => text(detail.modality) === modality)
    .reduce((sum, detail) => sum + (tokenCount(detail.tokenCount) ?? 0), 0)
