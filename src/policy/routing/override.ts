/** Applies what an operator changes in requests to a target: the settings, the timeouts and the headers. */
import { EFFORTS, type GenerationSettings, type Setting } from '../../core/chat.ts'
import type { Settings } from '../../core/settings.ts'
import type { Bounds, OverrideName, TargetOverride } from '../../core/target-override.ts'

type Changed = { [name: string]: Setting<unknown> | undefined }

/**
 * The settings that a target receives. What the client has set keeps its path, so that a loss is reported as the client's own; other
 * settings have the path of the override (`set.effort`).
 */
export const overriddenSettings = (settings: GenerationSettings, override: TargetOverride): GenerationSettings => {
  const { set = {}, default: defaults = {}, remove = [] } = override
  const changed: Changed = { ...settings }
  for (const name of remove) delete changed[name]
  for (const [name, value] of Object.entries(defaults)) {
    const own = changed[name]
    // An empty path is a default of the client's format.
    if (own === undefined || own.at === '') changed[name] = { value, at: `default.${name}` }
  }
  for (const [name, wanted] of Object.entries(set)) {
    const own = changed[name]
    const value = isBounds(wanted) ? withinBounds(own?.value, wanted, name) : wanted
    if (value === undefined || JSON.stringify(value) === JSON.stringify(own?.value)) continue
    changed[name] = own === undefined || own.at === '' ? { value, at: `set.${name}` } : { ...own, value }
  }
  // The schema of overrides has the type of each setting.
  return changed as GenerationSettings
}

const isBounds = (value: unknown): value is Bounds<unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A value within bounds. Undefined: the client states none, and only an answer without a limit exceeds a bound. */
const withinBounds = (own: unknown, { min, max }: Bounds<unknown>, name: string): unknown => {
  if (own === undefined) return name === 'maxOutputTokens' ? max : undefined
  if (max !== undefined && rank(own) > rank(max)) return max
  return min !== undefined && rank(own) < rank(min) ? min : own
}

/** The order of values: numbers, and levels of reasoning. */
const rank = (value: unknown): number => (typeof value === 'number' ? value : LEVELS.indexOf(value))

const LEVELS: readonly unknown[] = EFFORTS

/** The output limit that a target receives. Undefined: none is stated. */
export const overriddenLimit = (
  override: TargetOverride | undefined,
  requested: number | undefined,
): number | undefined => {
  if (!override) return requested
  const own = requested === undefined ? {} : { maxOutputTokens: { value: requested, at: 'max_tokens' } }
  return overriddenSettings(own, override).maxOutputTokens?.value
}

/** The service tier that a target receives. Undefined: none is stated. */
export const overriddenTier = (override: TargetOverride, requested: string | undefined): string | undefined => {
  const own = requested === undefined ? {} : { serviceTier: { value: requested, at: 'service_tier' } }
  return overriddenSettings(own, override).serviceTier?.value
}

/** The settings of attempts at a target: its own timeouts, none longer than that of the whole request. */
export const overriddenTimeouts = (settings: Settings, override: TargetOverride | undefined): Settings => {
  if (override?.timeout === undefined) return settings
  const { firstByte, firstContent, idle } = override.timeout
  const { circuit, timeout } = settings
  return {
    ...settings,
    circuit: { ...circuit, timeout: firstByte ?? circuit.timeout },
    timeout: { ...timeout, firstContent: firstContent ?? timeout.firstContent, idle: idle ?? timeout.idle },
  }
}

/** The beta features after what the override adds and drops. */
export const overriddenBetas = (
  requested: readonly string[],
  { add = [], drop = [] }: NonNullable<TargetOverride['betas']>,
): readonly string[] => [...new Set([...requested, ...add].filter((one) => !drop.includes(one)))]

/**
 * An override as one line, for operators: `set effort low; firstByte 8000 ms; headers x-team`; none is empty. Values of headers are not
 * shown.
 */
export const overrideText = (override: TargetOverride = {}): string => {
  const { set = {}, default: defaults = {}, remove = [], extra = {}, timeout = {}, retries, headers = {} } = override
  const { cacheBreakpoints } = override
  const { add = [], drop = [] } = override.betas ?? {}
  const names = (about: string, list: readonly string[]) => (list.length === 0 ? [] : [`${about} ${list.join(', ')}`])
  return [
    ...Object.entries(set).flatMap(([name, value]) => (value === undefined ? [] : [`set ${name} ${valueText(value)}`])),
    ...Object.entries(defaults).map(([name, value]) => `default ${name} ${valueText(value)}`),
    ...names('without', remove),
    ...names('extra', Object.keys(extra)),
    ...Object.entries(timeout).map(([name, ms]) => `${name} ${ms} ms`),
    ...(retries === undefined ? [] : [`retries ${retries}`]),
    ...names('headers', Object.keys(headers)),
    ...(cacheBreakpoints === undefined ? [] : [`cacheBreakpoints ${cacheBreakpoints}`]),
    ...names('betas', [...add.map((one) => `+${one}`), ...drop.map((one) => `-${one}`)]),
  ].join('; ')
}

const valueText = (value: unknown): string => {
  if (!isBounds(value)) return typeof value === 'string' ? value : JSON.stringify(value)
  const { min, max } = value
  return [...(min === undefined ? [] : [`at least ${min}`]), ...(max === undefined ? [] : [`at most ${max}`])].join(
    ', ',
  )
}

/** Names of settings that an override may have. The limit of the output is last, because a budget must fit below it. */
export const OVERRIDE_NAMES = [
  ...(['temperature', 'topP', 'topK', 'stop', 'seed', 'effort', 'thinkingBudget', 'verbosity'] as const),
  ...(['serviceTier', 'parallelToolCalls', 'store', 'user', 'maxOutputTokens'] as const),
] as const satisfies readonly OverrideName[]
