/** Whether records name a credential, so that model calls need a key. */
import { DEFAULT_TEAM, type Directory } from '../../core/accounts.ts'

/** Whether there is a key, a team or a budget of the file or of the database. Ended ones count: their end must not open the gateway. */
export const namesCredential = ({ teams, keys, budgets }: Directory): boolean =>
  keys.size > 0 ||
  budgets.size > 0 ||
  teams.values().some(({ id, managed }) => id !== DEFAULT_TEAM.id || managed === 'file')
