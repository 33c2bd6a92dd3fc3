import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatRequest } from '../../../test/support/builders.ts'
import { type Access, FULL_ACCESS } from '../../core/accounts.ts'
import { fail } from '../../core/failure.ts'
import type { Trace } from '../../core/trace.ts'
import { parseClass } from '../../policy/drill/access-class.ts'
import { type ShapedCall, type ShapedEnd, ShapeSamples } from './shape-samples.ts'

const HOUR = 3_600_000
const RECEIVED = { type: 'received', id: 'r', ownId: 'req_r', style: 'chat', at: 0 }
const refusal = fail('no_target', 'No target.')

/** The trace of a request that was refused, or of one whose client left: neither has an attempt. */
const traceOf = (how: 'refused' | 'client_gone'): Trace =>
  // The members that the summary reads.
  [RECEIVED, { type: 'ended', at: 1, how, status: 503, failure: refusal }] as unknown as Trace

type WholeCall = ShapedCall & ShapedEnd
const callOf = (more: Partial<WholeCall> & { readonly access?: readonly Access[] } = {}): WholeCall => ({
  shaped: { request: chatRequest(), headers: () => undefined },
  style: 'chat',
  route: 'fast',
  client: { access: more.access ?? [] },
  demand: { route: 'fast', plan: null },
  trace: traceOf('client_gone'),
  at: 10 * HOUR,
  ...more,
})

const noted = (samples: ShapeSamples, call: WholeCall) => {
  const sample = samples.begin(call)
  return sample && samples.note(sample, call)
}

test('shape samples: the first 100 of an hour, then one in 50 that stands for all', () => {
  const samples = new ShapeSamples()
  const weights = (count: number, at: number) =>
    Array.from({ length: count }, () => noted(samples, callOf({ at }))?.weight ?? 0)
  const hour = weights(1_000, 10 * HOUR)
  assert.deepEqual(hour.slice(0, 100), Array(100).fill(1))
  assert.equal(hour.filter((weight) => weight === 50).length, 18)
  assert.equal(
    hour.reduce((sum, weight) => sum + weight, 0),
    1_000,
  )
  assert.deepEqual(weights(1, 11 * HOUR), [1])
})

test('shape samples: all that were refused are noted, and stand for themselves', () => {
  const samples = new ShapeSamples()
  for (let count = 0; count < 100; count++) noted(samples, callOf())
  const refused = Array.from({ length: 70 }, () => noted(samples, callOf({ trace: traceOf('refused') }))?.weight)
  assert.deepEqual(refused, Array(70).fill(1))
})

test('shape samples: none without a route, and none with x-headgate-no-log', () => {
  const samples = new ShapeSamples()
  const headers = (name: string) => (name === 'x-headgate-no-log' ? ' 1' : undefined)
  assert.equal(noted(samples, callOf({ shaped: { request: chatRequest(), headers } })), null)
  assert.equal(noted(samples, callOf({ demand: { route: null, plan: null } })), null)
  assert.notEqual(noted(samples, callOf()), null)
})

test('shape samples: beyond 200 shapes of a route in a day they are others', () => {
  const samples = new ShapeSamples()
  const shapes = Array.from({ length: 300 }, (_, number) => {
    const setting = { value: 1, at: 'x' }
    const names = ['temperature', 'topP', 'topK', 'seed', 'verbosity', 'user', 'store', 'stop', 'logprobs']
    const settings = Object.fromEntries(names.flatMap((name, bit) => ((number >> bit) & 1 ? [[name, setting]] : [])))
    const trace = traceOf('refused')
    return noted(samples, callOf({ trace, shaped: { request: chatRequest({ settings }), headers: () => undefined } }))
  })
  assert.equal(new Set(shapes.map((one) => one?.shape)).size, 201)
  assert.equal(shapes.filter((one) => one?.shape === 'other').length, 100)
})

test('shape samples: clients with the same models and providers are one class', () => {
  const samples = new ShapeSamples()
  const access = [{ ...FULL_ACCESS, models: ['gpt-*'], routes: ['fast'], ips: ['10.0.0.0/8'] }]
  const one = noted(samples, callOf({ access }))
  assert.deepEqual(parseClass(one?.access ?? ''), {
    access: [{ ...FULL_ACCESS, models: ['gpt-*'] }],
    require: null,
  })
  assert.equal(noted(samples, callOf({ access: [FULL_ACCESS] }))?.access, '')
  const long = [{ ...FULL_ACCESS, models: Array.from({ length: 100 }, (_, number) => `model-${number}`) }]
  assert.equal(parseClass(noted(samples, callOf({ access: long }))?.access ?? ''), undefined)
})

test('shape samples: once its answer begins, no call keeps its request', () => {
  const samples = new ShapeSamples()
  const failed = [RECEIVED, { type: 'failed', attempt: 0, at: 1, failure: refusal }] as unknown as Trace
  const begun = Array.from({ length: 150 }, () => samples.begin(callOf()))
  const settled = (number: number, trace: Trace) => {
    const sample = begun[number]
    return sample && samples.settle(sample, trace)
  }
  assert.deepEqual(settled(0, []), { ...begun[0], isSettled: true })
  assert.equal(typeof begun[0]?.what, 'string', 'it is read when the call begins')
  assert.equal(settled(120, []), null)
  const kept = settled(120, failed)
  assert.deepEqual(kept, { what: begun[0]?.what, weight: 1, isSettled: true })
  const standing = settled(149, [])
  assert.equal(standing && samples.note(standing, callOf({ trace: traceOf('refused') }))?.weight, 50)
})

test('shape samples: a shape counts for each class of clients', () => {
  const samples = new ShapeSamples()
  const shapes = Array.from({ length: 250 }, (_, number) => {
    const access = [{ ...FULL_ACCESS, models: [`model-${number}`] }]
    return noted(samples, callOf({ access, trace: traceOf('refused') }))?.shape
  })
  assert.equal(shapes.filter((shape) => shape === 'other').length, 50)
})
