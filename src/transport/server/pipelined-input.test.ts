import assert from 'node:assert/strict'
import { Socket } from 'node:net'
import { test } from 'node:test'
import { PipelinedInput } from './pipelined-input.ts'

const given = (hasMemory = true) => {
  const socket = new Socket()
  const kept: number[] = []
  const input = new PipelinedInput(socket, (bytes) => {
    kept.push(bytes)
    return hasMemory
  })
  return { socket, input, kept }
}

test('pipelined input: keeps the bytes in order, and reads on when they were taken', () => {
  const { socket, input } = given()
  input.push(Buffer.from('ab'))
  input.push(Buffer.from('c'))
  assert.deepEqual([input.length, socket.isPaused()], [3, false])
  input.push(Buffer.alloc(64 * 1024))
  assert.equal(socket.isPaused(), true)
  input.resume()
  assert.equal(socket.isPaused(), true)
  assert.equal(input.take().subarray(0, 3).toString(), 'abc')
  input.resume()
  assert.deepEqual([input.length, socket.isPaused()], [0, false])
})

test('pipelined input: reports bytes when their number has changed', () => {
  const { input, kept } = given()
  assert.equal(input.report(0), true)
  input.push(Buffer.from('ab'))
  assert.deepEqual([input.report(5), input.report(5)], [true, true])
  input.drop()
  input.drop()
  assert.deepEqual(kept, [7, 0])
})

test('pipelined input: without memory it drops what is sent', () => {
  const { input, kept } = given(false)
  input.push(Buffer.from('ab'))
  assert.equal(input.report(0), false)
  input.deafen()
  assert.deepEqual([input.isDeaf, input.length, kept], [true, 0, [2, 0]])
})
