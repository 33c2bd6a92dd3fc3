/** Runs a conversation through a gateway in this process, whose upstreams are the fakes, and judges every turn. */
import assert from 'node:assert/strict'
import type { Received } from '../../src/core/call.ts'
import type { Config } from '../../src/core/config.ts'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import { settingsSchema } from '../../src/core/settings.ts'
import { openCatalogue } from '../../src/edge/catalogue/catalogue.ts'
import { configure } from '../../src/edge/config/configure.ts'
import { loadProviders } from '../../src/edge/load-providers.ts'
import { Board } from '../../src/gateway/board.ts'
import { type Gateway, handle } from '../../src/gateway/handle.ts'
import { respond } from '../../src/gateway/respond.ts'
import { memoryStore } from '../../src/gateway/shelf.ts'
import { Live } from '../../src/gateway/stop.ts'
import { protocols } from '../../src/protocols/index.ts'
import { CapturedReply, play } from '../support/gateway.ts'
import { type Asked as Call, stillWorld } from '../support/still-world.ts'
import { type Answer, Mint } from './answers.ts'
import type { ClientKind } from './clients.ts'
import { collect } from './collect.ts'
import { pairsAt, pathsOf } from './received.ts'
import { given, pairsOf, type Scenario } from './scenarios.ts'
import { streams, wantsStream } from './streams.ts'
import { Fake, LENIENT, type Result, VENDORS, type Vendor } from './vendors.ts'

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

// ── The gateway ──────────────────────────────────────────────────────────────────────────────────────────────────

const variable = (name: string): string => name.toUpperCase().replaceAll('-', '_')

const configured = async (): Promise<Config> => {
  const all = [...VENDORS, LENIENT]
  const env = Object.assign(
    {},
    ...all.map(({ name, env }) => ({ [`${variable(name)}_API_KEY`]: `sk-${name}-0123456789`, ...env })),
  )
  const loaded = configure({ env, providers: await loadProviders() })
  assert.ok(loaded.ok, 'the configuration of the fakes is refused')
  // Of thousands of conversations none may run into a limit of all requests together.
  const settings = settingsSchema.parse({ retry: { budgetPercent: 100, budgetFloor: 100 } })
  return { ...loaded.config, settings }
}

const config = await configured()
const catalogue = openCatalogue((problem) => assert.fail(problem))

const routed = (
  name: string,
  vendors: readonly Vendor[],
): readonly [string, NonNullable<ReturnType<Config['routes']['get']>>] => {
  const targets = vendors.map(({ name: provider, model }) => ({ provider, model, weight: 1 }))
  return [name, { name, targets: targets.slice(0, 1), fallback: targets.slice(1) }]
}

const hostOf = (name: string): string => {
  const instance = config.instances.find(({ id }) => id === name)
  assert.ok(instance, `${name} is not configured`)
  return new URL(instance.baseUrl).host
}
const HOSTS = new Map([...VENDORS, LENIENT].map(({ name }) => [hostOf(name), name]))

/** Long enough for every cool-down of a rate limit to end; ms. */
const BETWEEN_TURNS = 300_000
/** Longest wait for one answer, in steps of a second. */
const MOST_WAITS = 600

type Upstream = Result & { readonly vendor: string }

class Stage {
  readonly #world = stillWorld((asked) => this.#play(asked))
  readonly #gateway: Gateway
  readonly #fakes: ReadonlyMap<string, Fake>
  readonly #outage: Outage
  readonly #first: string
  #answer: Answer = { thought: '' }
  #isDown = false
  #calls: Upstream[] = []

