/** A component whose file is loaded when it is first shown; until then nothing is. */
import { useSignal } from '@preact/signals'
import type { ComponentChild } from 'preact'
import { useEffect } from 'preact/hooks'

type LatePart<Props> = (props: Props) => ComponentChild

export const late =
  <Props extends object>(load: () => Promise<LatePart<Props>>): LatePart<Props> =>
  (props) => {
    const found = useSignal<{ readonly LatePart: LatePart<Props> } | null>(null)
    useEffect(() => {
      load().then(
        (LatePart) => {
          found.value = { LatePart }
        },
        // Without its file there is no such part.
        () => {},
      )
    }, [found])
    const { LatePart } = found.value ?? {}
    return LatePart ? <LatePart {...props} /> : null
  }
