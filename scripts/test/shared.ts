/** Runs the given files in this process and sends each outcome to the parent process. */
import { type Outcome, runHere } from './outcomes.ts'

const files = process.argv.slice(2)
const send = (message: Outcome | { readonly kind: 'end' }) => process.send?.(message)

// Without isolation Node reports the end of a file only if it does not load, so a file ends when the tests of another begin.
let current: { readonly file: string; readonly begun: number } | null = null
const ended = () => {
  if (current) send({ kind: 'file', file: current.file, seconds: (performance.now() - current.begun) / 1_000 })
}
await runHere(files, (outcome) => {
  if (outcome.kind === 'file') return
  if (outcome.file !== current?.file && files.includes(outcome.file)) {
    ended()
    current = { file: outcome.file, begun: performance.now() }
  }
  send(outcome)
})
ended()
process.send?.({ kind: 'end' }, undefined, undefined, () => process.exit())
