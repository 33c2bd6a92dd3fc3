import type { Instance } from './provider.ts'
import type { Settings, Strategy } from './settings.ts'

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
}

/** A name clients may send as `model`. */
export type Route = {
  readonly name: string
  readonly strategy?: Strategy
  readonly targets: readonly RouteTarget[]
  /** Tried in order after the targets. */
  readonly fallback: readonly RouteTarget[]
}

/** `provider` is an instance ID. `model` absent: the provider's default model. */
export type RouteTarget = { readonly provider: string; readonly model?: string; readonly weight: number }

/** Known facts about a model, from the catalogue or the configuration file. Prices in nano-dollars per token. */
export type ModelFacts = {
  readonly contextWindow?: number
  readonly maxOutputTokens?: number
  readonly inputPrice?: number
  readonly outputPrice?: number
  readonly cacheReadPrice?: number
  readonly cacheWritePrice?: number
  /** A subset of `tools`, `vision`, `structured_output`, `reasoning`, `audio_input`, `file_input`. */
  readonly capabilities?: readonly string[]
}

/** Facts by catalogue provider and model; undefined: unknown, never zero. */
export type Catalogue = ((provider: string, model: string) => ModelFacts | undefined) & {
  /**
   * Whether the catalogue has an entry with exactly this name. An undated or shortened name of the model does not
   * count.
   */
  readonly lists?: (provider: string, model: string) => boolean
}
