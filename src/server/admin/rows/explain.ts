/** Where a request would be routed. */
import { z } from 'zod'
import { ANONYMOUS, type Client, type ClientKey, type Directory } from '../../../core/accounts.ts'
import { type Config, factsOf } from '../../../core/config.ts'
import { bad, fail, good, KINDS, type Outcome } from '../../../core/failure.ts'
import type { IncomingRequest } from '../../../core/http-exchange.ts'
import { isObject, type JsonObject, list } from '../../../core/json.ts'
import { nearest } from '../../../core/nearest.ts'
import { REQUEST_STYLES } from '../../../core/request-styles.ts'
import { ownTurn } from '../../../core/steps.ts'
import type { Gateway } from '../../../gateway/gateway.ts'
import { parseOnce } from '../../../gateway/handlers/explain.ts'
import { planFor } from '../../../gateway/routing/planner.ts'
import { clientOf, type KeyState, keyState } from '../../../policy/accounts/client.ts'
import { type Assumption, NO_ASSUMPTION } from '../../../policy/routing/assumption.ts'
import { AUTO } from '../../../policy/routing/plan.ts'
import { configFor } from '../../../policy/routing/team-routes.ts'
import { EXPLANATION, type PLAN, ROUTE_PLANS, type TARGET } from '../../answers/explain.ts'
import { row } from '../row.ts'
import { invalid } from '../validation.ts'

/** The client of an explanation; `state` null: a request without a key. */
type ExplainedClient = {
  readonly client: Client
  readonly key: ClientKey | null
  readonly state: KeyState | null
}

/** The client with this key. `teams`: those that the actor may read; null: all. */
const clientAs = (
  { keys, teams: all }: Directory,
  id: string | undefined,
  teams: readonly string[] | null,
  now: number,
): Outcome<ExplainedClient> => {
  if (id === undefined) return good({ client: ANONYMOUS, key: null, state: null })
  const key = keys.get(id)
  const team = key && all.get(key.team)
  if (!key || !team || teams?.includes(team.id) === false)
    return bad(fail('not_found', `No client key has the ID ${id}.`))
  return good({ client: clientOf(key, team), key, state: keyState(key, team, now) })
}

/** The request of a client that is explained. */
export const explainedRequest = (
  { id, client, style }: Pick<IncomingRequest, 'id' | 'client'> & { readonly style: string | undefined },
  asked: JsonObject,
): IncomingRequest => ({
  id,
  method: 'POST',
  path: '/v1/route',
  query: style === undefined ? '' : `style=${style}`,
  headers: () => undefined,
  body: { text: JSON.stringify(asked) },
  client,
})

/** Names of the configuration in `assume`. */
const names = z.array(z.string().min(1).max(400)).max(100).default([])

export const assumption = z
  .strictObject({
    down: names.describe('IDs of providers that do not respond'),
    limited: names.describe('IDs of providers, or of keys (`openai#a1f3`), at their rate limit'),
    without: names.describe('IDs of providers that are not configured'),
  })
  .describe('What to assume in addition to the present state. Nothing changes')

/** The providers and keys that an assumption names and that do not exist. */
export const problemsOf = ({ instances }: Config, { down, limited, without }: Assumption) => {
  const ids = instances.map(({ id }) => id)
  const keys = instances.flatMap(({ id, keys: own }) => own.map((key) => `${id}#${key.id}`))
  const check = (member: keyof Assumption, given: readonly string[], known: (name: string) => boolean) =>
    given.flatMap((name, at) => {
      if (known(name)) return []
      const [near] = nearest(name, ids)
      const hint = near === undefined ? 'GET /admin/api/v1/providers lists them.' : `Did you mean "${near}"?`
      return [{ path: `assume.${member}[${at}]`, message: `No provider has this ID. ${hint}` }]
    })
  return [
    ...check('down', down, (name) => ids.includes(name)),
    ...check('limited', limited, (name) => ids.includes(name) || keys.includes(name)),
    ...check('without', without, (name) => ids.includes(name)),
  ]
}

/** The first target of a plan that may be tried. */
const answering = (plan: JsonObject): z.output<typeof TARGET> | null => {
  const found = list(plan.targets)
    .filter(isObject)
    .find(({ fit, keys }) => fit !== false && list(keys).some((key) => isObject(key) && key.may_be_tried === true))
  return found ? { provider: String(found.provider), model: String(found.model) } : null
}

/** Undefined: nothing is known of the model, or there is none. */
const capabilitiesOf = (
  { catalogue, config }: Gateway,
  one: z.output<typeof TARGET> | null,
): readonly string[] | undefined => {
  const instance = one && config().instances.find(({ id }) => id === one.provider)
  return instance && one ? factsOf(catalogue, instance, one.model)?.capabilities : undefined
}

