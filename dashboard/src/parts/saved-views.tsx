/** Views of Requests that a user has saved in this browser: a name, and the address with its range, filters and columns. */
import { useSignal } from '@preact/signals'
import { placePath } from '../address.ts'
import { ROOT } from '../root.ts'
import { current, store, stored } from '../store.ts'
import { requests as w } from '../words/requests.ts'
import { Menu } from './menu.tsx'
import { copyText } from './states.tsx'

/** `search`: the part of the address after the path. */
type SavedView = { readonly name: string; readonly search: string }

const STORED = 'views'
/** Views, and characters of a name. */
const MOST = { views: 50, name: 60 }

const isView = (value: unknown): value is SavedView => {
  const { name, search } = Object(value)
  return typeof name === 'string' && name !== '' && typeof search === 'string'
}

const storedViews = (): readonly SavedView[] => {
  try {
    const value: unknown = JSON.parse(stored(STORED) ?? '[]')
    return Array.isArray(value) ? value.filter(isView).slice(0, MOST.views) : []
  } catch {
    return []
  }
}

const searchOf = (): string => placePath({ ...current.value, id: null }).split('?')[1] ?? ''
const hrefOf = ({ search }: SavedView): string => `${ROOT}dashboard/requests${search === '' ? '' : `?${search}`}`

type NameFormProps = {
  readonly label: string
  readonly submit: string
  readonly name?: string
  readonly save: (name: string) => void
}

const NameForm = ({ label, submit, name = '', save }: NameFormProps) => (
  <form
    class="row"
    onSubmit={(event) => {
      event.preventDefault()
      if (!(event.currentTarget instanceof HTMLFormElement)) return
      const text = String(new FormData(event.currentTarget).get('name')).trim()
      if (text !== '') save(text)
      event.currentTarget.reset()
    }}
  >
    <input
      name="name"
      type="text"
      aria-label={label}
      placeholder={label}
      maxLength={MOST.name}
      autocomplete="off"
      defaultValue={name}
    />
    <button type="submit" class="button">
      {submit}
    </button>
  </form>
)

type EntryProps = {
  readonly view: SavedView
  readonly isCurrent: boolean
  readonly close: () => void
  readonly rename: (name: string) => void
  readonly remove: () => void
}

const Entry = ({ view, isCurrent, close, rename, remove }: EntryProps) => {
  const isRenaming = useSignal(false)
  if (isRenaming.value)
    return (
      <li>
        <NameForm
          label={w.views.newName(view.name)}
          submit={w.views.rename}
          name={view.name}
          save={(name) => {
            isRenaming.value = false
            rename(name)
          }}
        />
      </li>
    )
  return (
    <li class="row">
      <a class="saved-view" href={hrefOf(view)} aria-current={isCurrent ? 'page' : undefined} onClick={close}>
        <bdi>{view.name}</bdi>
      </a>
      <button
        type="button"
        class="button quiet small"
        aria-label={w.views.linkOf(view.name)}
        onClick={() => void copyText(location.origin + hrefOf(view))}
      >
        {w.sheet.link}
      </button>
      <button
        type="button"
        class="button quiet small"
        aria-label={w.views.renameOf(view.name)}
        onClick={() => {
          isRenaming.value = true
        }}
      >
        {w.views.rename}
      </button>
      <button type="button" class="button quiet small" aria-label={w.views.removeOf(view.name)} onClick={remove}>
        {w.views.remove}
      </button>
    </li>
  )
}

/** The saved views in a menu, where the present one can be saved too. */
export const SavedViews = () => {
  const views = useSignal(storedViews())
  const change = (next: readonly SavedView[]) => {
    views.value = next
    store(STORED, next.length === 0 ? null : JSON.stringify(next))
  }
  const search = searchOf()
  // A name is there once: saved again, it has the present address.
  const without = (name: string) => views.value.filter((view) => view.name !== name)
  return (
    <Menu className="button quiet" label={w.views.title}>
      {(close) => (
        <>
          {views.value.length === 0 && <p class="dim small">{w.views.none}</p>}
          <ul class="saved-views">
            {views.value.map((view) => (
              <Entry
                key={view.name}
                view={view}
                isCurrent={view.search === search}
                close={close}
                rename={(name) => change([...without(view.name).filter((one) => one.name !== name), { ...view, name }])}
                remove={() => change(without(view.name))}
              />
            ))}
          </ul>
          {views.value.length < MOST.views && (
            <NameForm
              label={w.views.name}
              submit={w.views.save}
              save={(name) => change([...without(name), { name, search: searchOf() }])}
            />
          )}
        </>
      )}
    </Menu>
  )
}
