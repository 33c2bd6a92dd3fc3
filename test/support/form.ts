/** Forms as the server passes them on. */
import { bytesInMemory, type ReceivedForm } from '../../src/core/form.ts'
import { FormScanner } from '../../src/protocols/framing/form-data.ts'

/** A form with the boundary `B`. Throws if it is refused. */
export const receivedForm = (bytes: Uint8Array): ReceivedForm => {
  const scanner = new FormScanner('B')
  const problem = scanner.push(bytes)
  const parts = scanner.end()
  if (problem || !parts.ok) throw new Error(problem?.message ?? 'The form has no end.')
  return { boundary: 'B', parts: parts.value, bytes: bytesInMemory(bytes) }
}
