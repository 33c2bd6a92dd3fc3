/** A long name that is cut in its middle, since names differ at their ends: `customer-…-prod`. */
import { useLayoutEffect, useRef } from 'preact/hooks'

/** Characters that are never cut, and those from which on a text may be cut in its middle. */
const END = 8
const LONG = 14

const pen = document.createElement('canvas').getContext('2d')

/** The text, or as much of its start as the room in px has beside its end. */
const cutText = (text: string, room: number, font: string): string => {
  if (!pen) return text
  pen.font = font
  const width = (part: string) => pen.measureText(part).width
  // The box of a whole text may be a fraction of a px smaller than the text.
  if (width(text) < room + 1) return text
  // A surrogate pair is one character.
  const letters = [...text]
  const end = `…${letters.slice(-END).join('')}`
  let start = letters.length - END
  while (start > 0 && width(letters.slice(0, start).join('') + end) > room) start--
  return letters.slice(0, start).join('') + end
}

/** One for all names: styles are read before any text changes, so that they are computed once. */
const observer = new ResizeObserver((entries) => {
  const cuts = entries.map(({ target, contentRect }) => {
    // `font` is empty where the digits have one width.
    const { fontWeight, fontSize, fontFamily } = getComputedStyle(target)
    const font = `${fontWeight} ${fontSize} ${fontFamily}`
    return { target, shown: cutText(target.getAttribute('title') ?? '', contentRect.width, font) }
  })
  for (const { target, shown } of cuts) target.setAttribute('data-shown', shown)
})

/**
 * The visible text is generated content: the document has the text once and whole, for screen readers, the search of the
 * browser and copying. An invisible copy of the whole text takes the room that there is.
 */
export const Middle = ({ text }: { readonly text: string }) => {
  const element = useRef<HTMLElement>(null)
  useLayoutEffect(() => {
    const name = element.current
    if (!name?.classList.contains('middle')) return
    observer.observe(name)
    return () => observer.unobserve(name)
  }, [text])
  if ([...text].length < LONG) return <bdi title={text}>{text}</bdi>
  return (
    <bdi ref={element} class="middle" title={text} data-shown={text}>
      <span class="sr-only">{text}</span>
    </bdi>
  )
}
