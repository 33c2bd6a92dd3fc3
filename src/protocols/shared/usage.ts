import type { Usage } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'

/** Token counts of an answer; undefined: not reported. */
type TokenCounts = { readonly [count in Exclude<keyof Usage, 'raw'>]: number | undefined }

/** Token counts as usage, without those not reported. Undefined if neither input nor output was reported. */
export const usageOf = (
  { input, output, cacheRead, cacheWrite, reasoning }: Partial<TokenCounts>,
  raw: JsonObject,
): Usage | undefined => {
  if (input === undefined && output === undefined) return undefined
  return {
    input: input ?? 0,
    output: output ?? 0,
    ...(cacheRead !== undefined && { cacheRead }),
    ...(cacheWrite !== undefined && { cacheWrite }),
    ...(reasoning !== undefined && { reasoning }),
    raw,
  }
}
