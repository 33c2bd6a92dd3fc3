import { useState } from 'preact/hooks'
import { changeRecord, type DialogEnd, Form } from '../../parts/changing.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { LimitFields, limitsIn } from '../../parts/limit-fields.tsx'
import { toast } from '../../store.ts'
import type { ListedTeam } from '../../team-rows.ts'
import { keysWords } from '../../words/keys.ts'
import { teamsWords as words } from '../../words/teams.ts'

/** A form with the limits of a team. */
export const LimitsDialog = ({ team, close, reload }: DialogEnd & { readonly team: Omit<ListedTeam, 'keys'> }) => {
  // A change elsewhere since the dialog was opened is a conflict, not a new start.
  const [{ id, name, rev, limits }] = useState(team)
  const send = async (data: FormData) => {
    const next = limitsIn(data)
    if (JSON.stringify(next) === JSON.stringify(limits)) toast(keysWords.form.nothingChanged)
    else
      await changeRecord({
        path: `/teams/${id}`,
        name,
        rev,
        patch: { limits: next },
        back: { limits },
        done: words.saved(name),
        after: reload,
      })
    close()
  }
  return (
    <Dialog title={words.editLimits(name)} onClose={close}>
      <Form send={send} close={close} submit={keysWords.form.save}>
        <p class="dim">{words.limitsAbout}</p>
        <LimitFields limits={limits} />
      </Form>
    </Dialog>
  )
}
