import { claudeVersion } from '../shared/claude.ts'

/**
 * A model's capabilities, derived from its name. Bedrock passes a vendor's own members in `additionalModelRequestFields` and
 * rejects those a model does not support. An unknown name (the ARN of an inference profile) receives all members of the format
 * and none of a vendor's.
 */
export type ConverseModelFamily = {
  readonly maker: 'anthropic' | 'amazon' | 'openai' | 'other' | 'unknown'
  /** The members that control its reasoning; empty if there is none. */
  readonly thinks: readonly ThinkingMember[]
  /** The member for `top_k`; null if there is none. */
  readonly topK: 'top_k' | 'inferenceConfig' | null
  /** It accepts temperature and top_p. */
  readonly samples: boolean
  /** Where cache points are allowed; `long`: with a time to live. */
  readonly caches: { readonly messages: boolean; readonly tools: boolean; readonly long: boolean }
  /** It supports schemas: `textFormat` for answers, `strict` for tools. */
  readonly schemas: boolean
}

/**
 * `budget` and `adaptive`: Anthropic's `thinking`. `config`: Nova's `reasoningConfig`. `effort`: OpenAI's
 * `reasoning_effort`. Recordings: test-bedrock-model-thinking-part-anthropic, …-adaptive, chat-bedrock-nova-2-reasoning,
 * test-bedrock-thinking-high-openai-variant.
 */
export type ThinkingMember = 'budget' | 'adaptive' | 'config' | 'effort'

const NO_CACHE = { messages: false, tools: false, long: false }

/** The capabilities of a model by its name or ARN. */
export const familyOf = (model: string): ConverseModelFamily => {
  const name = model.toLowerCase()
  const version = claudeVersion(name)
  if (version !== undefined) return claude(name, version)
  // Documented for Nova: `inferenceConfig.topK` (recording test-bedrock-top-k-nova-variant), caching outside of tools.
  if (name.includes('amazon.nova'))
    return {
      maker: 'amazon',
      thinks: name.includes('nova-2') ? ['config'] : [],
      topK: 'inferenceConfig',
      samples: true,
      caches: { messages: true, tools: false, long: false },
      schemas: false,
    }
  if (name.includes('gpt-oss'))
    return { maker: 'openai', thinks: ['effort'], topK: null, samples: true, caches: NO_CACHE, schemas: true }
  return {
    maker: OTHER_MAKERS.test(name) ? 'other' : 'unknown',
    thinks: [],
    topK: null,
    samples: true,
    caches: NO_CACHE,
    // The list of supporting models grows, so only models known not to support it are excluded.
    schemas: !WITHOUT_SCHEMAS.test(name),
  }
}

const OTHER_MAKERS =
  /\b(?:meta|mistral|cohere|ai21|deepseek|qwen|google|nvidia|minimax|moonshot|moonshotai|writer|zai|amazon)\./
const WITHOUT_SCHEMAS = /amazon\.titan|meta\.llama|cohere\.command|ai21\.|deepseek\.r1|writer\./

const claude = (name: string, generation: number): ConverseModelFamily => {
  const thinks: ThinkingMember[] = []
  // After 4.6 the model decides how long to think, and rejects a budget.
  if (generation >= 3.07 && generation <= 4.06) thinks.push('budget')
  if (generation >= 4.06) thinks.push('adaptive')
  // Of generation 3.5 only the second edition supports caching.
  const caches = generation > 3.05 || (generation === 3.05 && name.includes('20241022'))
  return {
    maker: 'anthropic',
    thinks,
    // From Opus 4.7 on any value but the default is refused (github.com/aws-samples/bedrock-chat/pull/1102, 2026-06-15).
    topK: generation >= 4.07 ? null : 'top_k',
    samples: generation < 4.07,
    caches: { messages: caches, tools: caches, long: generation >= 4.05 },
    schemas: generation >= 4.05,
  }
}
