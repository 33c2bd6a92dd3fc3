import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { fail } from '../core/failure.ts'
import { summarize } from '../core/trace-summary.ts'
import { ClientsSeen, mergeClients } from './clients-seen.ts'

const request = (id: string, headers: Readonly<Record<string, string>>, path = '/v1/chat/completions') => ({
  id,
  method: 'POST',
  path,
  headers: (name: string) => headers[name],
})
test('no text of a User-Agent is kept, beside a version', () => {
  const seen = new ClientsSeen(() => 1)
  seen.arrived(request('1', { 'user-agent': 'curl/8.5.0-sk-secret' }))
  seen.arrived(request('2', { 'user-agent': 'sk-secret-0123456789' }))
  const all = seen.all()
  assert.deepEqual(
    all.map(({ last }) => last.version),
    ['8.5.0', null],
  )
  assert.ok(!JSON.stringify(all).includes('secret'))
})

describe('what was wrong', () => {
  const wrongOf = (failure: ReturnType<typeof fail>, headers: Readonly<Record<string, string>>, path?: string) => {
    const seen = new ClientsSeen(() => 1)
    seen.refused(request('1', headers, path), 401, failure)
    return seen.all()[0]?.wrong?.problem
  }
  const unauthenticated = fail('unauthenticated', 'Unknown API key.')
  const unknown = fail('unknown_url', 'It does not exist.')

  test('the header of a wrong key and its last four characters', () => {
    const bearer = wrongOf(unauthenticated, { authorization: 'Bearer sk-0123456789abcd' })
    assert.deepEqual([bearer?.kind, bearer?.header, bearer?.last4], ['wrong_key', 'authorization', 'abcd'])
    const short = wrongOf(unauthenticated, { 'x-api-key': 'any' })
    assert.deepEqual([short?.kind, short?.header, short?.last4], ['wrong_key', 'x-api-key', null])
    assert.equal(wrongOf(unauthenticated, { authorization: 'Bearer ' })?.kind, 'no_key')
  })

  test('a path with /v1 twice, another unknown path, a WebSocket elsewhere', () => {
    assert.equal(wrongOf(unknown, {}, '/v1/v1/messages')?.kind, 'doubled_path')
    assert.equal(wrongOf(unknown, {}, '/v1/message')?.kind, 'unknown_path')
    assert.equal(wrongOf(unknown, { upgrade: 'websocket' }, '/v1/realtime')?.kind, 'web_socket')
    assert.equal(wrongOf(fail('body_too_large', 'x'), {})?.kind, 'other')
  })

  test('an unknown model, which only the end of the request shows', () => {
    const seen = new ClientsSeen(() => 1)
    seen.arrived(request('r1', {}))
    const failure = fail('unknown_model', 'Did you mean "gpt-5"?')
    seen.ended(
      summarize([
        { type: 'received', at: 0, date: 0, family: '', id: 'r1', style: 'chat', model: 'gpt5', stream: false },
        { type: 'ended', at: 1, how: 'refused', status: 404, failure },
      ]),
    )
    const [client] = seen.all()
    assert.deepEqual([client?.last.outcome, client?.last.status, client?.last.model], ['refused', 404, 'gpt5'])
    assert.deepEqual(
      [client?.wrong?.problem?.kind, client?.wrong?.problem?.message],
      ['unknown_model', failure.message],
    )
    seen.arrived(request('r2', {}))
    assert.equal(seen.all()[0]?.wrong?.id, 'r1')
  })
})

test('the clients of several processes are one list', () => {
  const one = new ClientsSeen(() => 1)
  const other = new ClientsSeen(() => 2)
  one.arrived(request('a', { 'user-agent': 'curl/8' }))
  other.arrived(request('b', { 'user-agent': 'curl/8' }))
  one.refused(request('c', {}), 401, fail('unauthenticated', 'x'))
  const merged = mergeClients([one.all(), other.all()])
  assert.deepEqual(
    merged.map(({ family, requests, last, wrong }) => [family, requests, last.id, wrong?.id]),
    [
      ['curl', 2, 'b', undefined],
      ['other', 1, 'c', 'c'],
    ],
  )
})
