/**
 * The tests of OpenAI's SDK for Node, which call each of its methods, against a gateway and an upstream that accepts everything. They
 * are no part of the npm package:
 *
 *   git clone --depth 1 https://github.com/openai/openai-node /tmp/openai-node
 *   mkdir -p .cache/openai-node && cp -r /tmp/openai-node/tests/api-resources .cache/openai-node/
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { answerWith } from '../support/answers.ts'
import { type Act, startUpstream, type UpstreamRequest } from '../support/upstream.ts'
import { start } from './support/process.ts'

const FOLDER = join(import.meta.dirname, '..', '..', '.cache', 'openai-node', 'api-resources')
const KEY = 'key-0123456789abcdef0123456789abcdef'

/** Tests that fail, by file and name, with the reason. A provider refuses most of these requests too. */
const EXPECTED: { readonly [name: string]: string } = {
  'chat/completions/completions.test.ts create: required and optional params':
    '`max_completion_tokens: 0`: OpenAI answers 400 integer_below_min_value',
  'chat/completions/completions.test.ts list':
    'stored chats are not listed: a gateway with several providers stores responses',
  'completions.test.ts create: required and optional params': '`suffix` for a chat model',
  'images.test.ts edit: only required params': 'no `model`: OpenAI asks for one, and each image is billed',
  'images.test.ts generate: only required params': 'no `model`: OpenAI asks for one, and each image is billed',
  'models.test.ts delete': 'the path is one of the gateway, which deletes no model',
  ...Object.fromEntries(
    ['', 'beta/'].flatMap((beta) => [
      [`${beta}responses/input-tokens.test.ts count`, 'no `model`'],
      [`${beta}responses/responses.test.ts create`, 'no `model`, and no prompt that names one'],
      [`${beta}responses/responses.test.ts compact: only required params`, 'no `input` and no `previous_response_id`'],
      [`${beta}responses/input-items.test.ts list`, 'a response that was never stored is 404'],
      ...['retrieve', 'delete', 'cancel'].map((name) => [
        `${beta}responses/responses.test.ts ${name}`,
        'a response that was never stored is 404',
      ]),
    ]),
  ),
}

const VECTOR = Buffer.from(new Float32Array([0.25, -0.5]).buffer).toString('base64')

const answer = (request: UpstreamRequest): Act => {
  const [path = ''] = request.path.split('?')
  const json = (body: object): Act => ({ do: 'answer', body })
  // Each method is called for a path that does not exist, too.
  if (path.endsWith('_unknown_path')) return { do: 'answer', status: 404, body: { error: { message: 'Not found' } } }
  if (/\/(?:chat\/completions|responses)$/.test(path) && request.method === 'POST')
    return answerWith(request, { text: 'hi' })
  if (path.endsWith('/completions'))
    return json({ object: 'text_completion', choices: [{ index: 0, text: 'hi', finish_reason: 'stop' }] })
  if (path.endsWith('/embeddings'))
    return json({ data: [{ index: 0, embedding: VECTOR }], usage: { prompt_tokens: 1 } })
  if (/\/(?:speech|content)$/.test(path))
    return { do: 'answer', headers: { 'content-type': 'audio/mpeg' }, body: 'yes' }
  if (path.endsWith('/models')) return json({ data: [{ id: 'gpt-4o-mini', object: 'model' }] })
  return json({ id: 'obj_1', text: 'hi', data: [], results: [], usage: { type: 'duration', seconds: 1 } })
}

test('openai-node: its own tests of all methods', {
  skip: existsSync(FOLDER) ? false : 'not there: see the beginning of this file',
}, async (t) => {
  const upstream = await startUpstream(answer)
  t.after(() => upstream.close())
  const access = { passThrough: ['openai'] }
  const passThrough = {
    paths: ['/v1/**'],
    methods: ['GET', 'POST', 'DELETE', 'PUT', 'PATCH'],
    isolate: 'none',
    charge: '0',
  }
  const file = {
    providers: { openai: { baseUrl: `${upstream.url}/v1`, keys: ['sk-openai-0123456789'], passThrough } },
    teams: { research: { access } },
    keys: { one: { team: 'research', secret: KEY, access } },
  }
  await using gateway = await start({ files: { 'headgate.yaml': JSON.stringify(file) } })
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [join(import.meta.dirname, 'openai-node', 'run-tests.ts'), FOLDER],
    {
      env: { PATH: process.env.PATH ?? '', TEST_API_BASE_URL: `${gateway.url}/openai/v1`, TEST_API_KEY: KEY },
      maxBuffer: Number.POSITIVE_INFINITY,
      timeout: 240_000,
    },
  )
  const results: readonly { readonly file: string; readonly name: string; readonly error: string | null }[] = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const idOf = (one: (typeof results)[number]) => `${one.file} ${one.name.replace(/^resource \w+: /, '')}`
  const failed = results.filter(({ error }) => error !== null)
  t.diagnostic(`${results.length} tests, ${failed.length} fail with a reason`)
  assert.deepEqual(
    failed.filter((one) => EXPECTED[idOf(one)] === undefined).map((one) => `${idOf(one)}: ${one.error}`),
    [],
  )
  const ids = new Set(failed.map(idOf))
  assert.deepEqual(
    Object.keys(EXPECTED).filter((id) => !ids.has(id)),
    [],
    'a reason without a failure',
  )
  assert.ok(results.length > 400, 'all were found')
})
