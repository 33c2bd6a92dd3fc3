import type { Provider, Variables } from '../core/provider.ts'

/** A region's endpoint. Names are letters, digits and hyphens; anything else would make another host of it. */
const regional = ({ REGION }: Variables): string | undefined =>
  REGION && /^[a-z0-9-]+$/.test(REGION) ? `https://bedrock-runtime.${REGION}.amazonaws.com` : undefined

/** The address ends before any version; people also write the compatible endpoint's own. */
const hostOnly = (url: string): string => url.replace(/\/+$/, '').replace(/\/openai\/v1$/, '')

export default {
  name: 'bedrock',
  title: 'Amazon Bedrock',
  order: 140,
  address: regional,
  normalizeBaseUrl: hostOnly,
  speaks: [{ protocol: 'openai-chat', path: '/openai/v1/chat/completions' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'openai.gpt-oss-120b-1:0',
  variables: { REGION: null },
  variableAliases: { REGION: ['AWS_REGION', 'AWS_DEFAULT_REGION'] },
  note: 'Spoken to at its OpenAI-compatible endpoint with a Bedrock API key; `BEDROCK_REGION` (or `AWS_REGION`) is needed.',
} satisfies Provider
