/** Costs of recorded answers: against the cost that the upstream reported, and against the counts of each vendor's usage. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { calcPrice, extractUsage, findProvider, type PriceCalculation } from '@pydantic/genai-prices'
import {
  allRecordings,
  type Recording,
  recordingsPresent,
  requireRecordings,
  skipWithoutRecordings,
} from '../../../test/support/recordings.ts'
import { CATALOGUE_FILE, openCatalogue } from '../../config/catalogue/catalogue.ts'
import type { PriceList } from '../../core/accounts.ts'
import type { Usage } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import * as anthropic from '../../protocols/anthropic-messages/finish-and-usage.ts'
import * as gemini from '../../protocols/gemini/finish-and-usage.ts'
import * as chat from '../../protocols/shared/usage-members.ts'
import openrouter from '../../providers/openrouter.ts'
import { costOf, type PricedUsage } from './cost.ts'

requireRecordings()

/** The model and every usage object of an answer, in order. */
type RecordedUsage = { readonly recording: Recording; readonly model: string; readonly usages: readonly JsonObject[] }

const MEMBERS = ['usage', 'usageMetadata'] as const

/** The JSON of a whole answer, or of each event of a stream. */
const bodiesOf = ({ response, chunks }: Recording): readonly Json[] => {
  const lines = (chunks ?? []).flatMap((chunk) => chunk.split('\n')).filter((line) => line.startsWith('data: {'))
  return lines.length > 0 ? lines.map((line): Json => JSON.parse(line.slice('data: '.length))) : [response]
}

/** Reads the answer itself, and `response` or `message` of events that contain it. */
const usageOf = (recording: Recording): RecordedUsage => {
  const objects = bodiesOf(recording)
    .filter(isObject)
    .flatMap((body) => [body, object(body.response), object(body.message)])
  const usages = objects.flatMap((body) => MEMBERS.map((member) => body?.[member])).filter(isObject)
  const model = objects.map((body) => text(body?.model)).find((name) => name !== undefined)
  return { recording, model: model ?? '', usages }
}

const recorded = recordingsPresent
  ? allRecordings()
      .map(usageOf)
      .filter(({ usages }) => usages.length > 0)
  : []
const catalogue = openCatalogue((problem) => assert.fail(problem), CATALOGUE_FILE)

/** By the counts alone, without the upstream's own cost. */
const costWith = ({ reportedCost: _, ...usage }: PricedUsage, prices: PriceList): number | null =>
  costOf({ usage, catalogue: { prices, version: 'test' } }).nano

// ── Against the upstream's own cost ─────────────────────────────────────────────────────────────────────────────

/** The corrections of the providers that report a cost. */
const REPORTING: { readonly [provider: string]: (usage: Usage) => Usage } = {
  // Its usage shows hidden reasoning in the total alone, which every format adds.
  xai: (usage) => usage,
  openrouter: openrouter.quirks.usage,
}

/** xAI reports ticks of 0.1 nano-dollars (docs.x.ai/developers/cost-tracking), OpenRouter dollars. */
const reportedNano = (usage: JsonObject | undefined): number | undefined => {
  const ticks = number(usage?.cost_in_usd_ticks)
  const dollars = number(usage?.cost)
  return ticks !== undefined ? ticks / 10 : dollars === undefined ? undefined : dollars * 1e9
}

test('cost: most recorded answers of a known model cost what xAI and OpenRouter reported', {
  skip: skipWithoutRecordings,
}, (context) => {
  const results = recorded.flatMap(({ recording: { provider, api }, model, usages }) => {
    const raw = usages.at(-1)
    const reported = reportedNano(raw)
    const facts = catalogue(provider, model)
    const usage = api === 'chat' ? chat.decodeUsage(raw) : undefined
    const correct = REPORTING[provider]
    if (!correct || !reported || !facts?.prices || !usage) return []
    const own = costWith(correct(usage), facts.prices)
    assert.deepEqual(costOf({ usage: correct(usage) }), {
      nano: Math.round(reported),
      source: 'upstream',
      version: 'up',
    })
    return [own !== null && Math.abs(own - reported) <= 1]
  })
  const equal = results.filter(Boolean).length
  context.diagnostic(`${equal} of ${results.length} answers are equal`)
  // The others contain a web search, or were recorded at an earlier price.
  assert.ok(results.length >= 50, `${results.length} answers`)
  assert.ok(equal >= 0.75 * results.length, `${equal} of ${results.length} are equal`)
})

