/**
 * Authentication with the machine's identity at AWS, Google and Microsoft: a real gateway, with token servers and
 * upstreams on this machine. The upstreams verify the credentials independently.
 */
import assert from 'node:assert/strict'
import { createPublicKey, generateKeyPairSync, type KeyObject, verify as verifySignature } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import Anthropic from '@anthropic-ai/sdk'
import { verify } from '../support/sigv4.ts'
import {
  type Act,
  refusingUrl,
  type Script,
  startUpstream,
  type Upstream,
  type UpstreamRequest,
  until,
} from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'

/** Prevents access to the test machine's own identity and to any service outside it. */
const NOWHERE = {
  HOME: '/nonexistent',
  AWS_EC2_METADATA_DISABLED: 'true',
  AWS_CONFIG_FILE: '/nonexistent',
  AWS_SHARED_CREDENTIALS_FILE: '/nonexistent',
  METADATA_SERVER_DETECTION: 'none',
  GCE_METADATA_HOST: '127.0.0.1:9',
  AZURE_POD_IDENTITY_AUTHORITY_HOST: 'http://127.0.0.1:9',
  AZURE_AUTHORITY_HOST: 'http://127.0.0.1:9',
}

const chatAnswer = {
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'signed' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
}
const geminiAnswer = {
  candidates: [{ content: { role: 'model', parts: [{ text: 'signed' }] }, finishReason: 'STOP', index: 0 }],
  usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
}
const messagesAnswer = {
  id: 'msg_vrtx_1',
  type: 'message',
  role: 'assistant',
  model: 'claude',
  content: [{ type: 'text', text: 'signed' }],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 1, output_tokens: 1 },
}
const converseAnswer = {
  output: { message: { role: 'assistant', content: [{ text: 'signed' }] } },
  stopReason: 'end_turn',
  usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 },
  metrics: { latencyMs: 1 },
}

/** The answer of a model, in the format of the path. */
const answer = ({ path }: UpstreamRequest): Act => ({
  do: 'answer',
  body: path.includes('generateContent')
    ? geminiAnswer
    : path.includes('awPredict')
      ? messagesAnswer
      : path.includes('/converse')
        ? converseAnswer
        : chatAnswer,
})

const refuse = (status: number, message: string): Act => ({
  do: 'answer',
  status,
  body: { error: { code: status, message, status: 'UNAUTHENTICATED' }, message },
})

type Stage = {
  readonly upstream: Upstream
  readonly tokens: Upstream
  readonly gateway: Started
  /** Sends one request; returns the answer's text if it succeeded. */
  readonly ask: (model?: string) => Promise<{ readonly status: number; readonly reply: string; readonly trail: string }>
}

type Setup = {
  readonly provider: string
  readonly model?: string
  readonly upstream: Script
  readonly tokens: Script
  readonly env: (urls: { readonly upstream: string; readonly tokens: string }) => Readonly<Record<string, string>>
  readonly files?: Readonly<Record<string, string>>
}

/** Starts a gateway with an upstream, a token server and the environment `more`. */
const onStage = async (
  { provider, model, upstream: script, tokens: tokenScript, env, files }: Setup,
  run: (stage: Stage) => Promise<void>,
): Promise<void> => {
  const [upstream, tokens] = [await startUpstream(script), await startUpstream(tokenScript)]
  const urls = { upstream: upstream.url, tokens: tokens.url }
  const gateway = await start({ env: { ...NOWHERE, ...env(urls) }, ...(files && { files }) })
  const ask: Stage['ask'] = async (name = model ?? 'm') => {
    const { status, text, headers, json } = await post(`${gateway.base}/chat/completions`, {
      model: `${provider}/${name}`,
      messages: [{ role: 'user', content: 'hello' }],
    })
    const reply = status === 200 ? json().choices[0].message.content : text
    return { status, reply, trail: headers.get('x-headgate-trail') ?? '' }
  }
  try {
    await run({ upstream, tokens, gateway, ask })
  } finally {
    await gateway.stop()
    await upstream.close()
    await tokens.close()
  }
}

/** Sends requests until one of them has fetched the second token, because the first expires soon. */
const untilRefreshed = async ({ ask, tokens }: Stage): Promise<void> => {
  for (const end = performance.now() + 120_000; tokens.requests.length < 2; await sleep(50)) {
    assert.ok(performance.now() < end, 'the first token is not replaced')
    assert.deepEqual(statusAndReply(await ask()), ok)
  }
}

/** The second of the clock. */
const secondNow = (): number => Math.floor(Date.now() / 1_000)

/** A temporary folder of a suite with these files, removed at its end. */
const folderWith = (files: Readonly<Record<string, string>>): { readonly path: string } => {
  const folder = { path: '' }
  before(async () => {
    folder.path = await mkdtemp(join(tmpdir(), 'headgate-clouds-'))
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder.path, name), text)
  })
  after(() => rm(folder.path, { recursive: true, force: true }))
  return folder
}

const get = async (url: string): Promise<string> => (await fetch(url)).text()

