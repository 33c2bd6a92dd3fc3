/** The request of a relayed endpoint: what is read of it, and its body for each model. */
import type { EncodedText } from '../../core/encoded-text.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { RequestBody } from '../../core/http-exchange.ts'
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'
import { rewrite } from '../../core/json-text.ts'
import type { RelayRow } from '../../core/relay.ts'
import { inTurns, type TurnScheduler } from '../../core/steps.ts'
import { withoutPolicyMembers } from '../../policy/accounts/data-policy.ts'
import { tokensOfBytes } from '../../policy/accounts/estimate.ts'
import type { ExtentLimits } from '../../policy/request-size.ts'
import { estimateText } from '../../policy/routing/estimate-tokens.ts'
import { boundaryIn, type FormPart, formType, readForm } from '../../protocols/framing/form-data.ts'
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
  readonly bodyFor: (model: string) => RequestBody
  /** The request with other texts, as guards replace them. */
  readonly withTexts: (replace: ReadonlyMap<string, string>) => Eventual<Outcome<RelayRequest>>
}

/** The name that stands for the default model. */
const DEFAULT_MODEL = 'auto'

/** What was received. */
type ReceivedRelay = { readonly body: RequestBody; readonly headers: HeaderLookup }

/** Parses the request of an endpoint; a long one in turns of the event loop. */
export const parseRelay = (
  row: RelayRow,
  { body, headers }: ReceivedRelay,
  limits: ExtentLimits,
  turn: TurnScheduler,
): Promise<Outcome<RelayRequest>> =>
  body instanceof Uint8Array
    ? parseForm(row, body, headers('content-type') ?? '', turn)
    : parseJsonBody(row, body, limits, turn)

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
  const request: RelayRequest = {
    model: model.value,
    body,
    contentType: 'application/json',
    source: mended,
    mended: paths,
    tokens: tokensOf(row, body, { file: 0, all: source.bytes?.length ?? source.text.length }),
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

/** Bytes of a field: none hides a text from guards. Files have no limit of their own. */
const MAX_FIELD = 65_536

/** A field of a form with its text. */
type FormField = FormPart & { readonly text: string }

type ReceivedForm = { readonly bytes: Uint8Array; readonly boundary: string; readonly turn: TurnScheduler }

const parseForm = async (row: RelayRow, bytes: Uint8Array, type: string, turn: TurnScheduler) => {
  const boundary = boundaryIn(type)
  return boundary.ok ? readRelayForm(row, { bytes, boundary: boundary.value, turn }) : boundary
}

const readRelayForm = async (row: RelayRow, form: ReceivedForm): Promise<Outcome<RelayRequest>> => {
  const { bytes, boundary, turn } = form
  const parts = await inTurns(readForm(bytes, boundary), turn)
  if (!parts.ok) return parts
  const misplaced = parts.value.find((part) => namesModel(row, part) && (part.name !== row.model || part.isFile))
  if (misplaced) return bad(fail('invalid_value', `\`${row.model}\` must be one field of text.`, { param: row.model }))
  const fields = fieldsOf(bytes, parts.value)
  if (!fields.ok) return fields
  const body = membersOf(fields.value)
  const model = modelIn(row, body)
  if (!model.ok) return model
  const file = parts.value.reduce((sum, { isFile, start, end }) => sum + (isFile ? end - start : 0), 0)
  const isModel = ({ name }: FormField) => name === row.model
  return good({
    model: model.value,
    body,
    contentType: formType(boundary),
    source: { text: JSON.stringify(body) },
    mended: [],
    tokens: tokensOf(row, body, { file, all: bytes.length }),
    units: requestUnits(row, body, file),
    bodyFor: (name) => withValues(bytes, fields.value, (field) => (isModel(field) ? name : field.text)),
    withTexts: (replace) => {
      const changed = changedTexts(body, ({ text }) => replace.get(text) ?? text)
      const textOf = ({ name, text }: FormField) => (changed[name] === body[name] ? text : (replace.get(text) ?? text))
      return readRelayForm(row, { ...form, bytes: withValues(bytes, fields.value, textOf) })
    },
  })
}

/** Whether the provider may read the model from this part: some parsers take `model[]` for `model`. */
const namesModel = ({ model }: RelayRow, { name }: FormPart): boolean => name === model || name.startsWith(`${model}[`)

const fieldsOf = (bytes: Uint8Array, parts: readonly FormPart[]): Outcome<readonly FormField[]> => {
  const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const fields: FormField[] = []
  for (const part of parts) {
    const { name, isFile, start, end } = part
    if (isFile) continue
    if (end - start > MAX_FIELD)
      return bad(fail('invalid_value', `The field "${name}" is too long (limit ${MAX_FIELD} bytes).`, { param: name }))
    try {
      fields.push({ ...part, text: utf8.decode(bytes.subarray(start, end)) })
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

/** The form with other values of fields. */
const withValues = (
  bytes: Uint8Array,
  fields: readonly FormField[],
  textOf: (field: FormField) => string,
): Uint8Array => {
  const utf8 = new TextEncoder()
  const changes = fields.flatMap((field) => {
    const value = textOf(field)
    return value === field.text ? [] : [{ ...field, value: utf8.encode(value) }]
  })
  if (changes.length === 0) return bytes
  const growth = changes.reduce((sum, { value, start, end }) => sum + value.length - (end - start), 0)
  const made = new Uint8Array(bytes.length + growth)
  let [from, to] = [0, 0]
  for (const { value, start, end } of changes) {
    made.set(bytes.subarray(from, start), to)
    made.set(value, to + start - from)
    to += start - from + value.length
    from = end
  }
  made.set(bytes.subarray(from), to)
  return made
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
