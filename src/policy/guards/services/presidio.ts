/** Presidio's analyzer (microsoft.github.io/presidio/api-docs): its offsets count code points, as Python does. */
import { isList, isObject, type JsonObject } from '../../../core/json.ts'
import {
  type AskedTexts,
  batches,
  type FoundPart,
  joined,
  maskedParts,
  type ServiceCall,
  type ServiceReading,
} from './service-call.ts'

export type PresidioSettings = {
  readonly language: string
  /** Null: all that the analyzer knows. */
  readonly entities: readonly string[] | null
  /** Null: that of the analyzer. */
  readonly scoreThreshold: number | null
}

/** An answer to one batch is read up to 256 KiB: about 2,000 entities. */
const BATCH = { count: 100, characters: 64_000 }

/** One text is sent as a string, several as a list, which has a list for each (`BATCH_SIZE` of `presidio-analyzer/app.py`). */
export const presidioCalls = (
  { language, entities, scoreThreshold }: PresidioSettings,
  { texts }: AskedTexts,
): readonly ServiceCall[] => {
  const all = texts.map((one, i) => ({ i, text: one.text }))
  return batches(all, BATCH).map((batch) => {
    const own = batch.flatMap((at) => all[at] ?? [])
    const [first] = own
    const body: JsonObject = {
      text: own.length === 1 && first ? first.text : own.map((one) => one.text),
      language,
      ...(entities !== null && { entities }),
      ...(scoreThreshold !== null && { score_threshold: scoreThreshold }),
    }
    return { path: '/analyze', body, read: (answer) => read(own.length === 1 ? [answer] : answer, own) }
  })
}

type OwnText = { readonly i: number; readonly text: string }

const read = (answer: unknown, own: readonly OwnText[]): ServiceReading => {
  if (!Array.isArray(answer)) return { wrong: 'the answer is not a list' }
  if (answer.length !== own.length) return { wrong: `${answer.length} lists in the answer to ${own.length} texts` }
  return joined(own.map((one, at) => readOne(answer[at], one)))
}

const readOne = (results: unknown, { i, text }: OwnText): ServiceReading => {
  if (!isList(results)) return { wrong: 'the results of a text are not a list' }
  const offsets = unitOffsets(text)
  const spans: FoundPart[] = []
  for (const result of results) {
    if (!isObject(result) || typeof result.entity_type !== 'string') return { wrong: 'a result has no entity_type' }
    const [start, end] = [offsets(result.start), offsets(result.end)]
    if (start === undefined || end === undefined || start >= end) return { wrong: 'a result is not within its text' }
    spans.push({ i, start, end, label: result.entity_type })
  }
  return maskedParts(spans)
}

/** The offsets in UTF-16 units of offsets in code points. */
const unitOffsets = (text: string): ((points: unknown) => number | undefined) => {
  const isPlain = !/[\ud800-\udbff]/.test(text)
  const offsets: number[] = []
  if (!isPlain) {
    let at = 0
    for (const point of text) {
      offsets.push(at)
      at += point.length
    }
    offsets.push(at)
  }
  const length = isPlain ? text.length : offsets.length - 1
  return (points) => {
    if (typeof points !== 'number' || !Number.isSafeInteger(points) || points < 0 || points > length) return undefined
    return isPlain ? points : offsets[points]
  }
}
