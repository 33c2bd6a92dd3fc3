import type { FileAccounts, PriceList } from './accounts.ts'
import type { ClaudeSettings } from './claude.ts'
import type { Require } from './data-policy.ts'
import type { Egress } from './egress.ts'
import type { GuardRule } from './guard.ts'
import type { Instance, ModelLimits } from './provider.ts'
import type { Route } from './route.ts'
import type { Secret } from './secret.ts'
import type { Settings } from './settings.ts'
import type { SignInSettings } from './sign-in.ts'
import type { TargetCondition } from './target-condition.ts'
import type { TokenRule } from './token-rule.ts'

/**
 * A whole configuration: built, checked and frozen, then swapped in one assignment. A request keeps the configuration
 * with which it started.
 */
export type Config = {
  readonly settings: Settings
  /** In the order in which they are tried. */
  readonly instances: readonly Instance[]
  /** By name. A Map, because client-supplied names must not reach an object prototype. */
  readonly routes: ReadonlyMap<string, Route>
  /** The ID of the team whose own routes are among them; absent: none are. */
  readonly team?: string
  /** Routes in place of the default route, of which the first that matches counts; absent: there are none. */
  readonly rules?: readonly RouteRule[]
  /** What targets of all requests must satisfy; absent: nothing. */
  readonly require?: Require
  /** Rules for the texts of requests, in their order; absent: there are none. */
  readonly guards?: readonly GuardRule[]
}

/** A configuration with what only the operations around requests use. */
export type FullConfig = Config & {
  /** Teams, client keys, budgets and prices of the file. */
  readonly accounts: FileAccounts
  /** Null: no alerts are sent. */
  readonly alerts: Alerts | null
  /** Null: there is no single sign-on. */
  readonly sso: SignInSettings | null
  /** The Claude Code gateway protocol; null: it is off. */
  readonly claude: ClaudeSettings | null
  /** The paths of Claude at Bedrock and Vertex AI; absent: they are served. */
  readonly cloudPaths?: false
  /** What must hold of the data policy, and where each is written: `headgate.yaml:41:5`. */
  readonly claims: readonly { readonly text: string; readonly place: string }[]
  /** `auth.jwt`, in the order in which they are tried. */
  readonly tokenRules: readonly TokenRule[]
  /** How connections leave this machine. */
  readonly network: Egress
}

/** Where alerts are sent, and when. */
export type Alerts = {
  /** Often a credential itself. */
  readonly url: Secret
  /** Changes with the address and the secret. */
  readonly fingerprint: string
  /** Signs the requests (Standard Webhooks); null: unsigned. */
  readonly secret: Secret | null
  readonly format: 'generic' | 'slack'
  readonly rules: {
    /** Percentages, for budgets without their own. */
    readonly budget: readonly number[]
    /** ms for which a provider or a route has no closed circuit; 0: no alert, as for all times below. */
    readonly circuitOpen: number
    /** Percentage of requests that fail, of at least `failedLeast` in the last `failedWindow` ms; 0: no alert. */
    readonly failedShare: number
    readonly failedWindow: number
    readonly failedLeast: number
    /** A provider refuses a key. */
    readonly keyDead: boolean
    /** A target was planned that does not satisfy the data policy. */
    readonly policyBreach: boolean
    /** The token of `auth.admin` is used although people sign in. */
    readonly breakGlass: boolean
    /** An agent repeats itself in a session, where `loops` is `alert` or `block`. */
    readonly loop: boolean
    /** Requests in ten minutes that the service of a guard has not checked; 0: no alert. */
    readonly guardErrors: number
    /** ms for which a store does not respond. */
    readonly storeDown: number
    /** ms by which the usage database lags behind the journal. */
    readonly ledgerLag: number
    /** Percentage of requests with estimated usage. */
    readonly estimatedShare: number
    /** Days before the expiry of a client key. */
    readonly keyExpiry: readonly number[]
    /** The canary of a route was stopped because it does worse. */
    readonly canaryStopped: boolean
    /** Days before the end of a model in use. */
    readonly modelRetires: readonly number[]
    /** Percentage of the requests of a route that it would lose if a provider failed; 0: no alert. */
    readonly drillLost: number
    /** Days before the end of a certificate of the port. */
    readonly certExpiry: readonly number[]
  }
}

/** `route`: the name of a route, for requests that name no known model and meet the condition. */
export type RouteRule = { readonly when: TargetCondition; readonly route: string }

/** Known facts about a model: from the catalogue, with the limits that the configuration file states. */
export type ModelFacts = ModelLimits & {
  readonly prices?: CataloguePrices
  /** The limits that do not come from the catalogue, which may be out of date. */
  readonly stated?: ModelLimits
  /** A subset of `tools`, `vision`, `structured_output`, `reasoning`, `audio_input`, `file_input`. */
  readonly capabilities?: readonly string[]
  /** When the provider ends the model, according to the catalogue (ms since 1970). */
  readonly retires?: number
}

/** `from`: the time (ms since 1970) from which the prices apply; absent: always. */
export type CataloguePrices = PriceList & { readonly from?: number }

/** Facts by catalogue provider and model; undefined: unknown, never zero. */
export type Catalogue = ((provider: string, model: string) => ModelFacts | undefined) & {
  /** The date of the catalogue, such as `2026-11-21`. */
  readonly date?: () => string | undefined
  /**
   * Whether the catalogue has an entry with exactly this name. An undated or shortened name of the model does not
   * count.
   */
  readonly lists?: (provider: string, model: string) => boolean
  /** The names of all models of a provider. */
  readonly names?: (provider: string) => readonly string[]
  /** The prices of all models of a provider. */
  readonly prices?: (provider: string) => readonly CataloguePrices[]
}

/**
 * The catalogue entry of a model at an instance, with limits, capabilities and prices; undefined: unknown model. Limits of
 * the configuration file replace those of the catalogue. `KnownLimits` of the gateway adds those that were learned.
 */
export const factsOf = (
  catalogue: Catalogue,
  { provider, limits }: Instance,
  model: string,
): ModelFacts | undefined => {
  const listed = catalogue(provider.catalogue ?? provider.name, model)
  const stated = limits?.get(model)
  return stated ? { ...listed, ...stated } : listed
}
