/** A company of fifty teams with four keys each, its providers, prices, routes and budgets: the names that pages must tell apart. */
import type { Budget } from '../../../src/core/accounts.ts'

/** Names that differ at their end. The first ones have the most traffic. */
export const TEAMS = [
  ...['data-science-eu', 'customer-success-emea', 'api-platform-prod', 'research-agents', 'customer-support-emea'],
  ...['search-relevance', 'api-platform-staging', 'customer-success-amer', 'developer-tools', 'marketing-content-en'],
  ...['customer-success-apac', 'customer-support-amer', 'search-indexing', 'data-science-us', 'mobile-ios'],
  ...['customer-support-apac', 'checkout-payments', 'mobile-android', 'research-evaluation', 'marketing-content-de'],
  ...['sales-engineering-emea', 'search-ranking', 'checkout-fraud', 'legal-contracts', 'customer-support-weekend'],
  ...['developer-experience', 'translation-emea', 'recommendations-home', 'finance-reporting', 'security-detection'],
  ...['sales-engineering-amer', 'research-safety', 'marketing-content-fr', 'logistics-routing', 'internal-assistant'],
  ...['recommendations-email', 'translation-apac', 'finance-forecasting', 'checkout-tax', 'security-response'],
  ...['documentation', 'logistics-returns', 'legal-compliance', 'marketing-content-jp', 'quality-assurance'],
  ...['knowledge-base', 'people-operations', 'incident-review', 'education-partners', 'customer-success-latam'],
] as const
export type TeamName = (typeof TEAMS)[number]

/** The keys of each team, `TEAM-KEY`, and the share of its traffic. */
export const KEYS = { prod: 60, batch: 25, ci: 10, dev: 5 } as const
export type KeyKind = keyof typeof KEYS
export const KEY_KINDS = ['prod', 'batch', 'ci', 'dev'] as const satisfies readonly KeyKind[]

/** The limited key, whose requests beyond 20 a minute are refused, and the one whose budget is spent. */
export const LIMITED = 'mobile-ios-ci'
export const SPENT = 'checkout-payments-batch'
/** The key whose prompts and answers are kept. */
export const KEPT = 'customer-support-emea-prod'

/** Dollars per million tokens: input, cached input, output. Null: no price is known. */
export const PRICES = {
  'openai/gpt-5': [1.25, 0.125, 10],
  'openai/gpt-5-mini': [0.25, 0.025, 2],
  'openai/text-embedding-3-small': [0.02, 0.02, 0],
  'anthropic/claude-opus-4-5': [5, 0.5, 25],
  'anthropic/claude-sonnet-4-5': [3, 0.3, 15],
  'anthropic/claude-haiku-4-5': [1, 0.1, 5],
  'groq/llama-3.3-70b-versatile': [0.59, 0.59, 0.79],
  'groq/gpt-oss-120b': [0.15, 0.15, 0.6],
  'house/qwen3-32b': [0.05, 0.05, 0.1],
  'house/qwen3-coder': null,
} as const
export type TargetName = keyof typeof PRICES
export const PROVIDERS = ['openai', 'anthropic', 'groq', 'house'] as const
export type ProviderName = (typeof PROVIDERS)[number]
export const TARGETS = [
  ...(['openai/gpt-5', 'openai/gpt-5-mini', 'openai/text-embedding-3-small', 'anthropic/claude-opus-4-5'] as const),
  ...(['anthropic/claude-sonnet-4-5', 'anthropic/claude-haiku-4-5', 'groq/llama-3.3-70b-versatile'] as const),
  ...(['groq/gpt-oss-120b', 'house/qwen3-32b', 'house/qwen3-coder'] as const),
] satisfies readonly TargetName[]

export const splitTarget = (target: TargetName): readonly [provider: ProviderName, model: string] => {
  const provider = PROVIDERS.find((one) => target.startsWith(`${one}/`)) ?? 'house'
  return [provider, target.slice(provider.length + 1)]
}

/** Targets of each route in the order in which they are tried most often. */
export const ROUTES = {
  fast: ['groq/llama-3.3-70b-versatile', 'openai/gpt-5-mini', 'anthropic/claude-haiku-4-5'],
  smart: ['anthropic/claude-sonnet-4-5', 'openai/gpt-5'],
  trial: ['openai/gpt-5-mini', 'house/qwen3-32b'],
  bulk: ['house/qwen3-32b', 'groq/gpt-oss-120b', 'openai/gpt-5-mini'],
  agent: ['anthropic/claude-haiku-4-5', 'anthropic/claude-sonnet-4-5', 'openai/gpt-5'],
  embed: ['openai/text-embedding-3-small'],
} as const satisfies Readonly<Record<string, readonly TargetName[]>>
export type RouteName = keyof typeof ROUTES
/** Requests of 100 of `trial` that go to its first target. */
export const TRIAL_SHARE = 90

