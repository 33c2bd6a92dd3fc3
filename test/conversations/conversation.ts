/** A conversation of three turns whose vendor changes, whatever the gateway runs in, and what becomes of every turn. */
import assert from 'node:assert/strict'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import type { Cast, Upstream } from './cast.ts'
import type { ClientKind } from './clients.ts'
import { collect } from './collect.ts'
import { pairsAt, pathsOf } from './received.ts'
import { given, pairsOf, type Scenario } from './scenarios.ts'
import { VENDORS, type Vendor } from './vendors.ts'

/** How the first vendor is kept from answering the second turn. */
export const OUTAGES = ['down', 'rate-limited', 'route'] as const
export type Outage = (typeof OUTAGES)[number]

export type Conversation = {
  readonly client: ClientKind
  readonly scenario: Scenario
  readonly first: Vendor
  readonly second: Vendor
  /** Whether the first vendor answers the third turn. */
  readonly returns: boolean
  readonly outage: Outage
  /** Whether the client asks for streams. */
  readonly stream: boolean
}

/**
 * `answered`: by the vendor whose turn it is. `repeated`: by that vendor, after it refused. `failed over`: by another
 * vendor, after it refused. `not tried`: by another vendor, although it could have answered. `cannot`: by another vendor,
 * since its model lacks an ability. `refused`: the client got an error.
 */
export type Outcome = 'answered' | 'repeated' | 'failed over' | 'not tried' | 'cannot' | 'refused'

export type Turn = {
  /** The vendor whose turn it is. */
  readonly vendor: Vendor
  readonly outcome: Outcome
  /** What should not have happened. */
  readonly problems: readonly string[]
}

/** What the client is returned. `dropped`: the header that names what is lost. */
export type Reply = { readonly status: number; readonly text: string; readonly dropped: string }

/** Sends a request to the gateway. Its models: `first` routes to the first vendor, then the others; `second` leaves it out. */
export type Ask = (body: JsonObject) => Promise<Reply>

/** Holds a conversation and judges every turn; ends with the first error that the client gets. */
export const converse = async (conversation: Conversation, cast: Cast, ask: Ask): Promise<readonly Turn[]> => {
  const { client: kind, scenario, first, second, returns, stream, outage } = conversation
  const client = kind.begin(scenario.features)
  const turns: Turn[] = []
  const returned: string[] = []
  for (const [at, { input, answer }] of scenario.turns.entries()) {
    const isDown = at === 1 || (at === 2 && !returns)
    const vendor = isDown ? second : first
    const body = { ...client.ask(input), ...(stream && { stream }) }
    const calls = cast.begin(answer, isDown)
    const reply = await ask({ ...body, model: isDown && outage === 'route' ? 'second' : 'first' })
    const whole = reply.status !== 200 ? null : wholeOf(conversation, reply.text)
    const outcome = whole === null ? 'refused' : outcomeOf(vendor, scenario, calls)
    const problems = [...refusalsIn(outcome, calls), ...sealsIn(cast, calls)]
    if (whole === null) {
      turns.push({ vendor, outcome, problems: problems.length > 0 ? problems : [`gateway: ${errorIn(reply)}`] })
      return turns
    }
    const last = calls.at(-1)
    assert.ok(last, 'a 200 that no vendor gave')
    const asked = { body, returned, header: reply.dropped }
    const absent = missing(conversation, at, asked, last)
    turns.push({ vendor, outcome, problems: [...problems, ...absent.map((problem) => `${last.vendor}: ${problem}`)] })
    if (JSON.stringify(whole).includes(answer.thought)) returned.push(answer.thought)
    client.take(whole)
  }
  return turns
}

/** Refusals by vendor and rule. A vendor that lacks the ability may refuse, unless its refusal reaches the client. */
const refusalsIn = (outcome: Outcome, calls: readonly Upstream[]): readonly string[] =>
  calls.flatMap(({ vendor, refusedBy }, at) => {
    if (refusedBy === undefined) return []
    if (outcome === 'refused' && at === calls.length - 1) return [`${vendor}: ${refusedBy}: the client gets the error`]
    return isCapability(refusedBy) ? [] : [`${vendor}: ${refusedBy}: another request is needed`]
  })

const sealsIn = (cast: Cast, calls: readonly Upstream[]): readonly string[] =>
  calls.flatMap(({ vendor, received }) =>
    cast.hasForeignSeal(vendor, JSON.stringify(received))
      ? [`${vendor}: is sent another vendor's seal or reasoning id`]
      : [],
  )

const isCapability = (rule: string): boolean => rule.endsWith('(capability)')

const wholeOf = ({ stream, client }: Conversation, body: string): JsonObject | null => {
  if (stream) return collect(client.style, body)
  const whole: unknown = JSON.parse(body)
  return isObject(whole) ? whole : null
}

const errorIn = (reply: Reply): string => `${reply.status} ${reply.text.slice(0, 200)}`

const outcomeOf = (vendor: Vendor, { needs }: Scenario, calls: readonly Upstream[]): Outcome => {
  const wasTried = calls.slice(0, -1).some((call) => call.vendor === vendor.name)
  if (calls.at(-1)?.vendor === vendor.name) return wasTried ? 'repeated' : 'answered'
  if (needs.some((ability) => vendor.lacks?.includes(ability))) return 'cannot'
  return wasTried ? 'failed over' : 'not tried'
}

/** What the client sent, the thoughts it was returned in earlier turns, and the paths that the answer says are dropped. */
type Asked = { readonly body: JsonObject; readonly returned: readonly string[]; readonly header: string }

/** What of the conversation has not arrived at the vendor that answered, and is not named in the header either. */
const missing = (
  { scenario }: Conversation,
  turn: number,
  { body, returned, header }: Asked,
  { received, wire }: Upstream,
): readonly string[] => {
  const arrived = JSON.stringify(received)
  const dropped = header.split(', ').filter((path) => path !== '')
  const isStored = body.previous_response_id !== undefined
  const isNamed = (mark: string) =>
    pathsOf(body, mark).some((path) => dropped.some((one) => path.startsWith(one) || one.startsWith(path))) ||
    (isStored && dropped.includes('previous_response_id'))
  const isLost = (mark: string) => !arrived.includes(mark) && !isNamed(mark)
  const pairs = pairsAt(wire, received)
  const thoughts = returned.filter((thought) => isStored || pathsOf(body, thought).length > 0)
  return [
    ...given(scenario, turn)
      .filter(isLost)
      .map((mark) => `${mark.slice(0, 20)} is lost without its name`),
    ...pairsOf(scenario, turn)
      .filter((pair) => !pairs.includes(pair))
      .map((pair) => `${pair} is not a pair there`),
    ...(thoughts.some(isLost) ? ['reasoning is lost without its name'] : []),
  ]
}

/** All ordered pairs of different vendors. */
export const pairs = (): readonly (readonly [Vendor, Vendor])[] =>
  VENDORS.flatMap((first) => VENDORS.filter((second) => second !== first).map((second) => [first, second] as const))
