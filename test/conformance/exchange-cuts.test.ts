/** Cuts the project's own exchanges at every byte: two pieces give the same events, and the first piece alone is truncated. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { fold, type UpstreamProtocolName } from '../../src/core/chat.ts'
import { upstreamProtocols } from '../../src/protocols/index.ts'
import { asRecordings, exchanges, formatNames } from '../support/exchanges.ts'
import type { Recording } from '../support/recordings.ts'
import { Tally } from './tally.ts'
import { bytesOf, decodeSteps, eventsOf, payloadsOf } from './translation-suite.ts'
import { upstreamReaders } from './upstream-view.ts'

const tally = new Tally('own exchanges')
after(() => tally.print())

/** The number of bytes before the message that completes the answer. */
const lengthBeforeEnd = (recording: Recording, protocol: UpstreamProtocolName): number => {
  const chunks = recording.chunks ?? []
  const last = chunks.findIndex((chunk) =>
    payloadsOf({ ...recording, chunks: [chunk] }).some(upstreamReaders[protocol].isFinal),
  )
  assert.ok(last >= 0, 'the stream has no end')
  return bytesOf({ ...recording, chunks: chunks.slice(0, last) }).length
}

for (const name of formatNames) {
  const protocol = upstreamProtocols[name]
  const ofFormat = exchanges().filter((exchange) => exchange.protocol === name)

  test(`exchanges: split in two: ${name}`, () => {
    const wrong = tally.checkEach(
      `${protocol.style} split in two`,
      ofFormat.flatMap(asRecordings),
      ({ id }) => id,
      (recording) => {
        const bytes = bytesOf(recording)
        const read = (pieces: readonly Uint8Array[]) =>
          JSON.stringify(eventsOf(decodeSteps(recording, protocol, pieces)))
        const events = read([bytes])
        for (let at = 1; at < bytes.length; at++)
          assert.equal(read([bytes.subarray(0, at), bytes.subarray(at)]), events, `split at ${at}`)
        return undefined
      },
    )
    assert.equal(wrong.length, 0, wrong.join('\n'))
  })

  test(`exchanges: truncated: ${name}`, () => {
    const complete = ofFormat.filter(({ reading }) => !reading.failure)
    const wrong = tally.checkEach(
      `${protocol.style} truncated`,
      complete.flatMap(asRecordings).filter(({ chunks }) => chunks),
      ({ id }) => id,
      (recording) => {
        const bytes = bytesOf(recording)
        for (let at = lengthBeforeEnd(recording, name); at >= 0; at--) {
          const answer = fold(eventsOf(decodeSteps(recording, protocol, [bytes.subarray(0, at)])))
          assert.equal(answer.failure?.kind, 'truncated', `truncated at ${at}`)
          assert.equal(answer.finish, undefined)
        }
        return undefined
      },
    )
    assert.equal(wrong.length, 0, wrong.join('\n'))
  })
}
