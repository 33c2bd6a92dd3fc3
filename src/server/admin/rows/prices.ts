/** The prices of models: those that were used without one, and the whole list. */
import { z } from 'zod'
import { good } from '../../../core/failure.ts'
import type { Instance } from '../../../core/provider.ts'
import { usableInstances } from '../../../policy/routing/models.ts'
import { priceBodyOf } from '../../../records/entities/price.ts'
import type { UsageQuery } from '../../../usage/reading/queries.ts'
import { PRICED_MODELS, UNPRICED_MODELS } from '../../answers/prices.ts'
import type { AdminDeps } from '../deps.ts'
import { page, pageOf } from '../fields.ts'
import { row } from '../row.ts'
import { summed } from '../usage-query.ts'

const DAY = 86_400_000
/** Days that are searched for models without a price, and the most models that are listed. */
const MOST = { days: 90, models: 100, sums: 10_000 }

type ModelAt = { readonly instance: Instance; readonly model: string }

/** The prices that apply to a model now, and where they are from. */
const pricesNow = ({ gateway }: AdminDeps, { instance, model }: ModelAt) => {
  const found = gateway.prices().listing({ instance, model, at: gateway.world.date() })
  if (!found) return { prices: null, source: 'none' as const, rule: null }
  const { prices } = priceBodyOf({ provider: instance.id, model, effectiveFrom: 0, prices: found.prices })
  const rule = found.version.startsWith('ovr:') ? found.version.slice('ovr:'.length) : null
  return { prices, source: rule === null ? ('catalogue' as const) : ('override' as const), rule }
}

const unpricedRow = row({
  method: 'GET',
  path: '/prices/unpriced',
  summary: 'List the models that were used without a known price, the most attempts first',
  about:
    'Of the last 90 days, at most 100 models. `source` is that of the price now: a price that was set since does not change what the ledger has; `POST /usage/reprice` writes the difference.',
  role: 'viewer',
  scope: 'all',
  answer: UNPRICED_MODELS,
  example: {
    answer: {
      object: 'list',
      data: [
        {
          provider: 'openai',
          model: 'text-embedding-3-small',
          attempts: 989,
          since: '2026-11-20',
          last: '2026-11-23',
          prices: null,
          source: 'none',
          rule: null,
        },
      ],
      has_more: false,
      next: null,
    },
  },
  async handle(deps) {
    const { gateway, usage } = deps
    const config = gateway.config()
    const to = gateway.world.date()
    const all: UsageQuery = {
      ...{ from: to - (to % DAY) - (MOST.days - 1) * DAY, to, tz: null },
      ...{ by: ['provider', 'model'], bucket: 'none', filter: {}, limit: MOST.sums, after: null },
    }
    const sums = await usage.wholeUsage(summed(all, config))
    if (!sums.ok) return sums
    const found = sums.value.data
      .filter(({ unpriced, provider, model }) => unpriced > 0 && provider && model)
      .toSorted((a, b) => b.unpriced - a.unpriced)
    const listed = found.slice(0, MOST.models)
    const models = [...new Set(listed.map(({ model }) => String(model)))]
    const days = await usage.wholeUsage(
      summed<UsageQuery>({ ...all, bucket: 'day', filter: { model: models } }, config),
    )
    if (!days.ok) return days
    const data = listed.map(({ provider, model, unpriced }) => {
      const at = days.value.data
        .filter((day) => day.provider === provider && day.model === model && day.unpriced > 0)
        .map(({ start = '' }) => start)
        .toSorted()
      const instance = config.instances.find(({ id }) => id === provider)
      const now = instance && pricesNow(deps, { instance, model: String(model) })
      return {
        provider: String(provider),
        model: String(model),
        attempts: unpriced,
        since: at[0] ?? null,
        last: at.at(-1) ?? null,
        ...(now ?? { prices: null, source: 'none' as const, rule: null }),
      }
    })
    return good({ body: { object: 'list' as const, data, has_more: found.length > data.length, next: null } })
  },
})

/** What the configuration, the provider and the catalogue name. */
const namesAt = ({ gateway }: AdminDeps, { id, models, provider }: Instance): ReadonlySet<string> =>
  new Set([
    ...models,
    ...(gateway.lists().get(id) ?? []),
    ...(gateway.catalogue.names?.(provider.catalogue ?? provider.name) ?? []),
  ])

const listRow = row({
  method: 'GET',
  path: '/prices/list',
  summary: 'List the prices of all models of the configured providers',
  about:
    'In dollars per million tokens, as they apply now: of the catalogue, with those of a price override in their place. The models are those of the configuration, of the list of the provider and of the catalogue.',
  role: 'viewer',
  scope: 'any',
  query: z.strictObject({
    ...page,
    q: z.string().min(1).max(200).optional().describe('Part of `provider/model`'),
  }),
  answer: PRICED_MODELS,
  example: {
    query: { q: 'gpt-5', limit: '20' },
    answer: {
      object: 'list',
      data: [
        {
          provider: 'openai',
          model: 'gpt-5-mini',
          prices: { input: 0.25, output: 2, cacheRead: 0.025 },
          source: 'catalogue',
          rule: null,
        },
      ],
      has_more: false,
      next: null,
      catalogue: '2026-11-21',
      total: 1,
    },
  },
  handle(deps, { query }) {
    const { gateway } = deps
    const wanted = query.q?.toLowerCase() ?? ''
    const named = usableInstances(gateway.config()).flatMap((instance) =>
      [...namesAt(deps, instance)].map((model) => ({ instance, model, name: `${instance.id}/${model}` })),
    )
    const matching = named.filter(({ name }) => name.toLowerCase().includes(wanted))
    const { data, ...rest } = pageOf(matching, query, ({ name }) => name)
    return good({
      body: {
        ...rest,
        data: data.map((one) => ({ provider: one.instance.id, model: one.model, ...pricesNow(deps, one) })),
        catalogue: gateway.catalogue.date?.() ?? null,
        total: matching.length,
      },
    })
  },
})

export const priceRows = [unpricedRow, listRow]
