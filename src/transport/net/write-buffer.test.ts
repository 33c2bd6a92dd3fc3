import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SplicedText } from '../../core/encoded-text.ts'
import { byteLength, joinMessage, WriteBuffer } from './write-buffer.ts'

/** A socket that accepts data at once, or keeps it. */
const socket = (keeps: boolean) => {
  const received: Uint8Array[] = []
  return {
    received,
    write: (bytes: Uint8Array) => received.push(keeps ? bytes : Buffer.from(bytes)),
    get writableLength() {
      return keeps ? received.reduce((sum, { length }) => sum + length, 0) : 0
    },
  }
}
const textsOf = ({ received }: ReturnType<typeof socket>) =>
  received.map((bytes) => Buffer.from(bytes).toString('utf8'))
const LINES = 'POST / HTTP/1.1\r\n'

test('joinMessage: message buffer', () => {
  assert.equal(joinMessage('é\r\n', Buffer.from('{"a":1}')).toString('latin1'), 'é\r\n{"a":1}')
})

const bodies = [
  ['nothing', '', 0],
  ['ASCII', '{"a":1}', 7],
  ['characters of two, three and four bytes', 'é€😀', 9],
  ['an unpaired surrogate', '\ud83d', 3],
  ['the largest body', '€'.repeat(64 * 1024), 3 * 64 * 1024],
] as const

for (const [name, body, length] of bodies)
  test(`write buffer: ${name}, as text and as bytes`, () => {
    const wire = socket(false)
    const bytes = Buffer.from(body)
    const buffer = new WriteBuffer()
    assert.equal(buffer.send(wire, LINES, body), true)
    assert.equal(buffer.send(wire, LINES, bytes), bytes.length <= 64 * 1024)
    for (const message of textsOf(wire))
      assert.equal(message, `${LINES}content-length: ${length}\r\n\r\n${bytes.toString('utf8')}`)
  })

for (const [name, head, kept, tail] of [
  ['ASCII', '{"model":"m",', '"messages":[]', ',"n":1}'],
  ['characters of two, three and four bytes', '{"model":"é",', '"messages":["€"]', ',"user":"😀"}'],
  ['nothing around the kept part', '', '{}', ''],
] as const)
  test(`write buffer: a body with a part that is bytes, ${name}`, () => {
    const wire = socket(false)
    const spliced = new SplicedText(head, { text: kept, bytes: Buffer.from(kept) }, tail)
    const body = head + kept + tail
    const length = Buffer.byteLength(body)
    assert.equal(spliced.text, body)
    assert.equal(Buffer.from(spliced.bytes).toString(), body)
    assert.equal(byteLength(spliced), length)
    assert.equal(new WriteBuffer().send(wire, LINES, spliced), true)
    assert.deepEqual(textsOf(wire), [`${LINES}content-length: ${length}\r\n\r\n${body}`])
    assert.equal(joinMessage(LINES, spliced, '!').toString(), `${LINES}${body}!`)
  })

test('write buffer: a head in Latin-1', () => {
  const wire = socket(false)
  new WriteBuffer().send(wire, 'x: é\r\n', '{}')
  assert.equal(Buffer.concat(wire.received).toString('latin1'), 'x: é\r\ncontent-length: 2\r\n\r\n{}')
})

test('write buffer: a message that does not fit is not written', () => {
  const wire = socket(false)
  assert.equal(new WriteBuffer().send(wire, LINES, 'a'.repeat(64 * 1024 + 1)), false)
  assert.equal(new WriteBuffer().send(wire, 'x'.repeat(16 * 1024), ''), false)
  assert.deepEqual(wire.received, [])
})

test('write buffer: a head and a tail in Latin-1 around a body, as text and as bytes', () => {
  const wire = socket(false)
  const buffer = new WriteBuffer({ head: 20, body: 10 })
  assert.equal(buffer.join(wire, 'x: é\r\n', 'é€😀', 'é\r\n'), true)
  assert.equal(buffer.join(wire, '', Buffer.from('é€😀'), ''), true)
  assert.deepEqual(
    wire.received.map((bytes) => Buffer.from(bytes).toString('latin1')),
    [Buffer.from('é€😀').toString('latin1')].flatMap((body) => [`x: é\r\n${body}é\r\n`, body]),
  )
  assert.equal(buffer.join(wire, 'a'.repeat(15), '', 'b'.repeat(6)), false)
  assert.equal(buffer.join(wire, '', 'a'.repeat(11), ''), false)
  assert.equal(buffer.join(wire, '', '€'.repeat(10), ''), true)
  assert.equal(wire.received.length, 3)
})

test('write buffer: nothing is joined for a socket that still holds data', () => {
  const slow = socket(true)
  const buffer = new WriteBuffer()
  assert.equal(buffer.join(slow, 'head ', 'one', ''), true)
  assert.equal(buffer.join(slow, 'head ', 'two', ''), false)
  assert.equal(buffer.join(socket(false), 'head ', 'three', ''), true)
  assert.deepEqual(textsOf(slow), ['head one'])
})

test('write buffer: data that a socket still holds is not overwritten by the next message', () => {
  const [slow, other] = [socket(true), socket(false)]
  const buffer = new WriteBuffer()
  for (const body of ['one', 'two', 'three']) {
    buffer.send(slow, LINES, body)
    buffer.send(other, LINES, body.toUpperCase())
  }
  assert.deepEqual(
    textsOf(slow).map((message) => message.split('\r\n').at(-1)),
    ['one', 'two', 'three'],
  )
  assert.deepEqual(
    textsOf(other).map((message) => message.split('\r\n').at(-1)),
    ['ONE', 'TWO', 'THREE'],
  )
})
