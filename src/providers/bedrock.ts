import { toBase64 } from '../core/base64.ts'
import { claudeName, withoutRegion } from '../core/claude-name.ts'
import type { ErrorTable } from '../core/error-table.ts'
import { isObject, number } from '../core/json.ts'
import { withoutMember } from '../core/json-edit.ts'
import type { CountingPath, PricedAs, Provider, Variables } from '../core/provider.ts'
import { withoutSlashes } from '../core/trailing-slashes.ts'
import anthropic from './anthropic.ts'
import { onlyAtAnthropic } from './quirks/claude.ts'
import { BEDROCK_BETAS } from './quirks/claude-betas.ts'
import { claudeCache } from './quirks/prompt-caches.ts'
import { CLAUDE_IN_REGION, REGIONAL } from './quirks/regional-prices.ts'
import {
  encryptedReasoningModels,
  inOrder,
  onlyResponses,
  type RequestQuirk,
  reasoningModels,
} from './quirks/request.ts'

/** A region's endpoint. Region names are letters, digits and hyphens; anything else could change the host. */
const regional = ({ REGION }: Variables): string | undefined =>
  REGION && /^[a-z0-9-]+$/.test(REGION) ? `https://bedrock-runtime.${REGION}.amazonaws.com` : undefined

const EXCEPTIONS = 'docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModel.html (2026-11-21)'

/** Errors beyond the common rules; the exceptions' names are covered there. */
const errors: ErrorTable = {
  checked: '2026-11-21',
  rows: [
    // A 400: "Your request exceeds the service quota for your account. You can resubmit your request later."
    { when: { word: 'ServiceQuotaExceededException' }, kind: 'rate_limited', seen: EXCEPTIONS },
    {
      when: { status: 400, message: /^The provided model identifier is invalid/ },
      kind: 'model_missing',
      seen: 'bedrock-bedrock-converse-test-bedrock-error-e883ccb5',
    },
    // The model is available through an inference profile only, not by its own name.
    {
      when: { status: 400, message: /with on-demand throughput isn.t supported/ },
      kind: 'model_missing',
      seen: 'github.com/langchain-ai/langchain-aws/issues/1019 (2026-04-28)',
    },
    {
      when: { status: 400, message: /^This model doesn.t support the .{1,40} content block/ },
      kind: 'incapable',
      seen: 'bedrock-bedrock-converse-test-multimodal-tool-return-matrix-tool-return-c-62b96a89',
    },
    // An invalid or expired bearer key, or one of another region.
    {
      when: { status: 403, message: /^Authentication failed: Please make sure your API Key is valid/ },
      kind: 'auth',
      seen: 'github.com/ai4s-research/open-science/issues/53 (2026-07-24)',
    },
    {
      when: { word: ['InvalidSignatureException', 'InvalidClientTokenId', 'IncompleteSignature'] },
      kind: 'auth',
      seen: 'docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html (2026-11-21)',
    },
  ],
}

/**
 * OpenAI's own models are not available in Converse (dev.classmethod.jp, 2026-06-02; recordings
 * bedrock-responses-test-reused-tool-call-ids-*). OpenAI's open-weight models are; their responses endpoint has another host.
 */
const OPENAIS = /(?:^|\.)openai\.gpt-(?!oss)/

const openaiQuirks: RequestQuirk = (body, model, lost, protocol) =>
  reasoningModels(body, model.slice(model.indexOf('openai.') + 'openai.'.length), lost, protocol)

/** Claude, by its id, an inference profile or the ARN of either. An application's profile does not name its model. */
const CLAUDE = /(?:^|[./])anthropic\.claude-/

/** Claude 4.7 and later (platform.claude.com/docs/en/api/versioning, 2026-11-28). */
const SINCE_4_7 = /claude-[a-z]+-(?:4-[7-9]|[5-9])(?!\d)/

/**
 * InvokeModel has the model and the stream in its path, and the version in its body
 * (docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages-request-response.html, 2026-11-28). It
 * refuses `disable_parallel_tool_use` (vercel/ai#11878, 2026-01-19).
 */
