import type { ErrorTable } from '../core/error-table.ts'
import type { Provider, Variables } from '../core/provider.ts'
import { olderChat } from './quirks/request.ts'

/** Account IDs are hex digits; anything else could change the path. */
const ofAccount = ({ ACCOUNT_ID }: Variables): string | undefined =>
  ACCOUNT_ID && /^[0-9a-z]+$/i.test(ACCOUNT_ID)
    ? `https://api.cloudflare.com/client/v4/accounts/${ACCOUNT_ID}/ai/v1`
    : undefined

// Not called `cloudflare`: CLOUDFLARE_API_KEY is the account's key and used by other programs.
const errors: ErrorTable = {
  checked: '2026-11-21',
  rows: [
    {
      when: { status: 429, message: /^(?:[0-9]{4}: )?you have used up your daily free allocation/i },
      kind: 'quota',
      seen: 'github.com/diegosouzapw/OmniRoute/issues/6980 (2026-07-12)',
    },
  ],
}

export default {
  name: 'workers-ai',
  slug: 'cloudflare',
  title: 'Cloudflare Workers AI',
  order: 330,
  address: ofAccount,
  speaks: [{ protocol: 'openai-chat' }],
  // For gpt-oss (developers.cloudflare.com/workers-ai/configuration/open-ai-compatibility, 2026-11-21).
  alsoSpeaks: [{ protocol: 'openai-responses', stateless: true }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: '@cf/openai/gpt-oss-120b',
  variables: { ACCOUNT_ID: null },
  variableAliases: { ACCOUNT_ID: ['CLOUDFLARE_ACCOUNT_ID'] },
  quirks: { requestBody: olderChat, errors },
  note: '`WORKERS_AI_ACCOUNT_ID` (or `CLOUDFLARE_ACCOUNT_ID`) is required. List further models in `WORKERS_AI_MODELS`.',
  embeds: {
    protocol: 'openai-embeddings',
    models: ['@cf/baai/bge-m3', '@cf/baai/bge-base-en-v1.5'],
    // 100 inputs (cloudflare/cloudflare-docs#11316, 2023-10).
    limits: { inputs: 100 },
  },
} satisfies Provider