/** Checks that no page, metric or log line contains the secrets. */
const assertSecret = async ({ gateway }: Stage, ...secrets: readonly string[]): Promise<void> => {
  const seen = [
    gateway.output(),
    await get(`${gateway.url}/providers/status`),
    await get(`${gateway.url}/metrics`),
    await get(`${gateway.url}/health`),
    await get(`${gateway.base}/models`),
  ].join('\n')
  for (const secret of secrets) assert.ok(!seen.includes(secret), `${secret} is disclosed`)
}

const ok = { status: 200, reply: 'signed' }
const statusAndReply = ({ status, reply }: { readonly status: number; readonly reply: string }) => ({ status, reply })

// ── AWS ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const AWS = { AWS_ACCESS_KEY_ID: 'AKIAEXAMPLE000000001', AWS_SECRET_ACCESS_KEY: 'secret/canary+aws0123456789' }
const SESSION = 'session/canary+token=='
const REGION = 'eu-west-1'

/** Accepts only requests that this secret signed for this region. */
const bedrock =
  (secret: string, session?: string): Script =>
  (request) => {
    const verdict = verify(
      { method: request.method, target: request.path, headers: request.headers, body: request.body },
      secret,
    )
    const good =
      verdict?.ok &&
      verdict.region === REGION &&
      verdict.service === 'bedrock' &&
      request.headers['x-amz-security-token'] === session
    return good ? answer(request) : refuse(403, `not signed: ${JSON.stringify(verdict)}`)
  }

const bedrockEnv = ({ upstream }: { readonly upstream: string }) => ({
  BEDROCK_REGION: REGION,
  BEDROCK_BASE_URL: upstream,
})

const unexpected: Script = () => ({ do: 'answer', status: 500, body: 'no request expected' })
const inMinutes = (minutes: number) => new Date(Date.now() + minutes * 60_000).toISOString()
const containerAnswer = (minutes: number, secret = AWS.AWS_SECRET_ACCESS_KEY) => ({
  AccessKeyId: AWS.AWS_ACCESS_KEY_ID,
  SecretAccessKey: secret,
  Token: SESSION,
  Expiration: inMinutes(minutes),
})
const containerEnv = (urls: { readonly upstream: string; readonly tokens: string }) => ({
  ...bedrockEnv(urls),
  AWS_CONTAINER_CREDENTIALS_FULL_URI: `${urls.tokens}/role`,
  AWS_CONTAINER_AUTHORIZATION_TOKEN: 'pod-canary-token',
})

const awsSetup = { provider: 'bedrock', model: 'openai.gpt-oss-120b-1:0', tokens: unexpected }

/** Other sources of credentials. Those with a session token are fetched from `tokens`. */
const AWS_SOURCES: readonly (readonly [
  what: string,
  session: string | undefined,
  env: (tokens: string, folder: string) => Readonly<Record<string, string>>,
  tokens: Script,
])[] = [
  [
    'a profile',
    undefined,
    (_, folder) => ({ AWS_PROFILE: 'own', AWS_SHARED_CREDENTIALS_FILE: join(folder, 'credentials') }),
    unexpected,
  ],
  [
    'a web identity, as in Kubernetes',
    SESSION,
    (tokens, folder) => ({
      AWS_ROLE_ARN: 'arn:aws:iam::123456789012:role/gateway',
      AWS_WEB_IDENTITY_TOKEN_FILE: join(folder, 'federated'),
      AWS_REGION: REGION,
      AWS_ENDPOINT_URL_STS: tokens,
    }),
    ({ body }) => {
      const request = new URLSearchParams(body)
      const good =
        request.get('WebIdentityToken') === 'federated-canary-token' && request.get('RoleArn')?.endsWith('/gateway')
      if (!good) return { do: 'answer', status: 403 }
      const { AccessKeyId, SecretAccessKey, Token, Expiration } = containerAnswer(60)
      const credentials = `<AccessKeyId>${AccessKeyId}</AccessKeyId><SecretAccessKey>${SecretAccessKey}</SecretAccessKey><SessionToken>${Token}</SessionToken><Expiration>${Expiration}</Expiration>`
      return {
        do: 'answer',
        headers: { 'content-type': 'text/xml' },
        body: `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>${credentials}</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`,
      }
    },
  ],
  [
    "an instance's role",
    SESSION,
    (tokens) => ({ AWS_EC2_METADATA_DISABLED: 'false', AWS_EC2_METADATA_SERVICE_ENDPOINT: tokens }),
    ({ method, path, headers }) => {
      if (method === 'PUT')
        return { do: 'answer', headers: { 'content-type': 'text/plain' }, body: 'canary-imds-token' }
      if (headers['x-aws-ec2-metadata-token'] !== 'canary-imds-token') return { do: 'answer', status: 401 }
      const role = /\/iam\/security-credentials\/(.*)$/.exec(path)?.[1]
      const named = { Code: 'Success', Type: 'AWS-HMAC', LastUpdated: inMinutes(0), ...containerAnswer(60) }
      return { do: 'answer', headers: { 'content-type': 'text/plain' }, body: role === 'gateway' ? named : 'gateway' }
    },
  ],
]

