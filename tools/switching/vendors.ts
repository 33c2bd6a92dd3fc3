/** Six vendors as the rules of their prompt caches say, with the prices of the catalogue. What is not documented is assumed here. */

import { CATALOGUE_FILE, openCatalogue } from '../../src/config/catalogue/catalogue.ts'
import type { PriceOverride } from '../../src/core/accounts.ts'
import { type PromptCache, promptCacheOf } from '../../src/core/prompt-cache.ts'
import type { Provider } from '../../src/core/provider.ts'
import anthropic from '../../src/providers/anthropic.ts'
import bedrock from '../../src/providers/bedrock.ts'
import deepseek from '../../src/providers/deepseek.ts'
import gemini from '../../src/providers/gemini.ts'
import openai from '../../src/providers/openai.ts'
import xai from '../../src/providers/xai.ts'

export type Vendor = {
  readonly name: string
  readonly rules: PromptCache
  readonly prices: PriceOverride
  /** Marks ask for an hour. */
  readonly isHour: boolean
  /** ms for a token that is not cached. */
  readonly prefill: number
  /** How long a prompt is really kept after its use, in ms. */
  readonly life: (random: () => number) => number
}

const MINUTE = 60_000

const catalogue = openCatalogue((problem) => {
  throw new Error(problem)
}, CATALOGUE_FILE)

type Row = { readonly provider: Provider; readonly model: string; readonly listed?: string; readonly isHour?: true }

const vendor = ({ provider, model, listed, isHour }: Row, life: Vendor['life']): Vendor => {
  const rules = promptCacheOf(provider, model)
  const prices = catalogue(listed ?? provider.name, model)?.prices
  if (!rules || !prices) throw new Error(`${provider.name}/${model} has no rules or no prices`)
  return { name: `${provider.name}${isHour ? ' 1h' : ''}`, rules, prices, isHour: isHour === true, prefill: 0.12, life }
}

const exact = (ms: number) => () => ms
const between = (from: number, to: number) => (random: () => number) => from + random() * (to - from)
const exponential = (mean: number) => (random: () => number) => -mean * Math.log(1 - random())

/** The lives of the last three are assumed: Gemini and xAI state none, DeepSeek some hours. */
export const VENDORS: readonly Vendor[] = [
  vendor({ provider: anthropic, model: 'claude-sonnet-5' }, exact(5 * MINUTE)),
  vendor({ provider: anthropic, model: 'claude-sonnet-5', isHour: true }, exact(60 * MINUTE)),
  vendor({ provider: bedrock, model: 'claude-sonnet-5', listed: 'anthropic' }, exact(5 * MINUTE)),
  vendor({ provider: openai, model: 'gpt-5.6-terra' }, between(30 * MINUTE, 60 * MINUTE)),
  vendor({ provider: gemini, model: 'gemini-3.1-pro-preview' }, exponential(12 * MINUTE)),
  vendor({ provider: deepseek, model: 'deepseek-v4-pro' }, between(120 * MINUTE, 360 * MINUTE)),
  vendor({ provider: xai, model: 'grok-4.7' }, exponential(20 * MINUTE)),
]
