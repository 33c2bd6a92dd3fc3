/** The prices of all models at one time: those of the catalogue, and those that operators set in their place. */
import type { PriceOverride, PriceRule, Service } from '../../core/accounts.ts'
import { type Catalogue, type CataloguePrices, factsOf } from '../../core/config.ts'
import type { Nano } from '../../core/money.ts'
import type { Instance } from '../../core/provider.ts'
import { type AttemptCost, costOf, effectivePrices, type PricedUsage, reservationOf, timesTokens } from './cost.ts'
import { type Glob, matchesGlob, parseGlob } from './glob.ts'

/** A model at a provider instance, at the time (ms since 1970) at which the request was received. */
export type PricedModel = { readonly instance: Instance; readonly model: string; readonly at: number }

/** An attempt to be priced. `answering`: the model that the answer names. `asked`: what the request asked for. */
type PricedAnswer = PricedModel & {
  readonly usage: PricedUsage
  readonly answering?: string | null
  readonly asked?: Service
}

export type PriceBook = {
  /** What an attempt cost: the upstream's own figure, or else by these prices. */
  readonly costOfAttempt: (attempt: PricedAnswer) => AttemptCost
  /** What to reserve for an attempt, from estimated tokens. Null: a price is unknown. */
  readonly reservation: (
    attempt: PricedModel & { readonly input: number; readonly output: number; readonly asked?: Service },
  ) => Nano | null
  /**
   * One figure to compare models by price, in nano-dollars per token: three parts input, one part output. Undefined: a price
   * is unknown.
   */
  readonly blendedPrice: (model: PricedModel) => number | undefined
}

/** Models of which the prices are kept for each instance. Clients choose the names. */
const MAX_MODELS = 1_000

/** The cost of a provider that is built into the gateway. */
const BUILTIN: AttemptCost = { nano: 0, source: 'catalogue', version: 'builtin' }

/**
 * The price book of a catalogue and of the operator's rules. Of several rules for a model, one applies: that with the more
 * exact provider, then with the more exact model, then with the later `effectiveFrom`, then the last one. An exact name comes
 * before every glob, and a longer glob before a shorter one.
 */
export const priceBook = (catalogue: Catalogue, rules: readonly PriceRule[]): PriceBook => {
  const sorted = rules.map(ruleWithGlobs).reverse().sort(byPrecedence)
  const known = new WeakMap<Instance, Map<string, KnownPrices>>()

  const pricesOf = (instance: Instance, model: string): KnownPrices => {
    const models = known.get(instance) ?? new Map<string, KnownPrices>()
    const found = models.get(model)
    if (found) return found
    if (models.size >= MAX_MODELS) models.clear()
    const prices = factsOf(catalogue, instance, model)?.prices ?? elsewhere(catalogue, instance, model)
    const [id, name] = [instance.id.toLowerCase(), model.toLowerCase()]
    const matching = sorted.filter((one) => matchesGlob(one.provider, id) && matchesGlob(one.model, name))
    const made: KnownPrices = {
      catalogue: prices && { prices, version: `cat:${catalogue.date?.() ?? 'undated'}` },
      overrides: matching.map(({ rule: { id: ruleId, model: of, prices: set, effectiveFrom } }) => ({
        prices: set,
        isExact: !of.includes('*'),
        version: `ovr:${ruleId}`,
        effectiveFrom,
      })),
    }
    models.set(model, made)
    known.set(instance, models)
    return made
  }

  /** The prices that apply at this time. */
  const listsOf = ({ instance, model, at }: PricedModel) => {
    const { catalogue: listed, overrides } = pricesOf(instance, model)
    return {
      catalogue: listed && at >= (listed.prices.from ?? Number.NEGATIVE_INFINITY) ? listed : undefined,
      override: overrides.find(({ effectiveFrom }) => effectiveFrom <= at),
    }
  }
  /**
   * The prices of the model that answered, if it is another one that the same provider lists, as with routers and deployments.
   * A rule for the requested model that is not one for the answering model keeps its prices.
   */
  const listsOfAnswer = (of: PricedModel, answering: string | null | undefined) => {
    const asked = listsOf(of)
    if (!answering || answering === of.model || isNameOf(answering, of.model)) return asked
    // The name of a deployment says nothing about its model, so a snapshot that is not listed is better than nothing.
    const isUnknown = asked.catalogue === undefined && asked.override === undefined
    if (!isUnknown && !isListed(catalogue, of.instance, answering)) return asked
    const answered = listsOf({ ...of, model: answering })
    const isPriced = answered.catalogue !== undefined || answered.override !== undefined
    const isSet = asked.override !== undefined && asked.override.version !== answered.override?.version
    return isPriced && (!isSet || answered.override?.isExact === true) ? answered : asked
  }
  const effective = (of: PricedModel): PriceOverride | undefined => {
    const { catalogue: listed, override } = listsOf(of)
    return effectivePrices(listed?.prices, override?.prices, of.instance.provider.service)
  }

  return {
    costOfAttempt: ({ usage, asked, answering, ...of }) =>
      of.instance.provider.builtin
        ? BUILTIN
        : costOf({
            usage,
            asked,
            usual: of.instance.provider.service,
            ...listsOfAnswer(of, answering),
            pricesOf: (model) => effective({ ...of, model }),
          }),
    reservation: ({ asked, ...of }) => (of.instance.provider.builtin ? 0 : reservationOf(of, effective(of), asked)),
    blendedPrice: (of) => blended(effective(of)),
  }
}

