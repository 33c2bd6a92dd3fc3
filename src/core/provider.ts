import type { Ability, Accepts, MemberLimits } from './accepts.ts'
import type { BetaRules } from './betas.ts'
import type { CacheMark } from './cache-mark.ts'
import type { UpstreamProtocolName, Usage } from './chat.ts'
import type { DeclaredFacts } from './data-policy.ts'
import type { Egress, ProviderNetwork } from './egress.ts'
import type { EmbeddingsProtocolName } from './embeddings.ts'
import type { ErrorTable } from './error-table.ts'
import type { Json, JsonObject } from './json.ts'
import type { PassRoots, PassThrough } from './pass-through.ts'
import type { PromptCache } from './prompt-cache.ts'
import type { REALTIME, RelayName, RelaySupport } from './relay.ts'
import type { DeclaredRetirement } from './retirement.ts'
import type { Secret } from './secret.ts'

/** A provider as data: address, protocols, authentication and quirks. One file each in `src/providers/`. */
export type Provider = {
  /** Name in the configuration: `openai`. In capitals it is the prefix of its variables: `OPENAI_API_KEY`. */
  readonly name: string
  /** Alternative names: `google`. */
  readonly aliases?: readonly string[]
  /** Display name: `OpenAI`. */
  readonly title: string
  /** Default position among the configured providers; smaller comes first. */
  readonly order: number
  /** Base URL including the version segment. Absent: the operator must configure one. */
  readonly baseUrl?: string
  /** The path that base URLs end with, such as `/v1`, if the address is always the operator's. */
  readonly basePath?: string
  /** Builds the base URL from the instance's variables (Azure, Cloudflare …) if `_BASE_URL` is not set. */
  readonly address?: (variables: Variables) => string | undefined
  /** Base URL when a key is used, if it differs from `address` (Vertex). */
  readonly keyAddress?: string
  /** Normalizes a base URL that operators write in several ways. */
  readonly normalizeBaseUrl?: (url: string) => string
  /** Supported protocols, preferred first. */
  readonly speaks: readonly ProtocolSupport[]
  /** Protocols used only if `_STYLES` names them, because they are less complete. */
  readonly alsoSpeaks?: readonly ProtocolSupport[]
  readonly auth: Auth
  /** Needs no key (a local server): configured by its base URL. */
  readonly keyless?: boolean
  /** Variables (`['PROJECT']`), any of which configures the provider without a key: `auth.identity` then provides credentials. */
  readonly keylessVariables?: readonly string[]
  /** Built into the gateway (`demo`): not configurable, and only used if no other provider is configured. */
  readonly builtin?: true
  /** A kind for custom provider names (`kind: openai-compatible`): its name is not a variable prefix. */
  readonly generic?: true
  /** A note for operators in the table of providers. */
  readonly note?: string
  /** Model for requests that name none of this provider's models. Absent: the first in its list, otherwise the requested name. */
  readonly defaultModel?: string
  /**
   * Endpoint of the model list. `decode`: the names in it; limits of models are read from any list. `nativePath`: a list that
   * states more, relative to the base URL without `basePath`; for a server that lacks it, `path` is tried. Absent: no list can be
   * fetched.
   */
  readonly models?: {
    readonly path: string
    readonly nativePath?: string
    readonly decode?: (body: Json) => readonly string[]
  }
  /** Known models, if no list can be fetched. */
  readonly knownModels?: readonly string[]
  /** Further variables by environment suffix, with defaults: `{ API_VERSION: '2026-05-01' }`; null: no default. */
  readonly variables?: { readonly [suffix: string]: string | null }
  /** Alternative full names of a variable: `{ REGION: ['AWS_REGION'] }`. The provider's own name takes precedence. */
  readonly variableAliases?: { readonly [suffix: string]: readonly string[] }
  /** Headers of every request. */
  readonly headers?: { readonly [name: string]: string }
  /** Headers with the values of variables, by suffix: `{ ORG_ID: 'openai-organization' }`. Names in lower case. */
  readonly variableHeaders?: { readonly [suffix: string]: string }
  /** Client headers that it reads, such as the project that pays. They are forwarded in every style. Names in lower case. */
  readonly forwardHeaders?: readonly string[]
  /** Accepts plain reasoning of earlier turns (`reasoning_content` in chat completions); some models require it. */
  readonly acceptsReasoning?: boolean
  /** Models that continue a partial answer in the last message, according to the provider's documentation. */
  readonly supportsPrefill?: Prefill
  /** Supports `custom` tools in chat completions; most OpenAI-compatible providers support functions only. */
  readonly supportsCustomTools?: boolean
  /**
   * Models that return encrypted reasoning if a responses request includes `reasoning.encrypted_content`; for others the
   * provider answers 400. Absent: none.
   */
  readonly encryptsReasoning?: RegExp
  /** Reads Claude Code's billing line in the system prompt (`billing-line.ts`). From other providers it is kept back. */
  readonly readsBillingLine?: boolean
  /**
   * Outermost members of a request that state which models or vendors may serve it, and that it reads itself (`provider`). From other
   * providers they are kept back.
   */
  readonly readsPreferences?: readonly string[]
  /** How it keeps prompts; the first row that has the model applies. Absent: nothing is documented. */
  readonly promptCache?: readonly PromptCache[]
  /** It caches prompts where requests mark them, in the formats that have marks. */
  readonly takesBreakpoints?: true
  /** Its slug at OpenRouter, where that differs from its name. */
  readonly slug?: string
  /** Cache marks in content parts, for models of these names. Absent: none, unless its format has them. */
  readonly cacheMarks?: readonly { readonly models: RegExp; readonly mark: CacheMark }[]
  readonly quirks?: Quirks
  /** Embeddings support. Absent: none. */
  readonly embeds?: Embeds
  /** The endpoints that are relayed to it. Absent: none. */
  readonly relays?: { readonly [name in RelayName | typeof REALTIME]?: RelaySupport }
  /** What its pass-through needs beside the path of the base URL. Absent: nothing. */
  readonly passThrough?: PassRoots
  /**
   * Factors of the prices of tokens by service (tier, speed, region), for models of which the catalogue has none. The highest known
   * ones: an answer must not cost less than it does.
   */
  readonly service?: { readonly [name: string]: number }
  /**
   * Vendors of one family check requests alike, so a second refusal from the same family proves nothing. Absent: its own
   * name. `of the model`: a relay or an unknown server; the family is that of the model's maker.
   */
  readonly family?: string | 'of the model'
  /** Offset from UTC of the times that its errors state without a zone: `+08:00`. Absent: they are in UTC. */
  readonly timeOffset?: string
  /** Where the catalogue has the prices of a model, and what they are multiplied by here. `model`: the normal form of its name. */
  readonly pricedAs?: (model: string, place: Pick<Instance, 'variables' | 'baseUrl'>) => PricedAs | undefined
  /** Its name in the model catalogue, where that differs from `name`. */
  readonly catalogue?: string
  /** Further names in the catalogue, of makers whose models it sells. Their prices count for models without a known one. */
  readonly makers?: readonly string[]
}

