/** Maps a request body or preset of OpenRouter to a route of the same name. Pure: no environment, no files. */
import { type Deployment, draftProviders, draftRoutes, providerEntries, routeEntries } from './deployments.ts'
import { type FamilyReasons, type Imported, LiteralSecrets, RowCollector } from './imported.ts'
import { type ImportSource, isMembers, listOf, type SourceMembers, type SourcePath } from './source.ts'

/** What the importer knows about Headgate's own providers. */
export type KnownProviders = {
  /** Their names, which no server can have. */
  readonly reserved: ReadonlySet<string>
  /** Whether the catalogue lists a model of a provider. */
  readonly hasModel: (provider: string, model: string) => boolean
}

/** Providers by OpenRouter's name, which is also the first part of a model's name. */
const PROVIDERS: Readonly<Record<string, string>> = {
  openai: 'openai',
  anthropic: 'anthropic',
  google: 'gemini',
  'google-ai-studio': 'gemini',
  mistral: 'mistral',
  mistralai: 'mistral',
  deepseek: 'deepseek',
  xai: 'xai',
  'x-ai': 'xai',
  cohere: 'cohere',
  perplexity: 'perplexity',
  moonshotai: 'moonshot',
  'z-ai': 'zai',
  minimax: 'minimax',
  groq: 'groq',
  cerebras: 'cerebras',
  together: 'together',
  fireworks: 'fireworks',
  deepinfra: 'deepinfra',
  novita: 'novita',
  nebius: 'nebius',
  hyperbolic: 'hyperbolic',
  sambanova: 'sambanova',
  baseten: 'baseten',
  alibaba: 'alibaba',
  qwen: 'alibaba',
}

const SENT = 'only OpenRouter applies it, while clients send it'

/** Members of `provider` without a counterpart. */
const PROVIDER_LEFT_OUT: Readonly<Record<string, string>> = {
  enforce_distillable_text: SENT,
  quantizations: SENT,
  max_price: `there is no limit of the price; ${SENT}`,
  preferred_min_throughput: SENT,
  preferred_max_latency: SENT,
}

/** Members of a request that only OpenRouter has. */
const REQUEST_LEFT_OUT: Readonly<Record<string, string>> = {
  plugins: `there are no plugins, such as search; ${SENT}`,
  transforms: `messages are not shortened; ${SENT}`,
  preset: 'presets are stored at OpenRouter: import the preset itself, as a file',
  web_search_options: SENT,
  session_id: SENT,
  trace: SENT,
  debug: SENT,
  image_config: 'images are not generated',
  modalities: 'text only',
  system_prompt: 'parameters of requests are set by the client',
  parameters: 'parameters of requests are set by the client',
}

/** Members of OpenRouter's other endpoints. */
const FAMILIES: FamilyReasons = [
  [/^(?:query|documents|top_n)$/, 'there is no reranking'],
  [/^(?:requests|endpoint|custom_id)$/, 'there are no batches'],
  [
    /audio|image|video|^(?:voice|speed|duration|resolution|aspect_ratio|size|quality|output_format|input_references)$/,
    'only text generation and embeddings are served',
  ],
  [/^(?:options|partition)$/, SENT],
]

const ROUTING = ['model', 'models', 'provider', 'route', ...Object.keys(REQUEST_LEFT_OUT)]
const PREFERENCES = [
  'order',
  'only',
  'ignore',
  'allow_fallbacks',
  'require_parameters',
  'sort',
  'zdr',
  'data_collection',
]

/** Members of the chat API, which clients continue to send. */
const SENT_BY_CLIENTS = [
  ...[
    'messages',
    'prompt',
    'input',
    'instructions',
    'stream',
    'stream_options',
    'temperature',
    'top_p',
    'top_k',
    'min_p',
  ],
  ...['top_a', 'frequency_penalty', 'presence_penalty', 'repetition_penalty', 'logit_bias', 'logprobs', 'top_logprobs'],
  ...[
    'max_tokens',
    'max_completion_tokens',
    'max_output_tokens',
    'seed',
    'stop',
    'tools',
    'tool_choice',
    'user',
    'text',
    'n',
    'encoding_format',
    'dimensions',
  ],
  ...['parallel_tool_calls', 'response_format', 'structured_outputs', 'reasoning', 'include_reasoning', 'verbosity'],
  ...['metadata', 'prediction', 'usage', 'cache_control', 'service_tier', 'prompt_cache_key', 'prompt_cache_options'],
]

const knownIn = (parent: SourcePath): readonly string[] =>
  parent.length === 0
    ? [...ROUTING, ...SENT_BY_CLIENTS]
    : parent[0] === 'provider' && parent.length === 1
      ? [...PREFERENCES, ...Object.keys(PROVIDER_LEFT_OUT)]
      : []

type Listed = { readonly name: string; readonly path: SourcePath }

