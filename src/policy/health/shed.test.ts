import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultSettings } from '../../../test/support/settings.ts'
import { addressGroup, bodyShed, type Load, shedFailure, shedReason } from './shed.ts'

const limit = { ...defaultSettings.limit, concurrent: 10, bufferedMegabytes: 1, eventLoopDelay: 200 }
const calm: Load = { calls: 0, held: 0, delays: [0, 0, 0, 0, 0], heap: 0.1 }

const cases = [
  ['an idle process', {}, null],
  ['one call below the limit', { calls: 9 }, null],
  ['calls at the limit', { calls: 10 }, 'concurrent'],
  ['one byte below the limit', { held: 1_048_575 }, null],
  ['bytes at the limit', { held: 1_048_576 }, 'buffered'],
  ['four late seconds', { delays: [0, 300, 300, 300, 300] }, null],
  ['five late seconds', { delays: [201, 300, 300, 300, 300] }, 'event_loop'],
  ['four late seconds since the start', { delays: [300, 300, 300, 300] }, null],
  ['a delay at the limit', { delays: [200, 300, 300, 300, 300] }, null],
  ['a heap above 95 %', { heap: 0.951 }, 'heap'],
  ['a heap at 95 %', { heap: 0.95 }, null],
] as const

for (const [name, load, why] of cases)
  test(`shed: ${name}: ${why ?? 'accepted'}`, () => {
    assert.equal(shedReason({ ...calm, ...load }, limit), why)
  })

test('shed: an eventLoopDelay of 0 disables the check', () => {
  assert.equal(shedReason({ ...calm, delays: Array(5).fill(1e6) }, { ...limit, eventLoopDelay: 0 }), null)
})

for (const [name, bytes, memory, why] of [
  ['the first body of a client', 60, { own: 0, held: 40, limit: 100 }, null],
  ['a body above the limit', 61, { own: 0, held: 40, limit: 100 }, 'buffered'],
  ['a client alone at half of the limit', 1, { own: 49, held: 49, limit: 100 }, null],
  ['a client alone above half of the limit', 2, { own: 49, held: 49, limit: 100 }, 'share'],
  ['one of two clients above a third', 2, { own: 33, held: 66, limit: 100 }, 'share'],
] as const)
  test(`shed: ${name}: ${why ?? 'accepted'}`, () => {
    assert.equal(bodyShed(bytes, memory), why)
  })

const messages = [
  ['concurrent', 'The gateway is at its limit of requests in progress (limit.concurrent).'],
  ['connections', 'The gateway is at its limit of connections (limit.connections).'],
  ['address', 'Too many connections come from this address (limit.connectionsPerAddress).'],
  ['buffered', 'Requests and answers in progress have reached the memory limit (limit.bufferedMegabytes).'],
  ['event_loop', 'The gateway is overloaded: its event loop is delayed (limit.eventLoopDelay).'],
  ['heap', 'The gateway has too little memory for further requests.'],
] as const
for (const [why, sentence] of messages)
  test(`shed: the failure for ${why} names the limit and has a Retry-After of one second`, () => {
    const { kind, message, retryAfter } = shedFailure(why)
    assert.deepEqual([kind, message, retryAfter], ['busy', sentence, 1_000])
  })

const addresses = [
  ['203.0.113.9', '203.0.113.9'],
  ['::ffff:203.0.113.9', '203.0.113.9'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['2001:db8:1:2::9', '2001:db8:1:2'],
  ['2001:DB8:1:2::', '2001:db8:1:2'],
  ['2001:db8::1', '2001:db8:0:0'],
  ['::1', '0:0:0:0'],
  ['fe80::1%eth0', 'fe80:0:0:0'],
  ['FE80:1:2:3:4:5:6:7%eth0', 'fe80:1:2:3'],
  ['::', '0:0:0:0'],
  ['1::2:3:4:5:6:7', '1:0:2:3'],
  ['1:2:3::5:6:7:8', '1:2:3:0'],
  ['64:ff9b::ffff:1.2.3.4', '64:ff9b:0:0'],
] as const

for (const [address, group] of addresses)
  test(`shed: ${address} counts for ${group}`, () => {
    assert.equal(addressGroup(address), group)
  })