/** The configuration file. `urls`: the base URLs of the providers. */
export const companyFile = (urls: Readonly<Record<ProviderName, string>>): string => {
  const target = (name: TargetName, more: object = {}) => {
    const [provider, model] = splitTarget(name)
    return { provider, model, ...more }
  }
  const modelsOf = (provider: ProviderName) =>
    TARGETS.flatMap((one) => (splitTarget(one)[0] === provider ? [splitTarget(one)[1]] : []))
  const [haiku, sonnet, large] = ROUTES.agent
  return JSON.stringify({
    providers: Object.fromEntries(
      PROVIDERS.map((provider) => [
        provider,
        {
          kind: provider === 'house' ? 'openai-compatible' : provider,
          baseUrl: provider === 'anthropic' ? urls[provider] : `${urls[provider]}/v1`,
          keys: [`sk-${provider}-company-0123456789`],
          models: modelsOf(provider),
        },
      ]),
    ),
    routes: {
      fast: { targets: [ROUTES.fast[0]], fallback: ROUTES.fast.slice(1) },
      smart: { targets: [ROUTES.smart[0]], fallback: ROUTES.smart.slice(1) },
      trial: {
        strategy: 'weighted',
        targets: ROUTES.trial.map((one, at) => target(one, { weight: at === 0 ? TRIAL_SHARE : 100 - TRIAL_SHARE })),
      },
      bulk: { strategy: 'cost', targets: ROUTES.bulk, cache: { ttl: 600, anyTemperature: true } },
      agent: {
        targets: [
          target(haiku, { when: { inputTokens: { below: 20_000 }, tools: false } }),
          target(sonnet, { set: { effort: 'low', maxOutputTokens: { max: 8_000 } } }),
        ],
        fallback: [large],
      },
      embed: { targets: ROUTES.embed },
    },
    prices: TARGETS.flatMap((one) => {
      const price = PRICES[one]
      if (price === null) return []
      const [input, cacheRead, output] = price
      return [target(one, { perMillion: { input, cacheRead, output } })]
    }),
    unknownModel: 'reject',
    usage: { rollupTag: 'app', endUser: true },
    circuit: { firstProbe: 1_000, resetTimeout: 20_000 },
  })
}

/** A budget as it is wanted: `share` of its amount is spent by its fullest counter. */
export type BudgetPlan = Pick<Budget, 'name' | 'per' | 'period' | 'mode'> & {
  readonly share: number
  readonly teams?: readonly TeamName[]
  /** Keys by name. */
  readonly keys?: readonly string[]
  readonly models?: readonly string[]
  readonly providers?: readonly string[]
}

export const BUDGETS: readonly BudgetPlan[] = [
  { name: 'company-month', per: 'all', period: 'month', mode: 'soft', share: 0.71 },
  {
    name: 'data-science-eu-month',
    per: 'team',
    period: 'month',
    mode: 'hard',
    share: 0.97,
    teams: ['data-science-eu'],
  },
  ...(['emea', 'amer'] as const).map(
    (region): BudgetPlan => ({
      ...{ name: `customer-success-${region}-month`, per: 'team', period: 'month', mode: 'hard' },
      ...{ share: region === 'emea' ? 0.93 : 0.42, teams: [`customer-success-${region}`] },
    }),
  ),
  { name: `${SPENT}-month`, per: 'key', period: 'month', mode: 'hard', share: 1.002, keys: [SPENT] },
  { name: 'opus-cap', per: 'all', period: 'month', mode: 'soft', share: 1.04, models: ['*opus*'] },
  {
    ...{ name: 'support-end-user-month', per: 'end_user', period: 'month', mode: 'soft', share: 0.88 },
    teams: ['customer-support-emea', 'customer-support-amer', 'customer-support-apac'],
  },
  { name: 'each-key-month', per: 'key', period: 'month', mode: 'soft', share: 0.63 },
  {
    ...{ name: 'marketing-content-week', per: 'all', period: 'week', mode: 'hard', share: 0.55 },
    teams: ['marketing-content-en', 'marketing-content-de', 'marketing-content-fr', 'marketing-content-jp'],
  },
  { name: 'groq-month', per: 'all', period: 'month', mode: 'soft', share: 0.3, providers: ['groq'] },
]