/** The prices of another entry of the catalogue, where the provider states one. */
const elsewhere = (
  catalogue: Catalogue,
  { provider, variables }: Instance,
  model: string,
): CataloguePrices | undefined => {
  const as = provider.pricedAs?.(model, variables)
  const prices = as && catalogue(as.provider ?? provider.catalogue ?? provider.name, as.model)?.prices
  return prices && as.factor !== undefined ? timesTokens(prices, as.factor) : prices
}

/** The prices that may apply to a model. */
type KnownPrices = {
  readonly catalogue: { readonly prices: CataloguePrices; readonly version: string } | undefined
  /** In the order of precedence. */
  readonly overrides: readonly {
    readonly prices: PriceOverride
    readonly version: string
    readonly effectiveFrom: number
    /** The rule names one model. */
    readonly isExact: boolean
  }[]
}

/**
 * Whether an answer's name is one of the requested model: without or with a date (`-2025-08-07`, `@001`, `-latest`), without its
 * variant (`:free`), or less exact. Azure answers `gpt-4` for `gpt-4-1106-preview` (BerriAI/litellm#1874).
 */
const isNameOf = (answering: string, requested: string): boolean => {
  const [name, model] = [baseName(answering), baseName(requested)]
  return name === model || model.startsWith(`${name}-`)
}

const baseName = (model: string): string =>
  model
    .toLowerCase()
    .replace(/^models\//, '')
    .replace(/:[a-z-]{1,40}$/, '')
    .replace(/[-@](?:latest|20[0-9]{2}-?[01][0-9]-?[0-3][0-9]|[0-9]{3,4}|[01][0-9]-20[0-9]{2})$/, '')

const isListed = (catalogue: Catalogue, { provider, models }: Instance, model: string): boolean =>
  models.includes(model) || (catalogue.lists?.(provider.catalogue ?? provider.name, model) ?? false)

/** A rule with its globs. The figures of its precedence are compared one after another; the larger one wins. */
type RuleWithGlobs = {
  readonly rule: PriceRule
  readonly provider: Glob
  readonly model: Glob
  readonly precedence: readonly number[]
}

const ruleWithGlobs = (rule: PriceRule): RuleWithGlobs => ({
  rule,
  provider: parseGlob(rule.provider),
  model: parseGlob(rule.model),
  precedence: [...exactness(rule.provider), ...exactness(rule.model), rule.effectiveFrom],
})

const exactness = (glob: string): readonly number[] => [glob.includes('*') ? 0 : 1, glob.replaceAll('*', '').length]

const byPrecedence = (one: RuleWithGlobs, other: RuleWithGlobs): number => {
  for (const [at, figure] of one.precedence.entries()) {
    const difference = (other.precedence[at] ?? 0) - figure
    if (difference !== 0) return difference
  }
  return 0
}

const blended = (prices: PriceOverride | undefined): number | undefined =>
  prices?.input === undefined || prices.output === undefined
    ? undefined
    : ((3 * prices.input + prices.output) / 4) * (prices.factor ?? 1)
