/** The roles of a session. */

export const ROLE_NAMES = ['viewer', 'operator', 'admin'] as const
export type RoleName = (typeof ROLE_NAMES)[number]

/** A role, for one team or for all of them. */
export type HeldRole = { readonly role: RoleName; readonly team: string | null }

/** All teams, at least one, or the one with this ID. */
export type HeldScope = 'all' | 'any' | { readonly team: string }

/** Whether a session holds a role or a higher one. */
export const holdsRole = (
  session: { readonly roles: readonly HeldRole[] } | null,
  role: RoleName,
  scope: HeldScope,
): boolean =>
  session?.roles.some(
    (held) =>
      ROLE_NAMES.indexOf(held.role) >= ROLE_NAMES.indexOf(role) &&
      (scope === 'any' || held.team === null || (scope !== 'all' && held.team === scope.team)),
  ) ?? false
