/** A part that the role of the session does not show: which role it needs, and who is signed in. */
import { session } from '../../api.ts'
import { Empty, Loading } from '../../parts/states.tsx'
import { en } from '../../words/en.ts'

export const Needs = ({ why }: { readonly why: string }) =>
  session.value ? (
    <Empty title={en.states.notAllowed}>
      <p>{why}</p>
      <p>{en.states.notAllowedAs(session.value.actor.name)}</p>
    </Empty>
  ) : (
    <Loading />
  )
