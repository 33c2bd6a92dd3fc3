/**
 * The settings that a person's Claude Code receives. They are merged as the gateway in the package `@anthropic-ai/claude-code`
 * (2.1.328) merges them, so that a policy means the same at both.
 */
import type { ClaudeMatch, ClaudePolicy, ClaudeSettings } from '../../core/claude.ts'
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'

/** What a policy compares. `team`: the one that pays; null: none. */
export type ClaudePerson = {
  readonly email: string | null
  readonly groups: readonly string[]
  readonly team: { readonly id: string; readonly name: string } | null
}

/** `rules`: the positions of the policies that were merged. */
export type ManagedSettings = { readonly settings: JsonObject; readonly rules: readonly number[] }

/** The settings of a person; null: no policy is for the person. `address`: the gateway's own, for telemetry. */
export const managedSettings = (
  { policies, receivers }: Pick<ClaudeSettings, 'policies' | 'receivers'>,
  person: ClaudePerson,
  address: string,
): ManagedSettings | null => {
  const bases = policies.flatMap(({ match }, index) => (isForAll(match) ? [index] : []))
  const first = policies.findIndex(({ match }) => !isForAll(match) && matches(match, person))
  const rules = first < 0 ? bases : [...bases, first]
  if (rules.length === 0 && receivers.length === 0) return null
  // One alone stays as it is.
  const [start = {}, ...others] = rules.map((index) => settingsAt(policies, index))
  const merged = others.reduce(mergeSettings, start)
  if (receivers.length === 0) return { settings: merged, rules }
  return { settings: { ...merged, env: { ...telemetryEnv(receivers, address), ...objectOr(merged.env) } }, rules }
}

const settingsAt = (policies: readonly ClaudePolicy[], index: number): JsonObject => policies[index]?.settings ?? {}

/** Whether a policy is the base of all others. */
export const isForAll = ({ groups, domains, teams }: ClaudeMatch): boolean =>
  groups === null && domains === null && teams === null

const matches = ({ groups, domains, teams }: ClaudeMatch, { email, groups: own, team }: ClaudePerson): boolean => {
  const domain = email?.includes('@') ? email.slice(email.lastIndexOf('@') + 1).toLowerCase() : null
  if (groups && !groups.some((group) => own.includes(group))) return false
  if (domains && (domain === null || !domains.includes(domain))) return false
  return teams === null || (team !== null && (teams.includes(team.name) || teams.includes(team.id)))
}

/** Members that are objects, and are merged by their keys. Every other one is replaced as a whole. */
const MERGED = ['env', 'modelOverrides', 'skillOverrides']
/** Lists of what is not permitted: both apply. */
const UNITED = ['disabledMcpjsonServers', 'deniedMcpServers', 'blockedMarketplaces', 'deniedModels']
/** The same below `permissions`. */
const UNITED_PERMISSIONS = ['deny', 'ask']

/** The settings of a base and of a policy above it. */
export const mergeSettings = (base: JsonObject, above: JsonObject): JsonObject => {
  const merged: Record<string, Json | undefined> = { ...base, ...above }
  for (const name of MERGED) {
    const [one, other] = [base[name], above[name]]
    if (isObject(one) && isObject(other)) merged[name] = { ...one, ...other }
  }
  for (const name of UNITED) merged[name] = united(base[name], above[name])
  merged.permissions = mergedMembers(base.permissions, above.permissions, () => UNITED_PERMISSIONS)
  merged.hooks = mergedMembers(base.hooks, above.hooks, Object.keys)
  return present(merged)
}

/** `unite`: the members whose lists both apply. */
const mergedMembers = (
  base: Json | undefined,
  above: Json | undefined,
  unite: (merged: object) => readonly string[],
): JsonObject | undefined => {
  if (!isObject(base) && !isObject(above)) return undefined
  const [one, other] = [objectOr(base), objectOr(above)]
  const merged: Record<string, Json | undefined> = { ...one, ...other }
  for (const name of unite(merged)) merged[name] = united(one[name], other[name])
  return present(merged)
}

/** Both lists, each item once; undefined: neither is a list. */
const united = (base: Json | undefined, above: Json | undefined): Json[] | undefined => {
  if (!isList(base) && !isList(above)) return undefined
  const items = [...(isList(base) ? base : []), ...(isList(above) ? above : [])]
  return [...new Map(items.map((item) => [JSON.stringify(item), item])).values()]
}

const present = (members: Readonly<Record<string, Json | undefined>>): JsonObject =>
  Object.fromEntries(Object.entries(members).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])))

const objectOr = (value: Json | undefined): JsonObject => (isObject(value) ? value : {})

/** The variables by which a client sends its telemetry to this gateway. */
const telemetryEnv = (receivers: ClaudeSettings['receivers'], address: string): JsonObject => {
  const exporter = (signal: ClaudeSettings['receivers'][number]['signals'][number]) =>
    receivers.some(({ signals }) => signals.includes(signal)) ? 'otlp' : 'none'
  return {
    CLAUDE_CODE_ENABLE_TELEMETRY: '1',
    OTEL_METRICS_EXPORTER: exporter('metrics'),
    OTEL_LOGS_EXPORTER: exporter('logs'),
    OTEL_TRACES_EXPORTER: exporter('traces'),
    OTEL_EXPORTER_OTLP_ENDPOINT: address,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
  }
}

/** JSON without white space, with the keys of every object sorted: the text whose SHA-256 is the checksum of settings. */
export const sortedJson = (value: Json): string => JSON.stringify(sorted(value))

const sorted = (value: Json): Json => {
  if (isList(value)) return value.map(sorted)
  if (!isObject(value)) return value
  const members = Object.entries(value).sort(byName)
  return Object.fromEntries(members.flatMap(([name, member]) => (member === undefined ? [] : [[name, sorted(member)]])))
}

const byName = ([one]: readonly [string, unknown], [other]: readonly [string, unknown]): number =>
  one < other ? -1 : one > other ? 1 : 0
