/**
 * A button with a menu below it, as a native popover: it closes by Esc or a click beside it. Its content is made when it opens: a
 * table has a menu in each row, and some read what they offer.
 */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useRef } from 'preact/hooks'
import { useId } from './use-id.ts'

export type MenuProps = {
  /** What the button shows. */
  readonly label: ComponentChildren
  /** Its name, if the shown text is not enough. */
  readonly name?: string
  /** Classes of the button. */
  readonly className?: string
  /** The content; `close` closes the menu. */
  readonly children: (close: () => void) => ComponentChildren
}

/** px between the menu, its button and the edges of the window. */
const GAP = { button: 4, edge: 8 }

export const Menu = ({ label, name, className = 'button', children }: MenuProps) => {
  const id = useId()
  const button = useRef<HTMLButtonElement>(null)
  const menu = useRef<HTMLDivElement>(null)
  const isOpen = useSignal(false)
  const place = () => {
    const from = button.current?.getBoundingClientRect()
    const element = menu.current
    if (!from || !element) return
    const { offsetWidth: width, offsetHeight: height } = element
    const most = document.documentElement.clientWidth - width - GAP.edge
    const below = from.bottom + GAP.button
    const fits = below + height + GAP.edge <= window.innerHeight
    element.style.left = `${Math.max(GAP.edge, Math.min(from.left, most))}px`
    element.style.top = `${fits ? below : Math.max(GAP.edge, from.top - height - GAP.button)}px`
  }
  return (
    <>
      <button ref={button} type="button" class={className} popovertarget={id} aria-label={name}>
        {label} <span aria-hidden="true">▾</span>
      </button>
      <div
        ref={menu}
        id={id}
        popover="auto"
        class="menu placed"
        onBeforeToggle={(event) => {
          if (event.newState === 'open') isOpen.value = true
        }}
        onToggle={(event) => {
          if (event.newState === 'open') place()
          // Not before it is closed: the focus would be lost with what has it.
          else isOpen.value = false
        }}
      >
        {isOpen.value && children(() => menu.current?.hidePopover())}
      </div>
    </>
  )
}
