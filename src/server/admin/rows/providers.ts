/** Providers and models. */
import { z } from 'zod'
import { ANONYMOUS } from '../../../core/accounts.ts'
import { bad, fail, good, type Outcome } from '../../../core/failure.ts'
import { isList, isObject } from '../../../core/json.ts'
import { nearest } from '../../../core/nearest.ts'
import { keyId } from '../../../core/target.ts'
import { modelsPage } from '../../../gateway/handlers/pages.ts'
import { listModels } from '../../../policy/routing/models.ts'
import { time } from '../../../records/entities/shown.ts'
import { listOf } from '../../answers/fields.ts'
import { CIRCUIT_ACTION, CREDENTIAL_DECISION, MODEL, PROVIDER } from '../../answers/providers.ts'
import { noteAudit, runFor } from '../control.ts'
import type { AdminDeps } from '../deps.ts'
import { id, page, pageOf } from '../fields.ts'
import { askProcesses } from '../processes.ts'
import { type AdminCall, type Answered, row } from '../row.ts'
import { invalid } from '../validation.ts'

type ListedProvider = z.input<typeof PROVIDER>

/** The entries of `/providers/status` of all processes. The schema above describes them; a test compares the two. */
/** `teams`: those of the actor; null: all. Clients choose names of models, which others than operators of all teams do not see. */
const providersOf = async (
  deps: AdminDeps,
  { teams }: Pick<AdminCall, 'teams'>,
): Promise<readonly ListedProvider[]> => {
  const all = await allProviders(deps)
  if (teams === null) return all
  const { gateway } = deps
  const listed = new Set(listModels(gateway.config(), gateway.lists(), gateway.catalogue).map((one) => one.id))
  return all.map((entry) => ({ ...entry, models: entry.models.filter((one) => listed.has(`${entry.id}/${one.id}`)) }))
}

const allProviders = async (deps: AdminDeps): Promise<readonly ListedProvider[]> => {
  const { answers } = await askProcesses(deps, { do: 'providers' })
  return answers.flatMap(({ name, value: { data } }) => {
    // `statusPage` returns plain JSON without the types of its members.
    const entries = (isList(data) ? data.filter(isObject) : []) as unknown as readonly ListedProvider[]
    return entries.map((entry) => ({ ...entry, node: name }))
  })
}

type NamedModel = z.input<typeof MODEL>

const credential = z.strictObject({
  id: z.string().min(1).max(200).describe('The ID of the provider'),
  kid: z
    .string()
    .regex(/^[0-9a-f]{4,64}$/)
    .describe('The fingerprint of the key'),
})

const DECISION = { kind: 'credential', id: 'openai a1f3', state: null, until: null, reason: '' }

type CredentialDecision = Pick<z.output<typeof CREDENTIAL_DECISION>, 'state' | 'until' | 'reason'>

/** Stores a decision about a key of a configured provider. */
const decide = async (
  { control, gateway }: AdminDeps,
  call: AdminCall<z.output<typeof credential>>,
  { state, until, reason }: CredentialDecision,
): Promise<Outcome<Answered<z.output<typeof CREDENTIAL_DECISION>>>> => {
  const { id: provider, kid } = call.params
  const instance = gateway.config().instances.find((one) => one.id === provider)
  const key = instance?.keys.find((one) => one.id === kid)
  if (!instance || !key)
    return bad(fail('not_found', 'No provider has this key. GET /admin/api/v1/providers lists the keys.'))
  if (until !== null && Date.parse(until) <= gateway.world.date())
    return bad(invalid([{ path: 'until', message: 'The time is in the past.' }]))
  const end = until === null ? null : new Date(until).toISOString()
  return runFor(control, call, {
    do: 'decide',
    kind: 'credential',
    id: keyId(instance, key),
    state,
    until: end,
    reason,
  })
}

const PROVIDER_SHOWN = {
  id: 'openai',
  node: null,
  kind: 'openai',
  status: 'available',
  circuit: { state: 'closed', failures: 0, successes: 12, error_rate: 0, opened_at: null, retry_at: null },
  resting: null,
  endpoint: { status: 'available' },
  keys: [{ id: 'a1f3', status: 'active', in_flight: 1, requests: 12, until: null }],
  models: [
    {
      id: 'gpt-5-mini',
      status: 'available',
      circuit: { state: 'closed', retry_at: null },
      latency_ms: { first_content_p50: 312 },
      keys: [{ id: 'a1f3', status: 'active', until: null, circuit: { state: 'closed', retry_at: null } }],
    },
  ],
  minutes: [],
  latency_ms: { first_content_p50: 312, first_content_p95: 800 },
  last_error: null,
}

