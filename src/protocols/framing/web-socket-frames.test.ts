import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as ws from 'ws'
import { isLong } from '../../../test/support/lane.ts'
import { CLOSE, closeFrame, FrameReader, textFrame } from './web-socket-frames.ts'

const bytes = (...parts: readonly (number | string | readonly number[])[]): Uint8Array =>
  Uint8Array.from(parts.flatMap((part) => (typeof part === 'string' ? [...Buffer.from(part)] : part)))

/** Messages as texts, and what the reader says at the end. */
const read = (pieces: readonly Uint8Array[], { isMasked = false, maxMessage = 1_000 } = {}) => {
  const messages: string[] = []
  let message = ''
  const reader = new FrameReader(isMasked, maxMessage, {
    part(part, isEnd) {
      message += Buffer.from(part).toString('latin1')
      if (!isEnd) return
      messages.push(message)
      message = ''
    },
  })
  let code: number | null = null
  for (const piece of pieces) code ??= reader.push(piece)?.code ?? null
  return { messages, code, isBetween: reader.isBetween, isClosed: reader.isClosed }
}

const OPEN = { code: null, isBetween: true, isClosed: false }
const long = 'x'.repeat(300)

const cases = [
  ['a text', bytes(0x81, 2, 'hi'), { ...OPEN, messages: ['hi'] }],
  ['an empty one', bytes(0x81, 0), { ...OPEN, messages: [''] }],
  ['binary of 300 bytes', bytes(0x82, 126, 1, 44, long), { ...OPEN, messages: [long] }],
  ['a length of eight bytes', bytes(0x82, 127, 0, 0, 0, 0, 0, 0, 1, 44, long), { ...OPEN, messages: [long] }],
  [
    'fragments with a ping between them',
    bytes(0x01, 1, 'a', 0x89, 1, 'p', 0x00, 1, 'b', 0x80, 1, 'c', 0x81, 1, 'd'),
    { ...OPEN, messages: ['abc', 'd'] },
  ],
  ['a message in progress', bytes(0x01, 1, 'a'), { ...OPEN, isBetween: false, messages: [] }],
  ['a close frame', closeFrame(CLOSE.away, 'bye'), { ...OPEN, isClosed: true, messages: [] }],
  ['a frame after it', bytes(0x88, 0, 0x81, 0), { code: 1002, isBetween: true, isClosed: true, messages: [] }],
  ['an own text', textFrame('hello'), { ...OPEN, messages: ['hello'] }],
  ['a long own text', textFrame(long), { ...OPEN, messages: [long] }],
] as const

for (const [name, wire, expected] of cases)
  test(`web-socket frames: ${name}`, () => {
    assert.deepEqual(read([wire]), expected)
    assert.deepEqual(read([...wire].map((byte) => Uint8Array.of(byte))), expected, 'byte by byte')
    for (let cut = 0; cut <= wire.length; cut++)
      assert.deepEqual(read([wire.subarray(0, cut), wire.subarray(cut)]), expected, `cut at ${cut}`)
  })

const refused = [
  ['a reserved bit', bytes(0xc1, 0), 1002],
  ['an unknown opcode', bytes(0x83, 0), 1002],
  ['an unknown control frame', bytes(0x8b, 0), 1002],
  ['a continuation of nothing', bytes(0x80, 0), 1002],
  ['a message within another', bytes(0x01, 0, 0x81, 0), 1002],
  ['a fragmented ping', bytes(0x09, 0), 1002],
  ['a long ping', bytes(0x89, 126, 0, 126), 1002],
  ['a close code of one byte', bytes(0x88, 1, 3), 1002],
  ['a mask of a server', bytes(0x81, 0x80, 0, 0, 0, 0), 1002],
  ['a message above the limit', bytes(0x82, 126, 3, 233), 1009],
  ['a length of 2^63', bytes(0x82, 127, 128, 0, 0, 0, 0, 0, 0, 0), 1009],
  ['fragments above the limit', bytes(0x02, 126, 1, 244, 'x'.repeat(500), 0x80, 126, 1, 245), 1009],
] as const

