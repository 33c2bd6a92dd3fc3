/** Maps `router_settings`, `litellm_settings` and `general_settings` of LiteLLM. */
import type { LiteralSecrets, RowCollector } from './imported.ts'
import { isMembers, listOf, type SourceMembers, type SourcePath } from './source.ts'

export type SettingSections = {
  readonly router_settings: SourceMembers
  readonly litellm_settings: SourceMembers
  readonly general_settings: SourceMembers
}

type SettingTools = {
  readonly rows: RowCollector
  readonly secrets: LiteralSecrets
  /** The largest number of models that one request can reach by fallbacks, itself included. */
  readonly reach: number
}

type MappedSettings = { [section: string]: unknown }

/** A member that is mapped: returns the settings, or undefined if its value cannot be used. */
type SettingRule = (value: unknown, path: SourcePath, tools: SettingTools) => MappedSettings | undefined

const LONGEST = 2_147_483_647
const SECONDS = 'not a number of seconds'

const number = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined

/** A rule for a time in seconds. */
const seconds =
  (section: string, name: string, why: string): SettingRule =>
  (value, path, { rows }) => {
    const ms = Math.round((number(value) ?? Number.NaN) * 1_000)
    if (!(ms > 0 && ms <= LONGEST)) return void rows.leaveOut(path, SECONDS)
    rows.changed(path, `${section}.${name}: ${ms}`, why)
    return { [section]: { [name]: ms } }
  }

const requestTime = seconds('timeout', 'request', 'for a whole request with its retries, not for one attempt')

const retries: SettingRule = (value, path, { rows, reach }) => {
  const count = number(value)
  if (count === undefined || !Number.isInteger(count)) return void rows.leaveOut(path, 'not a whole number')
  const maxAttempts = Math.min(100, (count + 1) * reach)
  rows.changed(path, `retry.maxAttempts: ${maxAttempts}`, 'attempts over all targets and fallbacks, with the first')
  return { retry: { maxAttempts } }
}

const fails: SettingRule = (value, path, { rows }) => {
  const count = number(value)
  if (count === undefined || !Number.isInteger(count) || count > 999_999)
    return void rows.leaveOut(path, 'not a whole number')
  rows.changed(path, `circuit.consecutiveFailures: ${count + 1}`, 'failures in a row, not failures in a minute')
  return { circuit: { consecutiveFailures: count + 1 } }
}

const cooldown = seconds('circuit', 'resetTimeout', 'the longest time until one request probes the target')

const STRATEGIES: Readonly<Record<string, readonly [string, string]>> = {
  'simple-shuffle': ['weighted', ''],
  'least-busy': ['priority', 'targets in order; keys of a provider share the load by what is in progress'],
  'usage-based-routing': ['priority', 'targets in order; keys of a provider share the load'],
  'usage-based-routing-v2': ['priority', 'targets in order; keys of a provider share the load'],
  'latency-based-routing': ['latency', 'by the latency that this gateway measures'],
  'cost-based-routing': ['cost', 'by the prices of the catalogue and of `prices`'],
}

const strategy: SettingRule = (value, path, { rows }) => {
  const [name, why] = (typeof value === 'string' && Object.hasOwn(STRATEGIES, value) && STRATEGIES[value]) || []
  if (name === undefined) return void rows.leaveOut(path, 'there is no such strategy')
  if (why) rows.changed(path, `strategy: ${name}`, why)
  else rows.taken(path, `strategy: ${name}`)
  return { strategy: name }
}

const always =
  (wanted: boolean, to: string, why: string): SettingRule =>
  (value, path, { rows }) => {
    if (value === wanted) rows.taken(path, to)
    else rows.changed(path, to, why)
    return {}
  }

const masterKey: SettingRule = (value, path, { rows, secrets }) => {
  const key = secrets.reference(value, 'ADMIN')
  if (!key) return void rows.leaveOut(path, 'not a text')
  const literal = key.literal ? `; a literal key: it is now the variable ${key.text}` : ''
  rows.changed(path, 'auth.admin', `for operators; to call models, create keys: headgate keys create NAME${literal}`)
  return { auth: { admin: key.text, required: true } }
}

const PERIODS: Readonly<Record<string, string>> = {
  '1h': 'hour',
  '1d': 'day',
  '24h': 'day',
  '7d': 'week',
  '30d': 'month',
}

const concurrent: SettingRule = (value, path, { rows }) => {
  const count = number(value)
  if (count === undefined || !Number.isInteger(count) || count < 1 || count > 1_000_000)
    return void rows.leaveOut(path, 'not a whole number above 0')
  rows.taken(path, `limit.concurrent: ${count}`)
  return { limit: { concurrent: count } }
}

const bodySize: SettingRule = (value, path, { rows }) => {
  const bytes = Math.round((number(value) ?? 0) * 1_048_576)
  if (bytes < 1 || bytes > 1_073_741_824) return void rows.leaveOut(path, 'not a size up to 1024 MB')
  rows.taken(path, `limit.body: ${bytes}`)
  return { limit: { body: bytes } }
}

const alerting: SettingRule = (value, path, { rows }) => {
  if (listOf(value).length !== 1 || listOf(value)[0] !== 'slack')
    return void rows.leaveOut(path, 'alerts are sent to one webhook: set `alerts.url`')
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference to a variable in headgate.yaml
  const url = '${SLACK_WEBHOOK_URL}'
  rows.changed(path, 'alerts.url, alerts.format: slack', 'the rules are those of `alerts.rules`')
  return { alerts: { url, format: 'slack' } }
}