// ── Against each vendor's usage ─────────────────────────────────────────────────────────────────────────────────

/** Distinct prices, so that a token that is priced as another one changes the sum. */
const PRICES = { input: 1_009, output: 10_007, cacheRead: 101, cacheWrite: 1_303, cacheWrite1h: 2_003 } as const

const count = (value: Json | undefined): number => number(value) ?? 0

const claudePrice = (usage: JsonObject): number => {
  const hour = count(object(usage.cache_creation)?.ephemeral_1h_input_tokens)
  return (
    count(usage.input_tokens) * PRICES.input +
    count(usage.cache_read_input_tokens) * PRICES.cacheRead +
    (count(usage.cache_creation_input_tokens) - hour) * PRICES.cacheWrite +
    hour * PRICES.cacheWrite1h +
    count(usage.output_tokens) * PRICES.output
  )
}

/** One API: its usage as decoded by the gateway, and its price computed from the vendor's own members. */
const vendors: readonly (readonly [
  api: string,
  decode: (usages: readonly JsonObject[]) => PricedUsage | undefined,
  price: (usages: readonly JsonObject[]) => number,
])[] = [
  [
    'messages',
    (usages) => {
      const merged = usages.reduce(anthropic.mergeUsage)
      return anthropic.decodeUsage(merged)
    },
    (usages) => {
      const merged = usages.reduce(anthropic.mergeUsage)
      const beside = list(merged.iterations).flatMap((entry) => {
        const step = object(entry)
        return step?.type === 'compaction' || step?.type === 'advisor_message' ? [step] : []
      })
      return [merged, ...beside].map(claudePrice).reduce((sum, one) => sum + one, 0)
    },
  ],
  [
    'chat',
    (usages) => chat.decodeUsage(usages.at(-1)),
    (usages) => {
      const usage = usages.at(-1)
      const details = object(usage?.prompt_tokens_details)
      const cached = count(
        details?.cached_tokens ?? usage?.prompt_cache_hit_tokens ?? usage?.num_cached_tokens ?? usage?.cached_tokens,
      )
      const written = count(details?.cache_write_tokens)
      const prompt = count(usage?.prompt_tokens)
      const reasoning = count(object(usage?.completion_tokens_details)?.reasoning_tokens)
      const completion = count(usage?.completion_tokens)
      return (
        (cached + written > prompt ? prompt : prompt - cached - written) * PRICES.input +
        cached * PRICES.cacheRead +
        written * PRICES.cacheWrite +
        // Gemini's endpoint and xAI count hidden reasoning in the total alone.
        Math.max(reasoning > completion ? completion + reasoning : completion, count(usage?.total_tokens) - prompt) *
          PRICES.output
      )
    },
  ],
  [
    'gemini',
    (usages) => gemini.decodeUsage(usages.at(-1)),
    (usages) => {
      const usage = usages.at(-1)
      const cached = count(usage?.cachedContentTokenCount)
      const input = count(usage?.promptTokenCount) + count(usage?.toolUsePromptTokenCount)
      const output = count(usage?.candidatesTokenCount) + count(usage?.thoughtsTokenCount)
      return (input - cached) * PRICES.input + cached * PRICES.cacheRead + output * PRICES.output
    },
  ],
]
for (const [api, decode, price] of vendors)
  test(`cost: recorded answers of ${api} are priced token by token`, { skip: skipWithoutRecordings }, (context) => {
    let priced = 0
    for (const { recording, usages } of recorded) {
      if (recording.api !== api) continue
      const usage = decode(usages)
      if (!usage) continue
      assert.equal(costWith(usage, PRICES), price(usages), recording.id)
      priced++
    }
    context.diagnostic(`${priced} answers`)
    assert.ok(priced >= 100, `${priced} answers`)
  })

// ── Against genai-prices ────────────────────────────────────────────────────────────────────────────────────────

/** The names of our catalogue and of genai-prices, where they differ from those of the recordings. */
const OURS: { readonly [provider: string]: string } = {
  azure: 'azure-openai',
  vertex: 'gemini',
  moonshotai: 'moonshot',
}
const THEIRS: { readonly [provider: string]: string } = { gemini: 'google', vertex: 'google', xai: 'x-ai' }
const FLAVORS: { readonly [api: string]: string } = {
  messages: 'default',
  gemini: 'default',
  chat: 'chat',
  responses: 'responses',
}

