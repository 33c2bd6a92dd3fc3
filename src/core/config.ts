import type { Instance } from './provider.ts'
import type { Settings, Strategy } from './settings.ts'

/** A whole configuration: built, checked and frozen before it replaces another in one assignment. Requests keep the one they began with. */
export type Config = {
  readonly settings: Settings
  /** In the order in which they are tried. */
  readonly instances: readonly Instance[]
  /** By name. A Map, so that no name a client sends can reach a prototype. */
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

/** `provider` is an instance's id; no model: its default. */
export type RouteTarget = { readonly provider: string; readonly model?: string; readonly weight: number }

/** What is known of a model: from the catalogue file, or said by the operator. Prices in nano-dollars per token. */
export type ModelFacts = {
  readonly contextWindow?: number
  readonly maxOutputTokens?: number
  readonly inputPrice?: number
  readonly outputPrice?: number
  readonly cacheReadPrice?: number
  readonly cacheWritePrice?: number
  /** Of: `tools`, `vision`, `structured_output`, `reasoning`, `audio_input`, `file_input`. */
  readonly capabilities?: readonly string[]
}

/** Facts by catalogue provider and model; undefined: unknown, never zero. */
export type Catalogue = ((provider: string, model: string) => ModelFacts | undefined) & {
  /** Whether it has an entry of exactly this name, not only the facts of an undated or plain name of the model. */
  readonly lists?: (provider: string, model: string) => boolean
}
