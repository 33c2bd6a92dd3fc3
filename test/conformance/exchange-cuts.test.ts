/** The project's own exchanges, cut at every byte: in two pieces the events are the same, and broken off they are truncated. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { fold, type UpstreamProtocolName } from '../../src/core/chat.ts'
import { upstreamProtocols } from '../../src/protocols/index.ts'
import { asRecordings, exchanges, formatNames } from '../support/exchanges.ts'
import type { Recording } from '../support/recordings.ts'
import { bytesOf, eventsOf, heldIn, steps } from './sweep.ts'
import { Tally } from './tally.ts'
import { hearing } from './upstream-view.ts'

const board = new Tally('own exchanges')
after(() => board.print())

/** How many bytes precede the message that completes the answer. */
const completeAt = (recording: Recording, protocol: UpstreamProtocolName): number => {
  const chunks = recording.chunks ?? []
  const last = chunks.findIndex((chunk) => heldIn({ ...recording, chunks: [chunk] }).some(hearing[protocol].end))
  assert.ok(last >= 0, 'the stream has no end')
  return bytesOf({ ...recording, chunks: chunks.slice(0, last) }).length
}

for (const name of formatNames) {
  const protocol = upstreamProtocols[name]
  const ofFormat = exchanges().filter((exchange) => exchange.protocol === name)

  test(`exchanges: in two pieces: ${name}`, () => {
    const wrong = board.each(
      `${protocol.style} in two pieces`,
      ofFormat.flatMap(asRecordings),
      ({ id }) => id,
      (recording) => {
        const bytes = bytesOf(recording)
        const read = (pieces: readonly Uint8Array[]) => JSON.stringify(eventsOf(steps(recording, protocol, pieces)))
        const events = read([bytes])
        for (let at = 1; at < bytes.length; at++)
          assert.equal(read([bytes.subarray(0, at), bytes.subarray(at)]), events, `in two at ${at}`)
        return undefined
      },
    )
    assert.equal(wrong.length, 0, wrong.join('\n'))
  })

  test(`exchanges: broken off: ${name}`, () => {
    const complete = ofFormat.filter(({ reading }) => !reading.failure)
    const wrong = board.each(
      `${protocol.style} broken off`,
      complete.flatMap(asRecordings).filter(({ chunks }) => chunks),
      ({ id }) => id,
      (recording) => {
        const bytes = bytesOf(recording)
        for (let at = completeAt(recording, name); at >= 0; at--) {
          const answer = fold(eventsOf(steps(recording, protocol, [bytes.subarray(0, at)])))
          assert.equal(answer.failure?.kind, 'truncated', `broken off at ${at}`)
          assert.equal(answer.finish, undefined)
        }
        return undefined
      },
    )
    assert.equal(wrong.length, 0, wrong.join('\n'))
  })
}
