/** The menu of a row: its details, and what can be done with it. */
import type { ComponentChildren } from 'preact'
import { offlineSince } from '../api.ts'
import { goToDetails } from '../store.ts'
import { en } from '../words/en.ts'
import { keysWords } from '../words/keys.ts'
import { Menu } from './menu.tsx'

type RowMenuProps<Action extends string> = {
  readonly id: string
  readonly name: string
  readonly actions: readonly Action[]
  readonly textOf: (action: Action) => string
  /** The action that cannot be undone. */
  readonly bad?: Action
  readonly run: (action: Action) => void
  /** Below the actions. */
  readonly children?: ComponentChildren
}

export const RowMenu = <Action extends string>(props: RowMenuProps<Action>) => {
  const { id, name, actions, textOf, bad, run, children } = props
  return (
    <Menu className="icon keys-more" label="⋯" name={`${en.actions.more}: ${name}`}>
      {(close) => {
        const closing = (act: () => void) => () => {
          close()
          act()
        }
        return (
          <div class="rows">
            <button type="button" onClick={closing(() => goToDetails(id))}>
              {keysWords.actions.details}
            </button>
            {actions.map((action) => (
              <button
                key={action}
                type="button"
                class={action === bad ? 'bad' : undefined}
                disabled={offlineSince.value !== null}
                onClick={closing(() => run(action))}
              >
                {textOf(action)}
              </button>
            ))}
            {children}
          </div>
        )
      }}
    </Menu>
  )
}

/** Why the actions of a menu are off while the gateway does not answer. */
export const OfflineNote = () => offlineSince.value !== null && <p class="warn small">{en.states.offlineWrite}</p>
