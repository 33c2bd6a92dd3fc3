/** A modal dialog. It closes by Esc, its cross, or a click beside it, and returns the focus. `data-focus` marks what has it first. */
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { en } from '../words/en.ts'
import { useId } from './use-id.ts'

export type DialogProps = {
  readonly title: string
  readonly children: ComponentChildren
  /** Absent: the dialog cannot be closed without an answer. */
  readonly onClose?: () => void
  readonly wide?: boolean
}

export const Dialog = ({ title, children, onClose, wide = false }: DialogProps) => {
  const dialog = useRef<HTMLDialogElement>(null)
  /** A click begins beside the dialog: one that ends there only, such as the selection of a text, must not close it. */
  const beganBeside = useRef(false)
  const id = useId()
  // Before the next key, which belongs to the dialog.
  useLayoutEffect(() => {
    const element = dialog.current
    const before = document.activeElement
    element?.showModal()
    // A false attribute with data- in its name is written as text.
    element?.querySelector<HTMLElement>('[data-focus]:not([data-focus="false"])')?.focus()
    return () => {
      // While it is open, nothing outside it can have the focus.
      element?.close()
      if (before instanceof HTMLElement) before.focus()
    }
  }, [])
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Esc closes it, by `onCancel`
    <dialog
      ref={dialog}
      class={wide ? 'dialog wide' : 'dialog'}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault()
        onClose?.()
      }}
      onPointerDown={(event) => {
        beganBeside.current = event.target === dialog.current
      }}
      onClick={(event) => {
        if (beganBeside.current && event.target === dialog.current) onClose?.()
      }}
    >
      <div class="dialog-body">
        <header class="dialog-head">
          <h2 id={id}>{title}</h2>
          {onClose && (
            <button type="button" class="icon" aria-label={en.actions.close} onClick={onClose}>
              ×
            </button>
          )}
        </header>
        {children}
      </div>
    </dialog>
  )
}
