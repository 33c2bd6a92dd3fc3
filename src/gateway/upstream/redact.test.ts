import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fail } from '../../core/failure.ts'
import { Secret } from '../../core/secret.ts'
import { redactKey } from './redact.ts'

const KEY = 'Zq7+w0PdL/9xkT3mVb5nYc8r=='
const keyOf = (value: string) => ({ id: 'a1f3', secret: new Secret(value), weight: 1 })
const base64 = (text: string) => Buffer.from(text).toString('base64')

for (const [name, said, kept] of [
  ['no part of the key', 'The model is overloaded.', 'The model is overloaded.'],
  ['the key', `No key ${KEY}.`, 'No key [key].'],
  ['the key twice in a row', KEY + KEY, '[key][key]'],
  ['its first and last characters, as an identifier', 'No key Zq7+…8r==.', 'No key Zq7+…8r==.'],
  ['its beginning', `No key ${KEY.slice(0, 16)}…`, 'No key Zq7+[key]…'],
  ['its end', `No key …${KEY.slice(-14)}`, 'No key …[key]8r=='],
  ['seven characters of its middle', `No ${KEY.slice(8, 15)}.`, `No ${KEY.slice(8, 15)}.`],
  ['eight characters of its middle', `No ${KEY.slice(8, 16)}.`, 'No [key].'],
  ['two parts', `${KEY.slice(6, 15)} ${KEY.slice(8, 20)}`, '[key] [key]'],
  ['in upper case', `No ${KEY.toUpperCase()}.`, 'No ZQ7+[key]8R==.'],
  ['in a URL', `?key=${encodeURIComponent(KEY)}&a`, '?key=Zq7%2B[key]8r%3D%3D&a'],
  ['in hexadecimal', Buffer.from(KEY).toString('hex'), '5a71372b[key]38723d3d'],
  ['beside a letter whose lower case is longer', `İ ${KEY.slice(0, 16)}…`, 'İ Zq7+[key]…'],
] as const)
  test(`redact: ${name}`, () => {
    const failure = redactKey(
      fail('status', said, { param: said, upstream: { message: said, code: said } }),
      keyOf(KEY),
    )
    assert.deepEqual([failure.message, failure.param, failure.upstream], [kept, kept, { message: kept, code: kept }])
  })

for (const before of ['', 'a', 'ab', 'Bearer ', 'user:'])
  test(`redact: in base64 after “${before}”`, () => {
    for (const text of [base64(before + KEY), Buffer.from(before + KEY).toString('base64url')]) {
      const { message } = redactKey(fail('status', `got ${text} there`), keyOf(KEY))
      assert.match(message, /^got [\w+/-]{0,12}\[key\][\w+/=-]{0,8} there$/)
    }
  })

for (const word of ['not-needed', 'ollama', 'lm-studio-key'])
  test(`redact: parts of the placeholder ${word} are not redacted`, () => {
    assert.equal(
      redactKey(fail('status', `The lm-studio server ${word}s.`), keyOf(word)).message,
      'The lm-studio server [key]s.',
    )
  })

test('redact: no key, or a key with characters invalid in headers', () => {
  const failure = fail('status', 'no')
  assert.equal(redactKey(failure, { id: 'a', secret: null, weight: 1 }), failure)
  assert.equal(redactKey(failure, keyOf('ключ-ключ-ключ-ключ-ключ-ключ')).message, 'no')
})

test('redact: a key made of words is redacted, other words stay', () => {
  const key = { id: 'k', weight: 1, secret: new Secret('proxy-openai-responses-master-key') }
  const said = fail('invalid_request', 'Previous response not found for proxy-openai-responses-master-key.', {
    upstream: { code: 'previous_response_not_found' },
  })
  const { message, upstream } = redactKey(said, key)
  assert.equal(message, 'Previous response not found for [key].')
  assert.equal(upstream?.code, 'previous_response_not_found')
})

test('redact: a run of lowercase letters in a random key is redacted', () => {
  const key = { id: 'k', weight: 1, secret: new Secret('sk-4q7azgrhfachjpfrvapbwoeirutyqpzm19xk') }
  assert.equal(
    redactKey(fail('status', 'The key ...zgrhfachjpfrvapb is not known.'), key).message,
    'The key ...[key] is not known.',
  )
})
