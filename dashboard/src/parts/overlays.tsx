/** What lies over the page: sign-in, shortcuts, palette and toasts. */
import { isHelpOpen, keyLabel, SHORTCUTS } from '../shortcuts.ts'
import { dismissToast, hasLetters, setLetters, toasts } from '../store.ts'
import { en } from '../words/en.ts'
import { Dialog } from './dialog.tsx'
import { late } from './late.tsx'
import { SignIn } from './sign-in.tsx'

const Palette = late(() => import('./palette.tsx').then((module) => module.Palette))

const GROUPS = ['everywhere', 'list', 'request'] as const

const Help = () => {
  if (!isHelpOpen.value) return null
  const close = () => {
    isHelpOpen.value = false
  }
  return (
    <Dialog title={en.keys.title} onClose={close} wide>
      <label class="check">
        <input
          type="checkbox"
          checked={hasLetters.value}
          onChange={({ currentTarget }) => setLetters(currentTarget.checked)}
        />
        {en.keys.single}
      </label>
      <div class="help">
        {GROUPS.map((group) => (
          <section key={group}>
            <h3>{en.keys[group]}</h3>
            <dl>
              {SHORTCUTS.filter((one) => one.group === group).map(({ id, keys, about }) => (
                <div key={id}>
                  <dt>
                    {keys.map((key) => (
                      <kbd key={key}>{keyLabel(key)}</kbd>
                    ))}
                  </dt>
                  <dd>{about}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  )
}

const Toasts = () => (
  <div class="toasts" role="status">
    {toasts.value.map(({ id, text, tone, undo }) => (
      <div key={id} class={`toast ${tone}`}>
        <span>{text}</span>
        {undo && (
          <button
            type="button"
            class="button quiet small"
            onClick={() => {
              dismissToast(id)
              undo()
            }}
          >
            {en.actions.undo}
          </button>
        )}
        <button type="button" class="icon" aria-label={en.actions.dismiss} onClick={() => dismissToast(id)}>
          ×
        </button>
      </div>
    ))}
  </div>
)

export const Overlays = () => (
  <>
    <SignIn />
    <Help />
    <Palette />
    <Toasts />
  </>
)
