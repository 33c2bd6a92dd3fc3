import { text } from '../core/json.ts'
import type { Provider } from '../core/provider.ts'
import { idsWhere } from './quirks/model-list.ts'

/** Its list says what each model is for. */
const languageModels = idsWhere((entry) => (text(entry.type) ?? 'language') === 'language')

export default {
  name: 'vercel',
  aliases: ['ai-gateway'],
  title: 'Vercel AI Gateway',
  order: 320,
  baseUrl: 'https://ai-gateway.vercel.sh/v1',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'openai/gpt-4.1-mini',
  models: { path: '/models', decode: languageModels },
  note: 'Vercel calls the variable `AI_GATEWAY_API_KEY`; that name works too.',
} satisfies Provider
