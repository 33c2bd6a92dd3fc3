import { claudeVersion } from '../shared/claude.ts'

/**
 * What a model's name says of what it takes: this format hands on what a maker's own API has in
 * `additionalModelRequestFields`, and refuses what a model does not know. A name that says nothing (the ARN of an
 * inference profile of the operator's own) is taken for a model that knows all of the format and none of the makers' own.
 */
export type Family = {
  readonly maker: 'anthropic' | 'amazon' | 'openai' | 'other' | 'unknown'
  /** How it is told to think, if it can be told. */
  readonly thinks: readonly Thinks[]
  /** Where `top_k` goes; null: nowhere. */
  readonly topK: 'top_k' | 'inferenceConfig' | null
  /** Marks for the cache: in the prompt and, where `tools`, among the tools too; `long`: with a time to live. */
  readonly caches: { readonly messages: boolean; readonly tools: boolean; readonly long: boolean }
  /** It can be held to a schema: an answer to `textFormat`, a call to a `strict` tool. */
  readonly schemas: boolean
}

/**
 * `budget` and `adaptive`: Anthropic's `thinking`. `config`: Nova's `reasoningConfig`. `effort`: OpenAI's
 * `reasoning_effort`. Each seen in a recording (test-bedrock-model-thinking-part-anthropic, …-adaptive, chat-bedrock-nova-2-reasoning,
 * test-bedrock-thinking-high-openai-variant).
 */
export type Thinks = 'budget' | 'adaptive' | 'config' | 'effort'

const NOWHERE = { messages: false, tools: false, long: false }

export const familyOf = (model: string): Family => {
  const name = model.toLowerCase()
  const version = claudeVersion(name)
  if (version !== undefined) return claude(name, version)
  // Documented for Nova: `inferenceConfig.topK` (recording test-bedrock-top-k-nova-variant), caching outside of tools.
  if (name.includes('amazon.nova'))
    return {
      maker: 'amazon',
      thinks: name.includes('nova-2') ? ['config'] : [],
      topK: 'inferenceConfig',
      caches: { messages: true, tools: false, long: false },
      schemas: false,
    }
  if (name.includes('gpt-oss'))
    return { maker: 'openai', thinks: ['effort'], topK: null, caches: NOWHERE, schemas: true }
  return {
    maker: OTHERS.test(name) ? 'other' : 'unknown',
    thinks: [],
    topK: null,
    caches: NOWHERE,
    // The list of those that have it grows; of these it is known that they do not.
    schemas: !WITHOUT_SCHEMAS.test(name),
  }
}

const OTHERS =
  /\b(?:meta|mistral|cohere|ai21|deepseek|qwen|google|nvidia|minimax|moonshot|moonshotai|writer|zai|amazon)\./
const WITHOUT_SCHEMAS = /amazon\.titan|meta\.llama|cohere\.command|ai21\.|deepseek\.r1|writer\./

const claude = (name: string, generation: number): Family => {
  const thinks: Thinks[] = []
  // Later generations decide for themselves how long to think, and refuse a budget.
  if (generation >= 3.07 && generation <= 4.06) thinks.push('budget')
  if (generation >= 4.06) thinks.push('adaptive')
  // Of the generation 3.5 only its second edition.
  const caches = generation > 3.05 || (generation === 3.05 && name.includes('20241022'))
  return {
    maker: 'anthropic',
    thinks,
    topK: 'top_k',
    caches: { messages: caches, tools: caches, long: generation >= 4.05 },
    schemas: generation >= 4.05,
  }
}
