import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toBase64 } from '../core/base64.ts'
import { cloudPathOf, ownRequest } from './cloud-paths.ts'

const PROFILE = 'us.anthropic.claude-sonnet-4-5-20250929-v1:0'
const ARN = 'arn:aws:bedrock:us-east-1:1:application-inference-profile/abc'
const VERTEX = '/v1/projects/p/locations/global/publishers/anthropic/models'

const paths: readonly (readonly [sent: string, what: string | null])[] = [
  [`/model/${PROFILE}/invoke`, `bedrock messages ${PROFILE} false /v1/messages`],
  [
    `/bedrock/model/${encodeURIComponent(PROFILE)}/invoke-with-response-stream`,
    `bedrock messages ${PROFILE} true /v1/messages`,
  ],
  [`/model/${encodeURIComponent(ARN)}/invoke`, `bedrock messages ${ARN} false /v1/messages`],
  ['/model/m/count-tokens', 'bedrock count m false /v1/messages/count_tokens'],
  ['/bedrock/inference-profiles', 'bedrock profiles  false /v1/models'],
  ['/model/m/converse', 'bedrock unknown  false /model/m/converse'],
  ['/model/%zz/invoke', 'bedrock messages %zz false /v1/messages'],
  [`${VERTEX}/claude-a@1:rawPredict`, 'vertex messages claude-a@1 false /v1/messages'],
  [`/vertex${VERTEX}/claude-a%401:streamRawPredict`, 'vertex messages claude-a@1 true /v1/messages'],
  [`${VERTEX}/count-tokens:rawPredict`, 'vertex count count-tokens false /v1/messages/count_tokens'],
  ['/v1/messages', null],
  ['/model', null],
  ['/models/m', null],
  ['/inference-profiles/x', null],
  ['/v1/projects/p/locations/global/publishers/google/models/g:generateContent', null],
  ['/bedrock/v1/messages', null],
]
for (const [sent, what] of paths)
  test(`cloud paths: ${sent} is ${what}`, () => {
    const found = cloudPathOf(sent)
    const shown = found && [found.cloud, found.call, found.model, found.stream, found.path].join(' ')
    assert.equal(shown, what)
  })

/** The request of a body at this path. */
const made = (path: string, text: string, header?: string) => {
  const cloud = cloudPathOf(path)
  assert.ok(cloud)
  const headers = (name: string) => (name === 'anthropic-beta' ? header : undefined)
  const request = ownRequest(cloud, { body: { text }, headers }, (names) => names.at(-1) ?? '')
  if (!request.ok) return request.failure.kind
  const { body, headers: own } = request.value
  assert.ok('text' in body)
  return [body.text, own('anthropic-beta'), own('anthropic-version')]
}

test('cloud paths: members that are not moved keep their bytes', () =>
  assert.deepEqual(
    made(
      '/model/anthropic.claude-a/invoke-with-response-stream',
      '{ "max_tokens" : 1.0, "anthropic_version":"2026-10-21","anthropic_beta":["b","a"], "x":"\\u00e4" ,"stream":false}',
      'a, c',
    ),
    ['{"model":"claude-a","stream":true,"max_tokens" : 1.0,"x":"\\u00e4"}', 'a,c,b', '2026-10-21'],
  ))

test('cloud paths: a model in the body is not the one of the path', () =>
  assert.deepEqual(made('/model/m/invoke', '{"model":"other"}'), ['{"model":"m"}', undefined, undefined]))

test('cloud paths: a version of a cloud and wrong betas are left out', () =>
  assert.deepEqual(made('/model/m/invoke', '{"anthropic_version":"bedrock-2023-05-31","anthropic_beta":"a"}'), [
    '{"model":"m"}',
    undefined,
    undefined,
  ]))

for (const text of [
  '',
  '[1]',
  '7',
  '{"a":',
  '{"a":1',
  '{"a":[',
  '{"a":1}x',
  'x{"a":1}',
  '{"a":1, x "b":2}',
  '{"a":1,}',
  '{"a":1,,"b":2}',
  '{"stream":tru}',
  '{"stream":1,"stream":2}',
])
  test(`cloud paths: ${text || 'an empty body'} stays as it is, and is refused later`, () =>
    assert.deepEqual(made('/model/m/invoke', text), [text, undefined, undefined]))

test('cloud paths: CountTokens has its request in base64', () => {
  const body = (inner: string) => JSON.stringify({ input: { invokeModel: { body: inner } } })
  const [text] = made('/model/m/count-tokens', body(toBase64('{"messages":"ü"}')))
  assert.equal(text, '{"model":"m","messages":"ü"}')
  for (const wrong of [body('***'), '{"input":{"converse":{}}}', '{}', ''])
    assert.equal(made('/model/m/count-tokens', wrong), 'invalid_request')
})
