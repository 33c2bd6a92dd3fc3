// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references to variables are under test
/** `headgate import`: the verb, and a gateway that runs with its result. */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { post, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const CANARY = 'sk-canary-0123456789'

/** An upstream for every API style that these tests use. */
const answering = (): Promise<Upstream> =>
  startUpstream(({ path, model }) => {
    const text = `answer of ${model}`
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2, input_tokens: 1, output_tokens: 1 }
    const body = path.endsWith('/messages')
      ? {
          id: 'm',
          type: 'message',
          role: 'assistant',
          model,
          content: [{ type: 'text', text }],
          stop_reason: 'end_turn',
        }
      : {
          id: 'c',
          object: 'chat.completion',
          created: 1,
          model,
          choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
        }
    return { do: 'answer', body: { ...body, usage } }
  })

describe('headgate import', () => {
  let folder = ''
  let one: Upstream
  let other: Upstream
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'headgate-import-'))
    one = await answering()
    other = await answering()
  })
  after(async () => {
    await Promise.all([one.close(), other.close()])
    await rm(folder, { recursive: true })
  })

  const run = async (text: string, ...words: readonly string[]) => {
    await writeFile(join(folder, 'config.yaml'), text)
    return verb(['import', 'litellm', ...words], { cwd: folder })
  }

  test('prints a table, and writes nothing without --out', async () => {
    const { code, stdout, stderr } = await run(
      'model_list:\n  - model_name: a\n    litellm_params:\n      model: groq/x\n      api_key: os.environ/K\n',
    )
    assert.equal(code, 0, stderr)
    assert.match(stdout, /^LINE +MEMBER +RESULT +HERE +WHY\n2 +model_list\[0\]\.model_name +taken +routes\.a\n4 /)
    assert.match(stdout, /\n3 taken, 0 changed, 0 left out\n$/)
    assert.match(stderr, /Nothing is written/)
    assert.deepEqual(await readdir(folder), ['config.yaml'])
  })

  test('exit codes: 1 if something is left out, with --strict also if something is changed, 3 for an unreadable file', async () => {
    const changed = 'model_list: []\nrouter_settings: { num_retries: 1 }'
    assert.equal((await run(changed)).code, 0)
    assert.equal((await run(changed, '--strict')).code, 1)
    assert.equal((await run('model_list: []\nguardrails: [x]')).code, 1)
    for (const text of [`a: [${CANARY}`, `key: ${CANARY}`, '']) {
      const { code, stdout, stderr } = await run(text)
      assert.equal(code, 3, stderr)
      assert.doesNotMatch(stdout + stderr, /canary/)
    }
    assert.equal((await run('', 'missing.yaml')).code, 3)
  })

  test('literal keys are written to --env only, with mode 0600, and appear in no output', async () => {
    const text = `model_list:
  - { model_name: a, litellm_params: { model: groq/x, api_key: ${CANARY} } }
  - { model_name: b, litellm_params: { model: groq/y, extra_headers: { authorization: "Bearer ${CANARY}" } } }
general_settings: { master_key: ${CANARY}-admin, salt_key: ${CANARY}-salt }
litellm_settings: { cache_params: { password: ${CANARY} } }
${CANARY}: 5
`
    await writeFile(join(folder, 'keys.env'), 'BEFORE=1')
    const { code, stdout, stderr } = await run(text, '--out', 'new.yaml', '--env', 'keys.env')
    assert.equal(code, 1, stderr)
    const yaml = await readFile(join(folder, 'new.yaml'), 'utf8')
    assert.match(stderr, /warning: literal secrets .*IMPORTED_GROQ_KEY_1/)
    assert.doesNotMatch(stdout + stderr + yaml, /canary/)
    assert.equal(
      await readFile(join(folder, 'keys.env'), 'utf8'),
      `BEFORE=1\nIMPORTED_GROQ_KEY_1='${CANARY}'\nIMPORTED_ADMIN_2='${CANARY}-admin'\n`,
    )
    assert.equal((await stat(join(folder, 'keys.env'))).mode & 0o777, 0o600)
    const json = await verb(['import', 'litellm', '--json'], { cwd: folder })
    assert.doesNotMatch(json.stdout + json.stderr, /canary/)
    assert.equal(json.json().object, 'import')
    const again = await run(text, '--out', 'new.yaml')
    assert.equal(again.code, 6)
    assert.match(again.stderr, /new\.yaml exists already/)
  })

  test('each model name reaches its upstream with its model', async () => {
    const text = `model_list:
  - { model_name: plain, litellm_params: { model: openai/served-1, api_base: ${one.url}/v1, api_key: os.environ/ONE_KEY } }
  - { model_name: plain-2, litellm_params: { model: hosted_vllm/org/served-2, api_base: "${other.url}/v1" } }
  - { model_name: azure, litellm_params: { model: azure/deployed, api_base: "${one.url}", api_key: os.environ/AZ, api_version: "2024-10-21" } }
  - { model_name: claude, litellm_params: { model: anthropic/claude-x, api_base: "${other.url}", api_key: os.environ/AN } }
  - { model_name: ordered, litellm_params: { model: groq/second, api_base: "${other.url}/g", api_key: os.environ/GR, order: 2 } }
  - { model_name: ordered, litellm_params: { model: openai/first, api_base: ${one.url}/v1, api_key: os.environ/ONE_KEY, order: 1 } }
  - { model_name: down, litellm_params: { model: openai/gone, api_base: "http://127.0.0.1:9/v1", api_key: os.environ/ONE_KEY } }
  - { model_name: "groq/*", litellm_params: { model: "groq/*", api_base: "${other.url}/g", api_key: os.environ/GR } }
router_settings: { model_group_alias: { alias: claude }, fallbacks: [{ down: [plain] }], num_retries: 1 }
`
    const { code, stderr } = await run(text, '--out', 'headgate.yaml')
    assert.equal(code, 0, stderr)
    const env = { ONE_KEY: 'key-one', AZ: 'key-azure', AN: 'key-anthropic', GR: 'key-groq' }
    const checked = await verb(['config', 'check', 'headgate.yaml'], { cwd: folder, env })
    assert.equal(checked.code, 0, checked.stdout)
    const files = { 'headgate.yaml': await readFile(join(folder, 'headgate.yaml'), 'utf8') }
    await using gateway = await start({ env, files })
    const expected: readonly (readonly [string, Upstream, string, string, string | undefined])[] = [
      ['plain', one, '/v1/chat/completions', 'served-1', 'key-one'],
      ['plain-2', other, '/v1/chat/completions', 'org/served-2', undefined],
      ['azure', one, '/openai/deployments/deployed/chat/completions?api-version=2024-10-21', 'deployed', 'key-azure'],
      ['claude', other, '/v1/messages', 'claude-x', 'key-anthropic'],
      ['alias', other, '/v1/messages', 'claude-x', 'key-anthropic'],
      ['ordered', one, '/v1/chat/completions', 'first', 'key-one'],
      ['down', one, '/v1/chat/completions', 'served-1', 'key-one'],
      ['groq/any', other, '/g/chat/completions', 'any', 'key-groq'],
    ]
    for (const [model, upstream, path, sent, key] of expected) {
      const calls = () => upstream.requests.filter(({ method }) => method === 'POST')
      const count = calls().length
      const answer = await post(`${gateway.base}/chat/completions`, {
        model,
        messages: [{ role: 'user', content: 'hello' }],
      })
      assert.equal(answer.status, 200, `${model}: ${answer.text}`)
      assert.equal(calls().length, count + 1, model)
      const request = calls()[count]
      assert.deepEqual(
        [request?.path, request?.model, request?.key ?? request?.headers['api-key']],
        [path, sent, key],
        model,
      )
    }
    const unknown = await post(`${gateway.base}/chat/completions`, {
      model: 'unknown',
      messages: [{ role: 'user', content: 'hello' }],
    })
    assert.equal(unknown.status, 404)
  })

  test('hosted providers by their prefix: each model reaches its own address with its key', async () => {
    await rm(join(folder, 'headgate.yaml'), { force: true })
    const prefixes = [
      ...['cerebras', 'deepinfra', 'deepseek', 'fireworks_ai', 'hyperbolic', 'nebius', 'novita', 'nvidia_nim'],
      ...['openrouter', 'sambanova', 'scaleway', 'together_ai', 'xai'],
    ]
    const entries = prefixes.map(
      (name) =>
        `  - { model_name: my-${name}, litellm_params: { model: ${name}/org/${name}-1, api_base: "${other.url}/${name}/v1", api_key: os.environ/KEY_${name} } }`,
    )
    const { code, stdout } = await run(`model_list:\n${entries.join('\n')}\n`, '--out', 'headgate.yaml')
    assert.equal(code, 0, stdout)
    const env = Object.fromEntries(prefixes.map((name) => [`KEY_${name}`, `key-of-${name}`]))
    const files = { 'headgate.yaml': await readFile(join(folder, 'headgate.yaml'), 'utf8') }
    await using gateway = await start({ env, files })
    for (const name of prefixes) {
      const body = { model: `my-${name}`, messages: [{ role: 'user', content: `hello ${name}` }], temperature: 0.5 }
      const answer = await post(`${gateway.base}/chat/completions`, body)
      assert.equal(answer.status, 200, `${name}: ${answer.text}`)
      const [request] = other.requests.filter(({ method }) => method === 'POST').slice(-1)
      assert.deepEqual(
        [request?.path, request?.model, request?.key],
        [`/${name}/v1/chat/completions`, `org/${name}-1`, `key-of-${name}`],
      )
      assert.deepEqual([request?.json.messages, request?.json.temperature], [body.messages, 0.5], name)
    }
  })

  test('with a master key, model calls need a client key', async () => {
    await rm(join(folder, 'headgate.yaml'), { force: true })
    const text = `model_list: [{ model_name: a, litellm_params: { model: openai/x, api_base: "${one.url}/v1", api_key: os.environ/K } }]\ngeneral_settings: { master_key: os.environ/M }`
    assert.equal((await run(text, '--out', 'headgate.yaml')).code, 0)
    const files = { 'headgate.yaml': await readFile(join(folder, 'headgate.yaml'), 'utf8') }
    await using gateway = await start({ env: { K: 'k', M: 'master-0123456789' }, files })
    const body = { model: 'a', messages: [{ role: 'user', content: 'hello' }] }
    // There is no key yet.
    const refused = await post(`${gateway.base}/chat/completions`, body)
    assert.deepEqual([refused.status, refused.json().error.code], [503, 'keys_unavailable'])
  })
})
