import type { Provider } from '../core/provider.ts'

export default {
  name: 'demo',
  title: 'Demo',
  order: 9999,
  builtin: true,
  baseUrl: 'demo://echo',
  speaks: [{ protocol: 'openai-chat' }],
  auth: 'none',
  keyless: true,
  defaultModel: 'echo',
  knownModels: ['echo', 'slow', 'flaky', 'down', 'tools'],
  note: 'Answers inside the gateway when nothing else is configured; never in production.',
  embeds: { protocol: 'openai-embeddings', models: ['embed'] },
} satisfies Provider
