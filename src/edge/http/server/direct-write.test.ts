import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, Socket } from 'node:net'
import { test } from 'node:test'
import { descriptorOf, writeDirectly, writePartDirectly } from './direct-write.ts'

/** Both ends of a connection; `far` is paused. */
const connection = async () => {
  const server = createServer({ pauseOnConnect: true }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const near = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [[far]] = (await Promise.all([once(server, 'connection'), once(near, 'connect')])) as [[Socket], unknown]
  server.close()
  return { near, far }
}

test('direct write: the bytes the kernel accepts arrive, and their number is returned', async () => {
  const { near, far } = await connection()
  const descriptor = descriptorOf(near)
  assert.equal(writeDirectly(descriptor, ''), 0)
  assert.equal(writeDirectly(descriptor, 'caf\xe9'), 4)
  assert.equal(writePartDirectly(descriptor, '<', Buffer.from([0, 255]), '\r\n'), 5)
  assert.equal(writePartDirectly(descriptor, '<', Buffer.alloc(64 * 1024), ''), 0)
  const piece = 'x'.repeat(64 * 1024)
  // A longer text is left to the stream.
  assert.equal(writeDirectly(descriptor, `${piece}x`), 0)
  let taken = writeDirectly(descriptor, piece)
  let pieces = 1
  for (; taken === piece.length; pieces++) {
    assert.ok(pieces < 1_000, 'an unread connection accepts less than 64 MB')
    taken = writeDirectly(descriptor, piece)
  }
  // The socket is full.
  assert.equal(writeDirectly(descriptor, 'y'), 0)
  near.end(`${piece.slice(taken)}!`, 'latin1')
  let [first, last, length] = ['', '', 0]
  far.on('data', (part: Buffer) => {
    first ||= part.toString('latin1', 0, 9)
    last = part.toString('latin1', part.length - 1)
    length += part.length
  })
  far.resume()
  await once(far, 'end')
  assert.deepEqual([first, last, length], ['caf\xe9<\0\xff\r\n', '!', pieces * piece.length + 10])
  far.destroy()
})

test('direct write: a broken connection accepts nothing, and nothing is thrown', async () => {
  const { near, far } = await connection()
  const closed = new Promise((resolve) => near.on('error', () => {}).once('close', resolve))
  far.resetAndDestroy()
  await closed
  assert.equal(descriptorOf(near), -1)
  assert.equal(writeDirectly(descriptorOf(near), 'x'), 0)
  assert.equal(writePartDirectly(descriptorOf(near), '', Buffer.from('x'), ''), 0)
  assert.equal(descriptorOf(new Socket()), -1)
})
