/** The betas of a request to one provider, and what the body cannot carry without them. */
import type { BetaRow, BetaRules, SentBetas } from '../../core/betas.ts'
import type { Failure } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, list } from '../../core/json.ts'
import { mapMember, withoutMember } from '../../core/json-edit.ts'

/** The header with betas, and the name under which a refusal of one is remembered. */
export const BETA_HEADER = 'anthropic-beta'

/** The member that has them in Bedrock's body. */
export const BETA_MEMBER = 'anthropic_beta'

/** `wanted`: the client's betas. `isRefused`: the provider has refused the beta with this name of its own. */
export type BetaContext = {
  readonly wanted: readonly string[]
  readonly isRefused: (beta: string) => boolean
  readonly onLoss: (path: string, essential?: boolean) => void
}

/** The betas in a header or in several, joined by commas. */
export const betasIn = (header: string | undefined): readonly string[] =>
  header === undefined
    ? NONE
    : header
        .split(',')
        .map((beta) => beta.trim())
        .filter((beta) => beta !== '')

const NONE: readonly string[] = []

/**
 * The body as the provider takes it, and its betas: those that the client wants or that a member needs, by the names that they have
 * there. Members of the others are left out. Reports both (`anthropic-beta.files-api-2025-04-14`, `speed`).
 */
export const withBetas = (
  body: JsonObject,
  rules: BetaRules,
  { wanted, isRefused, onLoss }: BetaContext,
): { readonly body: JsonObject; readonly betas: SentBetas } => {
  const own = list(body[BETA_MEMBER]).filter((beta) => typeof beta === 'string')
  const asked = new Set([...wanted, ...own])
  const sent = new Set<string>()
  const needed = new Set<string>()
  /** The name to send; undefined: the beta is refused. */
  const taken = ({ as }: BetaRow): string | undefined => (as === null || isRefused(as) ? undefined : as)
  let remaining = withoutMember(body, BETA_MEMBER)
  for (const beta of asked) {
    const row = rules.rows.get(beta)
    const name = row && taken(row)
    if (name === undefined) onLoss(`${BETA_HEADER}.${beta}`)
    else sent.add(name)
  }
  for (const row of rules.rows.values()) {
    const name = taken(row)
    for (const member of row.members ?? NONE)
      if (name === undefined) remaining = withoutPath(remaining, member, (path) => onLoss(path, row.essential))
      else if (hasPath(remaining, member)) {
        sent.add(name)
        needed.add(name)
      }
  }
  const betas = { sent: [...sent], needed: [...needed] }
  const carried = rules.in === 'body' && sent.size > 0 ? { ...remaining, [BETA_MEMBER]: betas.sent } : remaining
  return { body: carried, betas }
}

/**
 * The betas that a refusal is about. Vertex names them (github.com/anthropics/claude-code/issues/34802, 2026-03-16); Bedrock does not
 * (github.com/anthropics/claude-code/issues/49370, 2026-04-16), so these are all that no member needs, or else all. Empty: it is about
 * something else.
 */
export const refusedBetas = ({ kind, upstream }: Failure, { sent, needed }: SentBetas): readonly string[] => {
  const message = upstream?.message ?? ''
  if (kind !== 'incompatible' || sent.length === 0) return NONE
  if (UNNAMED.test(message)) {
    const spare = sent.filter((beta) => !needed.includes(beta))
    return spare.length > 0 ? spare : sent
  }
  const names = NAMED.exec(message)?.[1]
  return names === undefined ? NONE : sent.filter((beta) => names.includes(`\`${beta}\``))
}

const UNNAMED = /invalid beta flag/i
const NAMED = /unexpected value\(s\) (.{1,2000}?) for the `anthropic-beta` header/i

/** Removes a member by its path, as of `BetaRow.members`. Returns the same object if nothing changes. */
const withoutPath = (body: JsonObject, path: string, onLoss: (path: string) => void): JsonObject =>
  without(body, path.split('.'), '', onLoss)

const without = (
  value: JsonObject,
  [step = '', ...rest]: readonly string[],
  prefix: string,
  onLoss: (path: string) => void,
): JsonObject => {
  const isList = step.endsWith('[]')
  const name = isList ? step.slice(0, -2) : step
  const inner = value[name]
  if (inner === undefined) return value
  const at = prefix + name
  if (isList)
    return mapMember(value, name, (item, index) =>
      isObject(item) ? without(item, rest, `${at}[${index}].`, onLoss) : item,
    )
  if (rest.length === 0) {
    onLoss(at)
    return withoutMember(value, name)
  }
  if (!isObject(inner)) return value
  const kept = without(inner, rest, `${at}.`, onLoss)
  return kept === inner ? value : { ...value, [name]: kept }
}

const hasPath = (body: JsonObject, path: string): boolean => has(body, path.split('.'))

const has = (value: Json | undefined, [step, ...rest]: readonly string[]): boolean => {
  if (step === undefined) return value !== undefined
  if (!isObject(value)) return false
  return step.endsWith('[]') ? list(value[step.slice(0, -2)]).some((item) => has(item, rest)) : has(value[step], rest)
}