for (const [name, wire, code] of refused)
  test(`web-socket frames: refused: ${name}`, () => {
    assert.equal(read([wire]).code, code)
    assert.equal(read([...wire].map((byte) => Uint8Array.of(byte))).code, code, 'byte by byte')
  })

test('web-socket frames: of a client they are masked, and only then', () => {
  const masked = closeFrame(CLOSE.policy, '', [1, 2, 3, 4])
  assert.deepEqual(read([masked], { isMasked: true }), { ...OPEN, isClosed: true, messages: [] })
  assert.deepEqual([...masked], [0x88, 0x82, 1, 2, 3, 4, (1008 >> 8) ^ 1, (1008 & 0xff) ^ 2])
  assert.equal(read([bytes(0x81, 0)], { isMasked: true }).code, 1002)
})

/** Mulberry32. */
const randomFrom = (seed: number) => () => {
  seed = (seed + 0x6d2b79f5) | 0
  let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
}

type Receiver = {
  on(event: 'message', run: (data: Buffer) => void): void
  on(event: 'error', run: (error: Error & Record<symbol, number>) => void): void
  write(bytes: Uint8Array): void
}
// The types of the package lack this class.
const { Receiver } = ws as unknown as { readonly Receiver: new (options: object) => Receiver }

/** The messages and the code of the first problem, as the package `ws` reads them. */
const readByOther = async (wire: Uint8Array, isMasked: boolean, maxPayload: number) => {
  const messages: string[] = []
  const other = new Receiver({ isServer: isMasked, maxPayload, binaryType: 'nodebuffer', skipUTF8Validation: true })
  let code: number | null = null
  other.on('message', (data) => messages.push(data.toString('latin1')))
  other.on('error', (error) => {
    const [symbol] = Object.getOwnPropertySymbols(error).filter(({ description }) => description === 'status-code')
    code = symbol === undefined ? 0 : (error[symbol] ?? 0)
  })
  other.write(wire)
  // Errors are emitted in a later turn.
  await new Promise((resolve) => setImmediate(resolve))
  return { messages, code }
}

test('web-socket frames: random ones are read as the package ws reads them', async () => {
  const random = randomFrom(20_261_128)
  const below = (end: number) => Math.floor(random() * end)
  const counts = { whole: 0, refused: 0 }
  for (let left = isLong ? 50_000 : 3_000; left > 0; left--) {
    const isMasked = random() < 0.5
    const frames = Array.from({ length: 1 + below(5) }, () => {
      const opcode = [0, 2, 2, 2, 9, 10][below(6)] ?? 2
      const length = [0, 1, 5, 125, 126, 200][below(6)] ?? 0
      const payload = Uint8Array.from({ length }, () => below(256))
      const mask = isMasked ? [1, 2, 3, 4] : []
      const masked = payload.map((byte, at) => byte ^ (mask[at % 4] ?? 0))
      const size = length < 126 ? [length] : [126, length >> 8, length & 0xff]
      size[0] = (size[0] ?? 0) | (isMasked ? 0x80 : 0)
      return bytes([(random() < 0.8 ? 0x80 : 0) | opcode], size, mask, [...masked])
    })
    const wire = bytes(...frames.map((frame) => [...frame]))
    for (let changes = below(3); changes > 0; changes--) wire[below(wire.length)] = below(256)
    const pieces = wire.length % 2 === 0 ? [wire] : [...wire].map((byte) => Uint8Array.of(byte))
    const limits = { isMasked, maxMessage: 400 }
    const found = read(pieces, limits)
    // The other ignores what follows a close frame.
    if (found.isClosed) continue
    const other = await readByOther(wire, isMasked, 400)
    const shown = Buffer.from(wire).toString('hex')
    // The other refuses a header at its second byte, this reader when it is complete.
    const complete = found.code ?? (other.code === null ? null : read([wire, new Uint8Array(14)], limits).code)
    assert.equal(complete, other.code, shown)
    assert.equal(found.messages.length, other.messages.length, shown)
    if (!isMasked) assert.deepEqual(found.messages, other.messages, shown)
    counts[found.code === null ? 'whole' : 'refused']++
  }
  assert.ok(Math.min(counts.whole, counts.refused) > 500, JSON.stringify(counts))
})
