/** A component whose file is loaded when it is first shown; until then nothing is. */
import { useSignal } from '@preact/signals'
import type { ComponentChild } from 'preact'
import { useEffect } from 'preact/hooks'

type Part<Props> = (props: Props) => ComponentChild

export const late =
  <Props extends object>(load: () => Promise<Part<Props>>): Part<Props> =>
  (props) => {
    const found = useSignal<{ readonly Part: Part<Props> } | null>(null)
    useEffect(() => {
      void load().then((Part) => {
        found.value = { Part }
      })
    }, [found])
    const { Part } = found.value ?? {}
    return Part ? <Part {...props} /> : null
  }
