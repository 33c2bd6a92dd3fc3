/** The audit log: who changed what, from which address. For admins of all teams. */
import { useSignal } from '@preact/signals'
import { valuesOf, withParam } from '../../address.ts'
import { hasRole, read, useResource } from '../../api.ts'
import { moment } from '../../format.ts'
import type { OwnerNames } from '../../owner-names.ts'
import { attempt } from '../../parts/changing.tsx'
import { type Filter, Filters } from '../../parts/filters.tsx'
import { Empty, Failed, Loading, Time } from '../../parts/states.tsx'
import { current, go } from '../../store.ts'
import { config as texts } from '../../words/config.ts'
import { changeWords } from '../../words/providers.ts'
import { Needs } from './needs.tsx'

type AuditLine = {
  readonly id: string
  readonly at: string
  readonly actor: { readonly id: string; readonly name: string }
  readonly from: string | null
  readonly action: string
  readonly object: string | null
  readonly before: unknown
  readonly after: unknown
}
type AuditPage = { readonly data: readonly AuditLine[]; readonly next: string | null; readonly names: OwnerNames }

const { audit: text } = texts
const FILTERS: readonly Filter[] = [
  {
    name: 'kind',
    label: text.kind,
    options: Object.entries(text.kinds).map(([value, label]) => ({ value, label })),
  },
]
const PAGE = 50
/** `sign_ins=only`: the sign-ins in place of the changes. */
const SIGN_INS = 'sign_ins'

/** Actors of the lines, and those that are chosen. */
const actorFilter = (lines: readonly AuditLine[]): Filter => ({
  name: 'actor',
  label: text.actor,
  options: [...new Map(lines.map(({ actor }) => [actor.id, actor.name]))].map(([value, label]) => ({ value, label })),
})

const kinds: { readonly [kind: string]: string } = text.kinds
const verbs: { readonly [verb: string]: string } = changeWords.account

/** `Key created`, `Provider rests`. Other actions keep their names. */
const titleOf = (action: string): string => {
  if (action === 'circuit.open') return `${kinds.circuit} ${text.rest}`
  const [kind = '', verb = ''] = action.split('.')
  const [what, done] = [kinds[kind], verbs[verb]]
  return what !== undefined && done !== undefined ? `${what} ${done}` : action
}

const Details = ({ before, after }: AuditLine) => {
  const shown = Object.entries({ [text.before]: before, [text.after]: after }).filter(
    ([, value]) => typeof value === 'object' && value !== null && Object.keys(value).length > 0,
  )
  if (shown.length === 0) return null
  return (
    <details class="config-details">
      <summary>{text.details}</summary>
      <dl>
        {shown.map(([label, value]) => (
          <div key={label}>
            <dt class="dim">{label}</dt>
            <dd class="mono small">{JSON.stringify(value)}</dd>
          </div>
        ))}
      </dl>
    </details>
  )
}

const Line = ({ line, names }: { readonly line: AuditLine; readonly names: OwnerNames }) => {
  const { action, object, actor, from, at } = line
  const name = object === null ? undefined : names[object]
  return (
    <li>
      <div class="row">
        <strong title={action}>{titleOf(action)}</strong>
        {name !== undefined && <span>{name}</span>}
        {object !== null && (
          <span class={name === undefined ? 'mono config-object' : 'mono config-object small dim'}>{object}</span>
        )}
        <span>{text.by(actor.name)}</span>
        <span class="dim">{from}</span>
        <Time at={at}>{moment(Date.parse(at))}</Time>
      </div>
      <Details {...line} />
    </li>
  )
}

const Switch = ({ isSignIns }: { readonly isSignIns: boolean }) => (
  <fieldset class="segments">
    <legend class="sr-only">{text.show}</legend>
    {[false, true].map((of) => (
      <button
        key={String(of)}
        type="button"
        aria-pressed={of === isSignIns}
        onClick={() => go(withParam(current.value, SIGN_INS, of ? ['only'] : []), 'replace')}
      >
        {of ? text.signIns : text.changes}
      </button>
    ))}
  </fieldset>
)

const AuditList = () => {
  const isSignIns = valuesOf(current.value, SIGN_INS).includes('only')
  const query = {
    q: valuesOf(current.value, 'q')[0],
    kind: valuesOf(current.value, 'kind'),
    actor: valuesOf(current.value, 'actor'),
    sign_ins: isSignIns ? 'only' : 'none',
  }
  const asked = JSON.stringify(query)
  /** Further pages of what was asked. */
  const older = useSignal<{ readonly asked: string; readonly page: AuditPage } | null>(null)
  const { value, problem, isLoading, reload } = useResource(`audit ${asked}`, () =>
    read<AuditPage>('/audit', { ...query, limit: PAGE }),
  )
  const more = older.value?.asked === asked ? older.value.page : null
  const lines = [...(value?.data ?? []), ...(more?.data ?? [])]
  const names = { ...value?.names, ...more?.names }
  const next = (more ?? value)?.next ?? null
  const readMore = () =>
    void attempt(async () => {
      const page = await read<AuditPage>('/audit', { ...query, limit: PAGE, after: next })
      older.value = {
        asked,
        page: { ...page, data: [...(more?.data ?? []), ...page.data], names: { ...names, ...page.names } },
      }
    })
  const isFiltered = query.q !== undefined || query.kind.length > 0 || query.actor.length > 0 || isSignIns
  return (
    <div class="stack">
      <div class="config-filters">
        <Switch isSignIns={isSignIns} />
        <Filters
          filters={isSignIns ? [actorFilter(lines)] : [...FILTERS, actorFilter(lines)]}
          search={{ name: 'q', placeholder: text.search }}
          others={[SIGN_INS]}
        />
      </div>
      {problem && <Failed problem={problem} retry={reload} />}
      {!value && isLoading && <Loading />}
      {value && lines.length === 0 && <Empty title={isFiltered ? text.noMatch : text.none} />}
      <ul class="lines" aria-label={text.label}>
        {[...new Map(lines.map((line) => [line.id, line])).values()].map((line) => (
          <Line key={line.id} line={line} names={names} />
        ))}
      </ul>
      {next !== null && (
        <button type="button" class="button" onClick={readMore}>
          {text.more}
        </button>
      )}
    </div>
  )
}

export const Audit = () => (hasRole('admin', 'all') ? <AuditList /> : <Needs why={text.needs} />)
