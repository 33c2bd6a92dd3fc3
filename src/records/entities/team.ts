/** A team: a group of client keys. */
import { z } from 'zod'
import { entryId, memberReader, NAME } from './member.ts'
import { entryStatus, RESTRICTIONS } from './restrictions.ts'
import { shownAs } from './shown.ts'

/** In every form: the body, the file, the row and the answers. */
export const TEAM_MEMBERS = RESTRICTIONS

export const TEAM_ENTRY = z.strictObject({
  id: entryId(/^team_(?:[a-z]{12}|default)$/, 'team'),
  status: entryStatus('`blocked`: its keys are refused'),
  ...TEAM_MEMBERS,
})
export type TeamEntry = z.output<typeof TEAM_ENTRY>

export const TEAM_BODY = z.strictObject({ name: NAME, ...TEAM_MEMBERS })

export const TEAM = shownAs('team', TEAM_MEMBERS, {}).meta({ id: 'Team' })

/** The members of a stored body, of an entry or of a team. */
export const teamMembersOf = memberReader(TEAM_MEMBERS)