/** All names of a configuration that are planned. */
export const routeNames = ({ routes }: Pick<Config, 'routes'>): ReadonlySet<string> => new Set([...routes.keys(), AUTO])

/** The plan of one route under an assumption, and what differs without it. */
export const planOf = (gateway: Gateway, parsed: ReturnType<typeof parseOnce>, model: string, assume: Assumption) => {
  const present = parsed.ok ? parsed.value(NO_ASSUMPTION, model) : parsed
  const assumed = parsed.ok ? parsed.value(assume, model) : parsed
  const before = present.ok ? answering(present.value) : null
  if (!assumed.ok) {
    const { failure } = assumed
    const error = { code: failure.code ?? KINDS[failure.kind].code, message: failure.message }
    return { object: 'route', model, targets: [], answers: null, before, loses: [], error }
  }
  const answers = answering(assumed.value)
  const left = capabilitiesOf(gateway, answers)
  // A model that the catalogue does not have may be able to do all of it.
  const loses = left ? (capabilitiesOf(gateway, before) ?? []).filter((one) => !left.includes(one)) : []
  return { ...assumed.value, model, answers, before, loses: [...loses], error: null }
}

/** The body of the request whose model is set for each route. */
export const QUESTION = { messages: [{ role: 'user', content: 'Hello' }] }

const forAll = (body: { readonly for?: '*' | undefined; readonly request?: unknown }): boolean =>
  body.for === '*' || body.request !== undefined

export const explainRows = [
  row({
    method: 'POST',
    path: '/explain',
    summary: 'Explain where a request would be routed',
    about:
      'As POST /v1/route: the real plan with the present state of each target. Nothing is sent upstream. With `as`, `refused` is the limit or budget of this client that refuses every request now. `shadow` names the target of copies of the route. `assume` shows the plan as if providers were down, limited or missing. With `for: "*"` the answer is a list with the plan of each route and of `auto`; `request` is optional then. With WORKERS the state is that of the process that answers.',
    role: 'viewer',
    scope: 'any',
    body: z
      .strictObject({
        request: z.record(z.string(), z.json()).optional().describe('The body of a model call, of any style'),
        for: z.literal('*').optional().describe('The plans of all routes'),
        as: z
          .string()
          .min(1)
          .max(200)
          .optional()
          .describe('The ID of a client key: its access, limits and budgets apply'),
        style: z.enum(REQUEST_STYLES).optional().describe('The style of the body; default: recognised by its members'),
        assume: assumption.optional(),
      })
      .refine(forAll, { path: ['request'], message: 'It is required, unless `for` is "*".' }),
    answer: z.union([EXPLANATION, ROUTE_PLANS]),
    example: {
      body: { request: { model: 'auto', messages: [{ role: 'user', content: 'Hello' }] }, style: 'chat' },
    },
    async handle({ gateway, control }, { body, request, teams }) {
      const asked = clientAs(control.directory(), body.as, teams, gateway.world.date())
      if (!asked.ok) return asked
      const assume = body.assume ?? NO_ASSUMPTION
      const problems = problemsOf(gateway.config(), assume)
      if (problems.length > 0) return bad(invalid(problems))
      const { client, key, state } = asked.value
      const receivedFor = (asked: JsonObject) => explainedRequest({ id: request.id, client, style: body.style }, asked)
      if (body.for === '*') {
        const data: ReturnType<typeof planOf>[] = []
        const received = receivedFor({ ...(body.request ?? QUESTION), model: AUTO })
        const parsed = parseOnce(gateway, { received, audience: 'operator' })
        for (const model of routeNames(configFor(gateway, gateway.config(), client))) {
          await ownTurn(gateway.world.turn)
          data.push(planOf(gateway, parsed, model, assume))
        }
        return good({ body: { object: 'list' as const, data, has_more: false, next: null } })
      }
      const received = receivedFor(body.request ?? {})
      const parsed = parseOnce(gateway, { received, audience: 'operator' })
      const explained = parsed.ok ? parsed.value(assume) : parsed
      if (!explained.ok) return explained
      // `explainPlan` returns plain JSON without the types of its members.
      const shown = explained.value as unknown as z.input<typeof PLAN>
      const { style, model } = shown
      const { headers } = received
      const wanted = { model, style, client, headers, members: body.request ?? {}, shape: null, isExpected: true }
      const planned = planFor(gateway, gateway.config(), wanted)
      const plan = planned.ok ? planned.value : null
      const failure = await gateway.accounts.refusal(received, style, { members: body.request ?? {}, plan })
      const isActive = state === null || state === 'active'
      const refused = isActive
        ? failure && { code: failure.code ?? KINDS[failure.kind].code, message: failure.message }
        : { code: state, message: 'The key cannot be used.' }
      const as = key && { id: key.id, name: key.name, status: state ?? key.status }
      return good({ body: { ...shown, as, refused } })
    },
  }),
]
