import type { Provider } from '../core/provider.ts'
import { chatIds } from './quirks/model-list.ts'
import { olderChat } from './quirks/request.ts'

export default {
  name: 'alibaba',
  aliases: ['dashscope'],
  title: 'Alibaba Cloud Model Studio',
  order: 200,
  baseUrl: 'https://dashscope-intl.aliyuncs.com/compatible-mode/v1',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'qwen-plus',
  models: { path: '/models', decode: chatIds },
  quirks: { requestBody: olderChat },
  note: 'The international address; accounts in China set `ALIBABA_BASE_URL=https://dashscope.aliyuncs.com/compatible-mode/v1`.',
} satisfies Provider
