/**
 * The names of a model, for comparisons: in routing, access lists, budgets and prices. Clients may write the same model in many
 * ways. What is sent to a provider keeps the spelling of the client or of the configuration.
 */
import { withoutSlashes } from './trailing-slashes.ts'

/** Names in normal form. */
export type ModelNames = {
  /** The name itself. */
  readonly name: string
  /**
   * Names of the models of which it is a version, the most exact first: without its publisher, resource path, region, date or
   * maker, or the model that was tuned. Empty: it is not recognised as a version of another.
   */
  readonly kin: readonly string[]
  /** Names of the model of which it is a variant (`:free`, `:thinking`), which has a price of its own. */
  readonly variantOf: readonly string[]
  /** It was tuned: the prices of its kin do not apply, because tuned models cost more. */
  readonly isTuned: boolean
}

/**
 * The normal form of a model's name: lower case, without blanks around it, invisible characters and Gemini's folder. Wide and
 * other compatible characters are the plain ones (NFKC).
 */
export const modelName = (written: string): string => {
  const name = (PLAIN.test(written) ? written : visible(written)).toLowerCase()
  return name.startsWith(FOLDER) ? name.slice(FOLDER.length).trim() : name
}

/** Nearly every name. */
const PLAIN = /^[\x21-\x7e]*$/

const visible = (written: string): string =>
  written
    .normalize('NFKC')
    .replace(/[\p{Cc}\p{Cf}]/gu, '')
    .trim()

const FOLDER = 'models/'

/** `ft:gpt-4o-2024-08-06:org::id`, and Azure's `gpt-4o-2024-08-06.ft-id`. */
const TUNED = 'ft:'
const TUNED_SUFFIX = /\.ft-[a-z0-9-]{1,80}$/

/** The region of an inference profile, before the maker: `us.anthropic.…`, `us-gov.…`, `apac.…`, `global.…`. */
const REGION = /^(?:[a-z]{2}|[a-z]{2}-[a-z]{3,4}|apac|amer|emea|global)\.(?=[a-z0-9-]{1,40}\.)/

/** The maker of a model at a cloud: `anthropic.claude-…`. */
const MAKER = /^[a-z0-9-]{1,40}\.(?=[a-z])/

/** A version: `-2025-08-07`, `-20251001`, `@20251001`, `-001`, `-latest`, `:latest`, `@default`. */
const VERSION =
  /(?:[-@](?:20[0-9]{2}-[01][0-9]-[0-3][0-9]|20[0-9]{2}[01][0-9][0-3][0-9]|0[0-9]{2}|latest|default)|:latest)$/

/** A variant: `:free`, `:thinking`. A size (`:8b`) begins with a digit. */
const VARIANT = /:[a-z][a-z0-9-]{0,40}$/

/** The revision of a model: `-v1:0`, `-v1`, `:0`. */
const REVISION = /(?:-v[0-9]{1,2})?:[0-9]{1,2}$|-v[0-9]{1,2}$/

/** The number after a revision. */
const NUMBER = /:[0-9]{1,2}$/

/** The length of its context: `-v1:0:200k`, `-v1:0:1m`. */
const CONTEXT = /:[0-9]{1,4}[km]$/

/** The names of a model. */
export const modelNames = (written: string): ModelNames => {
  const name = modelName(written)
  const base = tunedFrom(name)
  const of = base === undefined ? name.replace(VARIANT, '') : name
  const variantOf = of === name || of === '' ? NO_NAMES : [of, ...kinOf(of, undefined)]
  return { name, kin: kinOf(name, base), variantOf, isTuned: base !== undefined }
}

const NO_NAMES: readonly string[] = []

/** `base`: the model that was tuned. */
const kinOf = (name: string, base: string | undefined): readonly string[] => {
  const kin = new Set<string>()
  const add = (one: string): string => {
    if (one !== '' && one !== name) kin.add(one)
    return one
  }
  // A publisher (`google/…`), a resource path (`publishers/google/models/…`) or that of an ARN.
  const path = add(withoutSlashes(base ?? name))
  const bare = add(path.slice(path.lastIndexOf('/') + 1))
  const undated = (one: string) =>
    add(add(add(add(one.replace(CONTEXT, '')).replace(NUMBER, '')).replace(REVISION, '')).replace(VERSION, ''))
  undated(bare)
  const placed = add(bare.replace(REGION, ''))
  if (placed.includes('@')) add(placed.replace('@', '-'))
  const plain = undated(placed)
  for (const one of [base, placed.replace(MAKER, ''), plain.replace(MAKER, '')]) if (one !== undefined) add(one)
  return [...kin]
}

/** The model from which another was tuned; undefined: the name is not that of a tuned model. */
const tunedFrom = (name: string): string | undefined => {
  if (name.startsWith(TUNED)) return name.slice(TUNED.length).split(':', 1)[0]
  return TUNED_SUFFIX.test(name) ? name.replace(TUNED_SUFFIX, '') : undefined
}