/** s: the longest and the usual rest of a provider. */
const REST = { most: 86_400, usual: 600 }

const circuitAction = z.discriminatedUnion('action', [
  z.strictObject({
    action: z.literal('open'),
    seconds: z.int().min(1).max(REST.most).default(REST.usual).describe('The rest ends by itself'),
    reason: z.string().max(500).default('').describe('Shown in the status of the provider and in explanations'),
  }),
  z.strictObject({ action: z.literal('close') }),
  z.strictObject({ action: z.literal('probe') }),
])

/** Rests a provider, or ends its rest and closes its circuits, or lets them admit a probe. */
const setCircuit = async (
  deps: AdminDeps,
  call: AdminCall<z.output<typeof id>, unknown, z.output<typeof circuitAction>>,
): Promise<Outcome<Answered<z.output<typeof CIRCUIT_ACTION>>>> => {
  const { gateway, control } = deps
  const { params, body } = call
  const { action } = body
  const instance = gateway.config().instances.find((one) => one.id === params.id)
  if (!instance) return bad(noProvider(deps, params.id))
  const provider = instance.id
  const decide = (state: 'open' | null, until: string | null, reason: string) =>
    runFor(control, call, { do: 'decide', kind: 'circuit', id: provider, state, until, reason })
  const answer = { object: 'circuit' as const, provider, action }
  if (action === 'open') {
    const until = new Date(gateway.world.date() + body.seconds * 1_000).toISOString()
    const decided = await decide('open', until, body.reason)
    if (!decided.ok) return decided
    const resting = { until, reason: body.reason }
    // They have read the decision, which is a record.
    const { answers, of } = await askProcesses(deps, { do: 'refresh' })
    return good({ body: { ...answer, resting, changed: 0, processes: { answered: answers.length, of } } })
  }
  const rest = gateway.health.cooldowns.of(provider)
  if (rest && action === 'probe') return bad(RESTING)
  if (rest) {
    const decided = await decide(null, null, '')
    if (!decided.ok) return decided
  } else await noteAudit(control, call, { action: `circuit.${action}`, object: provider, details: {} })
  const { answers, of } = await askProcesses(deps, { do: 'circuits', provider, action })
  const changed = answers.reduce((sum, { value }) => sum + Number(value.changed), 0)
  return good({ body: { ...answer, resting: null, changed, processes: { answered: answers.length, of } } })
}

const RESTING = fail(
  'record_conflict',
  'The provider rests, so no request would probe it. End the rest with the action "close".',
  { code: 'provider_rests' },
)

const noProvider = ({ gateway }: Pick<AdminDeps, 'gateway'>, name: string) => {
  const ids = gateway.config().instances.map((one) => one.id)
  const [near] = nearest(name, ids)
  const hint = near === undefined ? 'GET /admin/api/v1/providers lists them.' : `Did you mean "${near}"?`
  return fail('not_found', `No provider has this ID. ${hint}`)
}

