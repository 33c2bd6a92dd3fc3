/** The list of a text field with suggestions, as in the ARIA pattern of a combobox: the field keeps the focus and handles the keys. */
import type { ComponentChild, RefObject } from 'preact'

type OptionListProps<Option> = {
  readonly id: string
  readonly class: string
  readonly label: string
  readonly options: readonly Option[]
  /** Index of the active option among all; -1: none. */
  readonly active: number
  /** Index of the first of `options` among all. */
  readonly from?: number
  /** The number of all, if `options` are a part. */
  readonly count?: number
  readonly keyOf: (option: Option) => string
  readonly show: (option: Option) => ComponentChild
  readonly choose: (option: Option) => void
  readonly list?: RefObject<HTMLDivElement | null>
}

export const OptionList = <Option,>(props: OptionListProps<Option>) => {
  const { id, label, options, active, from = 0, count = options.length, keyOf, show, choose, list = null } = props
  return (
    <div id={id} ref={list} class={props.class} role="listbox" aria-label={label} hidden={options.length === 0}>
      {options.map((option, at) => (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the field handles the keys
        <div
          key={keyOf(option)}
          id={optionId(id, from + at)}
          role="option"
          tabIndex={-1}
          aria-selected={from + at === active}
          aria-posinset={from + at + 1}
          aria-setsize={count}
          // The field keeps the focus.
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => choose(option)}
        >
          {show(option)}
        </div>
      ))}
    </div>
  )
}

/** The ID of an option, for `aria-activedescendant` of the field. */
export const optionId = (list: string, index: number): string => `${list}-${index}`
