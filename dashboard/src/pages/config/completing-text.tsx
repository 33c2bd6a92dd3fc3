/** The text of headgate.yaml. Ctrl+Space lists what the schema allows at the caret. */
import { useSignal } from '@preact/signals'
import type { RefObject } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { read, useResource } from '../../api.ts'
import { OptionList, optionId } from '../../parts/option-list.tsx'
import { useId } from '../../parts/use-id.ts'
import { config as texts } from '../../words/config.ts'
import { type Completion, type Completions, completionsAt, type MemberSchema } from './completion.ts'

/** Entries that are shown at once, around the active one. */
const SHOWN = 8

type CompletingTextProps = { readonly id: string; readonly value: string; readonly onInput: (value: string) => void }

const Shown = ({ name, about }: Completion) => (
  <>
    <span class="mono">{name}</span> <span class="dim small">{about}</span>
  </>
)

/** What can stand at the caret, which of it is active, and what keys do. */
const useCompletions = (area: RefObject<HTMLTextAreaElement | null>) => {
  const isUsed = useSignal(false)
  const schema = useResource(isUsed.value ? 'config-schema' : null, () => read<MemberSchema>('/config/schema')).value
  /** Null: the list is closed. */
  const found = useSignal<Completions | null>(null)
  const active = useSignal(0)
  const options = found.value?.options ?? []
  const at = Math.min(active.value, options.length - 1)
  /** The list is wanted before the schema is there. */
  const isWanted = useRef(false)
  const look = () => {
    const { current } = area
    isWanted.current = !schema
    if (!current || !schema) return
    found.value = completionsAt(schema, current.value, current.selectionStart)
    active.value = 0
  }
  const close = () => {
    found.value = null
  }
  useEffect(() => {
    if (isWanted.current) look()
  }, [schema])
  const choose = (option: Completion | undefined) => {
    const { current } = area
    if (!current || !found.value || !option) return
    current.focus()
    current.setSelectionRange(found.value.from, current.selectionStart)
    close()
    // Unlike a new value, it can be undone. It raises the event `input`.
    document.execCommand('insertText', false, option.insert)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const { key, ctrlKey, altKey, metaKey, isComposing } = event
    if (isComposing || altKey || metaKey) return
    if (ctrlKey && key === ' ') look()
    else if (!found.value || ctrlKey) return
    else if (key === 'Escape') {
      close()
      // The page has another use for it.
      event.stopPropagation()
    } else if (options.length === 0) return
    else if (key === 'ArrowDown') active.value = (at + 1) % options.length
    else if (key === 'ArrowUp') active.value = (at + options.length - 1) % options.length
    else if (key === 'Enter' || key === 'Tab') choose(options[at])
    else return
    event.preventDefault()
  }
  return { isUsed, found, options, at, look, close, choose, onKeyDown }
}

export const CompletingText = ({ id, value, onInput }: CompletingTextProps) => {
  const listId = useId()
  const area = useRef<HTMLTextAreaElement>(null)
  const { isUsed, found, options, at, look, close, choose, onKeyDown } = useCompletions(area)
  const first = Math.max(0, Math.min(at - SHOWN / 2, options.length - SHOWN))
  return (
    <div class="config-complete">
      <textarea
        id={id}
        ref={area}
        class="mono config-text"
        rows={18}
        value={value}
        spellcheck={false}
        autocomplete="off"
        aria-describedby={`${listId}-about`}
        aria-autocomplete="list"
        aria-controls={listId}
        aria-activedescendant={options.length > 0 ? optionId(listId, at) : undefined}
        onFocus={() => {
          isUsed.value = true
        }}
        onInput={({ currentTarget }) => {
          onInput(currentTarget.value)
          if (found.value) look()
        }}
        onClick={close}
        onBlur={close}
        onKeyDown={onKeyDown}
      />
      <OptionList
        id={listId}
        class="config-options"
        label={texts.edit.options}
        options={options.slice(first, first + SHOWN)}
        active={at}
        from={first}
        count={options.length}
        keyOf={({ name }) => name}
        show={Shown}
        choose={choose}
      />
      <span class="dim small" id={`${listId}-about`}>
        {texts.edit.complete}
      </span>
      <span class="sr-only" role="status">
        {found.value && texts.edit.found(options.length)}
      </span>
    </div>
  )
}
