import assert from 'node:assert/strict'
import { test } from 'node:test'
import { redisAddress } from '../storage/redis/redis-connection.ts'
import { counterKeys } from './counter-keys.ts'

test('counter keys: a name that a client has sent is hashed, and each counter has a hash tag of its own', () => {
  const [own, processes] = counterKeys('budget 1793491200000 bud_kdvbwqhzmrtc:key_kdvbwqhzmrtc')
  assert.equal(own, 'hg:{budget:bud_kdvbwqhzmrtc:key_kdvbwqhzmrtc:1793491200000}')
  assert.equal(processes, `${own}:p`)
  for (const owner of ['} {x}', "'; FLUSHALL", 'a:b c', '日本', '{'.repeat(300)]) {
    const [key] = counterKeys(`budget 0 bud_kdvbwqhzmrtc:${owner}`)
    assert.match(key, /^hg:\{budget:bud_kdvbwqhzmrtc:~[\w-]{21}:0\}$/)
    assert.notEqual(key, counterKeys(`budget 0 bud_kdvbwqhzmrtc:${owner} `)[0])
  }
  assert.equal(counterKeys('requests team_kdvbwqhzmrtc')[0], 'hg:{requests:team_kdvbwqhzmrtc::}')
})

for (const [url, expected] of [
  ['redis://localhost', { kind: 'server', hosts: [{ host: 'localhost', port: 6_379 }], path: '', hasTls: false }],
  [
    'rediss://user:p%40ss@h:1/2',
    { kind: 'server', hosts: [{ host: 'h', port: 1 }], path: '2', hasTls: true, username: 'user', password: 'p@ss' },
  ],
  [
    'redis://:secret@[::1]:7',
    { kind: 'server', hosts: [{ host: '::1', port: 7 }], path: '', hasTls: false, password: 'secret' },
  ],
  [
    'redis+cluster://a:7000,b',
    {
      kind: 'cluster',
      hosts: [
        { host: 'a', port: 7_000 },
        { host: 'b', port: 6_379 },
      ],
      path: '',
      hasTls: false,
    },
  ],
  [
    'redis+sentinel://:s@a,b:2/main',
    {
      kind: 'sentinel',
      hosts: [
        { host: 'a', port: 26_379 },
        { host: 'b', port: 2 },
      ],
      path: 'main',
      hasTls: false,
      password: 's',
    },
  ],
] as const)
  test(`redis address: ${url}`, () => assert.deepEqual(redisAddress(url), expected))

for (const url of ['redis://', 'redis+sentinel://a:1', 'http://a', 'redis+other://a'])
  test(`redis address: ${url} is refused without its text`, () =>
    assert.throws(
      () => redisAddress(url),
      ({ message }: Error) => !message.includes(`${url} `),
    ))
