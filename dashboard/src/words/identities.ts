/** Words of signed tokens. */
import { words } from './words.ts'

export const identityWords = words({
  tab: (n: string) => `Identities ${n}`,
  label: 'Subjects of signed tokens, the latest first',
  none: 'No token was used since the start.',
  about: 'Subjects are known after their first call. Their rules are those of auth.jwt in headgate.yaml.',
  unseen: 'not since the start',
  team: (team: string) => `team ${team}`,
  block: 'Block',
  admit: 'Admit again',
  blocked: (until: string | null, reason: string) =>
    `blocked${until === null ? '' : ` until ${until.slice(0, 16).replace('T', ' ')} UTC`}${reason === '' ? '' : `: ${reason}`}`,
})
