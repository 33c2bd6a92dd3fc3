/** Which rules apply to a call. A rule is left out only where it states so. */
import { type Failure, fail } from '../../core/failure.ts'
import { GUARDS_HEADER, type GuardRule } from '../../core/guard.ts'

/** What is known of a call. */
export type RuledCall = {
  readonly team: string
  /** The routes from which its targets may come; empty: the model is not that of a route. */
  readonly routes: readonly string[]
  /** Of `GUARDS_HEADER`; undefined: the request has none. */
  readonly header: string | undefined
}

/** Whether there is a team or a route with this name. */
export type ExistingNames = { readonly team: (name: string) => boolean; readonly route: (name: string) => boolean }

/** The rules which the request adds and leaves out. */
type RuleChoice = { readonly added: ReadonlySet<string>; readonly left: ReadonlySet<string> }

const NO_CHOICE: RuleChoice = { added: new Set(), left: new Set() }

/** The rules of a call in their order, or why its header is refused. */
export const appliedRules = <Rule extends { readonly rule: GuardRule }>(
  rules: readonly Rule[],
  call: RuledCall,
  names: ExistingNames,
): readonly Rule[] | Failure => {
  const choice = call.header === undefined ? NO_CHOICE : choiceOf(rules, call.header, call.team)
  if ('kind' in choice) return choice
  return rules.filter(
    ({ rule }) => choice.added.has(rule.name) || (applies(rule, call, names) && !choice.left.has(rule.name)),
  )
}

/** A list with a name that does not exist limits nothing: a mistake in it must not take a rule away. */
const applies = (
  { exceptTeams, onlyTeams, onlyRoutes }: GuardRule,
  { team, routes }: RuledCall,
  names: ExistingNames,
): boolean =>
  !exceptTeams.includes(team) &&
  (onlyTeams === null || onlyTeams.includes(team) || !onlyTeams.every(names.team)) &&
  (onlyRoutes === null || routes.some((route) => onlyRoutes.includes(route)) || !onlyRoutes.every(names.route))

const choiceOf = (
  rules: readonly { readonly rule: GuardRule }[],
  header: string,
  team: string,
): RuleChoice | Failure => {
  const added = new Set<string>()
  const left = new Set<string>()
  for (const entry of header.split(',').map((one) => one.trim())) {
    const [sign, name] = [entry[0], decoded(entry.slice(1).trim())]
    const found = rules.find(({ rule }) => rule.name === name)
    if ((sign !== '+' && sign !== '-') || name === '')
      return refused(`${JSON.stringify(entry)} has no sign and name. Write +name or -name`)
    if (!found) return refused(`there is no guard ${JSON.stringify(name)}. Leave it out`)
    if (sign === '+') added.add(name)
    else if (found.rule.optionalTeams.some((one) => one === team || one === '*')) left.add(name)
    else
      return refused(
        `the team ${JSON.stringify(team)} may not leave out the guard ${JSON.stringify(name)}. Ask the operator for \`optionalTeams\``,
      )
  }
  return { added, left }
}

/** Names that are not ASCII are written as in the response header. */
const decoded = (name: string): string => {
  try {
    return decodeURIComponent(name)
  } catch {
    return name
  }
}

const refused = (problem: string): Failure =>
  fail('invalid_value', `${GUARDS_HEADER} is not valid: ${problem}.`, { param: GUARDS_HEADER })
