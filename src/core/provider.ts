import type { Ability, Accepts } from './accepts.ts'
import type { UpstreamProtocolName, Usage } from './chat.ts'
import type { EmbeddingsProtocolName } from './embeddings.ts'
import type { ErrorTable } from './error-table.ts'
import type { Json, JsonObject } from './json.ts'
import type { Secret } from './secret.ts'

/** Data about one upstream: where it is, which formats it speaks, how to sign in, how it differs. One file each in `providers/`. */
export type Provider = {
  /** The name people write: `openai`. Its variables begin with it in capitals: `OPENAI_API_KEY`. */
  readonly name: string
  /** Other names for the same: `google`. */
  readonly aliases?: readonly string[]
  /** How it is written in a sentence: `OpenAI`. */
  readonly title: string
  /** Its place among the configured providers when nobody said an order. Smaller comes first. */
  readonly order: number
  /** Its address, version segment included. Absent: the operator must give one. */
  readonly baseUrl?: string
  /** Makes the address from the instance's variables (Azure, Cloudflare …) when `_BASE_URL` is not set. */
  readonly address?: (variables: Variables) => string | undefined
  /** Its address for those who have a key, where that is another one than the variables make (Vertex). */
  readonly keyAddress?: string
  /** Mends a base URL people write in more than one way. */
  readonly normalizeBaseUrl?: (url: string) => string
  /** The formats its endpoint understands, the best for it first. */
  readonly speaks: readonly ProtocolSupport[]
  /** Formats it is spoken to in only if `_STYLES` says so: it understands them, but less well. */
  readonly alsoSpeaks?: readonly ProtocolSupport[]
  readonly auth: Auth
  /** Works without a key (a local server): then its base URL is what configures it. */
  readonly keyless?: boolean
  /** Variables (`['PROJECT']`) one of which, under the provider's own name, configures it without a key: its `auth` then signs in otherwise. */
  readonly keylessVariables?: readonly string[]
  /** Part of the gateway itself (`demo`): no variable and no file configures it, and it never stands beside a real one. */
  readonly builtin?: true
  /** A kind for names of the operator's own (`kind: openai-compatible`): no variable begins with its name. */
  readonly generic?: true
  /** A sentence for the table of providers: what an operator has to know before using it. */
  readonly note?: string
  /** What is asked when a request names no model this provider has. Absent: the first of its list, else the client's own word. */
  readonly defaultModel?: string
  /** Its list of models. Absent: it has none that can be fetched. */
  readonly models?: { readonly path: string; readonly decode?: (body: Json) => readonly string[] }
  /** Models it is known to have, for one whose list cannot be fetched. */
  readonly knownModels?: readonly string[]
  /** More it needs to know, each with its environment name after the prefix: `{ API_VERSION: '2026-05-01' }`; null: no default. */
  readonly variables?: { readonly [suffix: string]: string | null }
  /** Further names, whole, under which the environment may hold a variable: `{ REGION: ['AWS_REGION'] }`. The provider's own name wins. */
  readonly variableAliases?: { readonly [suffix: string]: readonly string[] }
  /** Headers every call carries. */
  readonly headers?: { readonly [name: string]: string }
  /** It reads the reasoning of earlier turns in the open (`reasoning_content` of chat completions), and some of its models insist on it. */
  readonly acceptsReasoning?: boolean
  /** Models of it that go on from the beginning of their own answer, given as the last message, where its documents say so. */
  readonly supportsPrefill?: Prefill
  /** It takes free-form tools (`custom`) in chat completions; most that imitate OpenAI know functions only. */
  readonly supportsCustomTools?: boolean
  /**
   * Models whose reasoning it returns sealed on its responses endpoint when a request includes
   * `reasoning.encrypted_content`; it answers 400 to that for others. Absent: none.
   */
  readonly encryptsReasoning?: RegExp
  readonly quirks?: Quirks
  /** That it makes embeddings, and how. Absent: it is never asked for any. */
  readonly embeds?: Embeds
  /** Its name in the model catalogue, where that differs from `name`. */
  readonly catalogue?: string
}

