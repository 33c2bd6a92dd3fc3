/**
 * The meaning of codes, statuses and messages that most upstreams share. It applies to every provider, since any server
 * can be behind an OpenAI-compatible URL. A provider's own table takes precedence. Messages are matched only with a status
 * that refuses the request, and never take a key out of service. A refusal without a row is `incompatible`: another
 * provider may accept the request.
 */
import type { ErrorTable } from '../../core/error-table.ts'
import { isContextOverflow } from './context-overflow.ts'
import { isContentPolicy, isModelMissing, isUnspecificNotFound } from './refusal-words.ts'

/** Statuses with which a request is refused. */
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
    // Inside a stream the code is all there is.
    {
      when: { word: ['request_too_large', 'RequestEntityTooLarge'] },
      kind: 'too_large_for_target',
      seen: 'github.com/boldsoftware/exe.dev/issues/8 (2025-12-21)',
    },
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

    // ── Messages, by shape: servers word these in dozens of ways ──────────────────────────────────────────────────
    {
      when: { status: [200, ...REQUEST_STATUSES, 451], message: { test: isContentPolicy } },
      kind: 'content_policy',
      seen: 'github.com/anthropics/claude-code/issues/58367 (2026-05-12)',
    },
    {
      when: { status: [200, ...REQUEST_STATUSES], message: { test: isContextOverflow } },
      kind: 'context_length',
      seen: 'vllm-chat-400-25',
    },
    {
      when: { status: [400, 413], message: /request (?:payload size|body|entity).{0,20}(?:exceeds|too large)/i },
      kind: 'too_large_for_target',
      seen: 'github.com/google-gemini/deprecated-generative-ai-android/issues/26 (2023-12-21)',
    },
    // Other 404s are about a feature of the request, or about an address.
    {
      when: { status: 404, message: { test: isModelMissing } },
      kind: 'model_missing',
      seen: 'anthropic-messages-anthropic-claude-sonnet-4-0-59e6a3de',
    },
    {
      when: { status: 404, message: { test: isUnspecificNotFound } },
      kind: 'not_there',
      seen: 'github.com/harry0703/MoneyPrinterTurbo/issues/57 (2024-03-25)',
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
      when: { status: 408 },
      kind: 'timeout',
      seen: 'openrouter.ai/docs/api/reference/errors-and-debugging (2026-11-21)',
    },
    { when: { status: 409 }, kind: 'conflict', seen: ANTHROPIC },
    {
      when: { status: 413 },
      kind: 'too_large_for_target',
      seen: 'github.com/google-gemini/gemini-cli/issues/13776 (2025-11-25)',
    },
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

    // ── Codes that repeat a status: they decide only for errors inside a 200 ────────────────────────────────────────
    {
      when: {
        status: 200,
        word: ['invalid_request_error', 'INVALID_ARGUMENT', 'bad_request', 'ValidationException', 'invalid_value'],
      },
      kind: 'incompatible',
      seen: ANTHROPIC,
    },
    { when: { status: 200, word: ['not_found_error', 'NOT_FOUND'] }, kind: 'not_there', seen: ANTHROPIC },
    { when: { status: 200, word: ['conflict_error', 'ABORTED'] }, kind: 'conflict', seen: ANTHROPIC },
    {
      when: { status: 200, word: ['api_error', 'server_error'] },
      kind: 'error_in_stream',
      seen: 'anthropic-messages-200-2',
    },
    { when: { status: 500 }, kind: 'status', seen: 'openai-chat-500-8' },
  ],
}
