/** Two texts as one, with what was removed and what was added. */
import { wordDifference } from '../../../src/core/difference.ts'
import { en } from '../words/en.ts'

export const TextDifference = ({ first, second }: { readonly first: string; readonly second: string }) => {
  if (first === second) return <p>{en.states.noDifference}</p>
  return (
    <div class="text-difference" dir="auto">
      {wordDifference(first, second).map(({ is, text }, at) =>
        is === 'same' ? (
          <span key={at}>{text}</span>
        ) : is === 'removed' ? (
          <del key={at}>{text}</del>
        ) : (
          <ins key={at}>{text}</ins>
        ),
      )}
    </div>
  )
}
