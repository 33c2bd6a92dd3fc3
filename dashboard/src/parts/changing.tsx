/** Writes of a page: failures, undo as a second call, and changes that another session has made in the meantime. */
import { type Signal, signal, useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { type ApiProblem, offlineSince, problemIn, read, write } from '../api.ts'
import { conflictsIn, type FieldConflict } from '../key-records.ts'
import { toast } from '../store.ts'
import { en } from '../words/en.ts'
import { keysWords } from '../words/keys.ts'
import { Dialog } from './dialog.tsx'

type Members = { readonly [name: string]: unknown }
/** A record that was read, with its revision. */
type Revised = { readonly name: string; readonly rev: number }

/** A change of a record. */
export type RecordChange = {
  /** Of the record: `/keys/key_…`. */
  readonly path: string
  readonly name: string
  readonly patch: Members
  /** The patch that takes it back; null: it cannot be undone. */
  readonly back: Members | null
  readonly rev: number
  readonly done: string
  /** Reads the lists again. */
  readonly after: () => void
}

type Conflict = { readonly change: RecordChange; readonly fields: readonly FieldConflict[]; readonly rev: number }
const conflict = signal<Conflict | null>(null)

/** Changes a record if it is as it was read. After a change elsewhere a dialog shows both. Throws other failures. */
export const changeRecord = async (change: RecordChange): Promise<void> => {
  const { path, patch, rev, back, done, name, after } = change
  try {
    const changed = await write<Revised>('PATCH', path, patch, { rev })
    const undo =
      back &&
      (() =>
        void attempt(() =>
          changeRecord({ ...change, patch: back, back: null, rev: changed.rev, done: keysWords.undone(name) }),
        ))
    toast(done, { undo })
    after()
  } catch (error) {
    if (problemIn(error).status !== 412) throw error
    const now = await read<Revised & Members>(path)
    conflict.value = { change, fields: conflictsIn(patch, now), rev: now.rev }
  }
}

/** Runs a write, and shows its failure. True: it succeeded. */
export const attempt = async (run: () => Promise<unknown>): Promise<boolean> => {
  try {
    await run()
    return true
  } catch (error) {
    toast(problemIn(error).message, { tone: 'bad' })
    return false
  }
}

/** Blocks or unblocks a key or a team at its path, with an undo. */
export const changeBlocked = (
  record: { readonly path: string; readonly name: string },
  isBlocked: boolean,
  reload: () => void,
): Promise<boolean> =>
  attempt(async () => {
    await write('POST', `${record.path}/${isBlocked ? 'block' : 'unblock'}`)
    toast((isBlocked ? keysWords.blocked : keysWords.unblocked)(record.name), {
      undo: () => void changeBlocked(record, !isBlocked, reload),
    })
    reload()
  })

/** Blocks an end user in all teams, or takes a block of one team or of all back; with an undo. */
export const changeUserBlocked = (
  { name, team = null }: { readonly name: string; readonly team?: string | null },
  isBlocked: boolean,
  reload: () => void = () => {},
): Promise<boolean> =>
  attempt(async () => {
    const body = { end_user: name, ...(team !== null && { team }) }
    await write('POST', `/end-users/${isBlocked ? 'block' : 'unblock'}`, body)
    toast((!isBlocked ? keysWords.userUnblocked : team === null ? keysWords.userBlocked : keysWords.blocked)(name), {
      undo: () => void changeUserBlocked({ name, team }, !isBlocked, reload),
    })
    reload()
  })

/** The choice after a change elsewhere: keep that one, or overwrite it. */
export const ConflictDialog = () => {
  const found = conflict.value
  if (!found) return null
  const { change, fields, rev } = found
  const close = () => {
    conflict.value = null
  }
  return (
    <Dialog
      title={keysWords.conflict.title}
      onClose={() => {
        close()
        change.after()
      }}
    >
      <p>{keysWords.conflict.about(change.name)}</p>
      {fields.length === 0 ? (
        <p>{keysWords.conflict.same}</p>
      ) : (
        <div class="scroll-x">
          <table class="data-table">
            <thead>
              <tr>
                <th scope="col">{keysWords.conflict.field}</th>
                <th scope="col">{keysWords.conflict.mine}</th>
                <th scope="col">{keysWords.conflict.theirs}</th>
              </tr>
            </thead>
            <tbody>
              {fields.map(({ name, mine, theirs }) => (
                <tr key={name}>
                  <td>{name}</td>
                  <td>{mine}</td>
                  <td>{theirs}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <div class="row end">
        <button
          type="button"
          class="button"
          data-focus
          onClick={() => {
            close()
            change.after()
          }}
        >
          {keysWords.conflict.keep}
        </button>
        <button
          type="button"
          class="button danger"
          onClick={() => {
            close()
            void attempt(() => changeRecord({ ...change, rev, back: null }))
          }}
        >
          {keysWords.conflict.overwrite}
        </button>
      </div>
    </Dialog>
  )
}

/** What a dialog about a record does at its end. */
export type DialogEnd = { readonly close: () => void; readonly reload: () => void }

export type FormProps = {
  /** Writes; a failure is shown in the form. */
  readonly send: (data: FormData) => Promise<void>
  readonly close: () => void
  readonly submit: string
  readonly danger?: boolean
  /** The button stays disabled. */
  readonly isBlocked?: boolean
  readonly onInput?: (data: FormData) => void
  readonly children: ComponentChildren
}

/** A form of a dialog: one call at a time, failures with the field's name, and no call while offline. */
export const Form = ({ send, close, submit, danger, isBlocked = false, onInput, children }: FormProps) => {
  const problem: Signal<ApiProblem | null> = useSignal<ApiProblem | null>(null)
  const isBusy = useSignal(false)
  const isOffline = offlineSince.value !== null
  const run = async (form: HTMLFormElement) => {
    isBusy.value = true
    problem.value = null
    try {
      await send(new FormData(form))
    } catch (error) {
      problem.value = problemIn(error)
    }
    isBusy.value = false
  }
  return (
    <form
      class="stack"
      onInput={({ currentTarget }) => onInput?.(new FormData(currentTarget))}
      onSubmit={(event) => {
        event.preventDefault()
        if (event.currentTarget instanceof HTMLFormElement && !isBusy.value && !isBlocked) void run(event.currentTarget)
      }}
    >
      {children}
      {problem.value && (
        <div class="bad" role="alert">
          <p>{problem.value.message}</p>
          {problem.value.fields.map(({ path, message }) => (
            <p key={path}>
              <span class="mono">{path}</span> {message}
            </p>
          ))}
        </div>
      )}
      {isOffline && <p class="warn">{en.states.offlineWrite}</p>}
      <div class="row end">
        <button type="button" class="button" onClick={close}>
          {en.actions.cancel}
        </button>
        <button
          type="submit"
          class={danger ? 'button danger' : 'button primary'}
          disabled={isBusy.value || isOffline || isBlocked}
        >
          {submit}
        </button>
      </div>
    </form>
  )
}

/** One value for one intended act, so that a repeated call acts once. */
export const actKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
