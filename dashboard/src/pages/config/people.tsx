/** The people who sign in with single sign-on: roles and their origin, and who may no longer enter. For admins of all teams. */
import { useSignal } from '@preact/signals'
import { hasRole, read, readAll, useResource, write } from '../../api.ts'
import { moment } from '../../format.ts'
import type { TeamRecord } from '../../key-records.ts'
import { attempt } from '../../parts/changing.tsx'
import { Empty, Failed, Loading, Time } from '../../parts/states.tsx'
import { config as texts } from '../../words/config.ts'
import { Needs } from './needs.tsx'
import { type Act, GiveRole, type PersonLine, Programs, Roles, type TeamNames } from './person-parts.tsx'

const MOST_TEAMS = 5_000

type PeoplePage = { readonly data: readonly PersonLine[]; readonly next: string | null }

const readPage = (after: string | null): Promise<PeoplePage> => read<PeoplePage>('/people', { limit: 50, after })

type PersonProps = { readonly person: PersonLine; readonly teams: TeamNames; readonly act: Act }

const Line = ({ person, teams, act }: PersonProps) => {
  const { id, provider, subject, email, name, status, sessions, seen_at, rev } = person
  const title = email ?? name ?? subject
  const isBlocked = status === 'blocked'
  const change = () => write('PATCH', `/people/${id}`, { status: isBlocked ? 'active' : 'blocked' }, { rev })
  return (
    <li>
      <div class="row">
        <strong>{title}</strong>
        <span>{provider}</span>
        <span class="mono dim config-object">{subject}</span>
        {isBlocked && <span class="bad">✗ {texts.people.blocked}</span>}
        <Time at={seen_at}>{moment(Date.parse(seen_at))}</Time>
      </div>
      <div class="row">
        <Roles person={person} title={title} teams={teams} act={act} />
        <span class="dim">{texts.people.sessions(sessions)}</span>
        <button
          type="button"
          class="button small"
          aria-label={`${texts.people.signOut}: ${title}`}
          disabled={sessions === 0}
          onClick={() => act(() => write('POST', `/people/${id}/sign-out`))}
        >
          {texts.people.signOut}
        </button>
        <button
          type="button"
          class={`button small ${isBlocked ? '' : 'danger'}`}
          aria-label={`${isBlocked ? texts.people.admit : texts.people.block}: ${title}`}
          onClick={() => act(change)}
        >
          {isBlocked ? texts.people.admit : texts.people.block}
        </button>
      </div>
      <div class="row">
        <GiveRole person={person} title={title} teams={teams} act={act} />
        <Programs person={person} act={act} />
      </div>
    </li>
  )
}

export const People = () => {
  const isAdmin = hasRole('admin', 'all')
  const older = useSignal<PeoplePage | null>(null)
  const { value, problem, isLoading, reload } = useResource(isAdmin ? 'people' : null, () => readPage(null))
  const named = useResource(isAdmin ? 'teams' : null, () => readAll<TeamRecord>('/teams', { sort: 'name' }, MOST_TEAMS))
  const teams: TeamNames = new Map(named.value?.data.map(({ id, name }) => [id, name]))
  if (!isAdmin) return <Needs why={texts.people.needs} />
  const people = [...(value?.data ?? []), ...(older.value?.data ?? [])]
  const next = older.value ? older.value.next : (value?.next ?? null)
  const act = (run: () => Promise<unknown>) =>
    void attempt(async () => {
      await run()
      older.value = null
      reload()
    })
  const readMore = () =>
    attempt(async () => {
      const page = await readPage(next)
      older.value = { data: [...(older.value?.data ?? []), ...page.data], next: page.next }
    })
  return (
    <div class="stack">
      {problem && <Failed problem={problem} retry={reload} />}
      {!value && isLoading && <Loading />}
      {value && people.length === 0 && <Empty title={texts.people.none} />}
      <ul class="lines" aria-label={texts.people.label}>
        {[...new Map(people.map((person) => [person.id, person])).values()].map((person) => (
          <Line key={person.id} person={person} teams={teams} act={act} />
        ))}
      </ul>
      {next !== null && (
        <button type="button" class="button" onClick={() => void readMore()}>
          {texts.people.more}
        </button>
      )}
    </div>
  )
}
