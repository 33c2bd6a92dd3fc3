/** The request of a relayed endpoint: what is read of it, and its body for each model. */
import type { EncodedText } from '../../core/encoded-text.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { type ByteChange, type FormPart, type ReceivedForm, type SpooledBody, withChanges } from '../../core/form.ts'
import type { BodyOf } from '../../core/http-exchange.ts'
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'
import { rewrite } from '../../core/json-text.ts'
import type { RelayRow } from '../../core/relay.ts'
import type { TurnScheduler } from '../../core/steps.ts'
import { withoutPolicyMembers } from '../../policy/accounts/data-policy.ts'
import { tokensOfBytes } from '../../policy/accounts/estimate.ts'
import type { ExtentLimits } from '../../policy/request-size.ts'
import { estimateText } from '../../policy/routing/estimate-tokens.ts'
import { formType } from '../../protocols/framing/form-data.ts'
import { type Problems, requestedModel, requestFields } from '../../protocols/shared/request-fields.ts'
import { changedTexts } from '../../protocols/shared/request-texts.ts'
import type { Eventual } from '../accounts/authority.ts'
import type { DemandedUnits } from '../accounts/demand.ts'
import { withTexts } from '../guards/check-request.ts'
import { readInTurns } from '../upstream/parse-request.ts'
import { requestUnits, resultsOf } from './relay-units.ts'

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
  /** What is billed where tokens are not. */
  readonly units: DemandedUnits | undefined
  /** The body with the name of the model at a provider. */
  readonly bodyFor: (model: string) => EncodedText | Uint8Array | SpooledBody
  /** The request with other texts, as guards replace them. */
  readonly withTexts: (replace: ReadonlyMap<string, string>) => Eventual<Outcome<RelayRequest>>
}

/** The name that stands for the default model. */
const DEFAULT_MODEL = 'auto'

/** The body of a relayed request. */
export type RelayBody = BodyOf<'json' | 'multipart'>

/** Parses the request of an endpoint; a long one in turns of the event loop. */
export const parseRelay = (
  row: RelayRow,
  body: RelayBody,
  limits: ExtentLimits,
  turn: TurnScheduler,
): Eventual<Outcome<RelayRequest>> => ('parts' in body ? parseForm(row, body) : parseJsonBody(row, body, limits, turn))

const parseJsonBody = async (
  row: RelayRow,
  source: EncodedText,
  limits: ExtentLimits,
  turn: TurnScheduler,
): Promise<Outcome<RelayRequest>> => {
  const read = await readInTurns(source, limits, turn)
  if (!read.ok) return read
  const { source: mended, body, members: spans, mended: paths = [] } = read.value
  const model = modelIn(row, body)
  if (!model.ok) return model
  const size = source.bytes?.length ?? source.text.length
  const request: RelayRequest = {
    model: model.value,
    body,
    contentType: 'application/json',
    source: mended,
    mended: paths,
    tokens: tokensOf(row, body, { file: row.isJsonToo ? size : 0, all: size }),
    units: requestUnits(row, body, 0),
    bodyFor: (name) => {
      const own = withoutPolicyMembers(body)
      return rewrite(mended, spans, body, own[row.model] === name ? own : { ...own, [row.model]: name })
    },
    withTexts: (replace) =>
      withTexts(request, replace, { turn, parse: (changed) => parseJsonBody(row, changed, limits, turn) }),
  }
  return good(request)
}

// ── Forms ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A field of a form: its text as it was received, and as it is sent. */
type FormField = FormPart & { readonly sent: string; readonly text: string }

type FormFields = { readonly form: ReceivedForm; readonly fields: readonly FormField[] }

const parseForm = (row: RelayRow, form: ReceivedForm): Outcome<RelayRequest> => {
  const misplaced = form.parts.find((part) => namesModel(row, part) && (part.name !== row.model || part.isFile))
  if (misplaced) return bad(fail('invalid_value', `\`${row.model}\` must be one field of text.`, { param: row.model }))
  const fields = fieldsOf(form.parts)
  return fields.ok ? readFields(row, { form, fields: fields.value }) : fields
}

