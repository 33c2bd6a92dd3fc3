import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { assertLinear } from '../../../test/support/growth.ts'
import { COMMON_KINDS } from '../../core/finder-kinds.ts'
import { finderOf } from '../../policy/guards/finders/find-texts.ts'
import { storedBody } from './stored-body.ts'

const redact = finderOf({ kinds: COMMON_KINDS, patterns: ['EMP-\\d{6}'], words: ['Project Nightjar'] })
const encoder = new TextEncoder()
const keep = (text: string, cut?: number, secret?: string) => {
  const bytes = encoder.encode(text)
  return storedBody({ bytes: bytes.slice(0, cut), length: bytes.length }, redact, secret)
}
const message = (content: string) => JSON.stringify({ messages: [{ role: 'user', content }] })
const stream = (field: (text: string) => object, texts: readonly string[]) =>
  `${texts.map((text) => `event: x\ndata: ${JSON.stringify(field(text))}\n\n`).join('')}data: [DONE]\n\n`

/** The text, and a part of it that must not remain. */
const SECRETS: readonly (readonly [kind: string, text: string, canary: string])[] = [
  ['email', 'Write to alice.smith+news@mail.example.com please', 'alice.smith'],
  ['email', 'mailto:bob%40example.org', 'example.org'],
  ['email', 'jürgen@münchen.example', 'münchen'],
  ['email', `al\u200bice@\u200bexample.com`, 'example.com'],
  ['email', '{"to":"carol\\u0040example.com"}', 'example.com'],
  ['email', `${'a'.repeat(300)}@example.com`, 'example.com'],
  ['phone', 'call +49 30 1234567 today', '1234567'],
  ['phone', 'call 0049-151-23456789', '23456789'],
  ['phone', 'call (555) 123-4567', '123-4567'],
  ['phone', 'call 555.123.4567.', '123.4567'],
  ['phone', 'call 0151/23456789', '23456789'],
  ['card', 'pay with 4111 1111 1111 1111 now', '1111 1111'],
  ['card', '1 4111-1111-1111-1111', '1111-1111'],
  ['card', '5555555555554444', '5555555555554444'],
  ['card', 'amex 3782 822463 10005', '822463'],
  ['iban', 'to DE89 3704 0044 0532 0130 00 please', '0532'],
  ['iban', 'gb82west12345698765432', '12345698765432'],
  ['iban', 'IBAN: FR1420041010050500013M02606, thanks', '05000'],
  ['apiKey', 'my key is sk-proj-abcdefghijklmnop', 'abcdefghijkl'],
  ['apiKey', 'Authorization: Bearer abcdefgh12345678', 'abcdefgh12345678'],
  ['apiKey', 'password: hunter2hunter2', 'hunter2hunter2'],
  ['apiKey', 'secret password: hunter2hunter2', 'hunter2hunter2'],
  ['apiKey', 'use hgk_abcdefghijklmnopqrst', 'ghijkl'],
  ['apiKey', 'AKIAIOSFODNN7EXAMPLE', 'IOSFODNN7'],
  ['apiKey', '-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIB\nx/y+z\n-----END RSA PRIVATE KEY-----', 'MIIEpAIB'],
  ['apiKey', '-----BEGIN PRIVATE KEY-----\nMIIEpAIB\nx/y+z', 'MIIEpAIB'],
  ['pattern', 'employee EMP-123456', '123456'],
  ['word', 'about PROJECT nightjar, as agreed', 'nightjar'],
]

describe('what is stored of a text', () => {
  for (const [kind, text, canary] of SECRETS)
    test(`${kind} is removed from ${JSON.stringify(text.slice(-50))}`, () => {
      for (const body of [
        message(text),
        text,
        `{"cut": ${message(text).slice(0, -3)}`,
        `[${message(text)},\n ${message('x')}]`,
      ]) {
        const { text: kept = '', redacted } = keep(body)
        assert.ok(!kept?.includes(canary), kept ?? '')
        assert.ok(kept?.includes(`[${kind}]`), kept ?? '')
        assert.ok(redacted > 0)
      }
    })

  for (const [kind, text, canary] of SECRETS)
    for (const [style, field] of [
      ['chat', (content: string) => ({ choices: [{ index: 0, delta: { content } }] })],
      ['messages', (partial_json: string) => ({ type: 'content_block_delta', index: 1, delta: { partial_json } })],
    ] as const)
      test(`${kind} is removed from a ${style} stream of ${JSON.stringify(text.slice(-50))}`, () => {
        for (const size of [1, 3, 7]) {
          const pieces = text.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? []
          const { text: kept } = keep(stream(field, pieces))
          const values = (kept ?? '').matchAll(/"(?:content|partial_json)":"((?:[^"\\]|\\.)*)"/g)
          assert.ok(
            !Array.from(values, ([, value]) => value)
              .join('')
              .includes(canary),
            kept ?? '',
          )
          assert.match(kept ?? '', /\[DONE\]/)
        }
      })

  for (const text of [
    'Version 1.2.3 of 2026-11-23 10:20:30, id 1763894096123, 12345 tokens',
    'The key is a basic principle, and the token is short.',
    'a@b, @mention, 10 @ 20, user@localhost',
    'DE12 is no account, 4111 1111 1111 1112 is no card, 01/02/2026 is a date',
    '{"max_tokens": 1024, "created": 1763894096, "ratio": 0.4111111111111111}',
    '{"api_key_id": 7, "token": "hello", "email": null}',
    'SGVsbG8=',
  ])
    test(`nothing is removed from ${text}`, () => {
      for (const body of [text, message(text)]) assert.deepEqual([keep(body).text, keep(body).redacted], [body, 0])
    })

  test('names of members, numbers, order and spaces remain', () => {
    const body = '{ "alice@example.com" : 12345678901234567890, "b":["alice@example.com",1.50 ], "b": true }'
    assert.equal(keep(body).text, body.replace('["alice@example.com"', '["[email]"'))
  })

  test('a card number that is no string is removed, and the text remains JSON', () => {
    assert.deepEqual(JSON.parse(keep('{"card":4111111111111111,"n":1}').text ?? ''), { card: '[card]', n: 1 })
  })

  test('a member named as a secret is removed', () => {
    const body = JSON.stringify({ headers: { 'x-api-key': 'Zk3dQx81mmPq', authorization: 'abcdefgh1234' } })
    assert.deepEqual(JSON.parse(keep(body).text ?? ''), {
      headers: { 'x-api-key': '[apiKey]', authorization: '[apiKey]' },
    })
  })

  test("the attempt's own credential is removed, whatever its form", () => {
    const { text, redacted } = keep(
      '{"error":"no such user: correct horse battery"}',
      undefined,
      'correct horse battery',
    )
    assert.deepEqual([text, redacted], ['{"error":"no such user: [apiKey]"}', 1])
  })

  test('only the configured kinds are removed', () => {
    const { text } = storedBody(
      { bytes: encoder.encode('a@example.com +49 30 1234567'), length: 28 },
      finderOf({ kinds: ['phone'], patterns: [], words: [] }),
    )
    assert.equal(text, 'a@example.com [phone]')
  })
})

