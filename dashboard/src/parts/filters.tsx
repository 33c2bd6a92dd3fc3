/** Filters in the address: a text field, a menu for each filter, and a chip for each chosen value. */
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { type Place, valuesOf, withParam } from '../address.ts'
import { useResource } from '../api.ts'
import { bind } from '../shortcuts.ts'
import { current, go, isNarrow } from '../store.ts'
import { en } from '../words/en.ts'
import { Dialog } from './dialog.tsx'
import { Menu } from './menu.tsx'

export type FilterOption = { readonly value: string; readonly label: string }

export type Filter = {
  /** The name in the address. */
  readonly name: string
  readonly label: string
  /** The values to choose from; absent: any text. */
  readonly options?: readonly FilterOption[]
  /** Further values that match a text, because the options are not all. */
  readonly find?: (text: string) => Promise<readonly FilterOption[]>
  /** It is in the menu "More". */
  readonly rare?: boolean
  /** One value at most. */
  readonly single?: boolean
  /** Such as `at least 2 s`. */
  readonly show?: (value: string) => string
  /** Why a value of the address matches nothing, with the value that was perhaps meant; null: it may match. */
  readonly missing?: (value: string) => { readonly text: string; readonly meant: FilterOption | null } | null
  /** For filters without options. */
  readonly placeholder?: string
}

export type FiltersProps = {
  readonly filters: readonly Filter[]
  /** The text field: its name in the address, and its placeholder. */
  readonly search?: { readonly name: string; readonly placeholder: string }
  /** Parameters of the address that are no filters of this page and need no chip. */
  readonly others?: readonly string[]
}

/** ms after the last letter before the list is read again. */
const TYPING = 250

const labelOf = ({ options, show }: Filter, value: string): string =>
  options?.find((option) => option.value === value)?.label ?? show?.(value) ?? value

const toggled = (place: Place, { name, single }: Filter, value: string): Place => {
  const chosen = valuesOf(place, name)
  if (chosen.includes(value))
    return withParam(
      place,
      name,
      chosen.filter((one) => one !== value),
    )
  return withParam(place, name, single ? [value] : [...chosen, value])
}

const Options = ({ filter, close }: { readonly filter: Filter; readonly close: () => void }) => {
  const { options, placeholder } = filter
  if (!options)
    return (
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault()
          if (!(event.currentTarget instanceof HTMLFormElement)) return
          const value = String(new FormData(event.currentTarget).get('value')).trim()
          if (value !== '') go(toggled(current.value, filter, value))
          event.currentTarget.reset()
          close()
        }}
      >
        <input name="value" type="text" aria-label={filter.label} placeholder={placeholder} autocomplete="off" />
        <button type="submit" class="button">
          {en.range.apply}
        </button>
      </form>
    )
  return <ListedOptions filter={filter} options={options} close={close} />
}

/** Options above which a menu has a field, and the most that it shows. */
const MANY = 12
const SHOWN = 100

type ListedOptionsProps = {
  readonly filter: Filter
  readonly options: readonly FilterOption[]
  readonly close: () => void
}

const ListedOptions = ({ filter, options, close }: ListedOptionsProps) => {
  const { name, label, single, find } = filter
  const text = useSignal('')
  const wanted = text.value.trim().toLowerCase()
  const isFound = find && (wanted !== '' || options.length === 0)
  const found = useResource(isFound ? `filter ${name} ${wanted}` : null, async () => find?.(wanted) ?? [])
  const all = new Map([...(found.value ?? []), ...options].map((option) => [option.value, option]))
  const matching = [...all.values()].filter(
    (option) => option.label.toLowerCase().includes(wanted) || option.value.toLowerCase().includes(wanted),
  )
  const shown = matching.slice(0, SHOWN)
  const chosen = valuesOf(current.value, name)
  return (
    <div class="options">
      {(find || options.length > MANY) && (
        <input
          type="search"
          aria-label={`${en.palette.find}: ${label}`}
          placeholder={en.palette.find}
          autocomplete="off"
          value={text.value}
          onInput={({ currentTarget }) => {
            text.value = currentTarget.value
          }}
        />
      )}
      {shown.length === 0 && <p class="dim">{en.palette.empty}</p>}
      {shown.map((option) => (
        <label key={option.value} class="check">
          <input
            type={single ? 'radio' : 'checkbox'}
            checked={chosen.includes(option.value)}
            onChange={() => {
              go(toggled(current.value, filter, option.value))
              if (single) close()
            }}
          />
          <span class="option-text">{option.label}</span>
        </label>
      ))}
      {matching.length > shown.length && <p class="dim small">{en.palette.others(matching.length - shown.length)}</p>}
    </div>
  )
}

