/**
 * The meaning of codes, statuses and messages that most upstreams share. It applies to every provider, since any server
 * can be behind an OpenAI-compatible URL. A provider's own table takes precedence. Messages are matched only with a status
 * that blames the request, and never take a key out of service.
 */
import type { ErrorTable } from '../../core/error-table.ts'

/** Statuses that blame the request. */
const REQUEST_STATUSES = [400, 413, 422]

const ANTHROPIC = 'platform.claude.com/docs/en/api/errors (2026-11-21)'
const OPENAI = 'developers.openai.com/api/docs/guides/error-codes (2026-11-21)'
const GOOGLE = 'cloud.google.com/service-control/reference/rpc/google.rpc (2026-11-21)'
const BEDROCK = 'docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html (2026-11-21)'
const CLOUDFLARE = 'github.com/curl/curl/discussions/16143 (2026-11-21)'

/** The error table for all providers; rows in order of precedence. */
export const COMMON_ERRORS: ErrorTable = {
  checked: '2026-11-22',
  rows: [
    // ── Codes, types and reasons: they decide for any status ────────────────────────────────────────────────────────
    {
      when: { word: ['insufficient_quota', 'billing_hard_limit_reached', 'billing_not_active'] },
      kind: 'quota',
      seen: 'openai-chat-429-12',
    },
    { when: { word: ['billing_error'] }, kind: 'quota', seen: ANTHROPIC },
    {
      when: {
        word: ['insufficient_balance', 'insufficient_balance_error', 'insufficient_credits', 'insufficient_user_quota'],
      },
      kind: 'quota',
      seen: 'github.com/modelscope/modelscope/issues/1691 (2026-04-25)',
    },
    {
      when: {
        word: ['invalid_api_key', 'incorrect_api_key', 'invalid_authentication_error', 'account_deactivated'],
      },
      kind: 'auth',
      seen: 'together-chat-makes-successful-api-call-1bed9373',
    },
    {
      when: { word: 'authentication_error' },
      kind: 'auth',
      seen: 'anthropic-messages-anthropic-completion-invalid-api-key-f58cb820',
    },
    {
      when: { word: ['API_KEY_INVALID', 'API_KEY_EXPIRED', 'UNAUTHENTICATED'] },
      kind: 'auth',
      seen: 'gemini-gemini-chat-error-handling-with-gemini-gemini-2-5-flash-f0deb6d7',
    },
    {
      when: { word: ['UnrecognizedClientException', 'ExpiredTokenException'] },
      kind: 'auth',
      seen: 'bedrock-bedrock-converse-chat-error-handling-with-bedrock-amazon-nova-2-l-f2df511f',
    },
    {
      when: { word: ['content_filter', 'ResponsibleAIPolicyViolation'] },
      kind: 'content_policy',
      seen: 'azure-chat-400-14',
    },
    {
      when: { word: 'invalid_encrypted_content' },
      kind: 'unknown_proof',
      seen: 'github.com/openai/codex/issues/8132 (2025-12-16)',
    },
    {
      when: { word: ['content_policy_violation', 'moderation_blocked', 'invalid_prompt'] },
      kind: 'content_policy',
      seen: OPENAI,
    },
    {
      when: { word: ['context_length_exceeded', 'context_window_exceeded', 'model_max_prompt_tokens_exceeded'] },
      kind: 'context_length',
      seen: 'openai-chat-400-13',
    },
    // llama.cpp and its derivatives; its first version returned a 500.
    {
      when: { word: 'exceed_context_size_error' },
      kind: 'context_length',
      seen: 'github.com/ggml-org/llama.cpp/pull/15780 (2025-09-03)',
    },
    // A member or value that other providers may accept.
    {
      when: { word: ['unsupported_parameter', 'unknown_parameter'] },
      kind: 'incompatible',
      seen: 'openai-chat-chat-bad-request-20cae3bd',
    },
    {
      when: { word: 'unsupported_value' },
      kind: 'incompatible',
      seen: 'openai-chat-test-openai-o1-mini-system-role-system-3f4f8c41',
    },
    // A file type that only some providers accept.
    {
      when: { word: 'unsupported_file' },
      kind: 'incompatible',
      seen: 'openai-responses-test-multimodal-tool-return-matrix-direct-url-au-d5b64f58',
    },
    // Mistral, and servers with its chat templates.
    {
      when: { word: 'invalid_request_message_order' },
      kind: 'incompatible',
      seen: 'github.com/datapizza-labs/datapizza-ai/issues/98 (2025-12-04)',
    },
    {
      when: { word: ['model_not_found', 'model_not_exist', 'invalid_model'] },
      kind: 'model_missing',
      seen: 'groq-chat-test-model-name-suggestion-groq-03b155a0',
    },
    {
      when: { word: 'DeploymentNotFound' },
      kind: 'model_missing',
      seen: 'azure-chat-test-chat-reasoning-1b5ad5b7',
    },
    // The request exceeds a minute's token limit: waiting does not help, another provider may.
    { when: { status: 413, word: 'rate_limit_exceeded' }, kind: 'token_rate', seen: 'groq-chat-413-19' },
    { when: { word: ['overloaded_error', 'overloaded'] }, kind: 'overloaded', seen: 'anthropic-messages-529-0' },
    {
      when: {
        word: [
          'server_is_overloaded',
          'slow_down',
          'engine_overloaded',
          'engine_overloaded_error',
          'service_unavailable_error',
        ],
      },
      kind: 'overloaded',
      seen: OPENAI,
    },
    { when: { word: 'UNAVAILABLE' }, kind: 'overloaded', seen: 'gemini-gemini-503-6' },
    {
      when: { word: ['ServiceUnavailableException', 'ModelNotReadyException'] },
      kind: 'overloaded',
      seen: BEDROCK,
    },
    {
      when: { word: ['capacity_exceeded', 'model_overloaded'] },
      kind: 'overloaded',
      seen: 'Groq, docs/flex-processing (2026-11-21)',
    },
    { when: { word: 'rate_limit_exceeded' }, kind: 'rate_limited', seen: 'openai-chat-429-11' },
    { when: { word: 'rate_limit_error' }, kind: 'rate_limited', seen: 'anthropic-messages-429-5' },
    { when: { word: 'rate_limited' }, kind: 'rate_limited', seen: 'mistral-mistral-429-16' },
    {
      when: { word: 'RESOURCE_EXHAUSTED' },
      kind: 'rate_limited',
      seen: 'gemini-gemini-google-429-retry-info-bc2baa96',
    },
    {
      when: { word: ['ThrottlingException', 'too_many_requests'] },
      kind: 'rate_limited',
      seen: 'bedrock-bedrock-converse-429-20',
    },
    { when: { word: ['permission_error'] }, kind: 'permission', seen: ANTHROPIC },
    {
      when: { word: 'PERMISSION_DENIED' },
      kind: 'permission',
      seen: 'github.com/google-gemini/gemini-cli/issues/25607 (2026-04-18)',
    },
    {
      when: { word: ['unsupported_country_region_territory', 'model_not_available'] },
      kind: 'permission',
      seen: OPENAI,
    },
    { when: { word: 'AccessDeniedException' }, kind: 'permission', seen: BEDROCK },
    { when: { word: 'timeout_error' }, kind: 'timeout', seen: ANTHROPIC },
    { when: { word: 'DEADLINE_EXCEEDED' }, kind: 'timeout', seen: GOOGLE },
    { when: { word: 'ModelTimeoutException' }, kind: 'timeout', seen: BEDROCK },

    // A reasoning item that the provider has not stored. Matched by message: the 404 alone means a missing model.
    {
      when: { status: [400, 404], message: /^item with id '.{1,200}' not found/i },
      kind: 'unknown_proof',
      seen: 'github.com/can1357/oh-my-pi/issues/41 (2026-02-12)',
    },

    // ── Statuses ────────────────────────────────────────────────────────────────────────────────────────────────
    {
      when: { status: 401 },
      kind: 'auth',
      seen: 'azure-chat-chat-error-handling-with-azure-grok-4-1-fast-non-ea561206',
    },
    { when: { status: 402 }, kind: 'quota', seen: 'deepseek-chat-402-24' },
    { when: { status: 403 }, kind: 'permission', seen: 'docs.wandb.ai/support/inference/articles (2026-11-21)' },
    {
      when: { status: 404 },
      kind: 'model_missing',
      seen: 'azure-chat-test-openai-is-default-provider-without-explicit-483010aa',
    },
    {
      when: { status: 408 },
      kind: 'timeout',
      seen: 'openrouter.ai/docs/api/reference/errors-and-debugging (2026-11-21)',
    },
    { when: { status: 409 }, kind: 'conflict', seen: ANTHROPIC },
    // Bedrock: the model failed.
    { when: { status: 424 }, kind: 'overloaded', seen: BEDROCK },
    { when: { status: 429 }, kind: 'rate_limited', seen: 'mistral-mistral-429-18' },
    // Groq: no flex capacity at the moment.
    { when: { status: 498 }, kind: 'overloaded', seen: 'Groq, docs/flex-processing (2026-11-21)' },
    { when: { status: 499 }, kind: 'timeout', seen: GOOGLE },
    { when: { status: 503 }, kind: 'overloaded', seen: OPENAI },
    { when: { status: [522, 524] }, kind: 'timeout', seen: CLOUDFLARE },
    { when: { status: 529 }, kind: 'overloaded', seen: ANTHROPIC },

    // ── Messages: reasoning signatures of another provider ──────────────────────────────────────────────────────
    {
      when: { status: REQUEST_STATUSES, message: /invalid `?signature`? in `?thinking`? block/i },
      kind: 'unknown_proof',
      seen: 'github.com/anthropics/claude-code/issues/10627 (2025-10-30)',
    },
    {
      when: {
        status: REQUEST_STATUSES,
        message: /(?:corrupted|invalid) thought signature|thought signature is not valid/i,
      },
      kind: 'unknown_proof',
      seen: 'github.com/google-gemini/gemini-cli/issues/13467 (2025-11-20)',
    },

    {
      when: { status: REQUEST_STATUSES, message: /blocks in the latest assistant message cannot be modified/i },
      kind: 'unknown_proof',
      seen: 'github.com/anthropics/claude-code/issues/63267 (2026-05-28)',
    },

    // ── Messages: a member, feature or message order that this provider rejects and another may accept. They are common
    //    to all providers, since relays return the messages of the provider they call ──────────────────────────────
    // Groq, and Cerebras since 2026.
    {
      when: { status: REQUEST_STATUSES, message: /property '[^']{1,300}' is unsupported/i },
      kind: 'incompatible',
      seen: 'github.com/janhq/jan/issues/8136 (2026-05-13)',
    },
    // Servers with pydantic schemas: Anthropic, Mistral, Fireworks, vLLM.
    {
      when: { status: REQUEST_STATUSES, message: /extra inputs are not permitted/i },
      kind: 'incompatible',
      seen: 'github.com/Wei-Shaw/claude-relay-service/issues/660 (2025-11-12)',
    },
    // Perplexity for tools, xAI for penalties, OpenAI for web search.
    {
      when: { status: REQUEST_STATUSES, message: /not supported (?:with|for|on) this model/i },
      kind: 'incompatible',
      seen: 'openai-chat-test-openai-web-search-tool-model-not-supported-fca1d756',
    },
    // Chat templates of vLLM and Perplexity.
    {
      when: { status: REQUEST_STATUSES, message: /roles must alternate|should be alternating|should alternate with/i },
      kind: 'incompatible',
      seen: 'github.com/vllm-project/vllm/issues/6862 (2024-07-27)',
    },
    // vLLM started without a tool-call parser.
    {
      when: { status: REQUEST_STATUSES, message: /tool choice requires --enable-auto-tool-choice/i },
      kind: 'incompatible',
      seen: 'github.com/swiss-ai/model-launch/issues/213 (2026-08-27)',
    },
    // DeepSeek and servers of its models: the reasoning of an earlier turn is missing.
    {
      when: { status: REQUEST_STATUSES, message: /in the thinking mode must be passed back/i },
      kind: 'incompatible',
      seen: 'github.com/earendil-works/pi/issues/3636 (2026-04-24)',
    },
    // An unsupported part type or role: DeepSeek has no images and no `developer`.
    {
      when: { status: REQUEST_STATUSES, message: /unknown variant `[^`]{1,100}`, expected/i },
      kind: 'incompatible',
      seen: 'github.com/rikkahub/rikkahub/issues/1433 (2026-07-03)',
    },
    // OpenAI and Azure, chat completions: these models support both on the responses endpoint only.
    {
      when: { status: REQUEST_STATUSES, message: /function tools with reasoning_effort are not supported/i },
      kind: 'incompatible',
      seen: 'github.com/pipecat-ai/pipecat/issues/4043 (2026-03-16)',
    },
    // OpenAI and Azure, responses: reasoning items of another provider, or without their related items.
    {
      when: { status: REQUEST_STATUSES, message: /array too long\. expected an array with maximum length 0\b/i },
      kind: 'incompatible',
      seen: 'github.com/querymt/querymt/issues/976 (2026-09-22)',
    },
    {
      when: { status: REQUEST_STATUSES, message: /expected an id that begins with '/i },
      kind: 'incompatible',
      seen: 'github.com/jlcodes99/cockpit-tools/issues/2090 (2026-08-26)',
    },
    {
      when: { status: REQUEST_STATUSES, message: /was provided without its required following item/i },
      kind: 'incompatible',
      seen: 'openai-responses-test-openai-responses-thinking-with-modified-his-a417596a',
    },
    {
      when: { status: REQUEST_STATUSES, message: /was provided without its required 'reasoning' item/i },
      kind: 'incompatible',
      seen: 'github.com/continuedev/continue/issues/10018 (2026-01-29)',
    },
    // Claude, at Anthropic and elsewhere.
    {
      when: { status: REQUEST_STATUSES, message: /expected `thinking` or `redacted_thinking`, but found/i },
      kind: 'incompatible',
      seen: 'github.com/zed-industries/zed/pull/33317 (2025-06-24)',
    },
    {
      when: { status: REQUEST_STATUSES, message: /does not support assistant message prefill/i },
      kind: 'incompatible',
      seen: 'github.com/smallmain/vscode-unify-chat-provider/issues/249 (2026-07-07)',
    },

    // ── Messages: context length exceeded, for providers without a code ─────────────────────────────────────────
    {
      when: { status: REQUEST_STATUSES, message: /prompt is too long/i },
      kind: 'context_length',
      seen: 'anthropic-messages-chat-real-error-scenarios-anthropic-claude-haiku-290c1ad6',
    },
    {
      when: { status: REQUEST_STATUSES, message: /exceed context limit/i },
      kind: 'context_length',
      seen: 'github.com/anthropics/claude-code/issues/16580 (2026-01-07)',
    },
    // vLLM and similar servers, older OpenAI, DeepSeek, OpenRouter.
    {
      when: { status: REQUEST_STATUSES, message: /maximum context length is/i },
      kind: 'context_length',
      seen: 'vllm-chat-400-25',
    },
    // Mistral.
    {
      when: { status: REQUEST_STATUSES, message: /too large for model with \d+ maximum context length/i },
      kind: 'context_length',
      seen: 'github.com/earendil-works/pi/blob/main/packages/ai/src/utils/overflow.ts (2026-11-23)',
    },
    {
      when: { status: REQUEST_STATUSES, message: /model's context length is only/i },
      kind: 'context_length',
      seen: 'vllm-chat-400-26',
    },
    // SGLang: `is longer than the model's context length`. vLLM: `is longer than the maximum model length`.
    {
      when: { status: REQUEST_STATUSES, message: /is longer than the (?:model's context|maximum model) length/i },
      kind: 'context_length',
      seen: 'github.com/QwenLM/Qwen3/issues/1321 (2025-04-29)',
    },
    // Text Generation Inference, at Hugging Face and Together.
    {
      when: { status: REQUEST_STATUSES, message: /`inputs` tokens \+ `max_new_tokens` must be <=/ },
      kind: 'context_length',
      seen: 'github.com/stanford-crfm/helm/pull/2079 (2023-12-05)',
    },
    // Older llama.cpp, without `exceed_context_size_error`.
    {
      when: { status: REQUEST_STATUSES, message: /exceeds the available context size/i },
      kind: 'context_length',
      seen: 'github.com/oobabooga/textgen/issues/7257 (2025-10-07)',
    },
    {
      when: { status: REQUEST_STATUSES, message: /input token count .{0,40}exceeds the maximum number of tokens/i },
      kind: 'context_length',
      seen: 'vertex-gemini-chat-real-error-scenarios-vertexai-gemini-2-5-fl-a4fc5d9c',
    },

    // ── Codes that repeat a status: they decide only for errors inside a 200 ────────────────────────────────────────
    {
      when: {
        status: [200, ...REQUEST_STATUSES],
        word: ['invalid_request_error', 'INVALID_ARGUMENT', 'bad_request', 'ValidationException', 'invalid_value'],
      },
      kind: 'invalid_request',
      seen: 'openai-chat-chat-no-messages-71051a92',
    },
    { when: { status: 200, word: ['not_found_error', 'NOT_FOUND'] }, kind: 'model_missing', seen: ANTHROPIC },
    { when: { status: 200, word: ['conflict_error', 'ABORTED'] }, kind: 'conflict', seen: ANTHROPIC },
    {
      when: { status: 200, word: ['api_error', 'server_error'] },
      kind: 'error_in_stream',
      seen: 'anthropic-messages-200-2',
    },
    { when: { status: 500 }, kind: 'status', seen: 'openai-chat-500-8' },
  ],
}
