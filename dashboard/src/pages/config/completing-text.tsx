/** The text of headgate.yaml. Ctrl+Space lists what the schema allows at the caret. */
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { read, useResource } from '../../api.ts'
import { useId } from '../../parts/use-id.ts'
import { config as texts } from '../../words/config.ts'
import { type Completion, type Completions, completionsAt, type MemberSchema } from './completion.ts'

/** Entries that are shown at once, around the active one. */
const SHOWN = 8

type CompletingTextProps = { readonly id: string; readonly value: string; readonly onInput: (value: string) => void }

export const CompletingText = ({ id, value, onInput }: CompletingTextProps) => {
  const listId = useId()
  const area = useRef<HTMLTextAreaElement>(null)
  const isUsed = useSignal(false)
  const schema = useResource(isUsed.value ? 'config-schema' : null, () => read<MemberSchema>('/config/schema')).value
  /** Null: the list is closed. */
  const found = useSignal<Completions | null>(null)
  const active = useSignal(0)
  const options = found.value?.options ?? []
  const at = Math.min(active.value, options.length - 1)
  const first = Math.max(0, Math.min(at - SHOWN / 2, options.length - SHOWN))
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
        aria-activedescendant={options.length > 0 ? `${listId}-${at}` : undefined}
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
      <div
        id={listId}
        class="config-options"
        role="listbox"
        aria-label={texts.edit.options}
        hidden={options.length === 0}
      >
        {options.slice(first, first + SHOWN).map((option, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the text handles the keys
          <div
            key={option.name}
            id={`${listId}-${first + index}`}
            role="option"
            tabIndex={-1}
            aria-selected={first + index === at}
            aria-posinset={first + index + 1}
            aria-setsize={options.length}
            // The text keeps the focus.
            onMouseDown={(event) => event.preventDefault()}
            onClick={() => choose(option)}
          >
            <span class="mono">{option.name}</span> <span class="dim small">{option.about}</span>
          </div>
        ))}
      </div>
      <span class="dim small" id={`${listId}-about`}>
        {texts.edit.complete}
      </span>
      <span class="sr-only" role="status">
        {found.value && texts.edit.found(options.length)}
      </span>
    </div>
  )
}
