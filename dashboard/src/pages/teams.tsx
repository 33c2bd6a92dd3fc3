/** Teams: what each costs, how full its budget is and what fails; a page for each; and the end users of their clients. */

import { useRef } from 'preact/hooks'
import { valuesOf, withParam } from '../address.ts'
import { late } from '../parts/late.tsx'
import { rangeText } from '../parts/range.tsx'
import { PageHead } from '../parts/states.tsx'
import { current, go } from '../store.ts'
import { en } from '../words/en.ts'
import { teamsWords as words } from '../words/teams.ts'
import { EndUsers } from './teams/end-users.tsx'
import { TeamList } from './teams/list.tsx'

const TeamPage = late<{ readonly id: string }>(() => import('./teams/team.tsx').then((module) => module.TeamPage))

const END_USERS = 'end-users'

export const Page = () => {
  const { id } = current.value
  const left = useRef<string | null>(null)
  if (id !== null) left.current = id
  if (id !== null) return <TeamPage key={id} id={id} />
  const isEndUsers = valuesOf(current.value, 'show')[0] === END_USERS
  const show = (name: readonly string[]) =>
    go(['q', 'sort', 'state'].reduce((place, one) => withParam(place, one, []), withParam(current.value, 'show', name)))
  return (
    <div class="stack teams">
      <PageHead title={en.pages.teams}>
        <p class="printed">{rangeText()}</p>
      </PageHead>
      <fieldset class="segments">
        <legend class="sr-only">{words.tabs.label}</legend>
        <button type="button" aria-pressed={!isEndUsers} onClick={() => show([])}>
          {en.pages.teams}
        </button>
        <button type="button" aria-pressed={isEndUsers} onClick={() => show([END_USERS])}>
          {words.tabs.endUsers}
        </button>
      </fieldset>
      {isEndUsers ? <EndUsers /> : <TeamList left={left.current} />}
    </div>
  )
}
