import { claudeName } from '../core/claude-name.ts'
import type { Provider, Variables } from '../core/provider.ts'
import { withoutSlashes } from '../core/trailing-slashes.ts'
import anthropic from './anthropic.ts'
import { onlyAtAnthropic } from './quirks/claude.ts'
import { MANTLE_BETAS } from './quirks/claude-betas.ts'
import { claudeCache } from './quirks/prompt-caches.ts'
import type { RequestQuirk } from './quirks/request.ts'

/** A region's endpoint. Region names are letters, digits and hyphens; anything else could change the host. */
const regional = ({ REGION }: Variables): string | undefined =>
  REGION && /^[a-z0-9-]+$/.test(REGION) ? `https://bedrock-mantle.${REGION}.api.aws` : undefined

const CLAUDE = /^anthropic\.claude-/

const claudeQuirks: RequestQuirk = (body, model, lost, protocol) =>
  protocol === 'anthropic-messages'
    ? onlyAtAnthropic(anthropic.quirks.requestBody(body, claudeName(model), lost, protocol), model, lost, protocol)
    : body

const identity = ({ REGION }: Variables) => ({ cloud: 'aws', service: 'bedrock-mantle', region: REGION ?? '' }) as const

export default {
  name: 'bedrock-mantle',
  promptCache: [
    claudeCache({
      owner: 'account',
      source: 'https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html',
    }),
  ],
  takesBreakpoints: true,
  slug: 'amazon-bedrock',
  title: 'Amazon Bedrock (Mantle)',
  order: 141,
  address: regional,
  normalizeBaseUrl: (url) => withoutSlashes(url).replace(/\/(?:anthropic\/)?v1$/, ''),
  // docs.aws.amazon.com/bedrock/latest/userguide/inference-messages-api.html and bedrock-mantle.html (2026-11-28).
  speaks: [
    { protocol: 'openai-responses', path: '/v1/responses' },
    { protocol: 'openai-chat', path: '/v1/chat/completions' },
    {
      protocol: 'anthropic-messages',
      path: '/anthropic/v1/messages',
      models: CLAUDE,
      betas: MANTLE_BETAS,
      auth: { header: 'x-api-key', identity },
    },
  ],
  auth: { header: 'authorization', prefix: 'Bearer ', identity },
  keylessVariables: ['REGION'],
  variables: { REGION: null },
  models: { path: '/v1/models' },
  quirks: { requestBody: claudeQuirks },
  catalogue: 'bedrock',
  note: "Bedrock's newer endpoint: Claude in Anthropic's own format, others with the responses API and chat completions. Model ids have no region before them. `BEDROCK_MANTLE_REGION` is required; without a key, the AWS credentials of the environment, profile or role are used.",
} satisfies Provider
