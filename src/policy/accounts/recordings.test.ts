/** Costs of recorded answers: against the cost that the upstream reported, and against the counts of each vendor's usage. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  allRecordings,
  type Recording,
  recordingsPresent,
  requireRecordings,
  skipWithoutRecordings,
} from '../../../test/support/recordings.ts'
import type { Usage } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, number, object, text } from '../../core/json.ts'
import { openCatalogue } from '../../edge/catalogue/catalogue.ts'
import * as anthropic from '../../protocols/anthropic-messages/finish-and-usage.ts'
import * as gemini from '../../protocols/gemini/finish-and-usage.ts'
import * as chat from '../../protocols/shared/openai-finish-and-usage.ts'
import { costOf, type PricedUsage, type PriceList } from './cost.ts'

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
const catalogue = openCatalogue((problem) => assert.fail(problem))

const costWith = (usage: PricedUsage, prices: PriceList): number | null =>
  costOf({ usage, catalogue: { prices, version: 'test' } }).nano

// ── Against the upstream's own cost ─────────────────────────────────────────────────────────────────────────────

/** xAI reports ticks of 0.1 nano-dollars (docs.x.ai/developers/cost-tracking), OpenRouter dollars. */
const reportedNano = (usage: JsonObject | undefined): number | undefined => {
  const ticks = number(usage?.cost_in_usd_ticks)
  const dollars = number(usage?.cost)
  return ticks !== undefined ? ticks / 10 : dollars === undefined ? undefined : dollars * 1e9
}

/** xAI counts reasoning beside the output on chat completions; see `reasoningBesideOutput` in the provider. */
const canonical = (usage: Usage): Usage => {
  const { input, output, reasoning = 0, raw } = usage
  return number(raw?.total_tokens) === input + output + reasoning ? { ...usage, output: output + reasoning } : usage
}

const REPORTING = ['xai', 'openrouter']

test('cost: most recorded answers of a known model cost what xAI and OpenRouter reported', {
  skip: skipWithoutRecordings,
}, (context) => {
  const results = recorded.flatMap(({ recording: { provider, api }, model, usages }) => {
    const raw = usages.at(-1)
    const reported = reportedNano(raw)
    const facts = catalogue(provider, model)
    const usage = api === 'chat' ? chat.decodeUsage(raw) : undefined
    if (!REPORTING.includes(provider) || !reported || !facts || !usage) return []
    const { inputPrice: input, outputPrice: output, cacheReadPrice: cacheRead, cacheWritePrice: cacheWrite } = facts
    const own = costWith(canonical(usage), { input, output, cacheRead, cacheWrite })
    assert.deepEqual(costOf({ usage, reported }), { nano: Math.round(reported), source: 'upstream', version: 'up' })
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
      const usage = anthropic.decodeUsage(merged)
      const cacheWrite1h = count(object(merged.cache_creation)?.ephemeral_1h_input_tokens)
      return usage && { ...usage, ...(cacheWrite1h > 0 && { cacheWrite1h }) }
    },
    (usages) => {
      const merged = usages.reduce(anthropic.mergeUsage)
      const written = object(merged.cache_creation)
      const hour = count(written?.ephemeral_1h_input_tokens)
      return (
        count(merged.input_tokens) * PRICES.input +
        count(merged.cache_read_input_tokens) * PRICES.cacheRead +
        (count(merged.cache_creation_input_tokens) - hour) * PRICES.cacheWrite +
        hour * PRICES.cacheWrite1h +
        count(merged.output_tokens) * PRICES.output
      )
    },
  ],
  [
    'chat',
    (usages) => chat.decodeUsage(usages.at(-1)),
    (usages) => {
      const usage = usages.at(-1)
      const details = object(usage?.prompt_tokens_details)
      const cached = count(details?.cached_tokens ?? usage?.prompt_cache_hit_tokens ?? usage?.num_cached_tokens)
      const written = count(details?.cache_write_tokens)
      const prompt = count(usage?.prompt_tokens)
      const reasoning = count(object(usage?.completion_tokens_details)?.reasoning_tokens)
      const completion = count(usage?.completion_tokens)
      return (
        (cached + written > prompt ? prompt : prompt - cached - written) * PRICES.input +
        cached * PRICES.cacheRead +
        written * PRICES.cacheWrite +
        (reasoning > completion ? completion + reasoning : completion) * PRICES.output
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