describe('clouds: AWS, sources of credentials', () => {
  const folder = folderWith({
    federated: 'federated-canary-token',
    credentials: `[own]\naws_access_key_id = ${AWS.AWS_ACCESS_KEY_ID}\naws_secret_access_key = ${AWS.AWS_SECRET_ACCESS_KEY}\n`,
  })

  test('keys from the environment sign the call and stay secret', () =>
    onStage(
      { ...awsSetup, upstream: bedrock(AWS.AWS_SECRET_ACCESS_KEY), env: (urls) => ({ ...bedrockEnv(urls), ...AWS }) },
      async (stage) => {
        assert.deepEqual(statusAndReply(await stage.ask()), ok)
        assert.deepEqual(statusAndReply(await stage.ask('some.model-v1:0')), ok)
        const ready = await stage.gateway.line(({ event }) => event === 'ready')
        assert.deepEqual(ready.signed_in_by, ['aws'])
        const status = JSON.parse(await get(`${stage.gateway.url}/providers/status`))
        assert.equal(status.data[0].keys[0].signed_in_by, 'aws')
        await assertSecret(stage, AWS.AWS_SECRET_ACCESS_KEY, AWS.AWS_ACCESS_KEY_ID)
      },
    ))

  test('keys from .env, which the cloud SDK does not read', () =>
    onStage(
      {
        ...awsSetup,
        upstream: bedrock(AWS.AWS_SECRET_ACCESS_KEY),
        env: bedrockEnv,
        files: {
          '.env': Object.entries(AWS)
            .map(([name, value]) => `${name}="${value}"\n`)
            .join(''),
        },
      },
      async ({ ask }) => assert.deepEqual(statusAndReply(await ask()), ok),
    ))

  for (const [what, session, env, tokens] of AWS_SOURCES)
    test(`${what} signs the call and is fetched once`, () =>
      onStage(
        {
          ...awsSetup,
          upstream: bedrock(AWS.AWS_SECRET_ACCESS_KEY, session),
          tokens,
          env: (urls) => ({ ...bedrockEnv(urls), ...env(urls.tokens, folder.path) }),
        },
        async (stage) => {
          assert.deepEqual(statusAndReply(await stage.ask()), ok)
          const fetched = stage.tokens.requests.length
          assert.deepEqual(statusAndReply(await stage.ask()), ok)
          assert.equal(stage.tokens.requests.length, fetched)
          await assertSecret(stage, AWS.AWS_SECRET_ACCESS_KEY, SESSION, 'federated-canary-token', 'canary-imds-token')
        },
      ))

  test('a Bedrock key takes precedence', () =>
    onStage(
      {
        ...awsSetup,
        upstream: (request) => (request.key === 'bedrock-key-canary' ? answer(request) : refuse(403, 'no')),
        env: (urls) => ({ ...bedrockEnv(urls), ...AWS, BEDROCK_API_KEY: 'bedrock-key-canary' }),
      },
      async ({ ask }) => assert.deepEqual(statusAndReply(await ask()), ok),
    ))
})

describe('clouds: AWS, session credentials', () => {
  test("a container's role: fetched once for ten calls, and refreshed before it expires", () =>
    onStage(
      {
        ...awsSetup,
        upstream: bedrock(AWS.AWS_SECRET_ACCESS_KEY, SESSION),
        // The first is usable only briefly: credentials are not used in their last 30 s.
        tokens: ({ headers, number }) =>
          headers.authorization === 'pod-canary-token'
            ? { do: 'answer', body: containerAnswer(number === 0 ? 31.5 / 60 : 60), after: 200 }
            : { do: 'answer', status: 403 },
        env: containerEnv,
      },
      async (stage) => {
        const { ask, tokens } = stage
        const all = await Promise.all(Array.from({ length: 10 }, () => ask()))
        assert.deepEqual(
          all.map(statusAndReply),
          all.map(() => ok),
        )
        assert.equal(tokens.requests.length, 1)
        await untilRefreshed(stage)
        assert.deepEqual(statusAndReply(await ask()), ok)
        assert.equal(tokens.requests.length, 2)
        await assertSecret(stage, AWS.AWS_SECRET_ACCESS_KEY, SESSION, 'pod-canary-token')
      },
    ))

  test('the session token is redacted from upstream errors', () =>
    onStage(
      {
        ...awsSetup,
        upstream: ({ headers }) => ({
          do: 'stream',
          status: 403,
          headers: { 'content-type': 'application/json' },
          pieces: [JSON.stringify({ message: `x-amz-security-token:${headers['x-amz-security-token']} is not known` })],
          slice: 7,
        }),
        tokens: () => ({ do: 'answer', body: containerAnswer(60) }),
        env: containerEnv,
      },
      async (stage) => {
        const { status, reply } = await stage.ask()
        assert.equal(status, 502)
        assert.ok(reply.includes('[key] is not known'), reply)
        await assertSecret(stage, SESSION)
      },
    ))
})

