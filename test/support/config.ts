/** Providers of every kind and a loader, for tests of the configuration. */
import assert from 'node:assert/strict'
import { configure, type Loaded, type Texts } from '../../src/config/configure.ts'
import { fileReader } from '../../src/config/file-reader.ts'
import { problemLine } from '../../src/config/problem.ts'
import type { Provider, Providers } from '../../src/core/provider.ts'

const provider = (name: string, order: number, more: Partial<Provider> = {}): Provider => ({
  name,
  title: name,
  order,
  baseUrl: `https://api.${name}.example/v1`,
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  ...more,
})

const { baseUrl: _, ...withoutAddress } = provider('azure-openai', 40)

const all: readonly Provider[] = [
  provider('openai', 10, {
    speaks: [{ protocol: 'openai-responses' }, { protocol: 'openai-chat', path: '/own/chat' }],
    defaultModel: 'gpt-test',
  }),
  provider('anthropic', 20, {
    speaks: [{ protocol: 'anthropic-messages' }],
    normalizeBaseUrl: (url) => (url.endsWith('/v1') ? url : `${url}/v1`),
  }),
  provider('gemini', 30, { aliases: ['google'] }),
  {
    ...withoutAddress,
    variables: { ENDPOINT: null, API_VERSION: '2026-05-01' },
    variableAliases: { ENDPOINT: ['AZURE_ENDPOINT'] },
    address: ({ ENDPOINT }) => (ENDPOINT ? `${ENDPOINT.replace(/\/$/, '')}/openai` : undefined),
  },
  {
    ...withoutAddress,
    name: 'bedrock',
    title: 'bedrock',
    order: 45,
    auth: {
      header: 'authorization',
      prefix: 'Bearer ',
      identity: ({ REGION = '' }) => ({ cloud: 'aws', service: 'bedrock', region: REGION }),
    },
    keylessVariables: ['REGION'],
    variables: { REGION: null },
    variableAliases: { REGION: ['AWS_REGION'] },
    address: ({ REGION }) => (REGION ? `https://bedrock.${REGION}.example` : undefined),
    keyAddress: 'https://keys.bedrock.example',
  },
  provider('mistral', 50),
  provider('groq', 60),
  { ...provider('vllm', 70, { keyless: true }), baseUrl: 'http://127.0.0.1:8000/v1' },
  {
    ...withoutAddress,
    name: 'openai-compatible',
    title: 'compatible',
    order: 900,
    generic: true,
    keyless: true,
  },
  provider('demo', 990, { builtin: true, keyless: true, auth: 'none', baseUrl: 'demo://echo', defaultModel: 'echo' }),
]

export const providers: Providers = new Map(all.map((one) => [one.name, one]))

type Given = Omit<Texts, 'providers' | 'file'> & { readonly yaml?: string }

export const load = ({ yaml, ...texts }: Given): Loaded =>
  configure({
    ...texts,
    file: yaml === undefined ? undefined : { name: 'headgate.yaml', text: yaml, reader: fileReader },
    providers,
  })

export const loaded = (given: Given): Extract<Loaded, { ok: true }> => {
  const result = load(given)
  if (result.ok) return result
  return assert.fail(result.problems.map(problemLine).join('\n'))
}

/** The problems as lines of text. */
export const lines = (given: Given): readonly string[] => {
  const result = load(given)
  return result.ok ? [] : result.problems.map(problemLine)
}