const claudeQuirks: RequestQuirk = (body, model, lost, protocol) => {
  if (protocol !== 'anthropic-messages') return body
  const fitted = onlyAtAnthropic(
    anthropic.quirks.requestBody(body, claudeName(model), lost, protocol),
    model,
    lost,
    protocol,
  )
  const { tool_choice: choice } = fitted
  const isSerial = isObject(choice) && choice.disable_parallel_tool_use === true
  if (isSerial) lost('tool_choice.disable_parallel_tool_use')
  return {
    ...withoutMember(fitted, 'model', 'stream'),
    ...(isObject(choice) && { tool_choice: withoutMember(choice, 'disable_parallel_tool_use') }),
    anthropic_version: 'bedrock-2023-05-31',
  }
}

/** Counts by the id of the model: inference profiles are refused (docs.aws.amazon.com/bedrock/latest/userguide/count-tokens.html, 2026-11-28). */
const counts: CountingPath = {
  path: '/model/{model}/count-tokens',
  model: withoutRegion,
  body: (request) => JSON.stringify({ input: { invokeModel: { body: toBase64(request) } } }),
  read: (answer) => (isObject(answer) ? number(answer.inputTokens) : undefined),
}

/** The address ends before any version; a base URL of the compatible endpoint is accepted too. */
const hostOnly = (url: string): string => withoutSlashes(url).replace(/\/openai\/v1$/, '')

/** The global inference profile of a model, also by its ARN. Every other one, and none, is a region (BerriAI/litellm#42679). */
const GLOBAL = /(?:^|\/)global\./

/** The catalogue has the price of the global profile. */
const pricedAs = (model: string): PricedAs | undefined =>
  CLAUDE_IN_REGION.test(model) && !GLOBAL.test(model) ? { factor: REGIONAL } : undefined

export default {
  name: 'bedrock',
  promptCache: [
    claudeCache({
      owner: 'account',
      source: 'https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html',
    }),
  ],
  takesBreakpoints: true,
  slug: 'amazon-bedrock',
  title: 'Amazon Bedrock',
  order: 140,
  address: regional,
  normalizeBaseUrl: hostOnly,
  // Names of inference profiles are ARNs, which have slashes.
  passThrough: { encodedSlashes: true },
  speaks: [
    { protocol: 'bedrock-converse' },
    {
      protocol: 'anthropic-messages',
      path: '/model/{model}/invoke',
      streamPath: '/model/{model}/invoke-with-response-stream',
      models: CLAUDE,
      envelope: 'bedrock-invoke',
      ownVersions: SINCE_4_7,
      betas: BEDROCK_BETAS,
      counts,
    },
    { protocol: 'openai-responses', path: '/openai/v1/responses', models: OPENAIS },
  ],
  alsoSpeaks: [{ protocol: 'openai-chat', path: '/openai/v1/chat/completions' }],
  auth: {
    header: 'authorization',
    prefix: 'Bearer ',
    identity: ({ REGION }) => ({ cloud: 'aws', service: 'bedrock', region: REGION ?? '' }),
  },
  keylessVariables: ['REGION'],
  pricedAs,
  encryptsReasoning: encryptedReasoningModels,
  defaultModel: 'openai.gpt-oss-120b-1:0',
  variables: { REGION: null },
  variableAliases: { REGION: ['AWS_REGION', 'AWS_DEFAULT_REGION'] },
  quirks: { requestBody: inOrder(onlyResponses(openaiQuirks), claudeQuirks), errors },
  note: 'Claude models are called in their own format, by InvokeModel (with `BEDROCK_STYLES=bedrock` by Converse); others with Converse; GPT-5.4 and later of OpenAI, which Converse lacks, with the responses API. `BEDROCK_STYLES=chat` uses its OpenAI-compatible endpoint (gpt-oss only). `BEDROCK_REGION` (or `AWS_REGION`) is required. Without a key, the AWS credentials of the environment, profile or role are used if `BEDROCK_REGION` is set or `PROVIDERS` lists `bedrock`. Newer models are addressed by an inference profile (`us.anthropic.…`, `global.…`) or its ARN.',
} satisfies Provider
