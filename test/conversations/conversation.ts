/**
 * Runs a conversation of three turns in which the vendor changes, and checks every turn. Independent of how the gateway
 * runs.
 */
import assert from 'node:assert/strict'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import type { ClientKind } from './clients.ts'
import { collect } from './collect.ts'
import type { FakeVendors, Upstream } from './fake-vendors.ts'
import { pairsAt, pathsOf } from './received.ts'
import { given, pairsOf, type Scenario } from './scenarios.ts'
import { VENDORS, type Vendor } from './vendors.ts'

/** Why the first vendor does not answer the second turn. */
export const OUTAGES = ['down', 'rate-limited', 'route'] as const
export type Outage = (typeof OUTAGES)[number]

export type Conversation = {
  readonly client: ClientKind
  readonly scenario: Scenario
  readonly first: Vendor
  readonly second: Vendor
  /** The first vendor is available again in the third turn. */
  readonly returns: boolean
  readonly outage: Outage
  /** The client requests streams. */
  readonly stream: boolean
}

/**
 * `answered`: by the expected vendor. `repeated`: by the expected vendor, after a refusal. `failed over`: by another
 * vendor, after a refusal by the expected one. `not tried`: by another vendor, although the expected one is suitable.
 * `cannot`: by another vendor, because the expected one lacks an ability. `refused`: the client received an error.
 */
export type Outcome = 'answered' | 'repeated' | 'failed over' | 'not tried' | 'cannot' | 'refused'

export type Turn = {
  /** The expected vendor of the turn. */
  readonly vendor: Vendor
  readonly outcome: Outcome
  /** Problems that the test reports. */
  readonly problems: readonly string[]
}

/** The response to the client. `dropped`: the header with the dropped members. */
export type Reply = { readonly status: number; readonly text: string; readonly dropped: string }

/**
 * Sends a request to the gateway. Model `first` routes to the first vendor, then the others; `second` excludes the
 * first vendor.
 */
export type Ask = (body: JsonObject) => Promise<Reply>

/** Runs a conversation and checks every turn. Stops at the first error that the client receives. */
export const converse = async (
  conversation: Conversation,
  fakeVendors: FakeVendors,
  ask: Ask,
): Promise<readonly Turn[]> => {
  const { client: kind, scenario, first, second, returns, stream, outage } = conversation
  const client = kind.begin(scenario.features)
  const turns: Turn[] = []
  const returned: string[] = []
  for (const [at, { input, answer }] of scenario.turns.entries()) {
    const isDown = at === 1 || (at === 2 && !returns)
    const vendor = isDown ? second : first
    const body = { ...client.ask(input), ...(stream && { stream }) }
    const calls = fakeVendors.begin(answer, isDown)
    const reply = await ask({ ...body, model: isDown && outage === 'route' ? 'second' : 'first' })
    const whole = reply.status !== 200 ? null : wholeOf(conversation, reply.text)
    const outcome = whole === null ? 'refused' : outcomeOf(vendor, scenario, calls)
    const problems = [...refusalsIn(outcome, calls), ...foreignSignaturesIn(fakeVendors, calls)]
    if (whole === null) {
      turns.push({ vendor, outcome, problems: problems.length > 0 ? problems : [`gateway: ${errorIn(reply)}`] })
      return turns
    }
    const last = calls.at(-1)
    assert.ok(last, 'a 200 that no vendor gave')
    const sent = { body, returned, header: reply.dropped }
    const absent = missing(conversation, at, sent, last)
    turns.push({ vendor, outcome, problems: [...problems, ...absent.map((problem) => `${last.vendor}: ${problem}`)] })
    if (JSON.stringify(whole).includes(answer.thought)) returned.push(answer.thought)
    client.take(whole)
  }
  return turns
}

/** Refusals by vendor and rule. A refusal for a missing ability is allowed, unless the client receives it. */
const refusalsIn = (outcome: Outcome, calls: readonly Upstream[]): readonly string[] =>
  calls.flatMap(({ vendor, refusedBy }, at) => {
    if (refusedBy === undefined) return []
    if (outcome === 'refused' && at === calls.length - 1) return [`${vendor}: ${refusedBy}: the client gets the error`]
    return isCapability(refusedBy) ? [] : [`${vendor}: ${refusedBy}: another request is needed`]
  })

const foreignSignaturesIn = (fakeVendors: FakeVendors, calls: readonly Upstream[]): readonly string[] =>
  calls.flatMap(({ vendor, received }) =>
    fakeVendors.hasForeignSignature(vendor, JSON.stringify(received))
      ? [`${vendor}: receives another vendor's signature or reasoning id`]
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

/** The request, the reasoning texts returned in earlier turns, and the header with the dropped members. */
type Asked = { readonly body: JsonObject; readonly returned: readonly string[]; readonly header: string }

/** Parts of the conversation that the answering vendor did not receive and the header does not list. */
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
      .map((mark) => `${mark.slice(0, 20)} is lost without a report`),
    ...pairsOf(scenario, turn)
      .filter((pair) => !pairs.includes(pair))
      .map((pair) => `${pair} is not a pair there`),
    ...(thoughts.some(isLost) ? ['reasoning is lost without a report'] : []),
  ]
}

/** All ordered pairs of different vendors that meet. */
export const pairs = (): readonly (readonly [Vendor, Vendor])[] =>
  VENDORS.flatMap((first) =>
    VENDORS.filter((second) => second !== first && meet(first, second)).map((second) => [first, second] as const),
  )

const meet = (first: Vendor, second: Vendor): boolean =>
  [
    [first, second],
    [second, first],
  ].every(([one, other]) => !one?.meetsOpenai || other?.name === 'openai')
