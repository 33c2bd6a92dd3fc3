/** The request of a relayed endpoint: what is read of it, and its body for each model. */
import type { EncodedText } from '../../core/encoded-text.ts'
import { bad, good, type Outcome } from '../../core/failure.ts'
import type { RequestBody } from '../../core/http-exchange.ts'
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'
import { rewrite } from '../../core/json-text.ts'
import type { RelayRow } from '../../core/relay.ts'
import type { TurnScheduler } from '../../core/steps.ts'
import { tokensOfBytes } from '../../policy/accounts/estimate.ts'
import type { ExtentLimits } from '../../policy/request-size.ts'
import { estimateText } from '../../policy/routing/estimate-tokens.ts'
import { type Problems, requestedModel, requestFields } from '../../protocols/shared/request-fields.ts'
import { readInTurns } from '../upstream/parse-request.ts'

/** A relayed request, parsed. */
export type RelayRequest = {
  readonly model: string
  /** The members of the request. */
  readonly body: JsonObject
  readonly contentType: string
  /** The text of the request. */
  readonly source: EncodedText
  /** Paths of members that were changed to be valid. */
  readonly mended: readonly string[]
  /** Estimated tokens. */
  readonly tokens: { readonly input: number; readonly output: number }
  /** The body with the name of the model at a provider. */
  readonly bodyFor: (model: string) => RequestBody
}

/** The name that stands for the default model. */
const DEFAULT_MODEL = 'auto'

/** Parses the request of an endpoint; a long one in turns of the event loop. */
export const parseRelay = async (
  row: RelayRow,
  source: EncodedText,
  limits: ExtentLimits,
  turn: TurnScheduler,
): Promise<Outcome<RelayRequest>> => {
  const read = await readInTurns(source, limits, turn)
  if (!read.ok) return read
  const { body, members: spans, mended = [] } = read.value
  const model = modelIn(row, body)
  if (!model.ok) return model
  const { text } = read.value.source
  return good({
    model: model.value,
    body,
    contentType: 'application/json',
    source: read.value.source,
    mended,
    tokens: tokensOf(row, body, tokensOfBytes(source.bytes?.length ?? text.length)),
    bodyFor: (name) =>
      rewrite(read.value.source, spans, body, body[row.model] === name ? body : { ...body, [row.model]: name }),
  })
}

const modelIn = (row: RelayRow, members: JsonObject): Outcome<string> => {
  const problems: Problems = {}
  const fields = requestFields(members, '', problems)
  const model = row.isModelOptional ? fields.string(row.model)?.trim() || DEFAULT_MODEL : requestedModel(fields)
  return problems.first ? bad(problems.first) : good(model)
}

/** Estimated tokens. `most`: of the input, where its text is not found: an unknown input is not free. */
const tokensOf = ({ texts, estimate }: RelayRow, members: JsonObject, most: number): RelayRequest['tokens'] => {
  const found = texts.flatMap((name) => textsIn(members[name]))
  const input = Math.ceil(found.reduce((sum, text) => sum + estimateText(text), 0)) || most
  return { input, output: Math.ceil(input * estimate.outputPerInput) }
}

/** The texts of a member: one, a list, or parts of which some are text. */
const textsIn = (value: Json | undefined): readonly string[] => {
  if (typeof value === 'string') return [value]
  if (isList(value)) return value.flatMap(textsIn)
  return isObject(value) ? textsIn(value.text) : []
}
