/** Decodes settings of client requests. */
import type { GenerationSettings, Setting, SettingName } from '../../core/chat.ts'
import { isList, type Json, type JsonObject, sourceOf } from '../../core/json.ts'
import type { RequestFields } from './request-fields.ts'

/** A setting with its path in the request; undefined without a value. */
export const settingAt = <T>(at: string, value: T | undefined): Setting<T> | undefined =>
  value === undefined ? undefined : { value, at }

/** Settings of which some may be absent. */
type PossibleSettings = { readonly [name in SettingName]?: GenerationSettings[name] | undefined }

/** Removes absent settings. */
export const presentSettings = (all: PossibleSettings): GenerationSettings => {
  const settings: { [name: string]: unknown } = {}
  for (const name in all) if (all[name as SettingName] !== undefined) settings[name] = all[name as SettingName]
  // Only absent members are removed, so the rest has the types of GenerationSettings.
  return settings as GenerationSettings
}

/** Settings with the same members in chat completions and legacy completions. */
export const decodeSampling = (fields: RequestFields): PossibleSettings => ({
  temperature: settingAt('temperature', fields.number('temperature')),
  topP: settingAt('top_p', fields.number('top_p')),
  topK: settingAt('top_k', fields.number('top_k', { whole: true })),
  stop: settingAt('stop', decodeStop(fields)),
  seed: settingAt('seed', decodeSeed(fields)),
  // Default values are omitted; they would only be reported as lost.
  presencePenalty: settingAt('presence_penalty', fields.number('presence_penalty') || undefined),
  frequencyPenalty: settingAt('frequency_penalty', fields.number('frequency_penalty') || undefined),
  logitBias: settingAt('logit_bias', unlessEmpty(fields.object('logit_bias'))),
})

/** An object with members; undefined for an empty one. */
export const unlessEmpty = (value: JsonObject | undefined): JsonObject | undefined =>
  value && Object.keys(value).length > 0 ? value : undefined

const decodeStop = (fields: RequestFields): readonly string[] | undefined => {
  const stop = fields.any('stop')
  const sequences = isList(stop) ? stop : stop === undefined ? [] : [stop]
  const texts = sequences.filter((sequence) => typeof sequence === 'string')
  if (texts.length < sequences.length) fields.invalid('stop', 'a string or a list of strings')
  return texts.length > 0 ? texts : undefined
}

/** A 64-bit integer; values beyond a double's precision keep their source text. */
const decodeSeed = (fields: RequestFields): Json | undefined => {
  const seed = fields.any('seed')
  if (seed === undefined || Number.isInteger(seed) || sourceOf(seed) !== undefined) return seed
  fields.invalid('seed', 'a whole number')
  return undefined
}
