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
  note: 'Built in; answers without calling a model. Used only if no other provider is configured, and never in production.',
  embeds: { protocol: 'openai-embeddings', models: ['embed'] },
} satisfies Provider
