/** Prices: models that were used without one, prices of this gateway, and the whole list. */
import { type Signal, useSignal } from '@preact/signals'
import type { Shown } from '../../../../src/records/entities/shown.ts'
import type { PRICED_MODELS, UNPRICED_MODELS } from '../../../../src/server/answers/prices.ts'
import { valuesOf } from '../../address.ts'
import { hasRole, offlineSince, read, readAll, useResource, write } from '../../api.ts'
import { count } from '../../format.ts'
import { attempt, ConflictDialog } from '../../parts/changing.tsx'
import { Filters } from '../../parts/filters.tsx'
import { PlainTable } from '../../parts/plain-table.tsx'
import { Failed, Loading } from '../../parts/states.tsx'
import { current, toast } from '../../store.ts'
import { en } from '../../words/en.ts'
import { setup } from '../../words/setup.ts'
import { PriceDialog, type PriceRecord, type PriceStart, Reprice, type Unpriced } from './price-dialogs.tsx'

const { prices: text } = setup

type PricedModels = Shown<typeof PRICED_MODELS>
type Prices = { readonly [part: string]: unknown }

const SEARCH = 'q'
const MOST_OWN = 1_000
/** ms between two readings of what was used. */
const EVERY = 30_000
/** Models of a page of the list. */
const PAGE = 50
const parts: { readonly [part: string]: string } = text.parts

/** `input $1, output $4`: prices in dollars per million tokens; the others by their names. */
const pricesText = (prices: Prices): string =>
  Object.entries(prices)
    .map(([part, value]) => {
      const name = parts[part] ?? part
      if (typeof value !== 'number') return name
      return part === 'factor' ? `${name} ${value}` : `${name} $${value}`
    })
    .join(', ')

/** Why prices cannot be changed now; null: they can. */
const lock = (): string | null =>
  hasRole('admin', 'all') ? (offlineSince.value === null ? null : en.states.offlineWrite) : text.needs

type PriceAct = { readonly label: string; readonly of: string; readonly run: () => void; readonly danger?: boolean }

const ActButton = ({ label, of, run, danger = false }: PriceAct) => (
  <button
    type="button"
    class={danger ? 'button small danger' : 'button small'}
    aria-label={`${label}: ${of}`}
    disabled={lock() !== null}
    title={lock() ?? undefined}
    onClick={run}
  >
    {label}
  </button>
)

/** Which dialog is open. */
type Open = Signal<{ readonly start: PriceStart } | { readonly reprice: Unpriced } | null>

const nameOf = ({ provider, model }: { readonly provider: string; readonly model: string }): string =>
  `${provider}/${model}`

const UnpricedList = ({ open, models }: { readonly open: Open; readonly models: readonly Unpriced[] }) => (
  <section class="stack">
    <h2>{text.unpriced}</h2>
    {models.length === 0 ? (
      <p class="dim">{text.noUnpriced}</p>
    ) : (
      <>
        <p>{text.unpricedAbout}</p>
        <PlainTable
          label={text.unpriced}
          rows={models}
          keyOf={nameOf}
          columns={[
            { name: text.columns.model, cell: (row) => <span class="mono">{nameOf(row)}</span> },
            { name: text.columns.attempts, cell: ({ attempts }) => <span class="num">{count(attempts)}</span> },
            { name: text.columns.since, cell: ({ since }) => since ?? '–' },
            { name: text.columns.last, cell: ({ last }) => last ?? '–' },
            {
              name: text.columns.now,
              cell: ({ prices }) => (prices ? pricesText(prices) : <span class="warn">▲ {text.none}</span>),
            },
            {
              name: '',
              cell: (row) =>
                row.prices === null ? (
                  <ActButton
                    label={text.set}
                    of={nameOf(row)}
                    run={() => {
                      open.value = { start: { provider: row.provider, model: row.model, record: null, unpriced: row } }
                    }}
                  />
                ) : (
                  <ActButton
                    label={text.reprice}
                    of={nameOf(row)}
                    run={() => {
                      open.value = { reprice: row }
                    }}
                  />
                ),
            },
          ]}
        />
      </>
    )}
  </section>
)

type OwnProps = { readonly open: Open; readonly records: readonly PriceRecord[]; readonly reload: () => void }

