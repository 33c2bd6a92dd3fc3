/** Every recording belongs to one row, or has a reason for its exclusion. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { recordingFiles, requireRecordings, skipWithoutRecordings } from '../support/recordings.ts'
import { type Classification, EXCEPTIONS, indexRecordings } from './recording-index.ts'
import { Tally } from './tally.ts'

const tally = new Tally('recordings')

const rowOf = (classification: Classification): string => {
  switch (classification.is) {
    case 'answer':
    case 'failure':
      return `${classification.protocol.style} ${classification.is}s`
    case 'embeddings':
      return classification.protocol.name.replace('-', ' ')
    case 'count':
      return 'messages token counts'
    case 'models':
      return 'model lists'
    case 'excluded':
      return 'excluded'
    default:
      throw new Error(`unknown classification ${JSON.stringify(classification satisfies never)}`)
  }
}

requireRecordings()

test('every recording is in one row or excluded with a reason', { skip: skipWithoutRecordings }, () => {
  const indexed = indexRecordings()
  for (const { recording, classification } of indexed)
    if (classification.is === 'excluded') tally.exclude(`${recording.api}`, classification.why)
    else
      tally.checkEach(
        rowOf(classification),
        [recording],
        ({ id }) => id,
        () => undefined,
      )
  const rows = tally.rows()
  const sum = rows.reduce(
    (total, { passed, excluded }) => total + passed + Object.values(excluded).reduce((a, b) => a + b, 0),
    0,
  )
  assert.equal(sum, recordingFiles().length)
  assert.equal(new Set(indexed.map(({ recording }) => recording.id)).size, sum)
  assert.ok(sum >= 2_282, String(sum))
  for (const { classification } of indexed)
    if (classification.is === 'excluded') assert.notEqual(classification.why, '')
})

test('every exception has a recording', { skip: skipWithoutRecordings }, () => {
  const ids = indexRecordings().map(({ recording }) => recording.id)
  for (const start of EXCEPTIONS)
    assert.ok(
      ids.some((id) => id.startsWith(start)),
      start,
    )
})

after(() => tally.print())
