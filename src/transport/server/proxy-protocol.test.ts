/** Heads of the PROXY protocol, whole, byte by byte and mutated. */
import assert from 'node:assert/strict'
import { BlockList, isIP } from 'node:net'
import { test } from 'node:test'
import { isLong } from '../../../test/support/lane.ts'
import { MAX_PROXY_HEAD, type ProxyHead, readProxyHead } from './proxy-protocol.ts'

const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
const binary = (command: number, family: number, body: Buffer, size = body.length): Buffer => {
  const fixed = Buffer.from([command, family, size >> 8, size & 0xff])
  return Buffer.concat([SIGNATURE, fixed, body])
}
const line = (text: string) => Buffer.from(`${text}\r\n`, 'latin1')
const V4 = Buffer.from([203, 0, 113, 7, 10, 0, 0, 1, 0x12, 0x34, 0x01, 0xbb])
const V6 = Buffer.concat([Buffer.from('20010db8000000000000000000000007', 'hex'), Buffer.alloc(16, 1), Buffer.alloc(4)])
const TLV = Buffer.from([0x04, 0, 3, 1, 2, 3])
const complete = (bytes: Buffer, client: string | null): ProxyHead => ({ is: 'complete', length: bytes.length, client })

const heads: readonly (readonly [name: string, bytes: Buffer, client: string | null])[] = [
  ['1, IPv4', line('PROXY TCP4 203.0.113.7 10.0.0.1 56324 443'), '203.0.113.7'],
  ['1, IPv6', line('PROXY TCP6 2001:db8::7 ::1 1 65535'), '2001:db8::7'],
  ['1, unknown', line('PROXY UNKNOWN'), null],
  ['1, unknown with addresses', line('PROXY UNKNOWN ffff::1 ffff::2 65535 65535'), null],
  ['2, IPv4', binary(0x21, 0x11, V4), '203.0.113.7'],
  ['2, IPv6', binary(0x21, 0x21, V6), '2001:db8::7'],
  ['2, IPv4 with TLVs', binary(0x21, 0x11, Buffer.concat([V4, TLV, TLV])), '203.0.113.7'],
  ['2, the longest', binary(0x21, 0x11, Buffer.concat([V4, Buffer.alloc(508)])), '203.0.113.7'],
  ['2, local', binary(0x20, 0x00, Buffer.alloc(0)), null],
  ['2, local with addresses', binary(0x20, 0x11, V4), null],
  ['2, unspecified', binary(0x21, 0x00, TLV), null],
  ['2, Unix socket', binary(0x21, 0x31, Buffer.alloc(216)), null],
]

for (const [name, bytes, client] of heads)
  test(`PROXY protocol: version ${name}`, () => {
    assert.deepEqual(readProxyHead(bytes), complete(bytes, client))
    assert.deepEqual(readProxyHead(Buffer.concat([bytes, Buffer.from('GET / HTTP/1.1\r\n')])), complete(bytes, client))
    for (let cut = 0; cut < bytes.length; cut++)
      assert.equal(readProxyHead(bytes.subarray(0, cut)).is, 'partial', `cut at ${cut}`)
  })

const invalid: readonly (readonly [name: string, bytes: Buffer])[] = [
  ['HTTP', Buffer.from('GET / HTTP/1.1\r\n\r\n')],
  ['TLS', Buffer.from([0x16, 0x03, 0x01])],
  ['another family', line('PROXY UDP4 203.0.113.7 10.0.0.1 1 2')],
  ['IPv6 as TCP4', line('PROXY TCP4 ::1 10.0.0.1 1 2')],
  ['a zone', line('PROXY TCP6 fe80::1%eth0 ::1 1 2')],
  ['no ports', line('PROXY TCP4 203.0.113.7 10.0.0.1')],
  ['a port above 65535', line('PROXY TCP4 203.0.113.7 10.0.0.1 1 65536')],
  ['a port with zeros', line('PROXY TCP4 203.0.113.7 10.0.0.1 01 2')],
  ['two spaces', line('PROXY  TCP4 203.0.113.7 10.0.0.1 1 2')],
  ['a name', line('PROXY TCP4 localhost 10.0.0.1 1 2')],
  ['a line without an end', Buffer.from(`PROXY UNKNOWN ${'x'.repeat(200)}`)],
  ['lower case', line('proxy TCP4 203.0.113.7 10.0.0.1 1 2')],
  ['version 3', binary(0x31, 0x11, V4)],
  ['an unknown command', binary(0x22, 0x11, V4)],
  ['UDP', binary(0x21, 0x12, V4)],
  ['too short for its family', binary(0x21, 0x21, V4)],
  ['longer than 536 bytes', binary(0x21, 0x11, V4, 521)],
]