/** `provider`: the one of the catalogue that has the prices; absent: its own. `factor`: of the prices of tokens. */
export type PricedAs = { readonly provider?: string; readonly factor?: number }

/** Providers by name, in the order in which they are tried. */
export type Providers = ReadonlyMap<string, Provider>

export type Variables = { readonly [suffix: string]: string | undefined }

/** A protocol that a provider supports, with the differences of its path. */
export type ProtocolSupport = {
  readonly protocol: UpstreamProtocolName
  /** Path below the base URL; `{model}` is replaced by the model. */
  readonly path?: string
  /** Path for streams, if it differs. */
  readonly streamPath?: string
  /** The path is relative to the host, not to the base URL. */
  readonly atHost?: true
  /** Models that use this protocol only. Other models use the protocols without this member. */
  readonly models?: RegExp
  /** Authentication for this path, if it differs from the provider's. */
  readonly auth?: Auth
  /** Members it accepts in this format, if they differ from the format. */
  readonly accepts?: Accepts
  /** Abilities that no model has in this protocol. Requests that need them are incompatible. */
  readonly lacks?: readonly Ability[]
  /** The path for responses stores no responses, so `previous_response_id` cannot be used there. */
  readonly stateless?: true
  /** What is around the format's bodies and events at this path. Absent: nothing. */
  readonly envelope?: Envelope
  /** The betas that it takes. Absent: those of the client are forwarded. */
  readonly betas?: BetaRules
  /** Models that take the client's version of Anthropic's API, from 2026-10-21 on, in the body (`anthropic_version`). Absent: none. */
  readonly ownVersions?: RegExp
  /** How it counts the tokens of a request. Absent: as the format does. */
  readonly counts?: CountingPath
}

/** `bedrock-invoke`: errors of AWS, and events in the chunks of Amazon's event stream. */
export type Envelope = 'bedrock-invoke'

/** A path that counts tokens. */
export type CountingPath = {
  /** As `path` of a protocol. */
  readonly path: string
  /** The name of a model in the path. Absent: the same. */
  readonly model?: (model: string) => string
  /** The text of the call's body for that of the request. `model`: its name there. */
  readonly body: (request: string, model: string) => string
  /** Reads the count from the answer. Absent: as the format does. */
  readonly read?: (answer: Json) => number | undefined
}

