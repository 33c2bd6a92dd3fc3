/** The copy of headgate.yaml that is edited in the browser. */
import { signal } from '@preact/signals'

/** The copy stays while other pages are shown. It may contain secrets, so it is never stored. */
export const text = signal('')
/** The text that the copy began with. */
export const began = signal('')

const NAME = 'headgate.yaml'

/** Begins with another text. */
export const startWith = (next: string): void => {
  text.value = next
  began.value = next
}

/** Saves the text as a file. */
export const download = (content: string): void => {
  const url = URL.createObjectURL(new Blob([content], { type: 'application/yaml' }))
  const link = document.createElement('a')
  link.href = url
  link.download = NAME
  link.click()
  URL.revokeObjectURL(url)
}
