/** Every setting with its value, origin and description; then providers, routes and accounts with their origin. */
import { valuesOf, withParam } from '../../address.ts'
import { Filters } from '../../parts/filters.tsx'
import { PlainTable } from '../../parts/plain-table.tsx'
import { Empty, WithCode } from '../../parts/states.tsx'
import { current, go, isNarrow, pageHref } from '../../store.ts'
import { config as texts } from '../../words/config.ts'
import { type ShownConfig, type ShownSetting, valueText } from './shapes.ts'

const SEARCH = 'q'
/** `set=yes`: settings with a default are left out. */
const ONLY_SET = 'set'
const OTHERS = [ONLY_SET]

const isDefault = ({ origin }: { readonly origin: string }): boolean => origin === 'default'

const Origin = ({ origin, variable }: { readonly origin: string; readonly variable?: string }) =>
  isDefault({ origin }) ? (
    <span class="dim">{texts.settings.default}</span>
  ) : (
    <span class="badge">{origin === 'env' && variable !== undefined ? variable : origin}</span>
  )

const Value = ({ value }: { readonly value: unknown }) => {
  const text = valueText(value)
  if (text === null) return <span class="dim">{texts.settings.notSet}</span>
  return <span class="mono">{text === '' ? '""' : text}</span>
}

const matches = ({ name, value, variable, about, origin }: ShownSetting, words: readonly string[]): boolean => {
  const all = `${name} ${valueText(value) ?? ''} ${variable} ${about} ${origin}`.toLowerCase()
  return words.every((word) => all.includes(word))
}

const Rows = ({ settings }: { readonly settings: readonly ShownSetting[] }) => (
  <table class="table config-table" data-columns="narrow" aria-label={texts.settings.label}>
    <thead>
      <tr>
        <th scope="col">{texts.settings.name}</th>
        <th scope="col">{texts.settings.value}</th>
        <th scope="col">{texts.settings.origin}</th>
        <th scope="col">{texts.settings.about}</th>
      </tr>
    </thead>
    <tbody>
      {settings.map(({ name, value, origin, variable, about }) => (
        <tr key={name}>
          <td>
            <span class="mono config-name">{name}</span>
          </td>
          <td>
            <Value value={value} />
          </td>
          <td>
            <Origin origin={origin} variable={variable} />
          </td>
          <td>
            <WithCode text={about} />
            <span class="small dim mono config-variable">{variable}</span>
          </td>
        </tr>
      ))}
    </tbody>
  </table>
)

const Cards = ({ settings }: { readonly settings: readonly ShownSetting[] }) => (
  <ul class="config-cards" aria-label={texts.settings.label}>
    {settings.map(({ name, value, origin, variable, about }) => (
      <li key={name} class="panel">
        <span class="mono config-name">{name}</span>
        <span class="config-card-value">
          <Value value={value} /> <Origin origin={origin} variable={variable} />
        </span>
        <span class="small">
          <WithCode text={about} />
        </span>
        <span class="small dim mono">{variable}</span>
      </li>
    ))}
  </ul>
)

type OthersProps = {
  readonly label: string
  readonly heads: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

/** A short table whose last column is the origin. */
const Others = ({ label, heads, rows }: OthersProps) => (
  <section class="stack">
    <h2>{label}</h2>
    <PlainTable
      label={label}
      rows={rows}
      keyOf={(cells) => cells.join(' ')}
      columns={[
        ...heads.map((name, at) => ({ name, cell: (cells: readonly string[]) => cells[at] })),
        { name: texts.settings.origin, cell: (cells) => <Origin origin={cells.at(-1) ?? ''} /> },
      ]}
    />
  </section>
)

export const Settings = ({ config }: { readonly config: ShownConfig }) => {
  const { settings, providers, routes, accounts, stale } = config
  const [search = ''] = valuesOf(current.value, SEARCH)
  const onlySet = valuesOf(current.value, ONLY_SET).includes('yes')
  const words = search.toLowerCase().split(/\s+/)
  const shown = settings.filter((one) => (!onlySet || !isDefault(one)) && matches(one, words))
  return (
    <div class="stack">
      <div class="config-filters">
        <Filters filters={[]} search={{ name: SEARCH, placeholder: texts.settings.search }} others={OTHERS} />
        <label class="check">
          <input
            type="checkbox"
            checked={onlySet}
            onChange={({ currentTarget }) =>
              go(withParam(current.value, ONLY_SET, currentTarget.checked ? ['yes'] : []), 'replace')
            }
          />
          {texts.settings.onlySet}
        </label>
        <span class="dim num">{texts.settings.count(shown.length, settings.length)}</span>
        <span class="dim">{texts.settings.secret}</span>
      </div>
      {stale && <p class="warn">{texts.settings.stale}</p>}
      {shown.length === 0 ? (
        <Empty title={onlySet && search === '' ? texts.settings.noneSet : texts.settings.empty}>
          <a class="button" href={pageHref('config')}>
            {texts.sections.settings}
          </a>
        </Empty>
      ) : isNarrow.value ? (
        <Cards settings={shown} />
      ) : (
        <Rows settings={shown} />
      )}
      {providers.length === 0 && <p class="dim">{texts.others.noProviders}</p>}
      {providers.length > 0 && (
        <Others
          label={texts.others.providers}
          heads={[texts.others.id, texts.others.kind, texts.others.url, texts.others.keys, texts.others.models]}
          rows={providers.map(({ id, kind, base_url: url, keys, models, origin }) => [
            id,
            kind,
            url,
            keys.length === 0 ? texts.others.keyCount(0) : keys.join(', '),
            models.length === 0 ? texts.others.anyModel : models.join(', '),
            origin,
          ])}
        />
      )}
      {routes.length > 0 && (
        <Others
          label={texts.others.routes}
          heads={[texts.others.name, texts.others.targets]}
          rows={routes.map(({ name, targets, origin }) => [
            name,
            targets.map(({ provider, model }) => (model === undefined ? provider : `${provider}/${model}`)).join(', '),
            origin,
          ])}
        />
      )}
      {accounts.length > 0 && (
        <Others
          label={texts.others.accounts}
          heads={[texts.others.kind, texts.others.name, texts.others.id]}
          rows={accounts.map(({ kind, id, name, origin }) => [kind, name, id, origin])}
        />
      )}
    </div>
  )
}