/** A preference that is a list of names, or one name. */
const namesAt = (preferences: SourceMembers, name: string): readonly Listed[] => {
  const value = preferences[name]
  const list =
    typeof value === 'string'
      ? [{ one: value, path: ['provider', name] }]
      : listOf(value).map((one, index) => ({ one, path: ['provider', name, index] }))
  return list.flatMap(({ one, path }) => (typeof one === 'string' ? [{ name: one.toLowerCase(), path }] : []))
}

/** `~anthropic/claude-sonnet-latest:nitro` has a mark, a maker, a model and a variant. */
const partsOf = (slug: string) => {
  const found = /^~?([^/:@]+)\/([^:@]+)(?::([a-z]+))?$/.exec(slug)
  return found ? { maker: found[1] ?? '', model: found[2] ?? '', variant: found[3] } : undefined
}

/** The name that a provider itself has for a model, which has dashes where OpenRouter has dots. */
const ownName = (kind: string, slug: string, { hasModel }: KnownProviders): string | undefined => {
  const parts = partsOf(slug)
  if (!parts || parts.variant === 'free') return undefined
  const { maker, model } = parts
  return [model, model.replaceAll('.', '-'), `${maker}/${model}`].find((name) => hasModel(kind, name))
}

const variableOf = (kind: string): string => `\${${kind.toUpperCase().replaceAll('-', '_')}_API_KEY}`

const deploymentOf = (
  kind: string,
  model: string,
  place: { readonly route: string; readonly order: number },
): Deployment => ({
  kind,
  model,
  baseUrl: undefined,
  variables: {},
  weight: 1,
  ...place,
  key: { text: variableOf(kind), literal: false, path: null },
})

/** The models in their order: `model`, then `models`. */
const readModels = (root: SourceMembers, rows: RowCollector): readonly Listed[] => {
  const written: readonly (readonly [SourcePath, unknown])[] = [
    [['model'], root.model],
    ...listOf(root.models).map((one, index): readonly [SourcePath, unknown] => [['models', index], one]),
  ]
  const found: Listed[] = []
  for (const [path, name] of written) {
    if (name === undefined) continue
    if (typeof name !== 'string' || name === '') rows.leaveOut(path, 'not the name of a model')
    else if (name.includes('@preset/')) rows.leaveOut(path, REQUEST_LEFT_OUT.preset ?? '')
    else if (found.some((one) => one.name === name)) rows.taken(path, 'named before')
    else found.push({ name, path })
  }
  return found
}

type Preferences = {
  /** Kinds of providers in their order; empty: the maker of each model. */
  readonly order: readonly string[]
  readonly ignored: ReadonlySet<string>
  /** Whether OpenRouter itself may be used if a provider of its own fails. */
  readonly open: boolean
  readonly strategy: 'priority' | 'cost' | 'latency'
}

const readPreferences = (
  preferences: SourceMembers,
  slugs: readonly string[],
  known: KnownProviders,
  rows: RowCollector,
): Preferences => {
  const order: string[] = []
  for (const name of ['order', 'only'])
    for (const { name: slug, path } of namesAt(preferences, name)) {
      const [base = '', variant] = slug.split('/')
      const kind = PROVIDERS[base]
      if (kind === undefined) rows.leaveOut(path, `no provider of Headgate has this name; ${SENT}`)
      else if (!slugs.some((one) => ownName(kind, one, known) !== undefined))
        rows.leaveOut(path, `the catalogue has none of these models at ${kind}; add a target with its own name`)
      else {
        if (variant === undefined) rows.taken(path, `targets of ${kind}`)
        else rows.changed(path, `targets of ${kind}`, 'the variant is a matter of its own model names')
        if (!order.includes(kind)) order.push(kind)
      }
    }
  const ignored = new Set<string>()
  for (const { name, path } of namesAt(preferences, 'ignore')) {
    rows.taken(path, 'no target')
    ignored.add(PROVIDERS[name] ?? name)
  }
  const { allow_fallbacks: fallbacks, require_parameters: required, sort } = preferences
  if (fallbacks !== undefined)
    rows.taken(['provider', 'allow_fallbacks'], fallbacks === false ? 'no fallback' : 'fallback of the route')
  if (required !== undefined)
    rows.changed(
      ['provider', 'require_parameters'],
      'always',
      'members that a target cannot take are dropped and named in x-headgate-dropped',
    )
  const by = isMembers(sort) ? sort.by : sort
  const at = isMembers(sort) ? ['provider', 'sort', 'by'] : ['provider', 'sort']
  const strategy = by === 'price' ? 'cost' : by === 'latency' || by === 'throughput' ? 'latency' : 'priority'
  if (strategy === 'cost') rows.taken(at, 'strategy: cost')
  else if (strategy === 'latency')
    rows.changed(
      at,
      'strategy: latency',
      by === 'latency' ? 'by the latency that this gateway measures' : 'there is no order by throughput',
    )
  for (const [name, why] of Object.entries(PROVIDER_LEFT_OUT))
    if (Object.hasOwn(preferences, name)) rows.leaveOut(['provider', name], why)
  const only = namesAt(preferences, 'only').length > 0
  return { order, ignored, open: fallbacks !== false && !only, strategy }
}