const OwnPrices = ({ open, records, reload }: OwnProps) => {
  const remove = ({ id, rev, name }: PriceRecord) =>
    void attempt(async () => {
      await write('DELETE', `/prices/${id}`, undefined, { rev })
      toast(text.deleted(name))
      reload()
    })
  return (
    <section class="stack">
      <div class="row">
        <h2>{text.own}</h2>
        <button
          type="button"
          class="button small"
          disabled={lock() !== null}
          title={lock() ?? undefined}
          onClick={() => {
            open.value = { start: { provider: '', model: '', record: null, unpriced: null } }
          }}
        >
          {text.new}
        </button>
        {lock() !== null && <span class="dim">{lock()}</span>}
      </div>
      {records.length === 0 ? (
        <p class="dim">{text.noOwn}</p>
      ) : (
        <PlainTable
          label={text.own}
          rows={records}
          keyOf={({ id }) => id}
          columns={[
            { name: text.columns.model, cell: (row) => <span class="mono">{nameOf(row)}</span> },
            { name: text.columns.prices, cell: ({ prices }) => pricesText(prices) },
            {
              name: text.columns.from,
              cell: ({ effective_from: from }) => from?.slice(0, 16).replace('T', ' ') ?? text.always,
            },
            {
              name: '',
              cell: (row) =>
                row.managed === 'file' ? (
                  <span class="dim">{text.inFile}</span>
                ) : (
                  <div class="row">
                    <ActButton
                      label={text.edit}
                      of={row.name}
                      run={() => {
                        open.value = {
                          start: { provider: row.provider, model: row.model, record: row, unpriced: null },
                        }
                      }}
                    />
                    <ActButton label={text.delete} of={row.name} danger run={() => remove(row)} />
                  </div>
                ),
            },
          ]}
        />
      )}
    </section>
  )
}

const AllPrices = ({ open, turn }: { readonly open: Open; readonly turn: number }) => {
  const [search = ''] = valuesOf(current.value, SEARCH)
  const more = useSignal<PricedModels | null>(null)
  const q = search === '' ? null : search
  const { value, problem, reload } = useResource(`prices ${search} ${turn}`, async () => {
    const first = await read<PricedModels>('/prices/list', { q, limit: PAGE })
    more.value = null
    return first
  })
  const next = more.value ? more.value.next : (value?.next ?? null)
  const readMore = () =>
    void attempt(async () => {
      const page = await read<PricedModels>('/prices/list', { q, limit: PAGE, after: next })
      more.value = { ...page, data: [...(more.value?.data ?? []), ...page.data] }
    })
  return (
    <section class="stack">
      <h2>{text.list}</h2>
      <div class="config-filters">
        <Filters filters={[]} search={{ name: SEARCH, placeholder: text.search }} />
        {value && <span class="dim">{text.found(value.total, value.catalogue)}</span>}
      </div>
      {problem && <Failed problem={problem} retry={reload} />}
      {!value && !problem && <Loading />}
      {value && (
        <PlainTable
          label={text.list}
          rows={[...value.data, ...(more.value?.data ?? [])]}
          keyOf={nameOf}
          columns={[
            { name: text.columns.model, cell: (row) => <span class="mono">{nameOf(row)}</span> },
            {
              name: text.columns.prices,
              cell: ({ prices }) => (prices ? pricesText(prices) : <span class="dim">{text.none}</span>),
            },
            { name: text.columns.source, cell: ({ source }) => text.sources[source] },
            {
              name: '',
              cell: ({ provider, model }) => (
                <ActButton
                  label={text.set}
                  of={`${provider}/${model}`}
                  run={() => {
                    open.value = { start: { provider, model, record: null, unpriced: null } }
                  }}
                />
              ),
            },
          ]}
        />
      )}
      {next !== null && (
        <button type="button" class="button" onClick={readMore}>
          {text.more}
        </button>
      )}
    </section>
  )
}

export const PricesSection = () => {
  const open: Open = useSignal<Open['value']>(null)
  /** Grows with each change, after which everything is read again. */
  const turn = useSignal(0)
  // Names of models that clients chose are for all teams only.
  const maySee = hasRole('viewer', 'all')
  const unpriced = useResource(
    maySee ? `unpriced ${turn.value}` : null,
    () => read<Shown<typeof UNPRICED_MODELS>>('/prices/unpriced'),
    { every: EVERY },
  )
  const own = useResource(`own prices ${turn.value}`, () => readAll<PriceRecord>('/prices', { sort: 'name' }, MOST_OWN))
  const reload = () => {
    turn.value++
  }
  const close = () => {
    open.value = null
  }
  const shown = open.value
  return (
    <div class="stack">
      {unpriced.problem && <Failed problem={unpriced.problem} retry={unpriced.reload} />}
      {unpriced.value && <UnpricedList open={open} models={unpriced.value.data} />}
      {own.problem && <Failed problem={own.problem} retry={own.reload} />}
      {own.value && <OwnPrices open={open} records={own.value.data} reload={reload} />}
      <AllPrices open={open} turn={turn.value} />
      <ConflictDialog />
      {shown && 'start' in shown && (
        <PriceDialog
          start={shown.start}
          reload={reload}
          close={close}
          saved={(row) => {
            open.value = row && { reprice: row }
          }}
        />
      )}
      {shown && 'reprice' in shown && <Reprice of={shown.reprice} close={close} reload={reload} />}
    </div>
  )
}
