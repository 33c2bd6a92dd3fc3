/** A long name that is cut in its middle, since names differ at their ends: `customer-…-prod`. */

/** Characters that are never cut, and those from which on a text may be cut in its middle. */
const END = 8
const LONG = 14

/**
 * The visible parts are generated content: the document has the text once and whole, for screen readers, the search of the
 * browser and copying.
 */
export const Middle = ({ text }: { readonly text: string }) => {
  // A surrogate pair is one character.
  const letters = [...text]
  if (letters.length < LONG) return <bdi title={text}>{text}</bdi>
  return (
    <bdi
      class="middle"
      title={text}
      data-start={letters.slice(0, -END).join('')}
      data-end={letters.slice(-END).join('')}
    >
      <span class="sr-only">{text}</span>
    </bdi>
  )
}