export const providerRows = [
  row({
    method: 'GET',
    path: '/providers',
    summary: 'List the providers with their health, in the order in which they are tried',
    about:
      'An entry for each process (`node`) with WORKERS, and for each process of the gateways that share a store; those of the process that answers come first.',
    role: 'viewer',
    scope: 'any',
    answer: listOf(PROVIDER),
    example: { answer: { object: 'list', data: [PROVIDER_SHOWN], has_more: false, next: null } },
    handle: async (deps, call) =>
      good({
        body: { object: 'list' as const, data: [...(await providersOf(deps, call))], has_more: false, next: null },
      }),
  }),
  row({
    method: 'GET',
    path: '/providers/{id}',
    summary: 'Show a provider with its health in the process that answers',
    role: 'viewer',
    scope: 'any',
    params: id,
    answer: PROVIDER,
    example: { params: { id: 'openai' }, answer: PROVIDER_SHOWN },
    async handle(deps, call) {
      const { params } = call
      const providers = await providersOf(deps, call)
      const found = providers.find((one) => one.id === params.id)
      return found ? good({ body: found }) : bad(noProvider(deps, params.id))
    },
  }),
  row({
    method: 'POST',
    path: '/providers/{id}/circuit',
    summary: 'Rest a provider for a time, close its circuits, or let them be probed now',
    about:
      '`open`: no request is sent to the provider, in every process and after a restart, until the time is over or `close`. Requests in progress finish. `close`: ends such a rest, closes the circuits of its base URL, models and keys, and ends the rests of its keys and models after rate limits and refusals; other providers at the same base URL share that circuit. `probe`: open circuits admit the next request as a probe. Circuits that opened because of failures are of each process; the action reaches all of them.',
    role: 'operator',
    scope: 'all',
    params: id,
    body: circuitAction,
    answer: CIRCUIT_ACTION,
    example: {
      params: { id: 'openai' },
      body: { action: 'close' },
      answer: {
        object: 'circuit',
        provider: 'openai',
        action: 'close',
        resting: null,
        changed: 2,
        processes: { answered: 1, of: 1 },
      },
    },
    handle: setCircuit,
  }),
  row({
    method: 'POST',
    path: '/providers/{id}/keys/{kid}/disable',
    summary: 'Stop using a key of a provider',
    about:
      'Requests skip the key from then on, in every process and after a restart, until `until` or until it is enabled. Requests in progress finish.',
    role: 'operator',
    scope: 'all',
    params: credential,
    body: z.strictObject({
      reason: z.string().min(1).max(500).describe('Shown in the status of the provider and in explanations'),
      until: time.optional(),
    }),
    answer: CREDENTIAL_DECISION,
    example: {
      params: { id: 'openai', kid: 'a1f3' },
      body: { reason: 'The key leaked', until: '2027-12-01T00:00:00Z' },
      answer: { ...DECISION, state: 'disabled', until: '2027-12-01T00:00:00.000Z', reason: 'The key leaked' },
    },
    handle: (deps, call) =>
      decide(deps, call, { state: 'disabled', until: call.body.until ?? null, reason: call.body.reason }),
  }),
  row({
    method: 'POST',
    path: '/providers/{id}/keys/{kid}/enable',
    summary: 'Use a disabled or resting key of a provider again',
    about:
      'Ends a decision to disable the key, and its rests after rate limits, a used-up quota or refusals, in every process. If the cause persists, the next request that uses the key starts a new rest.',
    role: 'operator',
    scope: 'all',
    params: credential,
    answer: CREDENTIAL_DECISION,
    example: { params: { id: 'openai', kid: 'a1f3' }, answer: DECISION },
    async handle(deps, call) {
      const decided = await decide(deps, call, { state: null, until: null, reason: '' })
      if (decided.ok) await askProcesses(deps, { do: 'use_key', provider: call.params.id, key: call.params.kid })
      return decided
    },
  }),
  row({
    method: 'GET',
    path: '/models',
    summary: 'List the models that requests can name, with facts and prices',
    role: 'viewer',
    scope: 'any',
    query: z.strictObject({
      ...page,
      q: z.string().min(1).max(200).optional().describe('Part of the name'),
    }),
    answer: listOf(MODEL),
    example: {
      query: { q: 'gpt', limit: '10' },
      answer: {
        object: 'list',
        data: [
          { id: 'openai/gpt-5-mini', owned_by: 'openai', display_name: 'openai/gpt-5-mini', context_window: 400_000 },
        ],
        has_more: false,
        next: null,
      },
    },
    handle({ gateway, process }, { query }) {
      const reader = { client: ANONYMOUS, headers: () => undefined }
      const page = modelsPage(gateway, reader, Math.floor(process.startedAt / 1000))
      const data = page.ok ? page.value.data : []
      const wanted = query.q?.toLowerCase()
      // `modelsPage` returns plain JSON without the types of its members.
      const models = (isList(data) ? data.filter(isObject) : []) as unknown as readonly NamedModel[]
      const matching = wanted === undefined ? models : models.filter((one) => one.id.toLowerCase().includes(wanted))
      return good({ body: pageOf(matching, query, (one) => one.id) })
    },
  }),
]
