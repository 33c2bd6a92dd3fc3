import assert from 'node:assert/strict'
import { test } from 'node:test'
import { verify } from '../../../test/support/sigv4.ts'
import { awsHeaders } from './aws.ts'

/** AWS's published test suite for Signature Version 4 (aws-sig-v4-test-suite): credentials, date and signatures. */
const suite = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' }
const SUITE_TIME = '20150830T123600Z'
const vectors = [
  ['get-vanilla', 'GET', '/', '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31'],
  ['post-vanilla', 'POST', '/', '5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b'],
  [
    'get-vanilla-query-order-key-case',
    'GET',
    '/?Param2=value2&Param1=value1',
    'b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500',
  ],
] as const

for (const [name, method, target, signature] of vectors)
  test(`sigv4: ${name} of AWS's suite`, async () => {
    const call = { method, url: `https://example.amazonaws.com${target}`, headers: {} }
    const scope = { service: 'service', region: 'us-east-1' }
    const headers = await awsHeaders(call, scope, suite, SUITE_TIME)
    assert.equal(
      headers?.authorization,
      `AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=${signature}`,
    )
    // Checks the test's own verifier, which the tests below use.
    const signed = { method, target, headers: { host: 'example.amazonaws.com', ...headers }, body: '' }
    assert.equal(verify(signed, suite.secretAccessKey)?.signature, signature)
    assert.equal(verify(signed, suite.secretAccessKey)?.ok, true)
    assert.equal(verify({ ...signed, body: 'x' }, suite.secretAccessKey)?.ok, false)
  })

const BODY = '{"messages":[{"role":"user","content":[{"text":"größer als 日本"}]}]}'
const paths = [
  ['an encoded colon before a version', '/model/anthropic.claude-haiku-4-5-20251001-v1%3A0/converse'],
  ['a literal colon', '/model/anthropic.claude-haiku-4-5-20251001-v1:0/converse-stream'],
  [
    'an ARN',
    '/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.amazon.nova-pro-v1%3A0/converse',
  ],
  ['characters that URLs allow literally', '/model/a!b*c(d)e%27f~g/invoke'],
  ['the OpenAI-compatible path', '/openai/v1/chat/completions'],
  ['a query', '/models?x=a%20b&a=%2F'],
] as const

for (const [name, target] of paths)
  for (const sessionToken of [undefined, 'session/token+with=signs'])
    test(`sigv4: ${name}${sessionToken ? ', temporary' : ''}`, async () => {
      const credentials = { ...suite, ...(sessionToken && { sessionToken }) }
      const call = {
        method: 'POST' as const,
        url: `http://127.0.0.1:8080${target}`,
        headers: { 'content-type': 'application/json', accept: 'application/json', 'user-agent': 'headgate' },
        body: BODY,
      }
      const headers = await awsHeaders(call, { service: 'bedrock', region: 'eu-west-1' }, credentials)
      const sent = { host: '127.0.0.1:8080', ...call.headers, ...headers }
      const verified = verify({ method: 'POST', target, headers: sent, body: BODY }, suite.secretAccessKey)
      assert.equal(verified?.ok, true)
      assert.equal(verified?.region, 'eu-west-1')
      assert.equal(verified?.service, 'bedrock')
      const expected = ['content-type', 'host', 'x-amz-date', ...(sessionToken ? ['x-amz-security-token'] : [])]
      assert.deepEqual(verified?.signedHeaders, expected)
      assert.equal(headers?.['x-amz-security-token'], sessionToken)
      assert.deepEqual(Object.keys(headers ?? {}).sort(), ['authorization', ...expected.slice(2)].sort())
    })

const regions = [
  ['https://bedrock-runtime.ap-southeast-2.amazonaws.com/x', '', 'ap-southeast-2'],
  ['https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com/x', '', 'us-gov-west-1'],
  ['https://vpce-0a1-b2.bedrock-runtime.us-east-1.vpce.amazonaws.com/x', '', 'us-east-1'],
  ['https://bedrock-runtime.us-east-1.amazonaws.com/x', 'eu-west-1', 'eu-west-1'],
  ['https://gateway.example/x', '', undefined],
] as const

for (const [url, region, expected] of regions)
  test(`sigv4: at ${url} with "${region}" the region is ${expected}`, async () => {
    const headers = await awsHeaders({ method: 'GET', url, headers: {} }, { service: 'bedrock', region }, suite)
    assert.equal(headers?.authorization?.split('/')[2], expected)
  })
