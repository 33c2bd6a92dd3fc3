/** The parsed configuration file, and the functions that read it, which are loaded only if there is a file. */
import type { Require } from '../core/data-policy.ts'
import type { GuardRule } from '../core/guard.ts'
import type { BudgetEntry } from '../records/entities/budget.ts'
import type { KeyEntry } from '../records/entities/key.ts'
import type { PriceEntry } from '../records/entities/price.ts'
import type { RouteEntry } from '../records/entities/route.ts'
import type { TeamEntry } from '../records/entities/team.ts'
import type { AlertsEntry } from './alerts-schema.ts'
import type { ClaudeEntry } from './claude-schema.ts'
import type { ProviderEntry, RuleEntry } from './file-schema.ts'
import type { RetirementEntry } from './retirements.ts'
import type { SsoEntry } from './sso-schema.ts'
import type { TokenRuleEntry } from './token-schema.ts'

/** The parsed file. Maps, so that names chosen by operators cannot reach a prototype. */
export type FileContent = {
  /** As written, without defaults, so that environment variables can override them. */
  readonly settings: Readonly<Record<string, unknown>>
  readonly providers: ReadonlyMap<string, ProviderEntry>
  readonly routes: ReadonlyMap<string, RouteEntry>
  /** By `provider/model`. */
  readonly models: ReadonlyMap<string, RetirementEntry>
  /** By their position in the list. */
  readonly rules: ReadonlyMap<number, RuleEntry>
  readonly teams: ReadonlyMap<string, TeamEntry>
  readonly keys: ReadonlyMap<string, KeyEntry>
  readonly budgets: ReadonlyMap<string, BudgetEntry>
  /** By their position in the list. */
  readonly prices: ReadonlyMap<number, PriceEntry>
  readonly alerts: AlertsEntry | null
  readonly require: Require | null
  /** By their position in the list. */
  readonly claims: ReadonlyMap<number, string>
  readonly guards: readonly GuardRule[]
  readonly sso: SsoEntry | null
  readonly claude: ClaudeEntry | null
  /** `auth.jwt`, by their position in the list. */
  readonly tokenRules: ReadonlyMap<number, TokenRuleEntry>
}

export const emptyFile: FileContent = {
  settings: {},
  providers: new Map(),
  routes: new Map(),
  models: new Map(),
  rules: new Map(),
  teams: new Map(),
  keys: new Map(),
  budgets: new Map(),
  prices: new Map(),
  alerts: null,
  require: null,
  claims: new Map(),
  guards: [],
  sso: null,
  claude: null,
  tokenRules: new Map(),
}