// ── Google ───────────────────────────────────────────────────────────────────────────────────────────────────────

const SCOPE = 'https://www.googleapis.com/auth/cloud-platform'
const PROJECT_PATH = '/v1/projects/p-1/locations/global'
const vertexEnv = ({ upstream }: { readonly upstream: string }) => ({
  VERTEX_PROJECT: 'p-1',
  VERTEX_BASE_URL: `${upstream}${PROJECT_PATH}`,
})

const bearer =
  (...tokens: readonly string[]): Script =>
  (request) =>
    request.headers.authorization && tokens.some((token) => request.headers.authorization === `Bearer ${token}`)
      ? answer(request)
      : refuse(401, `not signed in: ${request.headers.authorization}`)

const TOKEN = 'ya29.canary-token-0123456789'

/** Google's metadata server: requires and returns its metadata header. */
const metadata =
  (token: (number: number) => Act): Script =>
  ({ path, headers, number }) => {
    if (headers['metadata-flavor'] !== 'Google') return { do: 'answer', status: 403 }
    if (!path.startsWith('/computeMetadata/v1/instance/service-accounts/default/token'))
      return { do: 'answer', status: 404, headers: { 'metadata-flavor': 'Google' } }
    return token(number)
  }
const metadataToken = (access_token: string, expires_in: number): Act => ({
  do: 'answer',
  headers: { 'metadata-flavor': 'Google' },
  body: { access_token, expires_in, token_type: 'Bearer' },
  after: 150,
})
const metadataEnv = (urls: { readonly upstream: string; readonly tokens: string }) => ({
  ...vertexEnv(urls),
  METADATA_SERVER_DETECTION: 'assume-present',
  GCE_METADATA_HOST: urls.tokens.replace('http://', ''),
})

/** Whether the service account of this address signed the token, for an hour. */
const isSignedBy = (email: string, publicKey: KeyObject, token: string): boolean => {
  const [head = '', claims = '', signature = ''] = token.split('.')
  const { iss, sub, scope, exp } = JSON.parse(Buffer.from(claims, 'base64url').toString())
  const left = exp - Date.now() / 1000
  return (
    iss === email &&
    sub === iss &&
    scope === SCOPE &&
    left > 3_000 &&
    left <= 3_600 &&
    verifySignature(
      'sha256',
      Buffer.from(`${head}.${claims}`),
      createPublicKey(publicKey.export({ type: 'spki', format: 'pem' }).toString()),
      Buffer.from(signature, 'base64url'),
    )
  )
}

const googleSetup = { provider: 'vertex', model: 'gemini-2.5-flash', tokens: unexpected }

describe('clouds: Google, accounts in files', () => {
  const folder = folderWith({ subject: 'subject-canary-token' })

  test('a service account signs its own token and names the quota project', async () => {
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
    const file = join(folder.path, 'account.json')
    const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
    const account = {
      type: 'service_account',
      client_email: 'gateway@p-1.example',
      private_key: pem,
      private_key_id: 'key-1',
      project_id: 'p-1',
      quota_project_id: 'q-1',
    }
    await writeFile(file, JSON.stringify(account))
    const upstream: Script = (request) =>
      isSignedBy(account.client_email, publicKey, request.headers.authorization?.replace('Bearer ', '') ?? '') &&
      request.headers['x-goog-user-project'] === 'q-1'
        ? answer(request)
        : refuse(401, 'not signed in')
    await onStage(
      { ...googleSetup, upstream, env: (urls) => ({ ...vertexEnv(urls), GOOGLE_APPLICATION_CREDENTIALS: file }) },
      async (stage) => {
        assert.deepEqual(statusAndReply(await stage.ask()), ok)
        // A new signature would contain another second.
        for (const second = secondNow(); secondNow() === second; ) await sleep(20)
        assert.deepEqual(statusAndReply(await stage.ask()), ok)
        const [first, second] = stage.upstream.requests
        assert.equal(first?.headers.authorization, second?.headers.authorization)
        assert.equal(first?.path, `${PROJECT_PATH}/publishers/google/models/gemini-2.5-flash:generateContent`)
        await assertSecret(stage, pem.split('\n')[1] ?? pem, (first?.headers.authorization ?? '').slice(7))
      },
    )
  })

  test('a federated account (external_account): its token is exchanged', async () => {
    const file = join(folder.path, 'external.json')
    await onStage(
      {
        ...googleSetup,
        upstream: bearer(TOKEN),
        tokens: ({ body }) =>
          new URLSearchParams(body).get('subject_token') === 'subject-canary-token'
            ? {
                do: 'answer',
                body: {
                  access_token: TOKEN,
                  expires_in: 3_600,
                  token_type: 'Bearer',
                  issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
                },
              }
            : { do: 'answer', status: 400, body: { error: 'invalid_grant' } },
        env: (urls) => ({ ...vertexEnv(urls), GOOGLE_APPLICATION_CREDENTIALS: file }),
      },
      async (stage) => {
        const external = {
          type: 'external_account',
          audience: '//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/own',
          subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
          token_url: `${stage.tokens.url}/v1/token`,
          credential_source: { file: join(folder.path, 'subject') },
        }
        await writeFile(file, JSON.stringify(external))
        assert.deepEqual(statusAndReply(await stage.ask()), ok)
        assert.deepEqual(statusAndReply(await stage.ask()), ok)
        assert.equal(stage.tokens.requests.length, 1)
        await assertSecret(stage, TOKEN, 'subject-canary-token')
      },
    )
  })
})

