/** The models that requests can name, with their facts. */
import { valuesOf } from '../../address.ts'
import { read, useResource } from '../../api.ts'
import { Filters } from '../../parts/filters.tsx'
import { Empty, Failed, Loading } from '../../parts/states.tsx'
import { type Column, Table } from '../../parts/table.tsx'
import { current, go } from '../../store.ts'
import { routes as texts } from '../../words/routes.ts'
import { Can, Context, FirstContent, type ModelEntry, Output, Price, type ProviderFacts } from './facts.tsx'
import { DOWN } from './what-if.tsx'

/** Entries of a page of the API, and pages that are read. */
const PAGE = 200
const MOST_PAGES = 5
export const SEARCH = 'q'

export type ModelList = { readonly models: readonly ModelEntry[]; readonly hasMore: boolean }

/** Models with their provider: `openai/gpt-5`. Names of routes, and models without their provider, are left out. */
export const readModels = async (q: string | undefined): Promise<ModelList> => {
  type Page = { readonly data: readonly ModelEntry[]; readonly has_more: boolean; readonly next: string | null }
  const models: ModelEntry[] = []
  let after: string | null = null
  for (let page = 0; page < MOST_PAGES; page++) {
    const found: Page = await read<Page>('/models', { limit: PAGE, after, q })
    models.push(...found.data.filter(({ id, owned_by: owner }) => id.startsWith(`${owner}/`)))
    after = found.next
    if (!found.has_more) return { models, hasMore: false }
  }
  return { models, hasMore: true }
}

/** Parameters of the address that other parts of the page use. */
const OTHERS = [DOWN]

export const Models = ({ providers }: { readonly providers: ReadonlyMap<string, ProviderFacts> }) => {
  const [q] = valuesOf(current.value, SEARCH)
  const { value, problem, isLoading, reload } = useResource(`models ${q}`, () => readModels(q))
  const open = ({ id }: ModelEntry) => go({ ...current.value, id })
  const columns: readonly Column<ModelEntry>[] = [
    { id: 'name', head: texts.models.name, cell: ({ id }) => <bdi title={id}>{id}</bdi> },
    {
      id: 'context',
      head: texts.list.context,
      align: 'end',
      width: '6rem',
      cell: (model) => <Context model={model} />,
    },
    {
      id: 'output',
      head: texts.models.output,
      align: 'end',
      width: '8.5rem',
      cell: (model) => <Output model={model} />,
    },
    { id: 'price', head: texts.list.price, align: 'end', width: '9rem', cell: (model) => <Price model={model} /> },
    { id: 'can', head: texts.models.can, cell: (model) => <Can model={model} /> },
    {
      id: 'first',
      head: texts.list.first,
      align: 'end',
      width: '7rem',
      cell: ({ id, owned_by: owner }) => (
        <FirstContent
          provider={providers.get(owner)}
          model={id.startsWith(`${owner}/`) ? id.slice(owner.length + 1) : id}
        />
      ),
    },
  ]
  return (
    <section class="stack">
      <div class="card-title">
        <h2>{texts.models.title}</h2>
        {value && <span class="dim num">{texts.models.count(value.models.length)}</span>}
      </div>
      <Filters filters={[]} search={{ name: SEARCH, placeholder: texts.models.search }} others={OTHERS} />
      {problem && <Failed problem={problem} retry={reload} />}
      {!value && isLoading && <Loading />}
      {value?.models.length === 0 && <Empty title={q === undefined ? texts.models.none : texts.models.empty} />}
      {value && value.models.length > 0 && (
        <Table
          label={texts.models.label}
          columns={columns}
          rows={value.models}
          keyOf={({ id }) => id}
          open={open}
          opened={current.value.id}
          card={(model) => (
            <div class="routes-model">
              <bdi class="routes-model-name">{model.id}</bdi>
              <span class="small dim">
                <Context model={model} /> · <Price model={model} />
              </span>
              <span class="small dim">
                <Can model={model} />
              </span>
            </div>
          )}
        />
      )}
      {value?.hasMore && <p class="dim">{texts.models.first(value.models.length)}</p>}
    </section>
  )
}