export type Variables = { readonly [suffix: string]: string | undefined }

/** A wire format, and how this provider speaks it where that is not as usual. */
export type ProtocolSupport = {
  readonly protocol: UpstreamProtocolName
  /** Its path below the base URL; `{model}` stands for the model. */
  readonly path?: string
  /** The same for a stream, where that is another one. */
  readonly streamPath?: string
  /** Its path begins at the host, whatever the base URL says of the other formats' place there. */
  readonly atHost?: true
  /** Only models of these names are asked in it, and in no other; the rest in the formats without this. */
  readonly models?: RegExp
  /** How to sign in to this format's endpoint, if not as to the provider's others. */
  readonly auth?: Auth
  /** What it takes in bodies of this format, where that differs from the format. */
  readonly accepts?: Accepts
  /** What none of its models can do in this format: a request that needs it is unfit. */
  readonly lacks?: readonly Ability[]
  /** Of responses: it has no memory of its answers (or hides whether it has one), so that none can be continued from there. */
  readonly stateless?: true
}

/** How a provider makes embeddings. */
export type Embeds = {
  readonly protocol: EmbeddingsProtocolName
  /** Its path below the base URL, if not the format's own; `{model}` stands for the model. */
  readonly path?: string
  /** Models known to make them, the usual one first: the lists providers have are read for models that write. */
  readonly models: readonly string[]
  /** The last change to the JSON body; see `Quirks.requestBody`. */
  readonly requestBody?: (body: JsonObject, model: string, lost: (path: string, unfit?: boolean) => void) => JsonObject
}

/** `models`: only those of these names. `body`: what has to be said beside the message, in this format's body. */
export type Prefill = {
  readonly protocol: UpstreamProtocolName
  readonly models?: RegExp
  readonly body?: (body: JsonObject) => JsonObject
}

/** `otherwise`: how to sign in where no key is given, by what the machine it runs on is allowed to do. */
export type Auth =
  | {
      readonly header: string
      readonly prefix?: string
      readonly identity?: (variables: Variables) => Identity
    }
  | 'none'

/** Whose identity signs a call, and for what; the edge knows how each cloud hands out its credentials. */
export type Identity =
  | { readonly cloud: 'aws'; readonly service: string; readonly region: string }
  | { readonly cloud: 'google'; readonly scope: string }
  | { readonly cloud: 'entra'; readonly scope: string }

/** How a vendor differs from the format it speaks. Each is a function with a name and a reason, in the provider's own file. */
export type Quirks = {
  /**
   * The last change to the JSON body. Returns the same object when nothing changes; `lost` names a member (a path in
   * this body) that is given up, `unfit` that the request means something else without it, so that another target has to
   * be found.
   */
  readonly requestBody?: (
    body: JsonObject,
    model: string,
    lost: (path: string, unfit?: boolean) => void,
    protocol: UpstreamProtocolName,
  ) => JsonObject
  /** Changes to the path (Azure's deployments, query strings). */
  readonly path?: (path: string, model: string, variables: Variables) => string
  /** What its token counts mean, where they do not mean what the format says. */
  readonly usage?: (usage: Usage) => Usage
  /** Its own dialect of errors, asked before the words and statuses all providers share. */
  readonly errors?: ErrorTable
}

/** One configured upstream: a provider's data with an address, keys and models. Frozen; a new configuration makes new ones. */
export type Instance = {
  /** `openai`, `openai-east`, `my-llm`. */
  readonly id: string
  readonly provider: Provider
  /** Without a slash at the end. */
  readonly baseUrl: string
  /** Never empty: a keyless server has one key without a secret. */
  readonly keys: readonly ProviderKey[]
  /** Configured names; the first is the default. */
  readonly models: readonly string[]
  readonly speaks: readonly ProtocolSupport[]
  readonly variables: Variables
  /** Whole answers are asked for as streams here, and put together. */
  readonly aggregate?: true
}

export type ProviderKey = {
  /** Hex digits of a keyed hash; what people see instead of the key. */
  readonly id: string
  readonly secret: Secret | null
  readonly weight: number
}