  constructor({ first, second, outage }: Conversation) {
    const vendors = [first, second, LENIENT]
    this.#fakes = new Map(vendors.map((vendor) => [vendor.name, new Fake(vendor, new Mint(vendor.name))]))
    this.#outage = outage
    this.#first = first.name
    const own: Config = {
      ...config,
      instances: config.instances.filter(({ id }) => this.#fakes.has(id)),
      routes: new Map([routed('first', vendors), routed('second', vendors.slice(1))]),
    }
    const ignore = () => {}
    this.#gateway = {
      world: this.#world,
      tell: ignore,
      board: new Board(this.#world, ignore),
      catalogue,
      config: () => own,
      lists: () => new Map(),
      live: new Live(),
      responses: memoryStore(1_000_000),
      jobs: new Map(),
    }
  }

  #play(asked: Call): void {
    const { host, pathname } = new URL(asked.url)
    const fake = this.#fakes.get(HOSTS.get(host) ?? '')
    assert.ok(fake, `a call to ${asked.url}, which is no vendor of this conversation`)
    if (this.#isDown && fake.vendor.name === this.#first)
      return this.#outage === 'down'
        ? play.error(asked, 503, { message: 'Service unavailable' })
        : play.error(asked, 429, { message: 'Rate limit reached' })
    const body: unknown = JSON.parse(asked.body ?? '')
    assert.ok(isObject(body))
    const result = fake.answer(decodeURIComponent(pathname), body, this.#answer)
    this.#calls.push({ ...result, vendor: fake.vendor.name })
    if (result.status !== 200 || !wantsStream(pathname, body))
      return play.json(asked, result.status, JSON.stringify(result.body))
    const { mediaType, pieces } = streams[result.wire]
    asked.head(200, { 'content-type': mediaType })
    for (const piece of pieces(result.body)) if (!asked.aborted) asked.listener.bytes(Buffer.from(piece))
    asked.end()
  }

  /** One turn: what the client is returned, and the upstream calls it took. */
  async turn(
    kind: ClientKind,
    body: JsonObject,
    answer: Answer,
    isDown: boolean,
  ): Promise<{ readonly reply: CapturedReply; readonly calls: readonly Upstream[] }> {
    this.#answer = answer
    this.#isDown = isDown
    this.#calls = []
    const protocol = protocols[kind.style]
    const model = isDown && this.#outage === 'route' ? 'second' : 'first'
    const reply = new CapturedReply()
    const received: Received = {
      id: 'req_conversation',
      method: 'POST',
      path: protocol.path,
      query: '',
      headers: () => undefined,
      body: JSON.stringify({ ...body, model }),
      local: true,
      client: '',
    }
    const done =
      kind.style === 'openai-responses'
        ? respond(this.#gateway, received, reply)
        : handle(this.#gateway, protocol, received, reply)
    let settled = false
    const settling = done.then(() => {
      settled = true
    })
    await this.#world.settle()
    for (let waits = 0; !settled && waits < MOST_WAITS; waits++) await this.#world.pass(1_000)
    assert.ok(settled, 'the gateway gave no answer')
    await settling
    await this.#world.pass(BETWEEN_TURNS)
    return { reply, calls: this.#calls }
  }

  /** Seals and reasoning ids in a request that another vendor made. */
  hasForeignSeal(vendor: string, body: string): boolean {
    return [...this.#fakes.values()].some(
      (fake) => fake.vendor.name !== vendor && [...fake.mint.seals].some((seal) => body.includes(seal)),
    )
  }
}

// ── A conversation ───────────────────────────────────────────────────────────────────────────────────────────────

export const converse = async (conversation: Conversation): Promise<readonly Turn[]> => {
  const { client: kind, scenario, first, second, returns, stream } = conversation
  const stage = new Stage(conversation)
  const client = kind.begin(scenario.features)
  const turns: Turn[] = []
  const returned: string[] = []
  for (const [at, { input, answer }] of scenario.turns.entries()) {
    const isDown = at === 1 || (at === 2 && !returns)
    const vendor = isDown ? second : first
    const body = { ...client.ask(input), ...(stream && { stream }) }
    const { reply, calls } = await stage.turn(kind, body, answer, isDown)
    const whole = reply.status !== 200 ? null : stream ? collect(kind.style, reply.text) : reply.json
    const outcome = whole === null ? 'refused' : outcomeOf(vendor, scenario, calls)
    const problems = [...refusalsIn(outcome, calls), ...sealsIn(stage, calls)]
    if (outcome === 'refused') {
      turns.push({ vendor, outcome, problems: problems.length > 0 ? problems : [`gateway: ${errorIn(reply)}`] })
      return turns
    }
    const last = calls.at(-1)
    assert.ok(last, 'a 200 that no vendor gave')
    const header = String(reply.headers['x-headgate-dropped'] ?? '')
    const absent = missing(conversation, at, { body, returned, header }, last)
    turns.push({ vendor, outcome, problems: [...problems, ...absent.map((problem) => `${last.vendor}: ${problem}`)] })
    if (JSON.stringify(whole).includes(answer.thought)) returned.push(answer.thought)
    client.take(whole)
  }
  return turns
}

/** Refusals by vendor and rule. A vendor that lacks the ability may refuse, unless its refusal reaches the client. */
const refusalsIn = (outcome: Outcome, calls: readonly Upstream[]): readonly string[] => {
  return calls.flatMap(({ vendor, refusedBy }, at) => {
    if (refusedBy === undefined) return []
    if (outcome === 'refused' && at === calls.length - 1) return [`${vendor}: ${refusedBy}: the client gets the error`]
    return isCapability(refusedBy) ? [] : [`${vendor}: ${refusedBy}: another request is needed`]
  })
}

const sealsIn = (stage: Stage, calls: readonly Upstream[]): readonly string[] =>
  calls.flatMap(({ vendor, received }) =>
    stage.hasForeignSeal(vendor, JSON.stringify(received))
      ? [`${vendor}: is sent another vendor's seal or reasoning id`]
      : [],
  )

const isCapability = (rule: string): boolean => rule.endsWith('(capability)')

const errorIn = (reply: CapturedReply): string => `${reply.status} ${reply.text.slice(0, 200)}`

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