const Search = ({ name, placeholder }: NonNullable<FiltersProps['search']>) => {
  const field = useRef<HTMLInputElement>(null)
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined)
  useEffect(
    () =>
      bind('filter', () => {
        field.current?.focus()
        field.current?.select()
      }),
    [],
  )
  const [value = ''] = valuesOf(current.value, name)
  return (
    <input
      ref={field}
      class="filter-text"
      type="search"
      aria-label={placeholder}
      placeholder={`/ ${placeholder}`}
      value={value}
      autocomplete="off"
      spellcheck={false}
      onInput={({ currentTarget }) => {
        clearTimeout(timer.current)
        const text = currentTarget.value
        timer.current = setTimeout(
          () => go(withParam(current.value, name, text.trim() === '' ? [] : [text]), 'replace'),
          TYPING,
        )
      }}
      onKeyDown={(event) => {
        if (event.key === 'Escape') field.current?.blur()
      }}
    />
  )
}

/** The chosen values, and parameters that this page does not know. */
const Chips = ({ filters, search, others = [] }: FiltersProps) => {
  const { params } = current.value
  const known = filters.flatMap((filter) => valuesOf(current.value, filter.name).map((value) => ({ filter, value })))
  const strange = Object.entries(params).flatMap(([name, values]) =>
    filters.some((filter) => filter.name === name) || name === search?.name || others.includes(name)
      ? []
      : [{ name, text: `${name}=${values.join(',')}` }],
  )
  const count = known.length + strange.length
  if (count === 0) return null
  const cleared = () =>
    [...filters.map(({ name }) => name), ...strange.map(({ name }) => name)].reduce(
      (place, name) => withParam(place, name, []),
      current.value,
    )
  return (
    <div class="chips">
      {known.map(({ filter, value }) => (
        <KnownChip key={`${filter.name} ${value}`} filter={filter} value={value} />
      ))}
      {strange.map(({ name, text }) => (
        <Chip
          key={name}
          text={text}
          isUnknown
          title={en.actions.unknownFilter}
          remove={() => go(withParam(current.value, name, []))}
        />
      ))}
      {count > 1 && (
        <button type="button" class="button quiet small" onClick={() => go(cleared())}>
          {en.actions.clearAll}
        </button>
      )}
    </div>
  )
}

/** A chosen value. One that matches nothing says so, and offers the nearest name. */
const KnownChip = ({ filter, value }: { readonly filter: Filter; readonly value: string }) => {
  const missing = filter.missing?.(value) ?? null
  const { meant = null } = missing ?? {}
  const remove = () => go(toggled(current.value, filter, value))
  const text = missing?.text ?? `${filter.label}: ${labelOf(filter, value)}`
  return (
    <>
      <Chip text={text} isUnknown={missing !== null} remove={remove} />
      {meant && (
        <button
          type="button"
          class="button quiet small"
          onClick={() => {
            const others = valuesOf(current.value, filter.name).filter((one) => one !== value)
            go(withParam(current.value, filter.name, [...others, meant.value]))
          }}
        >
          {en.actions.meant(meant.label)}
        </button>
      )}
    </>
  )
}

type ChipProps = {
  readonly text: string
  readonly isUnknown?: boolean
  readonly title?: string
  readonly remove: () => void
}

const Chip = ({ text, isUnknown = false, title, remove }: ChipProps) => (
  <span class={isUnknown ? 'chip unknown-chip' : 'chip'} title={title}>
    <bdi>{text}</bdi>
    <button type="button" aria-label={en.actions.removeFilter(text)} onClick={remove}>
      ×
    </button>
  </span>
)

const Group = ({ filter, close }: { readonly filter: Filter; readonly close: () => void }) => (
  <details open={valuesOf(current.value, filter.name).length > 0}>
    <summary>{filter.label}</summary>
    <Options filter={filter} close={close} />
  </details>
)

export const Filters = (props: FiltersProps) => {
  const { filters, search } = props
  const isOpen = useSignal(false)
  const usual = filters.filter((filter) => !filter.rare)
  const rare = filters.filter((filter) => filter.rare)
  const chosen = filters.reduce((sum, { name }) => sum + valuesOf(current.value, name).length, 0)
  return (
    <div class="filters">
      <div class="filter-bar">
        {search && <Search {...search} />}
        {filters.length === 0 ? null : isNarrow.value ? (
          <button
            type="button"
            class="button"
            onClick={() => {
              isOpen.value = true
            }}
          >
            {en.actions.filters(chosen)}
          </button>
        ) : (
          <>
            {usual.map((filter) => (
              <Menu key={filter.name} className="button quiet" label={filter.label}>
                {(close) => <Options filter={filter} close={close} />}
              </Menu>
            ))}
            {rare.length > 0 && (
              <Menu
                className="button quiet"
                label={usual.length > 0 ? en.actions.moreFilters : en.actions.filters(chosen)}
              >
                {(close) => rare.map((filter) => <Group key={filter.name} filter={filter} close={close} />)}
              </Menu>
            )}
          </>
        )}
      </div>
      <Chips {...props} />
      {isOpen.value && (
        <Dialog
          title={en.actions.filters(chosen)}
          onClose={() => {
            isOpen.value = false
          }}
        >
          {filters.map((filter) => (
            <Group key={filter.name} filter={filter} close={() => {}} />
          ))}
        </Dialog>
      )}
    </div>
  )
}
