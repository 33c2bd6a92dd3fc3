/** From the body as received to a question that can be planned for: parsed once, guarded, typed. */

import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import { isObject, type JsonObject, parseObject } from '../../core/json.ts'
import { describeJsonError } from '../../core/json-error.ts'
import { DEEPEST, survey } from '../../core/json-text.ts'
import { readLarge } from '../../core/large-json.ts'
import type { ClientProtocol } from '../../core/protocol.ts'
import { inTurns, ownTurn, PIECE, type Turn } from '../../core/steps.ts'
import { type ExtentLimits, extentProblem, isShort } from '../../policy/request-size.ts'
import type { InboundRequest } from './outbound-request.ts'

export const parseRequest = (
  protocol: ClientProtocol,
  source: string,
  headers: HeaderLookup,
  limits: ExtentLimits,
): Outcome<InboundRequest> => {
  const read = readBody(source, limits)
  if (!read.ok) return read
  const request = protocol.decodeRequest(read.value.body)
  if (!request.ok) return request
  return good({ protocol, request: request.value, headers, ...read.value })
}

/**
 * The same as `ask`; a large body is read in pieces, each in its own turn of the event loop. Then decoding is a piece of
 * its own: it is bounded by the number of messages, parts and tools.
 */
export const parseLargeRequest = async (
  protocol: ClientProtocol,
  { body: source, headers }: Pick<IncomingRequest, 'body' | 'headers'>,
  limits: ExtentLimits,
  turn: Turn,
): Promise<Outcome<InboundRequest>> => {
  if (source.length <= PIECE) return parseRequest(protocol, source, headers, limits)
  const read = await inTurns(readSteps(source, limits), turn)
  if (!read.ok) return read
  await ownTurn(turn)
  const request = protocol.decodeRequest(read.value.body)
  if (!request.ok) return request
  await ownTurn(turn)
  return good({ protocol, request: request.value, headers, ...read.value })
}

/** The same as `readBody`; a large body is read in pieces. */
export const readInTurns = async (source: string, limits: ExtentLimits, turn: Turn): Promise<Outcome<ParsedBody>> =>
  source.length <= PIECE ? readBody(source, limits) : inTurns(readSteps(source, limits), turn)

function* readSteps(source: string, limits: ExtentLimits): Generator<undefined, Outcome<ParsedBody>, undefined> {
  const read = yield* readLarge(source, DEEPEST)
  yield
  if (!read.ok) return bad(source.trim() === '' ? EMPTY : invalid(read.error))
  if (!isObject(read.value)) return bad(NO_OBJECT)
  const problem = extentProblem(read.value, limits)
  if (problem) return bad(problem)
  const { survey: walk } = read
  if (!walk.ok) return bad(refusal(walk.problem, walk.at))
  return good({ source, body: read.value, members: walk.members })
}

/** The body as it came, and parsed; and where in it each outermost member lies. */
export const readBody = (source: string, limits: ExtentLimits): Outcome<ParsedBody> => {
  const body = parse(source)
  return body.ok ? surveyed(source, body.value, limits) : body
}

type ParsedBody = Pick<InboundRequest, 'source' | 'body' | 'members'>

const surveyed = (source: string, body: JsonObject, limits: ExtentLimits): Outcome<ParsedBody> => {
  const problem = isShort(source.length, limits) ? null : extentProblem(body, limits)
  if (problem) return bad(problem)
  const walk = survey(source, DEEPEST)
  if (!walk.ok) return bad(refusal(walk.problem, walk.at))
  // Keeping every digit is slow, and the survey has seen whether a number is so long.
  const exact = walk.long ? parseObject(source) : undefined
  return good({ source, body: exact ?? body, members: walk.members })
}

const parse = (source: string): Outcome<JsonObject> => {
  if (source.trim() === '') return bad(EMPTY)
  try {
    const value: unknown = JSON.parse(source)
    return isObject(value) ? good(value) : bad(NO_OBJECT)
  } catch (error) {
    return bad(invalid(describeJsonError(error, source)))
  }
}

const EMPTY = fail('invalid_json', 'The body is empty. Send a JSON object.')
const NO_OBJECT = fail(
  'invalid_json',
  'The body is JSON, but not an object. Send an object with "model" and what to answer.',
)
const invalid = (why: string) => fail('invalid_json', `The body is not valid JSON: ${why}.`)

const refusal = (problem: 'too-deep' | 'duplicate' | 'not-finite', at: string) => {
  switch (problem) {
    case 'too-deep':
      return fail('invalid_value', `The body is nested deeper than ${DEEPEST} levels.`, { param: at })
    case 'duplicate':
      return fail('invalid_value', `"${at}" is given more than once; leave one.`, { param: at })
    case 'not-finite':
      return fail('invalid_value', `A number in "${at}" is too large for any model to mean it.`, { param: at })
    default:
      throw new Error(`unknown problem ${problem satisfies never}`)
  }
}
