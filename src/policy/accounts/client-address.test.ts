import assert from 'node:assert/strict'
import { test } from 'node:test'
import { clientAddress, isForwardedHttps, proxyRanges, UNIX_PEER } from './client-address.ts'

const cases: readonly (readonly [name: string, peer: string, forwarded: string | undefined, address: string])[] = [
  ['no header', '10.0.0.1', undefined, '10.0.0.1'],
  ['a peer that is no proxy', '192.0.2.9', '198.51.100.1', '192.0.2.9'],
  ['one proxy', '10.0.0.1', '198.51.100.1', '198.51.100.1'],
  ['several proxies', '10.0.0.1', '198.51.100.1, 10.0.0.3, 10.0.0.2', '198.51.100.1'],
  ['an address that the client has written before', '10.0.0.1', '127.0.0.1, 198.51.100.1', '198.51.100.1'],
  ['proxies only', '10.0.0.1', '10.0.0.3,10.0.0.2', '10.0.0.3'],
  ['text instead of an address', '10.0.0.1', '198.51.100.1, unknown, 10.0.0.2', '10.0.0.2'],
  ['an empty header', '10.0.0.1', '', '10.0.0.1'],
  ['IPv4 with a port', '10.0.0.1', '198.51.100.1:4711', '198.51.100.1'],
  ['IPv6 with a port', '10.0.0.1', '[2001:db8::1]:4711', '2001:db8::1'],
  ['a mapped peer', '::ffff:10.0.0.1', '198.51.100.1', '198.51.100.1'],
  ['more entries than are read', '10.0.0.1', `198.51.100.1${', 10.0.0.2'.repeat(40)}`, '10.0.0.2'],
]
for (const [name, peer, forwarded, address] of cases)
  test(`client address: ${name}`, () =>
    assert.equal(clientAddress(peer, forwarded, proxyRanges(['10.0.0.0/8'])), address))

for (const [forwarded, is] of [
  [undefined, false],
  ['', false],
  ['http', false],
  ['https', true],
  [' HTTPS ', true],
  // Two proxies: the first received https, the second plain HTTP from it.
  ['https, http', true],
  ['https,https', true],
  ['http, https', false],
  [', https', false],
  ['httpsx', false],
] as const)
  test(`forwarded scheme: ${forwarded} is ${is ? '' : 'not '}https`, () =>
    assert.equal(isForwardedHttps(forwarded), is))

test('client address: without trusted proxies the peer counts', () =>
  assert.equal(clientAddress('10.0.0.1', '198.51.100.1', proxyRanges([])), '10.0.0.1'))

for (const [peer, forwarded, proxies, address] of [
  [UNIX_PEER, '198.51.100.1', ['unix'], '198.51.100.1'],
  [UNIX_PEER, '203.0.113.9, unix', ['unix'], UNIX_PEER],
  [UNIX_PEER, '198.51.100.1', ['0.0.0.0/0', '::/0'], UNIX_PEER],
  ['192.0.2.9', '198.51.100.1', ['unix'], '192.0.2.9'],
  ['', '198.51.100.1', ['unix'], ''],
] as const)
  test(`client address: ${forwarded} from "${peer}" with ${proxies} is "${address}"`, () =>
    assert.equal(clientAddress(peer, forwarded, proxyRanges(proxies)), address))
