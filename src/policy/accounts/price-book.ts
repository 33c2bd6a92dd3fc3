/** The prices of all models at one time: those of the catalogue, and those that operators set in their place. */
import type { PriceList, PriceOverride, PriceRule, Service, TokenPrices } from '../../core/accounts.ts'
import type { UnitCount } from '../../core/chat.ts'
import type { Catalogue, CataloguePrices } from '../../core/config.ts'
import { type ModelNames, modelName, modelNames } from '../../core/model-name.ts'
import type { Nano } from '../../core/money.ts'
import type { Instance } from '../../core/provider.ts'
import {
  type AttemptCost,
  costOf,
  effectivePrices,
  type PricedUsage,
  reservationOf,
  TOKEN_PRICES,
  timesTokens,
} from './cost.ts'
import { dearestPrices } from './dearest-prices.ts'
import { type Glob, matchesGlob, parseGlob } from './glob.ts'

/** A model at a provider instance, at the time (ms since 1970) at which the request was received. */
export type PricedModel = { readonly instance: Instance; readonly model: string; readonly at: number }

/** What applies to a model without a known price: the dearest prices of its provider. Absent: its cost is unknown. */
export type UnknownPrice = 'dearest'

/** An attempt to be priced. `answering`: the model that the answer names. `asked`: what the request asked for. */
type PricedAnswer = PricedModel & {
  readonly usage: PricedUsage
  readonly answering?: string | null
  readonly asked?: Service
  readonly unknownPrice?: UnknownPrice | undefined
}

export type PriceBook = {
  /** What an attempt cost: the upstream's own figure, or else by these prices. */
  readonly costOfAttempt: (attempt: PricedAnswer) => AttemptCost
  /** What to reserve for an attempt, from estimated tokens. Null: a price is unknown. */
  readonly reservation: (
    attempt: PricedModel & {
      readonly input: number
      readonly output: number
      /** The part of the output that is audio. */
      readonly audioOutput?: number
      /** At most. */
      readonly units?: UnitCount
      readonly asked?: Service
      readonly unknownPrice?: UnknownPrice | undefined
    },
  ) => Nano | null
  /** Whether every price is known to be 0, by a rule of the operator: the catalogue has no such price. */
  readonly isFree: (model: PricedModel) => boolean
  /**
   * One figure to compare models by price, in nano-dollars per token: three parts input, one part output. Undefined: a price
   * is unknown.
   */
  readonly blendedPrice: (model: PricedModel) => number | undefined
  /** The prices that apply to a model; undefined: none is known. */
  readonly pricesOf: (model: PricedModel) => PriceOverride | undefined
  /** The same with the version of the list: `ovr:` and the ID of a rule, or `cat:` and the date of the catalogue. */
  readonly listing: (model: PricedModel) => { readonly prices: PriceOverride; readonly version: string } | undefined
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
    const names = modelNames(model)
    const prices = listedPrices(catalogue, instance, names)
    const matching = rulesFor(sorted, instance, names)
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
    // An answer may name the model without its region, which costs more, or the one that was tuned, which costs less.
    const names = modelNames(of.model)
    if (names.kin.includes(modelName(answering)) || (names.isTuned && !modelNames(answering).isTuned)) return asked
    // The name of a deployment says nothing about its model, so a snapshot that is not listed is better than nothing.
    const isUnknown = asked.catalogue === undefined && asked.override === undefined
    if (!isUnknown && !isListed(catalogue, of.instance, answering)) return asked
    const answered = listsOf({ instance: of.instance, model: answering, at: of.at })
    const isPriced = answered.catalogue !== undefined || answered.override !== undefined
    const isSet = asked.override !== undefined && asked.override.version !== answered.override?.version
    return isPriced && (!isSet || answered.override?.isExact === true) ? answered : asked
  }
  const effective = ({ catalogue: listed, override }: Lists, { instance }: PricedModel): PriceOverride | undefined =>
    effectivePrices(listed?.prices, override?.prices, instance.provider.service)

  const dearest = new WeakMap<Instance, PriceList | null>()
  const assumedPrices = (instance: Instance, model: string): Lists['catalogue'] | null => {
    const known = dearest.get(instance)
    const prices = known === undefined ? dearestPrices(catalogue, rules, instance) : known
    dearest.set(instance, prices)
    const factor = instance.provider.pricedAs?.(modelName(model), instance)?.factor
    return prices && { prices: times(prices, factor), version: 'dearest' }
  }
  /** The lists of a model without a known price. What a rule sets for it stays. Null: the provider has no known price. */
  const assumedLists = ({ instance, model }: PricedModel, { override }: Lists): Lists | null => {
    const known = pricesOf(instance, model)
    if (known.assumed === undefined) known.assumed = assumedPrices(instance, model) ?? null
    return known.assumed && { catalogue: known.assumed, override }
  }

  return {
    costOfAttempt: (of) => {
      const { instance, usage, asked, answering, unknownPrice } = of
      if (instance.provider.builtin) return BUILTIN
      if (usage.units?.unit === 'calls') return costOfCall(instance)
      const lists = listsOfAnswer(of, answering)
      const pricesOf = (model: string) => effective(listsOf({ instance, model, at: of.at }), of)
      const usual = instance.provider.service
      const { catalogue: listed, override } = lists
      const cost = costOf({ usage, asked, usual, pricesOf, catalogue: listed, override })
      if (cost.nano !== null || !unknownPrice) return cost
      const assumed = costOf({ usage, asked, usual, pricesOf, ...assumedLists(of, lists) })
      return assumed.nano === null ? assumed : { ...assumed, source: 'assumed' }
    },
    reservation: (of) => {
      const { asked, unknownPrice } = of
      if (of.instance.provider.builtin) return 0
      if (of.units?.unit === 'calls') return costOfCall(of.instance).nano
      const lists = listsOf(of)
      const known = reservationOf(of, effective(lists, of), asked)
      if (known !== null || !unknownPrice) return known
      const assumed = assumedLists(of, lists)
      return assumed && reservationOf(of, effective(assumed, of), asked)
    },
    isFree: (of) => {
      const lists = listsOf(of)
      return lists.override !== undefined && areFree(effective(lists, of))
    },
    blendedPrice: (of) => blended(effective(listsOf(of), of)),
    pricesOf: (of) => effective(listsOf(of), of),
    listing: (of) => {
      const lists = listsOf(of)
      const prices = effective(lists, of)
      const version = (lists.override ?? lists.catalogue)?.version
      return prices && version !== undefined ? { prices, version } : undefined
    },
  }
}

