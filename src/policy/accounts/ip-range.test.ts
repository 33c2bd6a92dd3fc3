import assert from 'node:assert/strict'
import { BlockList, isIP } from 'node:net'
import { test } from 'node:test'
import fc from 'fast-check'
import { contains, parseIp, parseIpRange } from './ip-range.ts'

const inside = (range: string, address: string): boolean | undefined => {
  const [parsed, ip] = [parseIpRange(range), parseIp(address)]
  return parsed && ip && contains(parsed, ip)
}

const cases: readonly (readonly [range: string, address: string, expected: boolean])[] = [
  ['10.0.0.0/8', '10.255.1.2', true],
  ['10.0.0.0/8', '11.0.0.1', false],
  ['10.1.2.3/8', '10.9.9.9', true],
  ['192.168.1.0/25', '192.168.1.127', true],
  ['192.168.1.0/25', '192.168.1.128', false],
  ['203.0.113.7', '203.0.113.7', true],
  ['203.0.113.7', '203.0.113.8', false],
  ['203.0.113.6/31', '203.0.113.7', true],
  ['0.0.0.0/0', '255.255.255.255', true],
  ['0.0.0.0/0', '::1', false],
  ['::/0', '2001:db8::1', true],
  ['::/0', '127.0.0.1', false],
  ['2001:db8::/32', '2001:db8:ffff::1', true],
  ['2001:db8::/32', '2001:db9::1', false],
  ['2001:db8::/33', '2001:db8:8000::', false],
  ['::1', '::1', true],
  ['::1/128', '::2', false],
  ['fe80::/10', 'fe80::1%eth0', true],
  // IPv4-mapped addresses are IPv4 addresses.
  ['10.0.0.0/8', '::ffff:10.1.2.3', true],
  ['10.0.0.0/8', '::FFFF:0a01:0203', true],
  ['::ffff:10.0.0.0/104', '10.1.2.3', true],
  ['::ffff:10.0.0.0/104', '11.1.2.3', false],
  ['::ffff:0:0/96', '8.8.8.8', true],
  ['::/64', '::ffff:10.1.2.3', false],
  // A prefix that covers more than the mapped addresses is a range of IPv6.
  ['::ffff:0:0/90', '::ffc0:0:1', true],
  ['::ffff:0:0/90', '10.1.2.3', false],
]
for (const [range, address, expected] of cases)
  test(`ip: ${range} ${expected ? 'contains' : 'does not contain'} ${address}`, () =>
    assert.equal(inside(range, address), expected))

const invalid = [
  '',
  '10',
  '10.0.0',
  '10.0.0.256',
  '10.0.0.01',
  '010.0.0.1',
  '1.2.3.4.5',
  ' 10.0.0.1',
  '0x7f.0.0.1',
  ':',
  ':::',
  '1::2::3',
  '1:2:3:4:5:6:7',
  '1:2:3:4:5:6:7:8:9',
  '1:2:3:4:5:6:7::8:9',
  '::12345',
  '::g',
  '1.2.3.4::',
  '::1.2.3.4:1',
  '::1.2.3',
  'example.com',
  '%eth0',
  `::${'%'.repeat(100)}`,
] as const
for (const text of invalid)
  test(`ip: refuses "${text.slice(0, 30)}"`, () => {
    assert.equal(parseIp(text), undefined)
    assert.equal(parseIpRange(text), undefined)
  })
for (const text of [
  '10.0.0.0/33',
  '10.0.0.0/',
  '/8',
  '10.0.0.0/-1',
  '10.0.0.0/8/8',
  'x/10.0.0.0/8',
  '::/129',
  '::1%eth0/64',
  '*',
])
  test(`ip: refuses the range "${text}"`, () => assert.equal(parseIpRange(text), undefined))

test('ip: generated addresses and ranges agree with Node', () => {
  const addresses = fc.oneof(fc.ipV4(), fc.ipV6())
  fc.assert(
    fc.property(addresses, addresses, fc.nat(128), (range, address, bits) => {
      const family = isIP(range) === 4 ? 'ipv4' : 'ipv6'
      const prefix = family === 'ipv4' ? bits % 33 : bits
      // Node treats mapped addresses in its own way; the cases above state ours.
      fc.pre(!`${range} ${address}`.toLowerCase().includes('ffff'))
      const list = new BlockList()
      list.addSubnet(range, prefix, family)
      const expected = list.check(address, isIP(address) === 4 ? 'ipv4' : 'ipv6')
      assert.equal(inside(`${range}/${prefix}`, address), expected && isIP(range) === isIP(address))
      assert.equal(inside(`${range}/${prefix}`, range), true)
    }),
    { numRuns: 2_000 },
  )
})

test('ip: any text is parsed or refused as Node does, without an exception', () => {
  const text = fc.string({ unit: fc.constantFrom('0', '1', '9', 'f', ':', '.', '/', 'g'), maxLength: 20 })
  fc.assert(
    fc.property(text, (written) => {
      assert.equal(parseIp(written) !== undefined, isIP(written) !== 0, written)
    }),
    { numRuns: 5_000 },
  )
})
