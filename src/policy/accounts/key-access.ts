/**
 * What a key may use: the access of its team and its own, in five dimensions. A list is checked by its globs: a name is
 * allowed if a glob matches it and no glob with `!` does. `null` restricts nothing, `[]` allows nothing.
 */
import { type Access, type AccessList, type Client, FULL_ACCESS } from '../../core/accounts.ts'
import { modelName, modelNames } from '../../core/model-name.ts'
import { type Glob, matchesGlob, parseGlob } from './glob.ts'
import { contains, type IpRange, parseIp, parseIpRange } from './ip-range.ts'

/** The access lists of one or several owners, prepared once when a key is loaded. A request must satisfy all of them. */
export type KeyAccessRules = {
  readonly models: readonly NameRule[]
  readonly routes: readonly NameRule[]
  /** An owner lists routes and no models, so a client may name routes only. */
  readonly routesOnly: boolean
  readonly providers: readonly NameRule[]
  readonly styles: readonly NameRule[]
  readonly ips: readonly IpRule[]
  /** Those of the team alone, within which its own routes must stay. */
  readonly team: TeamAccessRules
}
export type TeamAccessRules = Pick<KeyAccessRules, 'models' | 'providers' | 'routesOnly'>
/** One list of globs. */
export type NameRule = { readonly allowed: readonly Glob[]; readonly denied: readonly Glob[] }
/** One list of ranges; undefined: an entry that cannot be parsed. */
type IpRule = { readonly allowed: readonly (IpRange | undefined)[]; readonly denied: readonly (IpRange | undefined)[] }

/** Prepares access lists: of a team, and of a key if there is one. */
export const keyAccessRules = (access: readonly Access[]): KeyAccessRules => {
  const names = (dimension: Exclude<keyof Access, 'ips' | 'passThrough'>) =>
    access.flatMap((one) => nameRule(one[dimension]))
  return {
    models: names('models'),
    routes: names('routes'),
    routesOnly: access.some(isRoutesOnly),
    providers: names('providers'),
    styles: names('styles'),
    ips: access.flatMap(({ ips }) => (ips === null ? [] : [divide(ips, parseIpRange)])),
    team: teamRules(access[0] ?? FULL_ACCESS),
  }
}

const isRoutesOnly = ({ routes, models }: Access): boolean => routes !== null && models === null

/** The rules of a team for the targets of its own routes. */
export const teamRules = (access: Access): TeamAccessRules => ({
  models: nameRule(access.models),
  providers: nameRule(access.providers),
  routesOnly: isRoutesOnly(access),
})

/**
 * The rules for models, routes, providers and styles of a client; null: it has none, so nothing is checked. Computed
 * once for each `Client.access`.
 */
export const restrictionsOf = ({ access }: Pick<Client, 'access'>): KeyAccessRules | null => {
  if (access.length === 0) return null
  const known = restrictions.get(access)
  if (known !== undefined) return known
  const rules = keyAccessRules(access)
  const { models, routes, providers, styles } = rules
  const restricts = [models, routes, providers, styles].some((dimension) => dimension.length > 0)
  restrictions.set(access, restricts ? rules : null)
  return restricts ? rules : null
}
const restrictions = new WeakMap<Client['access'], KeyAccessRules | null>()

/** Prepares one list of globs. Empty: no restriction. */
export const nameRule = (list: AccessList): readonly NameRule[] => (list === null ? [] : [divide(list, parseName)])

const parseName = (glob: string): Glob => parseGlob(modelName(glob))

const divide = <T>(list: readonly string[], parse: (entry: string) => T) => ({
  allowed: list.filter((entry) => !entry.startsWith('!')).map(parse),
  denied: list.filter((entry) => entry.startsWith('!')).map((entry) => parse(entry.slice(1))),
})

/** Whether every list allows one of these names of the same thing. A denial of any of the names counts. */
export const allowsName = (rules: readonly NameRule[], ...names: readonly string[]): boolean => {
  if (rules.length === 0) return true
  const matches = matcherOf(names.map(modelName))
  return rules.every(({ allowed, denied }) => !denied.some(matches) && allowed.some(matches))
}

/** Whether a list denies a name. */
export const deniesName = (rules: readonly NameRule[], name: string): boolean => {
  const matches = matcherOf([modelName(name)])
  return rules.some(({ denied }) => denied.some(matches))
}

const matcherOf =
  (names: readonly string[]) =>
  (glob: Glob): boolean =>
    names.some((name) => matchesGlob(glob, name))

