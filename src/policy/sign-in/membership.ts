/** The roles and the team of a person, by groups. */
import type { RoleRule, SignedIn, TeamRule } from '../../core/sign-in.ts'

type GroupMember = Pick<SignedIn, 'provider' | 'groups'>

/** The ID of a team by its name or its ID; undefined: there is none. */
export type TeamOf = (nameOrId: string) => string | undefined

/** A role by a rule. `team`: an ID; null: all teams. `group`: of the rule; null: everyone has it. */
export type GroupBinding = {
  readonly role: RoleRule['role']
  readonly team: string | null
  readonly group: string | null
}

const matches = (
  { group, provider }: Pick<RoleRule, 'group' | 'provider'>,
  { provider: own, groups }: GroupMember,
): boolean => (provider === null || provider === own) && (group === null || groups.includes(group))

/** The roles of all rules that match. A rule of a team that does not exist gives none. */
export const rolesOf = (rules: readonly RoleRule[], member: GroupMember, teamOf: TeamOf): readonly GroupBinding[] =>
  rules
    .filter((rule) => matches(rule, member))
    .flatMap(({ role, team, group }): readonly GroupBinding[] => {
      if (team === null) return [{ role, team, group }]
      const id = teamOf(team)
      return id === undefined ? [] : [{ role, team: id, group }]
    })

/**
 * The ID of the team that pays for a person; undefined: none. Only the first rule that matches counts: if its team does not
 * exist, a later rule must not make another team pay.
 */
export const payingTeam = (rules: readonly TeamRule[], member: GroupMember, teamOf: TeamOf): string | undefined => {
  const rule = payingRule(rules, member)
  return rule && teamOf(rule.team)
}

/** The rule by which a team pays for a person. */
export const payingRule = (rules: readonly TeamRule[], member: GroupMember): TeamRule | undefined =>
  rules.find((one) => matches(one, member))