describe('clouds: Google, the metadata server', () => {
  test('the metadata server: fetched once for ten calls and refreshed before expiry; Claude in its own format', () =>
    onStage(
      {
        ...googleSetup,
        upstream: bearer(`${TOKEN}-0`, `${TOKEN}-1`),
        tokens: metadata((number) => metadataToken(`${TOKEN}-${number}`, number === 0 ? 32 : 3_599)),
        env: metadataEnv,
      },
      async (stage) => {
        const { ask, tokens, upstream } = stage
        const all = await Promise.all(Array.from({ length: 10 }, () => ask()))
        assert.deepEqual(
          all.map(statusAndReply),
          all.map(() => ok),
        )
        assert.equal(tokens.requests.length, 1)
        await untilRefreshed(stage)
        assert.deepEqual(statusAndReply(await ask('claude-sonnet-4-5@20250929')), ok)
        assert.equal(tokens.requests.length, 2)
        const request = upstream.requests.at(-1)
        assert.equal(request?.path, `${PROJECT_PATH}/publishers/anthropic/models/claude-sonnet-4-5@20250929:rawPredict`)
        assert.equal(request?.json.anthropic_version, 'vertex-2023-10-16')
        assert.equal(request?.headers.authorization, `Bearer ${TOKEN}-1`)
        await assertSecret(stage, TOKEN)
      },
    ))

  test("Claude with Anthropic's SDK: streamed unchanged, betas that Vertex takes, tokens counted", () => {
    const sse = (type: string, more: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`
    const { content: _, ...message } = messagesAnswer
    const pieces = [
      sse('message_start', { message: { ...message, content: [], stop_reason: null } }),
      sse('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
      sse('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'signed' } }),
      sse('content_block_stop', { index: 0 }),
      sse('message_delta', { delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 1 } }),
      sse('message_stop', {}),
    ]
    return onStage(
      {
        ...googleSetup,
        upstream: (request) => {
          if (request.headers.authorization !== `Bearer ${TOKEN}`) return refuse(401, 'not signed in')
          if (request.path.endsWith('/models/claude-sonnet-4-5@20250929:streamRawPredict'))
            return { do: 'stream', pieces }
          if (request.path.endsWith('/models/count-tokens:rawPredict') && !request.headers['anthropic-beta'])
            return { do: 'answer', body: { input_tokens: 4_321 } }
          return {
            do: 'answer',
            status: 404,
            body: { error: { code: 404, message: 'Not Found', status: 'NOT_FOUND' } },
          }
        },
        tokens: metadata(() => metadataToken(TOKEN, 3_599)),
        env: metadataEnv,
      },
      async ({ gateway, upstream }) => {
        const client = new Anthropic({ baseURL: gateway.url, apiKey: 'any', maxRetries: 0 })
        const request = {
          model: 'vertex/claude-sonnet-4-5@20250929',
          messages: [{ role: 'user' as const, content: 'hello' }],
        }
        const whole = await client.beta.messages
          .stream({ ...request, max_tokens: 9, betas: ['b-2026-01-01', 'context-1m-2025-08-07', 'effort-2025-11-24'] })
          .finalMessage()
        assert.deepEqual(whole.content, messagesAnswer.content)
        const seen = upstream.requests[0]
        assert.deepEqual(seen?.json, {
          messages: request.messages,
          max_tokens: 9,
          stream: true,
          anthropic_version: '2026-10-21',
        })
        assert.equal(seen?.headers['anthropic-beta'], 'context-1m-2025-08-07')
        assert.equal(
          (await client.beta.messages.countTokens({ ...request, betas: ['context-1m-2025-08-07'] })).input_tokens,
          4_321,
        )
        const counted = upstream.requests.at(-1)
        assert.equal(counted?.path, `${PROJECT_PATH}/publishers/anthropic/models/count-tokens:rawPredict`)
        assert.deepEqual(counted?.json, {
          model: 'claude-sonnet-4-5@20250929',
          messages: request.messages,
          anthropic_version: '2026-10-21',
        })
        const status = JSON.parse(await get(`${gateway.url}/providers/status`))
        assert.equal(status.data[0].status, 'available')
      },
    )
  })
})

test('clouds: Google, express mode: a key, no project', () =>
  onStage(
    {
      ...googleSetup,
      upstream: (request) =>
        request.headers['x-goog-api-key'] === 'AIza-canary-0123456789' ? answer(request) : refuse(401, 'no'),
      env: ({ upstream }) => ({ VERTEX_API_KEY: 'AIza-canary-0123456789', VERTEX_BASE_URL: `${upstream}/v1` }),
    },
    async ({ ask, upstream }) => {
      assert.deepEqual(statusAndReply(await ask()), ok)
      assert.equal(upstream.requests[0]?.path, '/v1/publishers/google/models/gemini-2.5-flash:generateContent')
      assert.equal(upstream.requests[0]?.headers.authorization, undefined)
    },
  ))

// ── Microsoft Entra ──────────────────────────────────────────────────────────────────────────────────────────────

const ENTRA = 'eyJ0eXAi.canary-entra-token.c2ln'
const CLIENT = { AZURE_TENANT_ID: 'tenant-1', AZURE_CLIENT_ID: 'client-1' }
const AZURE_SECRET = 'canary~azure.secret'
const AZURE_SCOPE = 'https://cognitiveservices.azure.com/.default'
const RESOURCE = 'https://cognitiveservices.azure.com'
const azureEnv = ({ upstream }: { readonly upstream: string }) => ({ AZURE_OPENAI_ENDPOINT: upstream })
const entraToken = (token = ENTRA, more: object = { expires_in: 3_599 }): Act => ({
  do: 'answer',
  body: { token_type: 'Bearer', access_token: token, ...more },
})
const form = ({ body }: UpstreamRequest) => Object.fromEntries(new URLSearchParams(body))
const query = ({ path }: UpstreamRequest) => Object.fromEntries(new URL(path, 'http://x').searchParams)

/** Sources of tokens, each with a check of its token request. */
const ENTRA_SOURCES: readonly (readonly [
  what: string,
  env: (tokens: string, folder: string) => Readonly<Record<string, string>>,
  tokens: Script,
  check: (request: UpstreamRequest) => void,
])[] = [
  [
    "an application's secret",
    (tokens) => ({ ...CLIENT, AZURE_CLIENT_SECRET: AZURE_SECRET, AZURE_AUTHORITY_HOST: `${tokens}/` }),
    () => entraToken(),
    (request) => {
      assert.equal(`${request.method} ${request.path}`, 'POST /tenant-1/oauth2/v2.0/token')
      assert.deepEqual(form(request), {
        grant_type: 'client_credentials',
        client_id: 'client-1',
        scope: AZURE_SCOPE,
        client_secret: AZURE_SECRET,
      })
    },
  ],
  [
    'a federated token',
    (tokens, folder) => ({
      ...CLIENT,
      AZURE_FEDERATED_TOKEN_FILE: join(folder, 'federated'),
      AZURE_AUTHORITY_HOST: tokens,
    }),
    () => entraToken(),
    (request) =>
      assert.deepEqual(form(request), {
        grant_type: 'client_credentials',
        client_id: 'client-1',
        scope: AZURE_SCOPE,
        client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
        client_assertion: 'federated-canary-token',
      }),
  ],
  [
    "an App Service's managed identity",
    (tokens) => ({
      AZURE_CLIENT_ID: 'client-1',
      IDENTITY_ENDPOINT: `${tokens}/msi/token`,
      IDENTITY_HEADER: 'canary-identity-header',
    }),
    () => entraToken(ENTRA, { expires_on: String(Math.floor(Date.now() / 1000) + 3_600), resource: RESOURCE }),
    (request) => {
      assert.equal(request.headers['x-identity-header'], 'canary-identity-header')
      assert.equal(request.path.split('?')[0], '/msi/token')
      assert.deepEqual(query(request), { 'api-version': '2019-08-01', resource: RESOURCE, client_id: 'client-1' })
    },
  ],
  [
    "a machine's managed identity, whose server is busy at first",
    (tokens) => ({ AZURE_POD_IDENTITY_AUTHORITY_HOST: tokens }),
    ({ number }) =>
      number === 0 ? { do: 'answer', status: 429 } : entraToken(ENTRA, { expires_in: '3599', expires_on: '0' }),
    (request) => {
      assert.equal(request.headers.metadata, 'true')
      assert.equal(request.path.split('?')[0], '/metadata/identity/oauth2/token')
      assert.deepEqual(query(request), { 'api-version': '2018-02-01', resource: RESOURCE })
    },
  ],
]

describe('clouds: Microsoft Entra', () => {
  const folder = folderWith({ federated: 'federated-canary-token\n' })
  const setup = { provider: 'azure-openai', model: 'my-deployment', upstream: bearer(ENTRA) }

  for (const [what, env, tokens, check] of ENTRA_SOURCES)
    test(`${what}: one token for ten calls, and it stays secret`, () =>
      onStage(
        {
          ...setup,
          tokens,
          env: (urls) => ({ ...azureEnv(urls), ...env(urls.tokens, folder.path) }),
        },
        async (stage) => {
          const all = await Promise.all(Array.from({ length: 10 }, () => stage.ask()))
          assert.deepEqual(
            all.map(statusAndReply),
            all.map(() => ok),
          )
          const good = stage.tokens.requests.filter(({ number }) => number === stage.tokens.requests.length - 1)
          assert.equal(good.length, 1)
          assert.ok(stage.tokens.requests.length <= 2)
          check(stage.tokens.requests[0] ?? assert.fail())
          assert.equal(stage.upstream.requests[0]?.headers['api-key'], undefined)
          await assertSecret(stage, ENTRA, AZURE_SECRET, 'federated-canary-token', 'canary-identity-header')
        },
      ))

  test('a token is refreshed before it expires', () =>
    onStage(
      {
        ...setup,
        upstream: bearer(`${ENTRA}0`, `${ENTRA}1`),
        tokens: ({ number }) => entraToken(`${ENTRA}${number}`, { expires_in: number === 0 ? 31 : 3_599 }),
        env: (urls) => ({ ...azureEnv(urls), AZURE_POD_IDENTITY_AUTHORITY_HOST: urls.tokens }),
      },
      async (stage) => {
        await untilRefreshed(stage)
        assert.equal(stage.tokens.requests.length, 2)
        assert.equal(stage.upstream.requests.at(-1)?.headers.authorization, `Bearer ${ENTRA}1`)
      },
    ))

  test('the token is redacted from upstream errors', () =>
    onStage(
      {
        ...setup,
        upstream: ({ headers }) => refuse(401, `unknown token ${headers.authorization}`),
        tokens: () => entraToken(),
        env: (urls) => ({ ...azureEnv(urls), AZURE_POD_IDENTITY_AUTHORITY_HOST: urls.tokens }),
      },
      async (stage) => {
        const { status, reply } = await stage.ask()
        assert.equal(status, 502)
        assert.ok(!reply.includes(ENTRA), reply)
        await assertSecret(stage, ENTRA)
      },
    ))

  test('a disconnect cancels the token request, and nothing is sent upstream', () =>
    onStage(
      {
        ...setup,
        tokens: ({ number }) => (number === 0 ? { do: 'hang' } : entraToken()),
        env: (urls) => ({ ...azureEnv(urls), AZURE_POD_IDENTITY_AUTHORITY_HOST: urls.tokens }),
      },
      async ({ gateway, tokens, upstream, ask }) => {
        const leaving = new AbortController()
        const body = JSON.stringify({ model: 'azure-openai/m', messages: [{ role: 'user', content: 'hello' }] })
        const headers = { 'content-type': 'application/json' }
        const request = fetch(`${gateway.base}/chat/completions`, {
          method: 'POST',
          body,
          headers,
          signal: leaving.signal,
        })
        await until('the token server receives a request', () => tokens.requests.length === 1)
        leaving.abort()
        await assert.rejects(request)
        await until('the token request is cancelled', () => tokens.requests[0]?.ended === 'aborted')
        assert.equal(upstream.requests.length, 0)
        // No failure is recorded, and the next call obtains a token.
        assert.deepEqual(statusAndReply(await ask()), ok)
      },
    ))
})

const html: Act = {
  do: 'answer',
  headers: { 'content-type': 'text/html' },
  body: '<html>Sign in to the Wi-Fi</html>',
}
const spare = (url: string) => ({ GROQ_API_KEY: 'groq-canary', GROQ_BASE_URL: `${url}/spare`, GROQ_MODELS: 'spare' })
const entraEnv = (tokens: string) => ({ ...CLIENT, AZURE_CLIENT_SECRET: AZURE_SECRET, AZURE_AUTHORITY_HOST: tokens })
const rows: readonly (readonly [
  what: string,
  provider: string,
  tokens: Act,
  env: (urls: { readonly upstream: string; readonly tokens: string }) => Readonly<Record<string, string>>,
  message: RegExp,
  code?: string,
])[] = [
  [
    'AWS: no credentials',
    'bedrock',
    html,
    bedrockEnv,
    /AWS credentials are not available: no usable credentials were found\. Set AWS_ACCESS/,
  ],
  ['AWS: an HTML page', 'bedrock', html, containerEnv, /AWS credentials are not available: .*API key/],
  ['AWS: rejected', 'bedrock', { do: 'answer', status: 403 }, containerEnv, /AWS credentials are not available/],
  [
    'Google: no credentials',
    'vertex',
    html,
    vertexEnv,
    /default credentials are not available: none were found\. Set GOOGLE_APPLICATION/,
  ],
  ['Google: an HTML page', 'vertex', html, metadataEnv, /default credentials are not available: .*API key/],
  [
    'Google: rejected',
    'vertex',
    { do: 'answer', status: 403, headers: { 'metadata-flavor': 'Google' } },
    metadataEnv,
    /are not available: the token server refused the request/,
  ],
  [
    'Google: an invalid credentials file',
    'vertex',
    html,
    (urls) => ({ ...vertexEnv(urls), GOOGLE_APPLICATION_CREDENTIALS: '/nonexistent/canary.json' }),
    /the file in GOOGLE_APPLICATION_CREDENTIALS is not usable/,
  ],
  [
    'Entra: rejected',
    'azure-openai',
    {
      do: 'answer',
      status: 401,
      body: { error: 'invalid_client', error_description: 'AADSTS7000215: Invalid client secret provided.' },
    },
    (urls) => ({ ...azureEnv(urls), ...entraEnv(urls.tokens) }),
    /Entra credentials are not available: the token server refused the request \(invalid_client\)\. Set AZURE_TENANT_ID/,
  ],
  [
    'Entra: an HTML page',
    'azure-openai',
    html,
    (urls) => ({ ...azureEnv(urls), ...entraEnv(urls.tokens) }),
    /returned no valid token/,
  ],
  [
    'Entra: a reset connection',
    'azure-openai',
    { do: 'answer', status: 503 },
    (urls) => ({ ...azureEnv(urls), ...entraEnv(urls.tokens) }),
    /is temporarily unavailable/,
    'upstream_sign_in',
  ],
  [
    'Entra: a truncated answer',
    'azure-openai',
    { do: 'reset' },
    (urls) => ({ ...azureEnv(urls), ...entraEnv(urls.tokens) }),
    /is unreachable/,
    'upstream_sign_in',
  ],
  [
    'Entra: a secret is not sent over plain HTTP',
    'azure-openai',
    html,
    (urls) => ({ ...azureEnv(urls), ...entraEnv('http://login.example') }),
    /AZURE_AUTHORITY_HOST is not an https URL/,
  ],
]

for (const [what, provider, tokens, env, message, code = 'upstream_auth'] of rows)
  test(`${what}: it is reported, nothing is sent, and another provider answers`, () =>
    onStage(
      {
        provider,
        upstream: answer,
        tokens: () => tokens,
        env: (urls) => ({ ...env(urls), ...spare(urls.upstream) }),
      },
      async (stage) => {
        const { gateway, upstream } = stage
        const { reply, trail } = await stage.ask()
        assert.equal(reply, 'signed')
        assert.match(trail, new RegExp(`^${provider}#[0-9a-f]{4,}:${code}, groq#`))
        assert.deepEqual(
          upstream.requests.filter(({ method }) => method === 'POST').map(({ path }) => path),
          ['/spare/chat/completions'],
        )
        const line = await gateway.line(({ event }) => event === 'fallback')
        assert.match(String(line.detail), message)
        const trouble = await gateway.line(({ event }) => event === 'sign_in')
        assert.match(String(trouble.message), message)
        // Clients look for these words in an error that must not be retried.
        assert.doesNotMatch(
          String(trouble.message),
          /429|500|502|503|504|524|rate.?limit|too many requests|overloaded|service.?unavailable|internal.?error|server.?error|fetch failed|network.?error|terminated/i,
        )
        await assertSecret(stage, AZURE_SECRET, 'pod-canary-token', 'Wi-Fi')
      },
    ))

// Number of failures before the token server works again. A call tries three times, and once more a little later.
for (const [troubles, statuses] of [
  [3, [200]],
  [6, [502, 200]],
] as const)
  test(`a token server that failed ${troubles} times causes no key cooldown`, () =>
    onStage(
      {
        provider: 'azure-openai',
        upstream: answer,
        tokens: ({ number }) => (number < troubles ? { do: 'answer', status: 503 } : entraToken()),
        env: (urls) => ({ ...azureEnv(urls), ...entraEnv(urls.tokens) }),
      },
      async ({ ask, tokens }) => {
        for (const status of statuses) assert.equal((await ask()).status, status)
        assert.equal(tokens.requests.length, troubles + 1)
      },
    ))

test('the token server refuses connections', async () => {
  const url = await refusingUrl()
  await onStage(
    {
      provider: 'azure-openai',
      upstream: answer,
      tokens: unexpected,
      env: (urls) => ({ ...azureEnv(urls), ...entraEnv(url) }),
    },
    async ({ ask, upstream }) => {
      const { status, reply } = await ask()
      assert.equal(status, 502)
      const { error } = JSON.parse(reply)
      assert.equal(error.code, 'upstream_sign_in')
      assert.match(error.message, /is unreachable/)
      assert.equal(upstream.requests.length, 0)
    },
  )
})

for (const [provider, env] of [
  ['bedrock', containerEnv],
  ['vertex', metadataEnv],
  ['azure-openai', (urls: { upstream: string; tokens: string }) => ({ ...azureEnv(urls), ...entraEnv(urls.tokens) })],
] as const)
  test(`${provider}: a silent token server takes at most the attempt timeout`, () =>
    onStage(
      {
        provider,
        upstream: answer,
        tokens: () => ({ do: 'hang' }),
        env: (urls) => ({ ...env(urls), ...spare(urls.upstream), CIRCUIT_TIMEOUT: '600' }),
      },
      async ({ ask }) => {
        const { reply, trail } = await ask()
        assert.equal(reply, 'signed')
        assert.match(trail, new RegExp(`^${provider}#[0-9a-f]{4,}:timeout, groq#`))
      },
    ))