for (const [name, bytes] of invalid)
  test(`PROXY protocol: ${name} is no head`, () => assert.deepEqual(readProxyHead(bytes), { is: 'invalid' }))

/** Mulberry32. */
const randomFrom = (seed: number) => () => {
  seed = (seed + 0x6d2b79f5) | 0
  let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
}

test('PROXY protocol: mutated heads', () => {
  const random = randomFrom(20_261_128)
  const below = (end: number) => Math.floor(random() * end)
  const counts = { partial: 0, invalid: 0, complete: 0 }
  for (let left = isLong ? 1_000_000 : 20_000; left > 0; left--) {
    const [, head = Buffer.alloc(0)] = heads[below(heads.length)] ?? []
    const bytes = Buffer.concat([head, Buffer.alloc(below(40), below(256))])
    for (let changes = below(4); changes > 0; changes--) bytes[below(bytes.length)] = below(256)
    const given = bytes.subarray(0, random() < 0.5 ? bytes.length : below(bytes.length))
    const found = readProxyHead(given)
    counts[found.is]++
    if (found.is === 'partial') assert.ok(given.length < MAX_PROXY_HEAD)
    if (found.is !== 'complete') continue
    assert.ok(found.length <= given.length && found.length <= MAX_PROXY_HEAD)
    assert.ok(found.client === null || isIP(found.client) !== 0, `${found.client}`)
    // What follows the head changes nothing, and without its last byte it is not complete.
    assert.deepEqual(readProxyHead(given.subarray(0, found.length)), found)
    assert.equal(readProxyHead(given.subarray(0, found.length - 1)).is, 'partial')
  }
  assert.ok(
    Object.values(counts).every((count) => count > 1_000),
    JSON.stringify(counts),
  )
})

test('PROXY protocol: heads of random addresses have that address', () => {
  const random = randomFrom(4_711)
  const below = (end: number) => Math.floor(random() * end)
  for (let left = isLong ? 1_000_000 : 20_000; left > 0; left--) {
    const isV4 = random() < 0.5
    const bytes = Buffer.from(Array.from({ length: isV4 ? 4 : 16 }, () => (random() < 0.3 ? 0 : below(256))))
    const groups = isV4 ? [...bytes].join('.') : (bytes.toString('hex').match(/.{4}/g) ?? []).join(':')
    const more = Buffer.alloc(below(30), below(256))
    const isBinary = random() < 0.5
    const head = isBinary
      ? binary(0x21, isV4 ? 0x11 : 0x21, Buffer.concat([bytes, Buffer.alloc(bytes.length + 4, 9), more]))
      : line(`PROXY ${isV4 ? 'TCP4' : 'TCP6'} ${groups} ${isV4 ? '10.0.0.1' : '::1'} ${below(65_536)} 443`)
    const found = readProxyHead(Buffer.concat([head, more]))
    assert.ok(found.is === 'complete' && found.length === head.length && found.client !== null, groups)
    // Both spellings of an address are equal as addresses.
    const family = isV4 ? 'ipv4' : 'ipv6'
    const list = new BlockList()
    list.addAddress(groups, family)
    assert.ok(list.check(found.client, family), `${found.client} is not ${groups}`)
  }
})