describe('media', () => {
  const png = Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), Buffer.alloc(3_000, 7)])
  const data = png.toString('base64')

  for (const [what, value] of [
    ['a data URL', `data:image/png;base64,${data}`],
    ['base64', data],
  ] as const)
    test(`${what} is replaced by type, length and hash`, () => {
      const { text, media } = keep(JSON.stringify({ url: value }))
      assert.match(text ?? '', /^\{"url":"\[image\/png, 3008 bytes, sha256 [0-9a-f]{64}\]"\}$/)
      assert.equal(media, 1)
    })

  test('media that is cut has no hash', () => {
    const { text, truncated, media } = keep(`{"a":"${'x '.repeat(300)}","url":"data:image/png;base64,${data}"}`, 2_000)
    assert.equal(truncated, true)
    assert.equal(media, 1)
    assert.ok(!text?.includes('iVBORw0KGgo'))
  })

  test('the signature of a thought remains', () => {
    const body = JSON.stringify({ signature: data })
    assert.equal(keep(body).text, body)
  })

  test('a body that is no text is replaced by its hash', () => {
    const { text, sha256, bytes } = storedBody({ bytes: new Uint8Array(png), length: png.length }, redact)
    assert.deepEqual([text, sha256?.length, bytes], [null, 64, png.length])
  })
})

describe('a truncated body', () => {
  test('has no part of a secret at its end, wherever it is cut', () => {
    const secret = 'alice@example.com 4111 1111 1111 1111 sk-abcdefghijklmnop '
    const body = message(`${'word '.repeat(200)}${secret}`)
    for (let cut = body.length - secret.length - 10; cut < body.length; cut++) {
      const { text, truncated } = keep(body, cut)
      assert.equal(truncated, true)
      for (const part of ['alice', '4111', 'sk-a']) assert.ok(!text?.includes(part), `${cut}: ${text?.slice(-80)}`)
    }
  })

  test('may end within a character', () => {
    const body = message('ü'.repeat(1_000))
    for (const cut of [900, 901]) assert.match(keep(body, cut).text ?? '', /ü$/)
  })
})

describe('long texts', () => {
  /** Texts that make a search repeat its work if it is not linear; each has the default length of a kept body. */
  const UNITS = [
    ...['@', 'a@', 'a.', '@a.', '%40', '1', '4', '1 ', '4111 ', '4111-', '0', '00', '+1', '(', '0151/', '555-'],
    ...['DE89', 'DE89 ', 'de12', 'key ', 'key: ', 'secret=a1', 'sk-', 'Bearer ', 'eyJ', 'token is ', '"', '\\', '\\"'],
    ...['-----BEGIN PRIVATE KEY-----', '-----BEGIN ', 'data:', 'data:a/b;', '{"a":"', '{"index":1,"b":"x"}\n', '\n'],
    ...['data: {"index":0,"t":"a@"}\n\n', 'EMP-', ' ', '\u00ad', '\u200b@'],
  ]
  const LENGTH = 64 * 1_024
  for (const unit of UNITS)
    test(`of ${JSON.stringify(unit)} are searched`, () => {
      const fill = (size: number) => unit.repeat(Math.ceil(size / unit.length))
      for (const bodyOf of [
        fill,
        (size: number) => `{"a":${JSON.stringify(fill(size))}}`,
        (size: number) => `data: {"a":"${fill(size)}\n\n`,
      ])
        assertLinear(unit, LENGTH, (size) => assert.ok(keep(bodyOf(size)).text !== null))
    })
})