/**
 * A target of a request. `requested`: the model or route that the client named; null if that name was replaced, as by the
 * default route for an unknown name. Otherwise any invented name that matches a glob would allow every target.
 */
export type AccessTarget = {
  readonly requested: string | null
  /** The provider instance. */
  readonly provider: string
  readonly model: string
  /**
   * The model alone is the name of another provider's model, as `openai/gpt-5` at OpenRouter is beside a provider `openai`. A list that
   * allows the name means the other one.
   */
  readonly isOthers?: boolean
}

/**
 * Whether a target is allowed, by the dimensions `models` and `providers`. `models` is matched against the requested name,
 * `provider/model` and the model alone, so that `!claude-opus*` also denies `anthropic/claude-opus-5`. In doubt it is denied: a
 * denial also applies to versions of the model (a date, a region, a tuned model), an allowed name to no other, and not to a model of
 * another provider (`isOthers`).
 */
export const allowsTarget = (lists: TargetLists, target: AccessTarget): boolean => matchesLists(lists, target, permits)

const permits: ListTest = ({ allowed, denied }, isOwn, isKin) =>
  !denied.some((glob) => isOwn(glob) || isKin(glob)) && allowed.some(isOwn)

/**
 * Whether a budget with these lists counts a target, by the same names. In doubt it counts: a name in the list also stands for
 * versions of the model, and only the name itself is excluded.
 */
export const countsTarget = (lists: TargetLists, target: AccessTarget): boolean => matchesLists(lists, target, counts)

const counts: ListTest = ({ allowed, denied }, isOwn, isKin) =>
  !denied.some(isOwn) && allowed.some((glob) => isOwn(glob) || isKin(glob))

/** The lists that select targets. */
export type TargetLists = Pick<KeyAccessRules, 'models' | 'providers'>
type GlobTest = (glob: Glob) => boolean
/** Whether a list of models fits a target. `isOwn`: the glob matches one of its own names; `isKin`: one of its kin. */
type ListTest = (list: NameRule, isOwn: GlobTest, isKin: GlobTest) => boolean

const matchesLists = ({ models, providers }: TargetLists, target: AccessTarget, fits: ListTest): boolean => {
  if (!allowsName(providers, target.provider)) return false
  if (models.length === 0) return true
  const { own, kin } = targetNames(target)
  const [isOwn, isKin] = [matcherOf(own), matcherOf(kin)]
  return models.every((list) => fits(list, isOwn, isKin))
}

/** The names by which a glob of models matches a target, and those of models of which it is a version. */
const targetNames = ({
  requested,
  provider,
  model,
  isOthers = false,
}: AccessTarget): { readonly own: readonly string[]; readonly kin: readonly string[] } => {
  const { name, kin, variantOf } = modelNames(model)
  const instance = provider.toLowerCase()
  return {
    own: [...(requested === null ? [] : [modelName(requested)]), `${instance}/${name}`, ...(isOthers ? [] : [name])],
    kin: [...(isOthers ? [name] : []), ...[...kin, ...variantOf].flatMap((one) => [`${instance}/${one}`, one])],
  }
}

/**
 * Whether a client address is allowed. An address that cannot be parsed is refused where a list exists; a denial that
 * cannot be parsed denies every address.
 */
export const allowsAddress = ({ ips }: Pick<KeyAccessRules, 'ips'>, address: string): boolean => {
  if (ips.length === 0) return true
  const ip = parseIp(address)
  if (!ip) return false
  return ips.every(
    ({ allowed, denied }) =>
      !denied.some((range) => range === undefined || contains(range, ip)) &&
      allowed.some((range) => range !== undefined && contains(range, ip)),
  )
}

/** The problem of an access list as configured, or null. For error messages of the configuration and the admin API. */
export const accessListProblem = (dimension: keyof Access, list: AccessList): string | null => {
  if (list === null || list.length === 0) return null
  const empty = list.find((entry) => entry.replace(/^!/, '').trim() === '')
  if (empty !== undefined) return `"${empty}" is empty. Write a name or a glob, or remove the entry.`
  const wrong = dimension === 'ips' ? list.find((entry) => !parseIpRange(entry.replace(/^!/, ''))) : undefined
  if (wrong !== undefined)
    return `"${wrong}" is not an IP address or a CIDR range. Write it as 10.0.0.0/8 or 2001:db8::/32.`
  if (list.every((entry) => entry.startsWith('!')))
    return `The list has only denials, so it allows nothing. Add what is allowed, such as "${dimension === 'ips' ? '0.0.0.0/0' : '*'}".`
  return null
}
