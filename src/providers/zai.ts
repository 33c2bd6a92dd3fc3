import type { Accepts, TextLimit } from '../core/accepts.ts'
import type { ErrorTable } from '../core/error-table.ts'
import type { Provider } from '../core/provider.ts'
import { olderChat } from './quirks/request.ts'

/** An empty balance is a 429 that differs from others only by its code. */
const errors: ErrorTable = {
  checked: '2026-11-21',
  rows: [{ when: { word: '1113' }, kind: 'quota', seen: 'github.com/zai-org/GLM-5/issues/148 (2026-09-11)' }],
}

/** "The unique ID of the user must be between 6 and 128 characters in length" (github.com/looplj/axonhub/issues/1669, 2026-05-15). */
const userId: TextLimit = { minLength: 6, maxLength: 128 }

/** It calls the member `user_id`. */
const accepts: Accepts = { reasoning: ['reasoning_content'], limits: { user: userId, user_id: userId } }

export default {
  name: 'zai',
  slug: 'z-ai',
  title: 'Z.ai',
  order: 190,
  family: 'z-ai',
  baseUrl: 'https://api.z.ai/api/paas/v4',
  speaks: [{ protocol: 'openai-chat', accepts }],
  // Responses are documented for the coding plan only (docs.z.ai, 2026-11-21).
  alsoSpeaks: [
    { protocol: 'openai-responses', path: '/api/v1/responses', atHost: true, stateless: true },
    { protocol: 'anthropic-messages', path: '/api/anthropic/v1/messages', atHost: true },
  ],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'glm-4.7',
  models: { path: '/models' },
  // Its thinking models require the reasoning of a turn while tools are being called.
  acceptsReasoning: true,
  // "reset at 2026-09-12 00:35:41" was 16:35:41 UTC (github.com/can1357/oh-my-pi/issues/11014, 2026-09-12).
  timeOffset: '+08:00',
  quirks: { requestBody: olderChat, errors },
  note: 'The coding plan has its own address: `ZAI_BASE_URL=https://api.z.ai/api/coding/paas/v4`.',
} satisfies Provider
