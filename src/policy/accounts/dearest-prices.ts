/** The dearest known prices of a provider, for models without a known price where a budget must hold. */
import type { PriceList, PriceRule, TokenPrices } from '../../core/accounts.ts'
import type { Catalogue } from '../../core/config.ts'
import type { Instance } from '../../core/provider.ts'
import { TOKEN_PRICES } from './cost.ts'
import { matchesGlob, parseGlob } from './glob.ts'

/**
 * Of each kind of token, service and tool the dearest price that the catalogue or a rule has for a model of the provider, at any
 * time and for any length. Null: none is known.
 */
export const dearestPrices = (
  catalogue: Catalogue,
  rules: readonly PriceRule[],
  instance: Instance,
): PriceList | null => {
  const { provider, id } = instance
  const own = rules
    .filter((rule) => matchesGlob(parseGlob(rule.provider), id.toLowerCase()))
    .map(({ prices }) => prices)
  const names = [provider.catalogue ?? provider.name, ...(provider.makers ?? [])]
  const listed = names.flatMap((name) => catalogue.prices?.(name) ?? [])
  // A rule without prices multiplies those of the catalogue.
  const factor = Math.max(1, ...own.map((prices) => prices.factor ?? 1))
  const all = [
    ...listed.map((prices) => [prices, factor] as const),
    ...own.map((prices) => [prices, prices.factor ?? 1] as const),
  ]
  const found: { -readonly [name in keyof TokenPrices]: number } = {}
  const raise = (prices: TokenPrices, by: number) => {
    for (const name of TOKEN_PRICES) {
      const price = prices[name]
      if (price !== undefined) found[name] = Math.max(found[name] ?? 0, price * by)
    }
  }
  for (const [prices, by] of all) for (const part of [prices, ...(prices.tiers ?? [])]) raise(part, by)
  if (found.input === undefined || found.output === undefined) return null
  return {
    ...found,
    service: dearest(all.map(([{ service }]) => [service, 1] as const)),
    tools: dearest(all.map(([{ tools }, by]) => [tools, by] as const)),
    perUnit: dearest(all.map(([{ perUnit }, by]) => [perUnit, by] as const)),
  }
}

const dearest = (
  lists: readonly (readonly [{ readonly [name: string]: number } | undefined, number])[],
): { readonly [name: string]: number } => {
  const found = new Map<string, number>()
  for (const [list, by] of lists)
    for (const [name, value] of Object.entries(list ?? {})) found.set(name, Math.max(found.get(name) ?? 0, value * by))
  return Object.fromEntries(found)
}
