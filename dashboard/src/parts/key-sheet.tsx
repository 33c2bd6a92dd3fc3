/** All of a client key: its secrets, limits, budgets and use, with what may be done with it. */
import { placePath, toPage, withParam } from '../address.ts'
import { offlineSince, read, useResource } from '../api.ts'
import { age, day, money, percent } from '../format.ts'
import { budgetsOf, isScoped, type KeyBudget, type KeyRecord, keyHint, type Listed } from '../key-records.ts'
import { current, go, now, pageHref } from '../store.ts'
import { en } from '../words/en.ts'
import { keysWords } from '../words/keys.ts'
import { Dialog } from './dialog.tsx'
import { accessText, actionsOf, type KeyAction, type KeysData, limitsText, StateCell, teamName } from './key-cells.tsx'
import { RecentUseLine } from './key-dialogs.tsx'
import { SpentBar } from './spent-bar.tsx'
import { Copy, Failed, Loading, Time } from './states.tsx'

type KeySheetProps = {
  readonly data: KeysData
  readonly id: string
  readonly run: (what: KeyAction, key: KeyRecord) => void
}

const { detail: text, head } = keysWords

export const KeySheet = ({ data, id, run }: KeySheetProps) => {
  const listed = data.keys.find((key) => key.id === id)
  // A key outside the filter, such as a revoked one, is read on its own.
  const single = useResource(
    listed ? null : `key ${id}`,
    () => read<Listed<KeyRecord>>('/keys', { q: id, counters: true }),
    { isolated: true },
  )
  const key = listed ?? single.value?.data.find((one) => one.id === id)
  const close = () => go({ ...current.value, id: null })
  return (
    <Dialog title={key?.name ?? id} onClose={close} wide>
      {!key && single.problem && <Failed problem={single.problem} retry={single.reload} />}
      {!key && single.isLoading && <Loading rows={4} />}
      {single.value && !key && <p>{text.gone}</p>}
      {key && <Facts record={key} data={data} />}
      {key && <Actions record={key} run={run} />}
    </Dialog>
  )
}

type FactsProps = { readonly record: KeyRecord; readonly data: KeysData }

const Facts = ({ record, data }: FactsProps) => {
  const { created_at: made, created_by: by, expires_at: expires, tags } = record
  return (
    <dl class="keys-facts">
      <dt>{head.state}</dt>
      <dd>
        <StateCell keyRecord={record} data={data} />
      </dd>
      <dt>{text.id}</dt>
      <dd class="row">
        <span class="mono">{record.id}</span> <Copy text={record.id} />
      </dd>
      <dt>{head.team}</dt>
      <dd>
        <a href={pageHref('teams', record.team)}>{teamName(data, record.team)}</a>
      </dd>
      <dt>{head.made}</dt>
      <dd>
        {made === null ? '–' : <Time at={made}>{day(Date.parse(made))}</Time>} {text.by(by)}
      </dd>
      <dt>{text.expires}</dt>
      <dd>{expires === null ? text.neverEnds : <Time at={expires}>{day(Date.parse(expires))}</Time>}</dd>
      <dt>{head.access}</dt>
      <dd class="wrap">{record.access.models?.join(', ') ?? accessText(record)}</dd>
      <dt>{head.limits}</dt>
      <dd>{limitsText(record) ?? keysWords.noneOwn}</dd>
      <dt>{text.secrets}</dt>
      <dd>
        <Secrets record={record} />
      </dd>
      <dt>{text.budgets}</dt>
      <dd class="stack">
        <Budgets record={record} data={data} />
      </dd>
      <dt>{text.use}</dt>
      <dd>
        <RecentUseLine id={record.id} />
      </dd>
      {Object.keys(tags).length > 0 && (
        <>
          <dt>{text.tags}</dt>
          <dd class="wrap">
            {Object.entries(tags)
              .map(([name, value]) => `${name}:${value}`)
              .join(', ')}
          </dd>
        </>
      )}
    </dl>
  )
}

const Secrets = ({ record }: { readonly record: KeyRecord }) => (
  <ul>
    {record.secrets.map(({ last4, until }, at) => (
      <li key={`${last4} ${until}`}>
        <span class="mono">{keyHint({ prefix: record.prefix, last4 })}</span>{' '}
        {until === null
          ? record.secrets.length > 1 && at === 0 && <span class="dim">{text.newest}</span>
          : Date.parse(until) > now.value && <Time at={until}>{text.ends(age(Date.parse(until) - now.value))}</Time>}
      </li>
    ))}
  </ul>
)

const Budgets = ({ record, data }: FactsProps) => {
  const found = budgetsOf(record, data.budgets)
  const ofAll = found.filter(({ budget }) => !isScoped(budget))
  const scoped = found.filter(({ budget }) => isScoped(budget))
  return (
    <>
      {found.length === 0 && <span class="dim">{text.noBudget}</span>}
      <BudgetLines found={ofAll} />
      {scoped.length > 0 && (
        <>
          <p class="dim">{text.scopedBudgets}</p>
          <BudgetLines found={scoped} />
        </>
      )}
    </>
  )
}

const BudgetLines = ({ found }: { readonly found: readonly KeyBudget[] }) => (
  <ul class="stack">
    {found.map(({ budget, owner, spent, share }) => (
      <li key={budget.id} class="keys-budget">
        <SpentBar share={share} label={keysWords.spentShare(budget.name, percent(share))} alerts={budget.alerts} />
        <span class="num">
          {budget.name}
          {owner !== 'key' && ` (${keysWords.owners[owner]})`} ·{' '}
          {keysWords.of(money(spent), money(budget.amount), keysWords.periods[budget.period])}
          {isScoped(budget) &&
            ` · ${[...(budget.appliesTo.models ?? []), ...(budget.appliesTo.providers ?? [])].join(', ')}`}
        </span>
      </li>
    ))}
  </ul>
)

type KeyActionsProps = { readonly record: KeyRecord; readonly run: KeySheetProps['run'] }

const Actions = ({ record, run }: KeyActionsProps) => {
  const isOffline = offlineSince.value !== null
  const withKey = (page: 'usage' | 'requests') => placePath(withParam(toPage(current.value, page), 'key', [record.id]))
  return (
    <div class="row">
      <a class="button quiet" href={withKey('requests')}>
        {keysWords.actions.requests}
      </a>
      <a class="button quiet" href={withKey('usage')}>
        {keysWords.actions.usage}
      </a>
      {actionsOf(record).map((action) => (
        <button
          key={action}
          type="button"
          class={action === 'revoke' ? 'button danger' : 'button'}
          disabled={isOffline}
          onClick={() => run(action, record)}
        >
          {keysWords.actions[action]}
        </button>
      ))}
      {isOffline && <p class="warn">{en.states.offlineWrite}</p>}
    </div>
  )
}