/** Embeddings support of a provider. */
export type Embeds = {
  readonly protocol: EmbeddingsProtocolName
  /** Path below the base URL, if it differs from the format's; `{model}` is replaced by the model. */
  readonly path?: string
  /** Known embedding models, the default first. */
  readonly models: readonly string[]
  /** Most inputs, and most tokens of all inputs, in one call. A longer request is sent in parts. */
  readonly limits?: EmbedsLimits | ((model: string) => EmbedsLimits)
  /** Limits of other members, as in `Accepts`. */
  readonly members?: MemberLimits
  /** The last change to the JSON body; see `Quirks.requestBody`. */
  readonly requestBody?: (body: JsonObject, model: string, lost: (path: string, unfit?: boolean) => void) => JsonObject
}

/** Limits of one embeddings call. Absent: unknown. */
export type EmbedsLimits = { readonly inputs?: number; readonly tokens?: number }

/** Prefill support. `models`: which models; absent: all. `body`: adds the members that the format requires for it. */
export type Prefill = {
  readonly protocol: UpstreamProtocolName
  readonly models?: RegExp
  readonly body?: (body: JsonObject) => JsonObject
}

/** Authentication with a key in a header. `identity`: cloud credentials of the machine, used if no key is configured. */
export type Auth =
  | {
      readonly header: string
      readonly prefix?: string
      readonly identity?: (variables: Variables) => Identity
    }
  | 'none'

/** A cloud identity that provides credentials, and their scope. See `src/transport/identity`. */
export type Identity =
  | { readonly cloud: 'aws'; readonly service: string; readonly region: string }
  | { readonly cloud: 'google'; readonly scope: string }
  | { readonly cloud: 'entra'; readonly scope: string }

/** Deviations of a provider from its protocol. Each is a named function in the provider's file. */
export type Quirks = {
  /**
   * Final change to the JSON body. Returns the same object if nothing changes. `onLoss` reports a removed member (a path
   * in this body); `essential`: the request has another meaning without it, so another target is needed; `because`: as of
   * `Loss`.
   */
  readonly requestBody?: (
    body: JsonObject,
    model: string,
    onLoss: (path: string, essential?: boolean, because?: string) => void,
    protocol: UpstreamProtocolName,
  ) => JsonObject
  /** Changes to the path (Azure's deployments, query strings). */
  readonly path?: (path: string, model: string, variables: Variables) => string
  /** Corrects token counts that deviate from the format. */
  readonly usage?: (usage: Usage) => Usage
  /** Error table of the provider, consulted before the common table. */
  readonly errors?: ErrorTable
}

/** Limits of a model in tokens. */
export type ModelLimits = {
  readonly contextWindow?: number
  readonly maxOutputTokens?: number
}

/** A configured provider: address, keys and models. Immutable; a reload creates new instances. */
export type Instance = {
  /** `openai`, `openai-east`, `my-llm`. */
  readonly id: string
  readonly provider: Provider
  /** Without a trailing slash. */
  readonly baseUrl: string
  /** Never empty: a keyless provider has one key without a secret. */
  readonly keys: readonly ProviderKey[]
  /** Configured models; the first is the default. */
  readonly models: readonly string[]
  /** Limits that the configuration file states, by model. Absent: none. */
  readonly limits?: ReadonlyMap<string, ModelLimits>
  /** Ends that the configuration file states, by model. Absent: none. */
  readonly retirements?: ReadonlyMap<string, DeclaredRetirement>
  readonly speaks: readonly ProtocolSupport[]
  readonly variables: Variables
  /** Requests a stream for whole answers and assembles it. */
  readonly aggregate?: true
  /** Headers of every request that the operator has set, by name in lower case. */
  readonly headers?: { readonly [name: string]: Secret }
  /** Where and how it keeps data, as the operator declares it. Absent: nothing is known. */
  readonly facts?: DeclaredFacts
  /** What of its own API clients may call. Absent: nothing. */
  readonly passThrough?: PassThrough
  /** Client headers that are forwarded, in lower case. Absent: none beyond those of the protocol. */
  readonly forwardHeaders?: readonly string[]
  /** The name of the proxy that leads to its base URL. Absent: it is reached directly. */
  readonly proxy?: string
  /** How it is reached, as its own settings state it, and what that results in. Absent: as in `network`. */
  readonly network?: ProviderNetwork
  readonly egress?: Egress
}

export type ProviderKey = {
  /** Hex digits of a keyed hash, shown instead of the key. */
  readonly id: string
  readonly secret: Secret | null
  readonly weight: number
  /** The name of the prompt cache that it shares with other keys, as the operator states it. Absent: it is not known. */
  readonly cacheScope?: string
}

/** ID of the built-in provider, which no other provider may have. */
export const DEMO = 'demo'
