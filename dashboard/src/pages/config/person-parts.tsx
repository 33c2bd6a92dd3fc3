/** Parts of a person: roles given by hand, and the programs in which the person is signed in. */
import { useSignal } from '@preact/signals'
import type { Shown } from '../../../../src/records/entities/shown.ts'
import type { PERSON } from '../../../../src/server/answers/people.ts'
import type { SIGN_INS } from '../../../../src/server/answers/sign-ins.ts'
import { read, useResource, write } from '../../api.ts'
import { moment } from '../../format.ts'
import { Failed, Time } from '../../parts/states.tsx'
import { config as texts } from '../../words/config.ts'

const { people: words } = texts

export type PersonLine = Shown<typeof PERSON>
export type TeamNames = ReadonlyMap<string, string>
/** Runs a write, shows its failure, and reads the people again. */
export type Act = (run: () => Promise<unknown>) => void

type PersonPartProps = {
  readonly person: PersonLine
  readonly title: string
  readonly teams: TeamNames
  readonly act: Act
}

const ROLES = ['viewer', 'operator', 'admin'] as const

/** All roles, with their origin. Those given by hand can be taken. */
export const Roles = ({ person: { id, roles, bindings, rev }, title, teams, act }: PersonPartProps) => {
  const take = (role: string, team: string | null) =>
    act(() => {
      const rest = bindings.filter((one) => one.role !== role || one.team !== team)
      return write('PATCH', `/people/${id}`, { bindings: rest }, { rev })
    })
  if (roles.length === 0) return <span class="dim">{words.noRole}</span>
  return (
    <ul class="config-roles">
      {roles.map(({ role, team, by, group }) => {
        const text = words.role(role, team === null ? null : (teams.get(team) ?? team))
        return (
          <li key={`${role} ${team} ${by} ${group}`}>
            {text} <span class="dim">{words.by(by, group)}</span>
            {by === 'hand' && (
              <button
                type="button"
                class="button small quiet"
                aria-label={words.take(text, title)}
                onClick={() => take(role, team)}
              >
                ×
              </button>
            )}
          </li>
        )
      })}
    </ul>
  )
}

/** Gives a role by hand. */
export const GiveRole = ({ person: { id, bindings, rev }, title, teams, act }: PersonPartProps) => (
  <form
    class="row"
    aria-label={words.giveTo(title)}
    onSubmit={(event) => {
      event.preventDefault()
      if (!(event.currentTarget instanceof HTMLFormElement)) return
      const data = new FormData(event.currentTarget)
      const [role, team] = [String(data.get('role')), String(data.get('team'))]
      act(() =>
        write(
          'PATCH',
          `/people/${id}`,
          { bindings: [...bindings, { role, team: team === '' ? null : team }] },
          { rev },
        ),
      )
    }}
  >
    <select name="role" aria-label={words.roleName}>
      {ROLES.map((role) => (
        <option key={role}>{role}</option>
      ))}
    </select>
    <select name="team" aria-label={words.teamName}>
      <option value="">{words.allTeams}</option>
      {[...teams].map(([team, name]) => (
        <option key={team} value={team}>
          {words.ofTeam(name)}
        </option>
      ))}
    </select>
    <button type="submit" class="button small">
      {words.give}
    </button>
  </form>
)

/** Programs of the person, read when they are opened. */
export const Programs = ({ person: { id, sessions }, act }: Pick<PersonPartProps, 'person' | 'act'>) => {
  const isOpen = useSignal(false)
  const { value, problem, reload } = useResource(isOpen.value ? `sign-ins ${id} ${sessions}` : null, () =>
    read<Shown<typeof SIGN_INS>>('/sign-ins', { person: id, limit: 200 }),
  )
  const end = (signIn: string) => act(() => write('DELETE', `/sign-ins/${signIn}`))
  return (
    <details
      onToggle={({ currentTarget }) => {
        isOpen.value = currentTarget.open
      }}
    >
      <summary>{words.programs}</summary>
      {problem && <Failed problem={problem} retry={reload} />}
      {value?.data.length === 0 && <p class="dim">{words.noPrograms}</p>}
      <ul class="config-programs">
        {(value?.data ?? []).map(({ id: signIn, client, address, used_at }) => (
          <li key={signIn} class="row">
            <strong>{client}</strong>
            <span class="mono dim">{address}</span>
            <Time at={used_at}>{moment(Date.parse(used_at))}</Time>
            <button
              type="button"
              class="button small"
              aria-label={words.endProgram(client, address)}
              onClick={() => end(signIn)}
            >
              {words.end}
            </button>
          </li>
        ))}
      </ul>
    </details>
  )
}
