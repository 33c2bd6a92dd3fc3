/** A rule of an operator that finds nothing, for tests which state what theirs finds. */
import type { GuardRule } from '../../src/core/guard.ts'

export const NO_RULE: Omit<GuardRule, 'name' | 'action'> = {
  on: ['request'],
  kinds: [],
  patterns: [],
  words: [],
  message: null,
  label: null,
  tools: false,
  media: false,
  exceptTeams: [],
  onlyTeams: null,
  onlyRoutes: null,
  optionalTeams: [],
}