/** What OpenRouter's data policies require, by the value that requires it. */
const POLICIES = [
  { member: 'zdr', value: true, require: { retention: 0 }, none: false },
  { member: 'data_collection', value: 'deny', require: { training: false }, none: 'allow' },
] as const

const DECLARED =
  'requests are refused with 403 data_policy until a provider has `facts` that satisfy it: see its comment in the result'

/** What the route requires, which holds also for clients that no longer send it. */
const readPolicies = (preferences: SourceMembers, route: string | undefined, rows: RowCollector): SourceMembers => {
  let required: SourceMembers = {}
  for (const { member, value, require, none } of POLICIES) {
    if (!Object.hasOwn(preferences, member)) continue
    const path = ['provider', member]
    const given = preferences[member]
    if (given === none || given === null) rows.taken(path, 'nothing is required')
    else if (given !== value || route === undefined) rows.leaveOut(path, 'a value that cannot be used')
    else {
      required = { ...required, ...require }
      const [[name, limit]] = Object.entries(require) as [[string, unknown]]
      rows.changed(path, `routes.${route}.require.${name}: ${limit}`, DECLARED)
    }
  }
  return required
}

/** The deployments of one model: at the providers themselves, then at OpenRouter. */
const deploymentsOf = (slug: string, preferences: Preferences, known: KnownProviders) => {
  const { order, ignored, open } = preferences
  const maker = PROVIDERS[partsOf(slug)?.maker ?? '']
  const kinds = order.length > 0 ? order : maker === undefined ? [] : [maker]
  const own = kinds.flatMap((kind) => {
    const model = ignored.has(kind) ? undefined : ownName(kind, slug, known)
    return model === undefined ? [] : [{ kind, model }]
  })
  return own.length === 0 || open ? [...own, { kind: 'openrouter', model: slug }] : own
}

/** Maps a request. Undefined: it names no model and no provider. */
export const importOpenrouter = (source: ImportSource, known: KnownProviders): Imported | undefined => {
  const root = isMembers(source.value) ? source.value : {}
  if (!['model', 'models'].some((name) => Object.hasOwn(root, name))) return undefined
  const rows = new RowCollector(source)
  const models = readModels(root, rows)
  const preferences = readPreferences(
    isMembers(root.provider) ? root.provider : {},
    models.map(({ name }) => name),
    known,
    rows,
  )
  const [first] = models
  const found: Deployment[] = []
  for (const { name, path } of models) {
    const targets = deploymentsOf(name, preferences, known)
    const to = targets.map(({ kind, model }) => `${kind}/${model}`).join(', ')
    const isFirst = name === first?.name
    if (first && isFirst)
      rows.changed(
        path,
        `routes.${name}: ${to}`,
        targets.length > 1 || targets[0]?.kind !== 'openrouter'
          ? 'the provider itself comes first, with a key of its own'
          : 'by OpenRouter, because the catalogue has it nowhere else',
      )
    else rows.changed(path, to, 'tried after every failure, not after refusals of moderation')
    // With an order of its own, the strategy compares all targets of the first model; the others are fallbacks.
    const sorted = preferences.strategy !== 'priority' && isFirst
    for (const { kind, model } of targets)
      found.push(deploymentOf(kind, model, { route: first?.name ?? name, order: sorted ? 0 : found.length }))
  }
  const drafts = draftProviders(found, known.reserved)
  const required = readPolicies(isMembers(root.provider) ? root.provider : {}, first?.name, rows)
  const isRequired = Object.keys(required).length > 0
  const providers = providerEntries(drafts)
  const routes = Object.entries(routeEntries(draftRoutes(drafts), undefined)).map(
    ([name, route]) => [name, isMembers(route) && isRequired ? { ...route, require: required } : route] as const,
  )
  if (root.route === 'fallback') rows.taken(['route'], 'fallback of the route')
  else if (root.route !== undefined) rows.leaveOut(['route'], 'not `fallback`')
  for (const [name, why] of Object.entries(REQUEST_LEFT_OUT)) if (Object.hasOwn(root, name)) rows.leaveOut([name], why)
  for (const name of SENT_BY_CLIENTS) if (Object.hasOwn(root, name)) rows.taken([name], 'sent by the client, as before')
  const config = {
    providers,
    ...(found.length > 0 && { routes: Object.fromEntries(routes) }),
    fallback: 'same-model',
    strategy: preferences.strategy,
  }
  const facts = Object.entries(required).map(([name, value]) => `${name}: ${value}`)
  const comments = isRequired
    ? Object.keys(providers).map((name) => ({
        path: ['providers', name],
        text: ` If your contract has it:\n facts: { ${facts.join(', ')} }`,
      }))
    : []
  return { config, rows: rows.finish(knownIn, FAMILIES), comments, literals: new LiteralSecrets().values }
}