/** A passed call costs what the operator has set, and no price of tokens is assumed for it. */
const costOfCall = ({ passThrough }: Instance): AttemptCost => {
  const charge = passThrough?.charge ?? null
  return charge === null
    ? { nano: null, source: 'none', version: null }
    : { nano: charge, source: 'override', version: 'passThrough.charge' }
}

/** The prices that apply to a model at some time. */
type Lists = {
  readonly catalogue: { readonly prices: PriceList; readonly version: string } | undefined
  readonly override: KnownPrices['overrides'][number] | undefined
}

/**
 * The prices of the catalogue: of the name, or of the model of which it is a version, unless it was tuned. The whole name decides
 * what the provider adds to them, because kin lack the region.
 */
const listedPrices = (
  catalogue: Catalogue,
  instance: Instance,
  { name, kin, isTuned }: ModelNames,
): CataloguePrices | undefined => {
  const { provider } = instance
  const as = provider.pricedAs?.(name, instance)
  const listing = as?.provider ?? provider.catalogue ?? provider.name
  for (const one of isTuned ? [name] : [name, ...kin]) {
    const prices = catalogue(listing, one)?.prices
    if (prices) return times(prices, as?.factor)
  }
  return undefined
}

/** The rules for a name; without any, those for the model of which it is a version, unless it was tuned. */
const rulesFor = (
  rules: readonly RuleWithGlobs[],
  instance: Instance,
  { name, kin, isTuned }: ModelNames,
): readonly RuleWithGlobs[] => {
  const id = instance.id.toLowerCase()
  const matching = (names: readonly string[]) =>
    rules.filter((rule) => matchesGlob(rule.provider, id) && names.some((one) => matchesGlob(rule.model, one)))
  const own = matching([name])
  return own.length > 0 || isTuned ? own : matching(kin)
}

const times = <List extends PriceList>(prices: List, factor: number | undefined): List =>
  factor === undefined ? prices : timesTokens(prices, factor)

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
  /** Those of a model without a known price; undefined: they were not needed so far. */
  assumed?: Lists['catalogue'] | null
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
  modelName(model)
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
  model: parseGlob(modelName(rule.model)),
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

/** Input and output have a price, and no price is above 0. */
const areFree = (prices: PriceOverride | undefined): boolean => {
  if (prices?.input === undefined || prices.output === undefined) return false
  const { tools, tiers, factor, perUnit } = prices
  const isNothing = (price: number | undefined) => price === undefined || price === 0
  const lists: readonly TokenPrices[] = [prices, ...(tiers ?? [])]
  return (
    factor === 0 ||
    (lists.every((list) => TOKEN_PRICES.every((name) => isNothing(list[name]))) &&
      [tools, perUnit].every((own) => Object.values(own ?? {}).every(isNothing)))
  )
}

const blended = (prices: PriceOverride | undefined): number | undefined =>
  prices?.input === undefined || prices.output === undefined
    ? undefined
    : ((3 * prices.input + prices.output) / 4) * (prices.factor ?? 1)