const answerOf = (model: string, usage: JsonObject, api: string): JsonObject =>
  api === 'gemini' ? { usageMetadata: usage, modelVersion: model } : { usage, model }

/** Dollars by genai-prices' own reading of the answer. Undefined: it does not know the provider, the model or the usage. */
const theirPrice = (recording: Recording, model: string, usage: JsonObject): PriceCalculation | undefined => {
  const flavor = FLAVORS[recording.api]
  const provider = findProvider({ providerId: THEIRS[recording.provider] ?? recording.provider })
  if (flavor === undefined || !provider) return undefined
  try {
    const { usage: extracted } = extractUsage(provider, answerOf(model, usage, recording.api), flavor)
    return calcPrice(extracted, model, { providerId: provider.id, timestamp: RECORDED }) ?? undefined
  } catch {
    // Providers without rules for this API, and usage that contradicts itself.
    return undefined
  }
}
const RECORDED = new Date('2026-11-21')

const rate = (price: number | { readonly base: number } | undefined): number | undefined =>
  typeof price === 'object' ? price.base : price

/** Why a cost may differ. Undefined: it must be equal. */
const differsBecause = (
  { model_price: theirs }: PriceCalculation,
  ours: PriceList,
  { serviceTier, toolCalls, further, cacheRead = 0, audioInput = 0, audioOutput = 0, raw }: Usage,
): string | undefined => {
  if (further) return 'it prices neither compaction nor the advisor'
  if (rate(theirs.input_mtok) !== (ours.input ?? 0) / 1e3 || rate(theirs.output_mtok) !== (ours.output ?? 0) / 1e3)
    return 'the sources of the catalogue state different prices'
  if (serviceTier !== undefined && Object.hasOwn(ours.service ?? {}, serviceTier)) return 'it knows no service tiers'
  if (toolCalls && !ours.tools) return 'the catalogue has no price of a search with this model'
  if (cacheRead > 0 && audioInput > 0) return 'the catalogue has no price of cached audio'
  if (audioInput + audioOutput > 0 && theirs.input_audio_mtok === undefined) return 'it has no price of audio'
  if (cacheRead > 0 && number(raw?.cached_tokens) === cacheRead)
    return 'it does not know cached tokens at the top of the usage'
  return undefined
}

test('cost: recorded answers cost what genai-prices computes from them', { skip: skipWithoutRecordings }, (context) => {
  const results = new Map<string, number>()
  for (const { recording, model: named, usages } of recorded) {
    const { api, provider, response } = recording
    const decode = DECODERS[api]
    const raw = api === 'messages' ? usages.reduce(anthropic.mergeUsage) : usages.at(-1)
    const model = named || (text(object(response)?.modelVersion) ?? '')
    const prices = catalogue(OURS[provider] ?? provider, model)?.prices
    const usage = raw && decode?.(raw)
    const theirs = raw && theirPrice(recording, model, raw)
    if (!prices || !usage || !theirs) continue
    const nano = costWith(usage, prices)
    const isEqual = nano !== null && Math.abs(nano - theirs.total_price * 1e9) <= 1
    const why = isEqual ? 'equal' : differsBecause(theirs, prices, usage)
    assert.ok(why !== undefined, `${recording.id}: ${nano} and ${theirs.total_price * 1e9} nano-dollars`)
    results.set(why, (results.get(why) ?? 0) + 1)
  }
  for (const [why, answers] of results) context.diagnostic(`${answers} answers: ${why}`)
  const equal = results.get('equal') ?? 0
  assert.ok(equal >= 900, `${equal} answers are equal`)
})

const DECODERS: { readonly [api: string]: (usage: JsonObject) => Usage | undefined } = {
  messages: anthropic.decodeUsage,
  gemini: (usage) => gemini.decodeUsage(usage),
  chat: (usage) => chat.decodeUsage(usage),
  // The same counts by other names.
  responses: ({ input_tokens, output_tokens, input_tokens_details, output_tokens_details }) =>
    chat.decodeUsage({
      prompt_tokens: input_tokens ?? null,
      completion_tokens: output_tokens ?? null,
      prompt_tokens_details: input_tokens_details ?? null,
      completion_tokens_details: output_tokens_details ?? null,
    }),
}
