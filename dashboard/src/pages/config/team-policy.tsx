/** What teams require of their data, and a form that changes it. */
import { useSignal } from '@preact/signals'
import { useState } from 'preact/hooks'
import { hasRole, offlineSince, readAll, useResource } from '../../api.ts'
import type { TeamRecord } from '../../key-records.ts'
import { ConflictDialog, changeRecord, type DialogEnd, Form } from '../../parts/changing.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { RequireFields, requireIn } from '../../parts/require-fields.tsx'
import { Failed } from '../../parts/states.tsx'
import { toast } from '../../store.ts'
import { config as texts } from '../../words/config.ts'
import { keysWords } from '../../words/keys.ts'

const { policy: words } = texts
const MOST = 5_000

const EditTeam = ({ team: latest, close, reload }: DialogEnd & { readonly team: TeamRecord }) => {
  // A change elsewhere since the dialog was opened is a conflict, not a new start.
  const [{ id, name, rev, require }] = useState(latest)
  const send = async (data: FormData) => {
    const next = requireIn(data, require)
    if (JSON.stringify(next) === JSON.stringify(require)) toast(keysWords.form.nothingChanged)
    else
      await changeRecord({
        path: `/teams/${id}`,
        name,
        rev,
        patch: { require: next },
        back: { require },
        done: keysWords.saved(name),
        after: reload,
      })
    close()
  }
  return (
    <Dialog title={words.editTeam(name)} onClose={close}>
      <Form send={send} close={close} submit={keysWords.form.save}>
        <RequireFields require={require} />
      </Form>
    </Dialog>
  )
}

export const TeamPolicy = () => {
  const { value, problem, reload } = useResource('teams of the policy', () =>
    readAll<TeamRecord>('/teams', { sort: 'name' }, MOST),
  )
  const open = useSignal<string | null>(null)
  const teams = value?.data ?? []
  const team = teams.find(({ id }) => id === open.value)
  const close = () => {
    open.value = null
  }
  return (
    <section class="panel">
      <h2>{words.teams}</h2>
      {problem && <Failed problem={problem} retry={reload} />}
      <ul class="lines" aria-label={words.teams}>
        {teams.map(({ id, name, require, managed }) => (
          <li key={id} class="row">
            <strong>{name}</strong>
            <span>{words.required(require)}</span>
            {managed === 'file' ? (
              <span class="dim">{keysWords.managed.file}</span>
            ) : (
              hasRole('admin', { team: id }) && (
                <button
                  type="button"
                  class="button small config-change"
                  disabled={offlineSince.value !== null}
                  aria-label={words.editTeam(name)}
                  onClick={() => {
                    open.value = id
                  }}
                >
                  {words.edit}
                </button>
              )
            )}
          </li>
        ))}
      </ul>
      {team && <EditTeam team={team} close={close} reload={reload} />}
      <ConflictDialog />
    </section>
  )
}
