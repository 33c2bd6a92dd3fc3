/** The audit log: who changed what, from which address. For admins of all teams. */
import { useSignal } from '@preact/signals'
import { hasRole, problemIn, read, useResource } from '../../api.ts'
import { moment } from '../../format.ts'
import { Empty, Failed, Loading, Time } from '../../parts/states.tsx'
import { toast } from '../../store.ts'
import { config as texts } from '../../words/config.ts'
import { Needs } from './needs.tsx'

type AuditLine = {
  readonly id: string
  readonly at: string
  readonly actor: { readonly name: string }
  readonly from: string | null
  readonly action: string
  readonly object: string | null
  readonly before: unknown
  readonly after: unknown
}
type AuditPage = { readonly data: readonly AuditLine[]; readonly next: string | null }

const readPage = (after: string | null): Promise<AuditPage> => read<AuditPage>('/audit', { limit: 50, after })

const Details = ({ before, after }: AuditLine) => {
  const shown = Object.entries({ [texts.audit.before]: before, [texts.audit.after]: after }).filter(
    ([, value]) => typeof value === 'object' && value !== null && Object.keys(value).length > 0,
  )
  if (shown.length === 0) return null
  return (
    <details class="config-details">
      <summary>{texts.audit.details}</summary>
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

const Line = (line: AuditLine) => (
  <li>
    <div class="row">
      <strong class="mono">{line.action === 'circuit.open' ? texts.audit.rest : line.action}</strong>
      {line.object !== null && <span class="mono config-object">{line.object}</span>}
      <span>{line.actor.name}</span>
      <span class="dim">{line.from}</span>
      <Time at={line.at}>{moment(Date.parse(line.at))}</Time>
    </div>
    <Details {...line} />
  </li>
)

export const Audit = () => {
  const isAdmin = hasRole('admin', 'all')
  const older = useSignal<AuditPage | null>(null)
  const { value, problem, isLoading, reload } = useResource(isAdmin ? 'audit' : null, () => readPage(null))
  if (!isAdmin) return <Needs why={texts.audit.needs} />
  const lines = [...(value?.data ?? []), ...(older.value?.data ?? [])]
  const next = older.value ? older.value.next : (value?.next ?? null)
  const readMore = async () => {
    try {
      const page = await readPage(next)
      older.value = { data: [...(older.value?.data ?? []), ...page.data], next: page.next }
    } catch (error) {
      toast(problemIn(error).message, { tone: 'bad' })
    }
  }
  return (
    <div class="stack">
      {problem && <Failed problem={problem} retry={reload} />}
      {!value && isLoading && <Loading />}
      {value && lines.length === 0 && <Empty title={texts.audit.none} />}
      <ul class="lines" aria-label={texts.audit.label}>
        {[...new Map(lines.map((line) => [line.id, line])).values()].map((line) => (
          <Line key={line.id} {...line} />
        ))}
      </ul>
      {next !== null && (
        <button type="button" class="button" onClick={() => void readMore()}>
          {texts.audit.more}
        </button>
      )}
    </div>
  )
}
