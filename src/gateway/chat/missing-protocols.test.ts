import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fail } from '../../core/failure.ts'
import type { Instance } from '../../core/provider.ts'
import { MissingProtocols } from './missing-protocols.ts'

const given = (speaks = ['openai-responses', 'openai-chat']) => {
  const noted: string[] = []
  const instance = { id: 'one', speaks } as unknown as Instance
  const missing = new MissingProtocols({
    protocolsOf: () => [],
    noteProtocol: (_: Instance, name: string) => noted.push(name),
  } as unknown as ConstructorParameters<typeof MissingProtocols>[0])
  return { instance, missing, noted }
}
const failure = (status: number, message?: string) =>
  fail('incompatible', 'refused', { status, ...(message !== undefined && { upstream: { message } }) })

test('missing protocols: a path that does not exist excludes its protocol once, and is remembered', () => {
  const { instance, missing, noted } = given()
  assert.equal(missing.note(instance, 'openai-responses', failure(405)), true)
  assert.deepEqual([...missing.at(instance)], ['openai-responses'])
  assert.deepEqual(noted, ['openai-responses'])
  assert.equal(missing.note(instance, 'openai-chat', failure(405)), false, 'the last protocol is kept')
})

test('missing protocols: an error that mentions a model is remembered for the request only', () => {
  const { instance, missing, noted } = given()
  assert.equal(missing.note(instance, 'openai-responses', failure(404, 'no such url or model')), true)
  assert.deepEqual([[...missing.at(instance)], noted], [['openai-responses'], []])
})

test('missing protocols: other failures, and a provider of one protocol, exclude nothing', () => {
  const { instance, missing } = given()
  assert.equal(missing.note(instance, 'openai-responses', failure(400)), false)
  assert.equal(missing.note(instance, undefined, failure(405)), false)
  const single = given(['openai-chat'])
  assert.equal(single.missing.note(single.instance, 'openai-chat', failure(405)), false)
  assert.equal(missing.at(instance).size, 0)
})
