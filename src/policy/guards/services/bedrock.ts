/**
 * Amazon Bedrock's ApplyGuardrail (docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ApplyGuardrail.html). The caller
 * signs the request.
 */
import { isObject, type JsonObject, list, object, text } from '../../../core/json.ts'
import {
  ALLOWED,
  type AskedTexts,
  batches,
  type FoundPart,
  found,
  maskedParts,
  type ServiceCall,
  type ServiceReading,
} from './service-call.ts'

export type BedrockSettings = { readonly guardrail: string; readonly version: string }

/** The default quota: 25 units of text, of 1,000 characters, in one call. */
const BATCH = { count: 100, characters: 25_000 }

/** A piece of the text with index `i`, which begins at `from`. */
type Piece = { readonly i: number; readonly from: number; readonly text: string }

/** Each text is a block of its own, so that `outputs` has one for each. Longer texts are divided. */
export const bedrockCalls = (
  { guardrail, version }: BedrockSettings,
  { phase, texts }: AskedTexts,
): readonly ServiceCall[] => {
  const all = texts.flatMap((one, i) => piecesOf(one.text, i))
  return batches(all, BATCH).map((batch) => {
    const pieces = batch.flatMap((at) => all[at] ?? [])
    const body: JsonObject = {
      source: phase === 'request' ? 'INPUT' : 'OUTPUT',
      content: pieces.map(({ text }) => ({ text: { text } })),
    }
    const path = `/guardrail/${encodeURIComponent(guardrail)}/version/${encodeURIComponent(version)}/apply`
    return { path, body, read: (answer) => read(answer, pieces) }
  })
}

const piecesOf = (whole: string, i: number): readonly Piece[] => {
  const pieces: Piece[] = []
  for (let from = 0; from < whole.length; ) {
    const end = whole.length - from <= BATCH.characters ? whole.length : cutIn(whole, from, from + BATCH.characters)
    pieces.push({ i, from, text: whole.slice(from, end) })
    from = end
  }
  return pieces
}

/** After a line break, else after a space: what a guardrail looks for is seldom on two lines. */
const cutIn = (whole: string, from: number, most: number): number => {
  for (const separator of ['\n', ' ']) {
    const cut = whole.lastIndexOf(separator, most - 1) + 1
    if (cut > from) return cut
  }
  // Not within a surrogate pair.
  return /[\ud800-\udbff]/.test(whole[most - 1] ?? '') ? most - 1 : most
}

const read = (answer: unknown, pieces: readonly Piece[]): ServiceReading => {
  if (!isObject(answer)) return { wrong: 'the answer is not an object' }
  const { action, assessments, outputs } = answer
  if (action === 'NONE') return ALLOWED
  if (action !== 'GUARDRAIL_INTERVENED') return { wrong: 'action is neither NONE nor GUARDRAIL_INTERVENED' }
  const all = assessedIn(assessments)
  const masked = all.filter((one) => one.action === 'ANONYMIZED')
  const acting = all.filter((one) => one.action === 'ANONYMIZED' || one.action === 'BLOCKED')
  // An intervention that is not known to mask is a refusal: `outputs` is then a message of the guardrail.
  if (masked.length === 0 || masked.length < acting.length)
    return found(
      'block',
      acting.map(({ name }) => name),
    )
  const texts = list(outputs).map((output) => (isObject(output) ? output.text : undefined))
  if (texts.length !== pieces.length)
    return { wrong: `${texts.length} outputs in the answer to ${pieces.length} texts` }
  const spans: FoundPart[] = []
  for (const [at, piece] of pieces.entries()) {
    const output = texts[at]
    if (typeof output !== 'string') return { wrong: 'an output has no text' }
    if (output !== piece.text) spans.push(...partsOf(piece, output, masked))
  }
  return spans.length === 0 ? { wrong: 'no output differs from its text' } : maskedParts(spans)
}

/** What a policy of the guardrail found. `match`: the text. */
type Assessed = { readonly action: string; readonly name: string; readonly match: string | null }

/** `assessments[].{topic,content,word,…}Policy.{topics,filters,…}[]`: all have an action, also those of later policies. */
const assessedIn = (assessments: unknown): readonly Assessed[] =>
  list(assessments)
    .flatMap((one) => Object.values(object(one) ?? {}))
    .flatMap((policy) => Object.values(object(policy) ?? {}))
    .flatMap((items) => list(items))
    .flatMap((item) => {
      if (!isObject(item) || typeof item.action !== 'string') return []
      return {
        action: item.action,
        name: text(item.name) ?? text(item.type) ?? 'word',
        match: text(item.match) ?? null,
      }
    })

/**
 * The masks of a text. If the matches explain the whole output, they are masks of this gateway, which answers have restored;
 * otherwise the output replaces the text.
 */
const partsOf = (
  { i, from, text: whole }: Piece,
  output: string,
  masked: readonly Assessed[],
): readonly FoundPart[] => {
  const entities = masked.flatMap(({ match, name }) => (match ? { match, name, tag: `{${name}}` } : []))
  const spans: FoundPart[] = []
  let [at, written] = [0, 0]
  while (at < whole.length) {
    const entity = entities.find(({ match, tag }) => whole.startsWith(match, at) && output.startsWith(tag, written))
    if (entity) {
      const end = at + entity.match.length
      spans.push({ i, start: from + at, end: from + end, label: entity.name })
      at = end
      written += entity.tag.length
    } else if (whole[at] === output[written]) {
      at++
      written++
    } else break
  }
  const isExplained = at === whole.length && written === output.length
  return isExplained ? spans : [{ i, start: from, end: from + whole.length, label: '', replacement: output }]
}
