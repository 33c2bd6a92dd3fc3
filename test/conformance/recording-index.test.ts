/** Every recording has one place, and what has none says why. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { recordingFiles, requireRecordings, skipWithoutRecordings } from '../support/recordings.ts'
import { NAMED, type Place, places } from './recording-index.ts'
import { Tally } from './tally.ts'

const board = new Tally('recordings')

const rowOf = (place: Place): string => {
  switch (place.is) {
    case 'answer':
    case 'failure':
      return `${place.protocol.style} ${place.is}s`
    case 'embeddings':
      return place.protocol.name.replace('-', ' ')
    case 'count':
      return 'messages counts'
    case 'models':
      return 'lists of models'
    case 'excluded':
      return 'excluded'
    default:
      throw new Error(`unknown place ${JSON.stringify(place satisfies never)}`)
  }
}

requireRecordings()

test('every recording is in one row, or says why not', { skip: skipWithoutRecordings }, () => {
  const all = places()
  for (const { recording, place } of all)
    if (place.is === 'excluded') board.excluded(`${recording.api}`, place.why)
    else
      board.each(
        rowOf(place),
        [recording],
        ({ id }) => id,
        () => undefined,
      )
  const rows = board.rows()
  const sum = rows.reduce(
    (total, { passed, excluded }) => total + passed + Object.values(excluded).reduce((a, b) => a + b, 0),
    0,
  )
  assert.equal(sum, recordingFiles().length)
  assert.equal(new Set(all.map(({ recording }) => recording.id)).size, sum)
  assert.ok(sum >= 2_282, String(sum))
  for (const { place } of all) if (place.is === 'excluded') assert.notEqual(place.why, '')
})

test('no exception without its recording', { skip: skipWithoutRecordings }, () => {
  const ids = places().map(({ recording }) => recording.id)
  for (const start of NAMED)
    assert.ok(
      ids.some((id) => id.startsWith(start)),
      start,
    )
})

after(() => board.print())
