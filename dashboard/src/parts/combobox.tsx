/** A text field with suggestions; any other text can be entered too. Keys as in the ARIA pattern of an editable combobox. */
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { en } from '../words/en.ts'
import { OptionList, optionId } from './option-list.tsx'
import { useId } from './use-id.ts'

/** `note`: what is special about the value. */
export type Suggestion = { readonly value: string; readonly note?: string | undefined }

type ComboboxProps = {
  readonly id: string
  readonly value: string
  readonly suggestions: readonly Suggestion[]
  /** Name of the list of suggestions. */
  readonly label: string
  readonly placeholder?: string
  readonly isInvalid?: boolean
  readonly onInput: (value: string) => void
  /** A suggestion was chosen, or the field was left. */
  readonly onChange?: () => void
}

/** Suggestions shown at once; more words find the others. */
const MOST = 50

/** The suggestions that contain all words of a text; all of them if it is one of them. */
export const suggestionsFor = (all: readonly Suggestion[], text: string): readonly Suggestion[] => {
  const words = text.trim().toLowerCase().split(/\s+/)
  if (all.some(({ value }) => value === text.trim())) return all
  return all.filter(({ value, note = '' }) => words.every((word) => `${value} ${note}`.toLowerCase().includes(word)))
}

const Shown = ({ value, note }: Suggestion) => (
  <>
    <bdi>{value}</bdi>
    {note !== undefined && <span class="dim small"> {note}</span>}
  </>
)

/** The suggestions that are shown, which of them is active, and what keys do. */
const useSuggestions = ({ value, suggestions, onInput, onChange = () => {} }: ComboboxProps) => {
  const isOpen = useSignal(false)
  /** Index of the active suggestion; -1: none. */
  const active = useSignal(-1)
  const found = suggestionsFor(suggestions, value)
  const shown = isOpen.value ? found.slice(0, MOST) : []
  const at = Math.min(active.value, shown.length - 1)
  const open = (index: number) => {
    isOpen.value = true
    active.value = index
  }
  const close = () => {
    isOpen.value = false
    active.value = -1
  }
  const choose = (suggestion: Suggestion | undefined) => {
    close()
    if (!suggestion) return
    onInput(suggestion.value)
    onChange()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const { key, altKey, ctrlKey, metaKey } = event
    if (event.isComposing || ctrlKey || metaKey) return
    const last = Math.min(found.length, MOST) - 1
    const isShown = shown.length > 0
    if (key === 'ArrowDown') open(altKey ? at : at >= last ? 0 : at + 1)
    else if (key === 'ArrowUp') altKey ? close() : open(at <= 0 ? last : at - 1)
    else if (key === 'Enter' && isShown && at >= 0) choose(shown[at])
    else if (key === 'Escape' && isShown) {
      close()
      // The page has another use for it.
      event.stopPropagation()
    } else return
    event.preventDefault()
  }
  return { found, shown, at, open, close, choose, onKeyDown }
}

export const Combobox = (props: ComboboxProps) => {
  const { id, value, label, placeholder, isInvalid = false, onInput, onChange = () => {} } = props
  const listId = useId()
  const list = useRef<HTMLDivElement>(null)
  const { found, shown, at, open, close, choose, onKeyDown } = useSuggestions(props)
  const isShown = shown.length > 0
  useEffect(() => {
    list.current?.children[at]?.scrollIntoView({ block: 'nearest' })
  }, [at, isShown])
  return (
    <div class="combobox">
      <input
        id={id}
        type="text"
        role="combobox"
        aria-autocomplete="list"
        aria-expanded={isShown}
        aria-controls={listId}
        aria-activedescendant={isShown && at >= 0 ? optionId(listId, at) : undefined}
        aria-invalid={isInvalid || undefined}
        value={value}
        placeholder={placeholder}
        autocomplete="off"
        spellcheck={false}
        maxLength={200}
        onInput={({ currentTarget }) => {
          onInput(currentTarget.value)
          open(-1)
        }}
        onClick={() => open(at)}
        onBlur={() => {
          close()
          onChange()
        }}
        onKeyDown={onKeyDown}
      />
      <OptionList
        id={listId}
        list={list}
        class="combobox-list"
        label={label}
        options={shown}
        active={at}
        count={found.length}
        keyOf={(suggestion) => suggestion.value}
        show={Shown}
        choose={choose}
      />
      <span class="sr-only" role="status">
        {isShown && en.palette.results(found.length)}
      </span>
    </div>
  )
}