const RULES: { readonly [section in keyof SettingSections]: Readonly<Record<string, SettingRule>> } = {
  router_settings: {
    routing_strategy: strategy,
    num_retries: retries,
    timeout: requestTime,
    stream_timeout: seconds('timeout', 'firstContent', 'until the first content, also of whole answers'),
    allowed_fails: fails,
    cooldown_time: cooldown,
    enable_tag_filtering: (value, path, { rows }) => {
      rows.taken(path, value === true ? 'when of the targets' : 'off')
      return {}
    },
    tag_filtering_match_any: always(true, 'when of the targets', 'requests need all tags in LiteLLM: write `when`'),
    enable_pre_call_checks: always(true, 'always', 'requests too long for a model are always sent to another one'),
  },
  litellm_settings: {
    num_retries: retries,
    request_timeout: requestTime,
    allowed_fails: fails,
    cooldown_time: cooldown,
    drop_params: always(true, 'always', 'members that a provider cannot take are dropped and named in a header'),
    turn_off_message_logging: always(true, 'bodies.sample: 0', 'texts are not stored unless `bodies.sample` is set'),
    telemetry: always(false, 'always', 'there is no telemetry'),
  },
  general_settings: {
    master_key: masterKey,
    max_request_size_mb: bodySize,
    global_max_parallel_requests: concurrent,
    max_parallel_requests: concurrent,
    alerting,
  },
}

/** Mapped members of each section, for "did you mean …?". */
export const SETTING_MEMBERS: Readonly<Record<string, readonly string[]>> = {
  router_settings: [
    ...Object.keys(RULES.router_settings),
    ...['fallbacks', 'default_fallbacks', 'context_window_fallbacks', 'model_group_alias'],
  ],
  litellm_settings: [
    ...Object.keys(RULES.litellm_settings),
    ...['fallbacks', 'default_fallbacks', 'context_window_fallbacks', 'cache', 'cache_params'],
    ...['max_budget', 'budget_duration'],
  ],
  general_settings: [...Object.keys(RULES.general_settings), 'enable_jwt_auth', 'litellm_jwtauth'],
  environment_variables: [],
}

const CACHE = ['litellm_settings', 'cache_params']

/** The `cache` of all routes; undefined: off. */
const readCache = ({ cache, cache_params: params }: SourceMembers, rows: RowCollector): SourceMembers | undefined => {
  if (cache !== true) {
    if (isMembers(params)) rows.leaveOut(CACHE, 'the cache is off')
    if (cache === false) rows.taken(['litellm_settings', 'cache'], 'off')
    return undefined
  }
  const to = 'cache of the routes'
  rows.changed(['litellm_settings', 'cache'], to, 'in memory; answers are shared by requests of one client key')
  if (!isMembers(params)) return { anyTemperature: true }
  const { type, ttl } = params
  if (type === 'local') rows.taken([...CACHE, 'type'], to)
  else if (type !== undefined)
    rows.changed([...CACHE, 'type'], to, 'in memory of one process; there is no shared cache yet')
  const whole = number(ttl) !== undefined && Number.isInteger(ttl) && Number(ttl) <= 86_400
  if (whole) rows.taken([...CACHE, 'ttl'], `${to}, ttl: ${String(ttl)}`)
  else if (ttl !== undefined) rows.leaveOut([...CACHE, 'ttl'], 'not a whole number of seconds up to a day')
  for (const name of Object.keys(params)) rows.leaveOut([...CACHE, name], 'the cache has no such setting')
  return { ...(whole && { ttl }), anyTemperature: true }
}

const readBudget = (
  { max_budget: amount, budget_duration: duration }: SourceMembers,
  rows: RowCollector,
): MappedSettings => {
  const at = (name: string): SourcePath => ['litellm_settings', name]
  const period = duration === undefined ? 'total' : typeof duration === 'string' ? PERIODS[duration] : undefined
  if (amount !== undefined && number(amount) !== undefined && period !== undefined) {
    rows.taken(at('max_budget'), 'budgets.imported.amount')
    if (duration !== undefined)
      rows.changed(at('budget_duration'), `budgets.imported.period: ${period}`, 'of the calendar, in UTC')
    return { budgets: { imported: { amount: Number(amount).toFixed(2), period } } }
  }
  if (amount !== undefined)
    rows.leaveOut(at('max_budget'), 'not an amount with a period of an hour, day, week or month')
  if (duration !== undefined) rows.leaveOut(at('budget_duration'), 'a period without a usable amount')
  return {}
}

const merged = (into: MappedSettings, more: MappedSettings): MappedSettings => {
  for (const [name, value] of Object.entries(more)) {
    const before = into[name]
    into[name] = isMembers(before) && isMembers(value) ? { ...before, ...value } : value
  }
  return into
}

/** Maps all settings. The first section with a setting is used: `router_settings` comes first, as in LiteLLM. */
export const readSettings = (
  sections: SettingSections,
  tools: SettingTools,
): { readonly settings: SourceMembers; readonly cache: SourceMembers | undefined } => {
  const settings: MappedSettings = { strategy: 'weighted' }
  const used = new Map<SettingRule, string>()
  for (const section of ['router_settings', 'litellm_settings', 'general_settings'] as const)
    for (const [name, rule] of Object.entries(RULES[section])) {
      const value = sections[section][name]
      if (value === undefined || !Object.hasOwn(sections[section], name)) continue
      const before = used.get(rule)
      if (before !== undefined) tools.rows.leaveOut([section, name], `${before} has it already`)
      else if (merged(settings, rule(value, [section, name], tools) ?? {})) used.set(rule, `${section}.${name}`)
    }
  merged(settings, readBudget(sections.litellm_settings, tools.rows))
  return { settings, cache: readCache(sections.litellm_settings, tools.rows) }
}
