/** A secret that is shown once. It is in the state of this dialog only, and gone with it. */
import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import { announce } from '../store.ts'
import { keysWords } from '../words/keys.ts'
import { Dialog } from './dialog.tsx'

export type SecretDialogProps = {
  readonly name: string
  /** Null: the call was repeated, and its answer has no secret. */
  readonly secret: string | null
  /** Of the line that is copied. */
  readonly variable?: string
  /** What did not succeed besides. */
  readonly warning?: string | null
  readonly done: () => void
}

const { secret: text } = keysWords

export const SecretDialog = ({
  name,
  secret,
  variable = 'OPENAI_API_KEY',
  warning = null,
  done,
}: SecretDialogProps) => {
  const field = useRef<HTMLInputElement>(null)
  const status = useSignal<'shown' | 'copied' | 'failed'>('shown')
  const isHeld = useSignal(false)
  const copy = async (line: string) => {
    try {
      await navigator.clipboard.writeText(line)
      status.value = 'copied'
      announce(text.copied)
    } catch {
      // The page is not on a secure origin, or the browser has no permission.
      status.value = 'failed'
      field.current?.focus()
      field.current?.select()
    }
  }
  const isReady = secret === null || status.value === 'copied' || isHeld.value
  return (
    <Dialog title={text.title(name)}>
      {secret === null ? (
        <p>{text.repeated}</p>
      ) : (
        <>
          <label class="field">
            {text.label}
            <input
              ref={field}
              data-focus
              class="mono"
              readOnly
              value={secret}
              autocomplete="off"
              spellcheck={false}
              onFocus={({ currentTarget }) => currentTarget.select()}
              onCopy={() => {
                status.value = 'copied'
              }}
            />
          </label>
          <p class="warn">{text.once}</p>
          <div class="row">
            <button type="button" class="button" onClick={() => void copy(secret)}>
              {text.copy}
            </button>
            <button type="button" class="button" onClick={() => void copy(`${variable}=${secret}`)}>
              {text.copyEnv}
            </button>
            <span role="status">
              {status.value === 'copied' ? text.copied : status.value === 'failed' ? text.byHand : ''}
            </span>
          </div>
          <label class="check">
            <input
              type="checkbox"
              checked={isHeld.value}
              onChange={({ currentTarget }) => {
                isHeld.value = currentTarget.checked
              }}
            />
            {text.have}
          </label>
        </>
      )}
      {warning !== null && (
        <p class="bad" role="alert">
          {warning}
        </p>
      )}
      <div class="row end">
        <button type="button" class="button primary" disabled={!isReady} onClick={done}>
          {text.done}
        </button>
      </div>
    </Dialog>
  )
}
