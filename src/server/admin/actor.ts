/** Who acts in the admin API, and what the roles permit. */
/** In the order of their rights: each has those of the ones before. */
export const ROLES = ['viewer', 'operator', 'admin'] as const
export type Role = (typeof ROLES)[number]

/** Whether a stored text is a role. */
export const isRole = (text: string): text is Role => ROLES.some((role) => role === text)

/** A role, for one team or (null) for all. */
export type RoleBinding = { readonly role: Role; readonly team: string | null }

/**
 * Where a role must be held. `all`: for all teams. `team`: for at least one; the handler limits what it returns and
 * changes to the teams of the actor. `any`: for at least one, and the answer is the same for all.
 */
export type RoleScope = 'all' | 'team' | 'any'

/** The identity of a request to the admin API. */
export type AdminActor = {
  /** `bootstrap`: the token of `auth.admin`. `local`: a request of this machine without credentials. `person`: by single sign-on. */
  readonly kind: 'token' | 'bootstrap' | 'local' | 'person'
  /** The ID of the token or the person; of the others their kind. */
  readonly id: string
  readonly name: string
  readonly bindings: readonly RoleBinding[]
}

/** Every right. */
export const EVERYTHING: readonly RoleBinding[] = [{ role: 'admin', team: null }]

/** The token of `auth.admin`. */
export const BOOTSTRAP: AdminActor = { kind: 'bootstrap', id: 'bootstrap', name: 'auth.admin', bindings: EVERYTHING }

/** A request of this machine where no token is configured. */
export const LOCAL: AdminActor = { kind: 'local', id: 'local', name: 'local', bindings: EVERYTHING }

/** The teams for which an actor has a role; null: all. Empty: none. */
export const teamsOf = ({ bindings }: AdminActor, role: Role): readonly string[] | null => {
  const held = bindings.filter((binding) => ROLES.indexOf(binding.role) >= ROLES.indexOf(role))
  const teams = held.map(({ team }) => team)
  return teams.includes(null) ? null : [...new Set(teams.filter((team) => team !== null))]
}

/** Whether an actor has the role where the row requires it. */
export const hasRole = (actor: AdminActor, role: Role, scope: RoleScope): boolean => {
  const teams = teamsOf(actor, role)
  return teams === null || (scope !== 'all' && teams.length > 0)
}
