/** OpenAI's moderation endpoint (platform.openai.com/docs/api-reference/moderations), which other servers offer too. */
import { isList, isObject, type JsonObject } from '../../../core/json.ts'
import {
  ALLOWED,
  type AskedTexts,
  batches,
  found,
  joined,
  type ServiceCall,
  type ServiceReading,
} from './service-call.ts'

/** `thresholds`: scores from which categories count, in place of the decision of the service. */
export type ModerationSettings = {
  readonly model: string
  readonly thresholds: { readonly [category: string]: number }
}

const BATCH = { count: 32, characters: 100_000 }

export const moderationCalls = (settings: ModerationSettings, { texts }: AskedTexts): readonly ServiceCall[] =>
  batches(texts, BATCH).map((batch) => ({
    path: '/moderations',
    body: { model: settings.model, input: batch.map((i) => texts[i]?.text ?? '') },
    read: (answer) => read(answer, batch.length, settings),
  }))

const read = (answer: unknown, count: number, { thresholds }: ModerationSettings): ServiceReading => {
  if (!isObject(answer) || !isList(answer.results)) return { wrong: 'the answer has no results' }
  const { results } = answer
  if (results.length !== count) return { wrong: `${results.length} results in the answer to ${count} texts` }
  return joined(results.map((result) => verdictOf(result, thresholds)))
}

const verdictOf = (result: unknown, thresholds: ModerationSettings['thresholds']): ServiceReading => {
  if (!isObject(result)) return { wrong: 'a result is not an object' }
  const { flagged, categories, category_scores: scores } = result
  if (typeof flagged !== 'boolean' || !isObject(categories)) return { wrong: 'a result lacks flagged or categories' }
  const hits: string[] = []
  for (const [category, decided] of Object.entries(categories)) {
    if (Object.hasOwn(thresholds, category)) continue
    if (decided === true) hits.push(category)
  }
  for (const [category, threshold] of Object.entries(thresholds)) {
    const score = scoreOf(scores, category)
    if (score === null) return { wrong: 'a result lacks the score of a category in thresholds' }
    if (score >= threshold) hits.push(category)
  }
  if (hits.length > 0) return found('block', hits)
  // Flagged for what no category states.
  return flagged && !Object.values(categories).includes(true) ? found('block', []) : ALLOWED
}

const scoreOf = (scores: JsonObject[string], category: string): number | null => {
  const score = isObject(scores) && Object.hasOwn(scores, category) ? scores[category] : null
  return typeof score === 'number' && Number.isFinite(score) ? score : null
}
