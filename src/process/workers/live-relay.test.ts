import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LiveRelay, type LiveWorker } from './live-relay.ts'

const participant = (): LiveWorker & { readonly received: string[] } => {
  const received: string[] = []
  return {
    received,
    send: (message) => void received.push(message.type === 'live' ? `on ${message.on}` : message.type),
  }
}

test('live relay: gateways are asked for their events only while a worker needs them', () => {
  const [worker, gateways] = [participant(), participant()]
  const relay = new LiveRelay(() => [worker], gateways)
  relay.onMessage(gateways, { type: 'live', on: true })
  assert.deepEqual([worker.received, gateways.received], [['on true'], []])
  relay.onMessage(worker, { type: 'live', on: true })
  relay.onMessage(gateways, { type: 'live', on: false })
  assert.deepEqual([worker.received, gateways.received], [['on true'], ['on true']])
  relay.onMessage(worker, { type: 'live_events', events: [], lost: 0 })
  relay.onExit(worker)
  assert.deepEqual(
    [worker.received, gateways.received],
    [
      ['on true', 'on false'],
      ['on true', 'live_events', 'on false'],
    ],
  )
})

test('live relay: events of gateways go to all workers', () => {
  const [first, other, gateways] = [participant(), participant(), participant()]
  const relay = new LiveRelay(() => [first, other], gateways)
  relay.onMessage(gateways, { type: 'live_events', events: [], lost: 0 })
  assert.deepEqual([first.received, other.received, gateways.received], [['live_events'], ['live_events'], []])
})