const readFields = (row: RelayRow, { form, fields }: FormFields): Outcome<RelayRequest> => {
  const { parts, bytes, boundary } = form
  const body = membersOf(fields)
  const model = modelIn(row, body)
  if (!model.ok) return model
  const file = parts.reduce((sum, { isFile, start, end }) => sum + (isFile ? end - start : 0), 0)
  return good({
    model: model.value,
    body,
    contentType: formType(boundary),
    source: { text: JSON.stringify(body) },
    mended: [],
    tokens: tokensOf(row, body, { file, all: bytes.length }),
    units: requestUnits(row, body, file),
    bodyFor: (name) =>
      withChanges(
        bytes,
        changesOf(fields, (field) => (field.name === row.model ? name : field.text)),
      ),
    withTexts: (replace) => {
      const changed = changedTexts(body, ({ text }) => replace.get(text) ?? text)
      const textOf = ({ name, text }: FormField) => (changed[name] === body[name] ? text : (replace.get(text) ?? text))
      return readFields(row, { form, fields: fields.map((field) => ({ ...field, text: textOf(field) })) })
    },
  })
}

/** Whether the provider may read the model from this part: some parsers take `model[]` for `model`. */
const namesModel = ({ model }: RelayRow, { name }: FormPart): boolean => name === model || name.startsWith(`${model}[`)

const fieldsOf = (parts: readonly FormPart[]): Outcome<readonly FormField[]> => {
  const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const fields: FormField[] = []
  for (const part of parts) {
    const { name, value } = part
    if (!value) continue
    try {
      const text = utf8.decode(value)
      fields.push({ ...part, sent: text, text })
    } catch {
      return bad(fail('invalid_value', `The field "${name}" is not valid UTF-8.`, { param: name }))
    }
  }
  return good(fields)
}

/** The fields as members: a text, or a list of those that occur more than once (`include[]`). */
const membersOf = (fields: readonly FormField[]): JsonObject => {
  const members = new Map<string, string | string[]>()
  for (const { name, text } of fields) {
    const before = members.get(name)
    members.set(name, before === undefined ? text : [before, text].flat())
  }
  return Object.fromEntries(members)
}

/** The changes that give fields these values. */
const changesOf = (fields: readonly FormField[], textOf: (field: FormField) => string): readonly ByteChange[] => {
  const utf8 = new TextEncoder()
  return fields.flatMap((field) => {
    const value = textOf(field)
    return value === field.sent ? [] : [{ start: field.start, end: field.end, value: utf8.encode(value) }]
  })
}

// ── What is read of both ─────────────────────────────────────────────────────────────────────────────────────────

const modelIn = (row: RelayRow, members: JsonObject): Outcome<string> => {
  const problems: Problems = {}
  const fields = requestFields(members, '', problems)
  const model = row.isModelOptional ? fields.string(row.model)?.trim() || DEFAULT_MODEL : requestedModel(fields)
  return problems.first ? bad(problems.first) : good(model)
}

/** Bytes of a request: of what is not read, and all. */
type RelaySize = { readonly file: number; readonly all: number }

/** Estimated tokens. An input that is not found is not free: it counts by its length. */
const tokensOf = (
  { texts, estimate: { bytesPerToken, outputPerInput, outputPerResult = 0 } }: RelayRow,
  members: JsonObject,
  { file, all }: RelaySize,
): RelayRequest['tokens'] => {
  const found = texts.flatMap((name) => textsIn(members[name]))
  const text = found.reduce((sum, one) => sum + estimateText(one), 0)
  const input = Math.ceil(text + (bytesPerToken === undefined ? 0 : file / bytesPerToken)) || tokensOfBytes(all)
  return { input, output: Math.ceil(input * outputPerInput + outputPerResult * resultsOf(members)) }
}

/** The texts of a member: one, a list, or parts of which some are text. */
const textsIn = (value: Json | undefined): readonly string[] => {
  if (typeof value === 'string') return [value]
  if (isList(value)) return value.flatMap(textsIn)
  return isObject(value) ? textsIn(value.text) : []
}
