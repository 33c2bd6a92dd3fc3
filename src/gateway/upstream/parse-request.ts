/** Parses and validates a request body, once, into an `InboundRequest`. */

import type { EncodedText } from '../../core/encoded-text.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import { isObject, parseJson } from '../../core/json.ts'
import { describeJsonError } from '../../core/json-error.ts'
import { DEEPEST, rewrite, survey } from '../../core/json-text.ts'
import { type LargeJson, readLarge } from '../../core/large-json.ts'
import { rewriteLarge } from '../../core/large-write.ts'
import { hasSurrogateEscapes, withoutLoneSurrogates } from '../../core/lone-surrogates.ts'
import type { ClientProtocol } from '../../core/protocol.ts'
import { inTurns, ownTurn, PIECE, type TurnScheduler } from '../../core/steps.ts'
import { type ExtentLimits, extentProblem, isShort } from '../../policy/request-size.ts'
import type { Eventual } from '../accounts/authority.ts'
import type { InboundRequest } from './outbound-request.ts'

/** A request with a body. `path`, `query`: for formats with members of the request in them. */
type ReceivedBody = Pick<IncomingRequest, 'body' | 'headers'> & Partial<Pick<IncomingRequest, 'path' | 'query'>>

/** Parses a request. Errors: invalid JSON, limits exceeded, or a body that the protocol rejects. */
export const parseRequest = (
  protocol: ClientProtocol,
  received: ReceivedBody,
  limits: ExtentLimits,
): Outcome<InboundRequest> => {
  const read = readBody(received.body, limits)
  return read.ok ? decode(protocol, received, read.value) : read
}

/**
 * Like `parseRequest`, but parses a body of more than `PIECE` characters in steps, each in its own turn of the event loop.
 * Decoding is one step: the numbers of messages, parts and tools bound it. A shorter body is parsed at once.
 */
export const parseInTurns = (
  protocol: ClientProtocol,
  received: ReceivedBody,
  limits: ExtentLimits,
  turn: TurnScheduler,
): Eventual<Outcome<InboundRequest>> => {
  return received.body.text.length <= PIECE
    ? parseRequest(protocol, received, limits)
    : parseInSteps(protocol, received, limits, turn)
}

const parseInSteps = async (
  protocol: ClientProtocol,
  received: ReceivedBody,
  limits: ExtentLimits,
  turn: TurnScheduler,
): Promise<Outcome<InboundRequest>> => {
  const read = await readInSteps(received.body, limits, turn)
  if (!read.ok) return read
  await ownTurn(turn)
  const request = decode(protocol, received, read.value)
  await ownTurn(turn)
  return request
}

const decode = (
  protocol: ClientProtocol,
  { headers, path, query }: ReceivedBody,
  parsed: ParsedBody,
): Outcome<InboundRequest> => {
  const request = protocol.decodeRequest(parsed.body, path, query)
  if (!request.ok) return request
  const inbound = { protocol, request: request.value, headers, ...parsed }
  if (!request.value.reshaped) return good(inbound)
  // The request is encoded for every target, from its canonical form.
  const body = protocol.inOwnShape?.(request.value, parsed.body) ?? parsed.body
  return good({ ...inbound, body, reencode: { without: [] } })
}

/** The body as text and parsed, with the position of each outermost member. */
export type ParsedBody = Pick<InboundRequest, 'source' | 'body' | 'members' | 'mended'>

/** Parses a body and locates its outermost members. Halves of surrogate pairs are replaced: strict providers refuse them. */
export const readBody = (source: EncodedText, limits: ExtentLimits): Outcome<ParsedBody> => {
  const read = checked(source, readWhole(source.text), limits)
  if (!read.ok || !hasSurrogateEscapes(source.text)) return read
  const { body, members } = read.value
  const { value, paths } = withoutLoneSurrogates(body)
  if (paths.length === 0) return read
  const { text } = rewrite({ text: source.text }, members, body, value)
  return mendedBody({ text }, readWhole(text), limits, paths)
}

/** Like `readBody`, but parses a large body in steps. */
export const readInTurns = async (
  source: EncodedText,
  limits: ExtentLimits,
  turn: TurnScheduler,
): Promise<Outcome<ParsedBody>> =>
  source.text.length <= PIECE ? readBody(source, limits) : readInSteps(source, limits, turn)

const readInSteps = async (
  source: EncodedText,
  limits: ExtentLimits,
  turn: TurnScheduler,
): Promise<Outcome<ParsedBody>> => {
  const parsed = await inTurns(readLarge(source.text, DEEPEST), turn)
  await ownTurn(turn)
  const read = checked(source, parsed, limits)
  if (!read.ok || !hasSurrogateEscapes(source.text)) return read
  const { body, members } = read.value
  const { value, paths } = withoutLoneSurrogates(body)
  if (paths.length === 0) return read
  const written = await inTurns(rewriteLarge({ text: source.text, members }, body, value), turn)
  return mendedBody(written, await inTurns(readLarge(written.text, DEEPEST), turn), limits, paths)
}

const mendedBody = (
  source: EncodedText,
  read: LargeJson,
  limits: ExtentLimits,
  mended: readonly string[],
): Outcome<ParsedBody> => {
  const again = checked(source, read, limits)
  return again.ok ? good({ ...again.value, mended }) : again
}

/** The same result as `readLarge`, in one step. */
const readWhole = (source: string): LargeJson => {
  try {
    const value: unknown = JSON.parse(source)
    const surveyed = survey(source, DEEPEST)
    // Parsing with exact digits is slow, so only bodies with a long number need it.
    return { ok: true, value: surveyed.ok && surveyed.long ? parseJson(source) : value, survey: surveyed }
  } catch (error) {
    return { ok: false, error: describeJsonError(error, source) }
  }
}

const checked = (source: EncodedText, read: LargeJson, limits: ExtentLimits): Outcome<ParsedBody> => {
  if (!read.ok) return bad(source.text.trim() === '' ? EMPTY : invalid(read.error))
  const { value: body, survey: surveyed } = read
  if (!isObject(body)) return bad(NOT_AN_OBJECT)
  const isCounted = surveyed.ok && isShort(surveyed.entries, limits)
  const problem = isCounted ? null : extentProblem(body, limits)
  if (problem) return bad(problem)
  if (!surveyed.ok) return bad(surveyFailure(surveyed.problem, surveyed.at))
  return good({ source, body, members: surveyed.members })
}

const EMPTY = fail('invalid_json', 'The body is empty. Send a JSON object.')
const NOT_AN_OBJECT = fail(
  'invalid_json',
  'The body is JSON, but not an object. Send an object with "model" and the input.',
)
const invalid = (why: string) => fail('invalid_json', `The body is not valid JSON: ${why}.`)

const surveyFailure = (problem: 'too-deep' | 'duplicate' | 'not-finite', at: string) => {
  switch (problem) {
    case 'too-deep':
      return fail('invalid_value', `The body is nested too deeply (limit ${DEEPEST} levels).`, { param: at })
    case 'duplicate':
      return fail('invalid_value', `"${at}" occurs more than once. Send it once.`, { param: at })
    case 'not-finite':
      return fail('invalid_value', `A number in "${at}" exceeds the range of a 64-bit float. Send a smaller number.`, {
        param: at,
      })
    default:
      throw new Error(`unknown problem ${problem satisfies never}`)
  }
}
