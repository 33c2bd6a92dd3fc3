/** Subjects of signed tokens: those that have called, and those that are blocked. */

import type { Shown } from '../../../src/records/entities/shown.ts'
import type { IDENTITIES, IDENTITY } from '../../../src/server/answers/identities.ts'
import { hasRole, offlineSince, type Resource, write } from '../api.ts'
import { moment } from '../format.ts'
import { identityWords as words } from '../words/identities.ts'
import { attempt } from './changing.tsx'
import { Empty, Failed, Loading, Time } from './states.tsx'

export type IdentityList = Resource<Shown<typeof IDENTITIES>>

type Identity = Shown<typeof IDENTITY>

const Line = ({ identity, reload }: { readonly identity: Identity; readonly reload: () => void }) => {
  const { rule, issuer, subject, user, team, last, blocked } = identity
  const name = blocked ? words.admit : words.block
  const act = () =>
    void attempt(async () => {
      await write('POST', `/identities/${blocked ? 'unblock' : 'block'}`, { rule, subject })
      reload()
    })
  return (
    <li class="row">
      <strong class="mono">{subject}</strong>
      <span>{rule ?? issuer}</span>
      {team !== null && <span>{words.team(team)}</span>}
      {user !== null && <span class="dim">{user}</span>}
      {blocked && <span class="bad">✗ {words.blocked(blocked.until, blocked.reason)}</span>}
      {last === null ? <span class="dim">{words.unseen}</span> : <Time at={last}>{moment(Date.parse(last))}</Time>}
      {hasRole('operator', 'all') && rule !== null && (
        <button
          type="button"
          class={`button small ${blocked ? '' : 'danger'}`}
          aria-label={`${name}: ${subject}`}
          disabled={offlineSince.value !== null}
          onClick={act}
        >
          {name}
        </button>
      )}
    </li>
  )
}

export const Identities = ({ list: { value, problem, isLoading, reload } }: { readonly list: IdentityList }) => (
  <>
    {problem && <Failed problem={problem} retry={reload} />}
    {!value && isLoading && <Loading />}
    {value?.data.length === 0 && (
      <Empty title={words.none}>
        <p>{words.about}</p>
      </Empty>
    )}
    <ul class="lines" aria-label={words.label}>
      {(value?.data ?? []).map((identity) => (
        <Line key={`${identity.issuer} ${identity.subject} ${identity.rule}`} identity={identity} reload={reload} />
      ))}
    </ul>
  </>
)
